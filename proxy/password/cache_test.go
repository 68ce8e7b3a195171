package password

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/auth"
	"weft/directory"
	"weft/pgerr"
)

// world is the shards of a cluster, as far as a Cache sees them.
type world struct {
	*Cache
	log  bytes.Buffer
	snap *directory.Snapshot

	mu      sync.Mutex
	answer  [][]string
	failure error
	takes   time.Duration // how long a shard takes to answer
	asked   []string      // statements
	open    int           // connections
	most    int           // the largest number of connections at a time
}

var query = auth.Query{SQL: "SELECT rolname, rolpassword FROM pg_authid WHERE rolname = $1", Database: "postgres", TTL: time.Minute}

func newWorld() *world {
	w := &world{snap: &directory.Snapshot{Home: "a"}, answer: [][]string{{"alice", "SCRAM"}}}
	w.Cache = New(Config{
		Log:      slog.New(slog.NewTextHandler(&w.log, nil)),
		Snapshot: func() *directory.Snapshot { return w.snap },
		Dial: func(_ context.Context, _ *directory.Snapshot, database string) (Conn, error) {
			if database != "postgres" {
				panic("another database than the query's: " + database)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.open++
			w.most = max(w.most, w.open)
			return conn{w, make(chan struct{})}, nil
		},
		Timeout: func() time.Duration { return 10 * time.Second },
		Spawn:   func(f func(context.Context)) { go f(context.Background()) },
	})
	return w
}

type conn struct {
	w    *world
	stop chan struct{}
}

func (c conn) Interrupt() { close(c.stop) }

func (c conn) Terminate() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.open--
}

func (c conn) Exec(sql string) ([][]string, error) {
	c.w.mu.Lock()
	c.w.asked = append(c.w.asked, sql)
	takes := c.w.takes
	c.w.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-c.stop:
		return nil, errors.New("canceling statement due to user request")
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.answer, c.w.failure
}

// is fails unless a user's stored password is text, and shards have been asked so many times by then.
func (w *world) is(t *testing.T, when, user, text string, asked int) {
	t.Helper()
	got, err := w.By(query).Stored(t.Context(), user)
	if err != nil || got != text || len(w.asked) != asked || w.open != 0 {
		t.Errorf("%s: %q, %v, after %d questions, want %q after %d; %d connections are open", when, got, err, len(w.asked), text, asked, w.open)
	}
}

// TestStored: an answer is kept for the time that the query says, also that a user has no password.
func TestStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.is(t, "first", "alice", "SCRAM", 1)
		if !strings.Contains(w.asked[0], "EXECUTE weft_auth_query('alice')") {
			t.Errorf("asked %q", w.asked)
		}
		w.is(t, "again", "alice", "SCRAM", 1)
		w.answer = [][]string{{"alice", "changed"}}
		time.Sleep(query.TTL)
		w.is(t, "later", "alice", "changed", 2)
		w.By(query).Wrong("alice")
		w.is(t, "after a wrong password", "alice", "changed", 3)
		w.answer = nil
		w.is(t, "another user", "bob", "", 4)
		w.is(t, "another user again", "bob", "", 4)
		w.is(t, "a name that is no name", strings.Repeat("x", 64), "", 4)
		other := query
		other.SQL += " AND rolcanlogin"
		if _, err := w.By(other).Stored(t.Context(), "bob"); err != nil || len(w.asked) != 5 {
			t.Errorf("by another query: %v, after %d questions", err, len(w.asked))
		}
		if w.By(auth.Query{}) != nil {
			t.Error("there are passwords without a query")
		}
	})
}

// TestFailed: a client is told that its user could not be looked up, and not why; nothing is remembered.
func TestFailed(t *testing.T) {
	for name, set := range map[string]func(*world){
		"an error":           func(w *world) { w.failure = errors.New("permission denied") },
		"another user":       func(w *world) { w.answer = [][]string{{"bob", "SCRAM"}} },
		"two users":          func(w *world) { w.answer = [][]string{{"alice", "x"}, {"alice", "y"}} },
		"one column":         func(w *world) { w.answer = [][]string{{"alice"}} },
		"a shard that hangs": func(w *world) { w.takes = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				set(w)
				_, err := w.By(query).Stored(t.Context(), "alice")
				if pgerr.From(err).Code != pgerr.ConnectionFailure || strings.Contains(pgerr.From(err).Message, "permission") || w.log.Len() == 0 {
					t.Errorf("%v, log %s", err, &w.log)
				}
				w.answer, w.failure, w.takes = [][]string{{"alice", "SCRAM"}}, nil, 0
				w.is(t, "afterwards", "alice", "SCRAM", 2)
			})
		})
	}
	w := newWorld()
	w.snap = nil
	if _, err := w.By(query).Stored(t.Context(), "alice"); pgerr.From(err).Code != pgerr.CannotConnectNow {
		t.Errorf("without a cluster: %v", err)
	}
}

// TestShared: clients that come at once wait for one answer, which outlives the one that has asked first.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.takes = time.Second
		gone := errors.New("the client is gone")
		ctx, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { leave(gone) })
		var first, second error
		var text string
		var wg sync.WaitGroup
		wg.Go(func() { _, first = w.By(query).Stored(ctx, "alice") })
		wg.Go(func() { text, second = w.By(query).Stored(t.Context(), "alice") })
		wg.Wait()
		if !errors.Is(first, gone) || second != nil || text != "SCRAM" || len(w.asked) != 1 {
			t.Errorf("%v; %q, %v; %d questions", first, text, second, len(w.asked))
		}
	})
}

// TestBounds: few questions are under way at a time, and a bounded number of users is remembered.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.takes, w.answer = time.Second, nil
		var wg sync.WaitGroup
		for i := range 3 * maxQuestions {
			wg.Go(func() { _, _ = w.By(query).Stored(t.Context(), fmt.Sprint(i)) })
		}
		wg.Wait()
		if w.most != maxQuestions || len(w.asked) != 3*maxQuestions {
			t.Errorf("%d of %d questions at a time", w.most, len(w.asked))
		}
		w.takes = 0
		for i := range maxPasswords {
			if _, err := w.By(query).Stored(t.Context(), fmt.Sprint("user", i)); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.known) > maxPasswords {
			t.Errorf("%d users are remembered", len(w.known))
		}
	})
}
