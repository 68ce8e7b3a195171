package gate

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weft/twopc"
)

// guardWorld is a shard, as far as a Guard sees it.
type guardWorld struct {
	*Guard
	log     bytes.Buffer
	gone    []string              // databases that were dropped
	waits   []string              // databases in which a backend waits for a table
	holders map[string][][]string // backends that hold the gate, by database
	ended   []string              // commands that ended backends
	looked  []string              // databases whose holders were asked for
	broken  error                 // the answer to every question
	open    int                   // connections
}

func newGuardWorld() *guardWorld {
	w := &guardWorld{holders: map[string][][]string{}}
	w.Guard = NewGuard(GuardConfig{
		Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Dial: func(_ context.Context, _, database string) (twopc.Conn, error) {
			if slices.Contains(w.gone, database) {
				return nil, errors.New("database does not exist")
			}
			w.open++
			return guardConn{w, database}, nil
		},
	})
	return w
}

type guardConn struct {
	w        *guardWorld
	database string
}

func (c guardConn) Interrupt() {}
func (c guardConn) Terminate() { c.w.open-- }

func (c guardConn) Exec(sql string) (rows [][]string, err error) {
	switch {
	case c.w.broken != nil:
		return nil, c.w.broken
	case sql == waitsSQL:
		for _, name := range c.w.waits {
			rows = append(rows, []string{name})
		}
	case sql == holdersSQL:
		c.w.looked = append(c.w.looked, c.database)
		return c.w.holders[c.database], nil
	default:
		c.w.ended = append(c.w.ended, sql)
	}
	return rows, nil
}

// holder is a row of holdersSQL.
func holder(pid, xact string, long bool) []string {
	row := []string{pid, "2026-01-01", xact, "alice", "RowExclusiveLock", "f"}
	if long {
		row[5] = "t"
	}
	return row
}

// TestGuardSlow: a backend whose transaction has been seen at the gate for longestHold is ended. One that comes again with
// another transaction is not.
func TestGuardSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGuardWorld()
		w.waits = []string{"app"}
		for i := range 4 {
			w.holders["app"] = [][]string{holder("1", "slow", false), holder("2", "quick "+string(rune('a'+i)), false)}
			w.Look(t.Context(), "a", []string{"app"})
			if i < 2 && len(w.ended) > 0 {
				t.Errorf("after %d s: %q", 3*i, w.ended)
			}
			time.Sleep(3 * time.Second)
		}
		if len(w.ended) == 0 || slices.ContainsFunc(w.ended, func(sql string) bool {
			return !strings.Contains(sql, "pid = 1 ") || !strings.Contains(sql, "xact_start = 'slow'")
		}) {
			t.Errorf("ended %q", w.ended)
		}
		if !strings.Contains(w.log.String(), "user=alice") || w.open != 0 {
			t.Errorf("log %s, %d connections are open", &w.log, w.open)
		}
	})
}

// TestGuardLong: a backend that the server says is slow is ended at the first look.
func TestGuardLong(t *testing.T) {
	w := newGuardWorld()
	w.waits, w.holders["app"] = []string{"app"}, [][]string{holder("1", "slow", true)}
	w.Look(t.Context(), "a", []string{"app"})
	if len(w.ended) != 1 {
		t.Errorf("ended %q", w.ended)
	}
}

// TestGuardQuiet: gates at which no backend waits are left alone, as are databases without declared tables, and ones that
// are gone.
func TestGuardQuiet(t *testing.T) {
	w := newGuardWorld()
	w.holders["app"] = [][]string{holder("1", "slow", true)}
	w.Look(t.Context(), "a", []string{"app"})
	w.waits = []string{"plain"}
	w.Look(t.Context(), "a", []string{"app"})
	if len(w.looked) > 0 || len(w.ended) > 0 {
		t.Errorf("looked at %q, ended %q", w.looked, w.ended)
	}
	w.gone, w.waits = []string{"gone"}, []string{"gone", "app"}
	w.Look(t.Context(), "a", []string{"gone", "app"})
	if !slices.Equal(w.looked, []string{"app"}) || len(w.ended) != 1 {
		t.Errorf("beside one that is gone: looked at %q, ended %q", w.looked, w.ended)
	}
	w.broken = errors.New("connection reset")
	w.Look(t.Context(), "a", []string{"app"})
	if len(w.ended) != 1 || w.open != 0 {
		t.Errorf("a shard that fails: ended %q, %d connections are open", w.ended, w.open)
	}
}

// TestGuardForgets: what was seen long ago is forgotten.
func TestGuardForgets(t *testing.T) {
	w, now := newGuardWorld(), time.Unix(1000, 0)
	if w.saw("x", now) || !w.saw("x", now.Add(longestHold)) {
		t.Error("a holder is not remembered")
	}
	if w.saw("x", now.Add(2*time.Minute)) || len(w.seen) != 1 {
		t.Errorf("remembered for ever: %v", w.seen)
	}
}
