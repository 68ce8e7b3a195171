package lookout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/deadlock"
	"weft/directory"
	"weft/pgerr"
)

// world is a proxy with two shards, without PostgreSQL.
type world struct {
	*Lookout
	t   *testing.T
	log bytes.Buffer
	now time.Time

	parties map[string][]deadlock.Party
	busy    bool     // the sessions refuse to give way
	gave    []string // who gave way, and why
	others  []deadlock.Party

	mu     sync.Mutex
	waits  map[string][][]string // by shard, as waitsSQL answers
	down   map[string]error      // shards that do not answer
	wrong  error                 // why there is no table weft.party
	told   []deadlock.Party      // what the other proxies were told last
	asked  int                   // how often shards were asked who waits
	events []string              // connections that were opened and closed
	stuck  chan struct{}         // if set, questions are answered when it is closed
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(1000, 0), waits: map[string][][]string{}, down: map[string]error{}}
	snap := &directory.Snapshot{Home: "a", Shards: []directory.Shard{{Name: "a"}, {Name: "b"}}}
	w.Lookout = New(Config{
		Proxy: "p1", Log: slog.New(slog.NewTextHandler(&w.log, nil)), Sessions: w,
		Snapshot: func() *directory.Snapshot { return snap },
		Dial: func(_ context.Context, shard *directory.Shard, database string) (Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err := w.down[shard.Name]; err != nil {
				return nil, err
			}
			w.events = append(w.events, "dial "+shard.Name+"/"+database)
			return &conn{w, shard.Name, make(chan struct{}, 1)}, nil
		},
		Install: func(context.Context, string, string) error { return w.wrong },
	})
	return w
}

func (w *world) Parties() map[string][]deadlock.Party { return w.parties }

func (w *world) GiveWay(session int32, turn int64, e *pgerr.Error) bool {
	w.gave = append(w.gave, fmt.Sprintf("%d in turn %d: %s %s", session, turn, e.Code, e.Message))
	return !w.busy
}

// conn is a connection to a shard of a world.
type conn struct {
	w           *world
	shard       string
	interrupted chan struct{}
}

func (c *conn) Exec(sql string) ([][]string, error) {
	c.w.mu.Lock()
	stuck := c.w.stuck
	c.w.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-c.interrupted:
			return nil, errors.New("interrupted")
		}
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if err := c.w.down[c.shard]; err != nil {
		return nil, err
	}
	if sql == waitsSQL {
		c.w.asked++
		return c.w.waits[c.shard], nil
	}
	_, body, _ := strings.Cut(sql, "VALUES ('p1', '")
	body, _, _ = strings.Cut(body, "', pg_catalog")
	c.w.told = nil
	if err := json.Unmarshal([]byte(body), &c.w.told); err != nil {
		c.w.t.Errorf("%s: %v", sql, err)
	}
	if len(c.w.others) == 0 {
		return nil, nil
	}
	theirs, err := json.Marshal(c.w.others)
	return [][]string{{string(theirs)}}, err
}

func (c *conn) Interrupt() { c.interrupted <- struct{}{} }
func (c *conn) Terminate() { c.note("terminate") }
func (c *conn) Discard()   { c.note("discard") }

func (c *conn) note(what string) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.events = append(c.w.events, what+" "+c.shard)
}

// after looks once more, some time later.
func (w *world) after(d time.Duration) {
	w.now = w.now.Add(d)
	for i := range w.others {
		w.others[i].Round++
	}
	w.look(w.t.Context(), w.now)
}

// taken returns the connections opened and closed since the last call.
func (w *world) taken() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.events)
	out := strings.Join(w.events, ", ")
	w.events = nil
	return out
}

// party is a transaction with one backend on each of the two shards.
func party(proxy string, session, pid int32) deadlock.Party {
	return deadlock.Party{
		Proxy: proxy, Session: session, Turn: 1, Began: time.Unix(int64(session), 0),
		Backends: []deadlock.Backend{{Shard: "a", PID: pid}, {Shard: "b", PID: pid}},
	}
}

// wait is a row of waitsSQL: one backend waits for another.
func wait(pid, by string) []string {
	return []string{pid, "ShareLock on transaction 7", by, "ShareLock", "", ""}
}

// crossed makes the transactions of backends 11 and 12 wait for each other.
func (w *world) crossed() {
	w.waits["a"], w.waits["b"] = [][]string{wait("11", "12")}, [][]string{wait("12", "11")}
}

// A deadlock that two looks have seen ends with the youngest.
func TestBroken(t *testing.T) {
	w := newWorld(t)
	w.parties = map[string][]deadlock.Party{"db": {party("p1", 1, 11), party("p1", 2, 12)}}
	w.crossed()
	w.after(0)
	w.after(lookInterval)
	if w.asked != 0 || w.taken() != "" {
		t.Error("shards were asked before a wait was long")
	}
	w.after(lookInterval)
	if w.asked != 2 || len(w.gave) != 0 {
		t.Errorf("first look: asked %d shards, %v gave way", w.asked, w.gave)
	}
	w.after(lookInterval)
	if want := []string{"2 in turn 1: 40P01 deadlock detected"}; !slices.Equal(w.gave, want) {
		t.Errorf("%q gave way, want %q", w.gave, want)
	}
	if !strings.Contains(w.log.String(), "deadlock over several shards broken") {
		t.Errorf("log: %s", &w.log)
	}
	if got := w.taken(); got != "dial a/db, dial b/db" {
		t.Errorf("connections: %s", got)
	}
	w.parties = nil
	w.after(lookInterval)
	if got := w.taken(); got != "terminate a, terminate b" || len(w.scenes) != 0 {
		t.Errorf("nobody waits, connections: %s, scenes: %d", got, len(w.scenes))
	}
}

// A session that goes on between two looks is no victim, and its time begins anew.
func TestTurnEndsSuspicion(t *testing.T) {
	w := newWorld(t)
	list := []deadlock.Party{party("p1", 1, 11), party("p1", 2, 12)}
	w.parties = map[string][]deadlock.Party{"db": list}
	w.crossed()
	w.after(0)
	w.after(lookAfter)
	list[0].Turn++
	list[1].Turn++
	w.after(lookInterval)
	if len(w.gave) != 0 || w.asked != 2 {
		t.Errorf("%v gave way, %d questions", w.gave, w.asked)
	}
	if got := w.taken(); got != "dial a/db, dial b/db, terminate a, terminate b" {
		t.Errorf("connections: %s", got)
	}
}

// A session that will not give way is not logged as one that did.
func TestTooLate(t *testing.T) {
	w := newWorld(t)
	w.busy = true
	w.parties = map[string][]deadlock.Party{"db": {party("p1", 1, 11), party("p1", 2, 12)}}
	w.crossed()
	w.after(0)
	w.after(lookAfter)
	w.after(lookInterval)
	if len(w.gave) != 1 || w.log.Len() != 0 {
		t.Errorf("%v were asked, log: %s", w.gave, &w.log)
	}
}

// Of a deadlock between two proxies each knows one half, and the victim's own proxy breaks it.
func TestOtherProxy(t *testing.T) {
	for _, tc := range []struct {
		mine, theirs int32
		gave         int
	}{{2, 1, 1}, {1, 2, 0}} {
		w := newWorld(t)
		w.parties = map[string][]deadlock.Party{"db": {party("p1", tc.mine, 11)}}
		w.others = []deadlock.Party{party("p2", tc.theirs, 12)}
		w.crossed()
		w.after(0)
		w.after(lookAfter)
		w.after(lookInterval)
		if len(w.gave) != tc.gave {
			t.Errorf("session %d against %d of another proxy: %v gave way", tc.mine, tc.theirs, w.gave)
		}
		if len(w.told) != 1 || w.told[0].Session != tc.mine || w.told[0].Round != 2 {
			t.Errorf("the others were told %+v", w.told)
		}
	}
}

// Without weft.party deadlocks of this proxy alone are found, and the log says so once.
func TestWithoutExchange(t *testing.T) {
	w := newWorld(t)
	w.wrong = errors.New("permission denied")
	w.parties = map[string][]deadlock.Party{"db": {party("p1", 1, 11), party("p1", 2, 12)}}
	w.crossed()
	w.after(0)
	w.after(lookAfter)
	w.after(lookInterval)
	if len(w.gave) != 1 || strings.Count(w.log.String(), "other proxies cannot be found") != 1 {
		t.Errorf("%v gave way, log: %s", w.gave, &w.log)
	}
}

// A shard that does not answer is left out, and dialled again at the next look. If none answers,
// the scene is left.
func TestShardDown(t *testing.T) {
	w := newWorld(t)
	w.parties = map[string][]deadlock.Party{"db": {party("p1", 1, 11), party("p1", 2, 12)}}
	w.crossed()
	w.after(0)
	w.after(lookAfter)
	w.taken()
	w.down["b"] = errors.New("gone")
	w.after(lookInterval)
	if got := w.taken(); got != "discard b" || len(w.gave) != 0 {
		t.Errorf("connections: %s; %v gave way", got, w.gave)
	}
	delete(w.down, "b")
	w.after(lookInterval)
	w.after(lookInterval)
	if got := w.taken(); got != "dial b/db" || len(w.gave) != 1 {
		t.Errorf("connections: %s; %v gave way", got, w.gave)
	}
	w.down["a"], w.down["b"] = errors.New("gone"), errors.New("gone")
	w.after(lookInterval)
	if got := w.taken(); got != "discard a, discard b" || len(w.scenes) != 0 {
		t.Errorf("connections: %s, scenes: %d", got, len(w.scenes))
	}
	for range 3 {
		w.after(lookInterval)
	}
	if n := strings.Count(w.log.String(), "looking for deadlocks failed"); n != 1 {
		t.Errorf("%d lines about looks that failed soon after each other: %s", n, &w.log)
	}
	w.after(complaintInterval)
	if n := strings.Count(w.log.String(), "looking for deadlocks failed"); n != 2 || !strings.Contains(w.log.String(), "unsaid=3") {
		t.Errorf("%d lines after a while: %s", n, &w.log)
	}
}

// A shard that hangs holds up one look for collectTimeout, and Run ends when its context does.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stuck = make(chan struct{})
		w.parties = map[string][]deadlock.Party{"db": {party("p1", 1, 11), party("p1", 2, 12)}}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.Run(ctx) })
		time.Sleep(10 * time.Second)
		stop()
		wg.Wait()
		if !strings.Contains(w.log.String(), "deadline exceeded") || len(w.scenes) != 0 {
			t.Errorf("scenes: %d, log: %s", len(w.scenes), &w.log)
		}
	})
}

func TestReadWait(t *testing.T) {
	on := func(pid int32) deadlock.Backend { return deadlock.Backend{Shard: "a", PID: pid} }
	for _, tc := range []struct {
		name string
		row  []string
		want deadlock.Wait
		ok   bool
	}{
		{"a backend", wait("11", "12"), deadlock.Wait{Backend: on(11), Lock: "ShareLock on transaction 7", By: 12}, true},
		{
			"a prepared transaction",
			[]string{"11", "x", "0", "ShareLock", "ExclusiveLock", "weft_1"},
			deadlock.Wait{Backend: on(11), Lock: "x", GID: "weft_1"},
			true,
		},
		{"a prepared transaction in nobody's way", []string{"11", "x", "0", "AccessShareLock", "RowExclusiveLock", "weft_1"}, deadlock.Wait{}, false},
		{"no holder", []string{"11", "x", "0", "ShareLock", "", ""}, deadlock.Wait{}, false},
		{"no number", []string{"", "x", "12", "ShareLock", "", ""}, deadlock.Wait{}, false},
		{"no blocker", []string{"11", "x", "", "ShareLock", "", ""}, deadlock.Wait{}, false},
	} {
		if got, ok := readWait("a", tc.row); got != tc.want || ok != tc.ok {
			t.Errorf("%s: %+v, %v", tc.name, got, ok)
		}
	}
}
