package copies

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
)

// world is a cluster of two shards.
type world struct {
	*Copies
	log bytes.Buffer

	mu     sync.Mutex
	tables map[place]bool // where there is a table weft.directory
	copies map[place]int  // how often a copy was written
	down   map[string]error
	hangs  bool   // shards do not answer
	away   string // the shard that has no primary
	open   int    // connections
}

func newWorld() *world {
	w := &world{tables: map[place]bool{}, copies: map[place]int{}, down: map[string]error{}}
	w.Copies = New(Config{
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), Guarded: func(f func()) func() { return f }, Away: func(shard string) bool { return w.away == shard },
		Turn: func(databases []string, wants func(string) bool) (out []string) {
			for _, name := range databases {
				if wants(name) {
					out = append(out, name)
				}
			}
			return out
		},
		Install: func(_ context.Context, shard, _ string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.down[shard]
		},
		Dial: func(_ context.Context, shard, database string) (Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.open++
			return &conn{w, place{shard, database}, make(chan struct{})}, nil
		},
	})
	return w
}

type conn struct {
	w    *world
	at   place
	stop chan struct{}
}

func (c *conn) Interrupt() { close(c.stop) }

func (c *conn) Terminate() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.open--
}

func (c *conn) Exec(sql string) ([][]string, error) {
	c.w.mu.Lock()
	hangs := c.w.hangs
	c.w.mu.Unlock()
	if hangs {
		<-c.stop
		return nil, errors.New("canceling statement due to user request")
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	switch {
	case strings.Contains(sql, "to_regclass") && c.w.tables[c.at]:
		return [][]string{{"f"}}, nil
	case strings.Contains(sql, "to_regclass"):
		return [][]string{{"t"}}, nil
	case strings.Contains(sql, "CREATE TABLE"):
		c.w.tables[c.at] = true
	case !c.w.tables[c.at]:
		return nil, errors.New(`relation "weft.directory" does not exist`)
	default:
		c.w.copies[c.at]++
	}
	return nil, nil
}

// has fails unless the copies of shards a and b in databases app and other were written so often.
func (w *world) has(t *testing.T, when string, aApp, bApp, aOther, bOther int) {
	t.Helper()
	want := map[place]int{{"a", "app"}: aApp, {"b", "app"}: bApp, {"a", "other"}: aOther, {"b", "other"}: bOther}
	maps.DeleteFunc(want, func(_ place, n int) bool { return n == 0 })
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(w.copies, want) || w.open != 0 {
		t.Errorf("%s: written %v, want %v; %d connections are open", when, w.copies, want, w.open)
	}
}

// snapshot is a cluster with tables, each named database.table.
func snapshot(tables ...string) *directory.Snapshot {
	s := &directory.Snapshot{Home: "a", Shards: []directory.Shard{{Name: "a"}, {Name: "b"}}}
	for _, name := range tables {
		database, table, _ := strings.Cut(name, ".")
		s.Tables = append(s.Tables, directory.Table{Database: database, Schema: "public", Name: table})
	}
	return s
}

// TestKeep: a declaration is copied to all shards at once, and only if it is new.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		one := snapshot("app.orders", "other.notes")
		w.Keep(t.Context(), one, "app")
		w.Keep(t.Context(), one, "app")
		w.has(t, "one table", 1, 1, 0, 0)
		w.Keep(t.Context(), snapshot("app.orders", "app.items", "other.notes"), "app")
		w.has(t, "two tables", 2, 2, 0, 0)
	})
}

// TestKeepDue: copies of all databases are written in the background. What concerns other databases only is written
// after a while.
func TestKeepDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.KeepDue(t.Context(), snapshot())
		w.has(t, "without tables", 0, 0, 0, 0)
		w.KeepDue(t.Context(), snapshot("app.orders", "other.notes"))
		w.has(t, "at first", 1, 1, 1, 1)
		more := snapshot("app.orders", "app.items", "other.notes")
		w.KeepDue(t.Context(), more)
		w.has(t, "a table of app", 2, 2, 1, 1)
		time.Sleep(copyInterval)
		w.KeepDue(t.Context(), more)
		w.has(t, "a while later", 2, 2, 2, 2)
		w.KeepDue(t.Context(), snapshot("other.notes"))
		w.has(t, "a database without tables", 3, 3, 2, 2)
	})
}

// TestPauses: a shard that is down is tried again after a pause, and does not hold up the others. A declaration does not
// wait for the end of a pause.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		snap := snapshot("app.orders")
		w.down["b"] = errors.New("connection refused")
		w.Keep(t.Context(), snap, "app")
		w.has(t, "b is down", 1, 0, 0, 0)
		if !strings.Contains(w.log.String(), "the copy of the directory was not written") {
			t.Errorf("log: %s", &w.log)
		}
		delete(w.down, "b")
		w.KeepDue(t.Context(), snap)
		w.has(t, "in the pause", 1, 0, 0, 0)
		time.Sleep(time.Minute)
		w.KeepDue(t.Context(), snap)
		w.has(t, "after the pause", 1, 1, 0, 0)

		w.down["b"] = errors.New("connection refused")
		w.Keep(t.Context(), snapshot("app.orders", "app.items"), "app")
		delete(w.down, "b")
		w.Keep(t.Context(), snapshot("app.orders", "app.items"), "app")
		w.has(t, "a declaration in the pause", 2, 2, 0, 0)

		w.log.Reset()
		w.down["b"] = errors.New("connection refused")
		last := snapshot("app.items")
		for range 5 {
			w.KeepDue(t.Context(), last)
			time.Sleep(time.Minute)
		}
		if n := strings.Count(w.log.String(), "was not written"); n != 1 {
			t.Errorf("the log tells %d times of one shard that is down: %s", n, &w.log)
		}
		delete(w.down, "b")
		w.away = "b"
		w.KeepDue(t.Context(), last)
		w.has(t, "b has no primary", 3, 2, 0, 0)
		w.away = ""
		w.KeepDue(t.Context(), last)
		w.has(t, "b has a primary", 3, 3, 0, 0)
	})
}

// TestTimeout: a shard that does not answer is left in time.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.hangs = true
		began := time.Now()
		w.Keep(t.Context(), snapshot("app.orders"), "app")
		w.has(t, "hangs", 0, 0, 0, 0)
		if d := time.Since(began); d != writeTimeout {
			t.Errorf("left after %s", d)
		}
	})
}
