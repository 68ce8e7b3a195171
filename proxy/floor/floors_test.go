package floor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"weft/directory"
	"weft/primary"
	"weft/sequence"
)

// world is a home shard and another one, with a table whose ids come from one sequence.
type world struct {
	mu       sync.Mutex
	timeline uint32
	last     int64
	floor    uint32           // what weft.floor has
	used     map[string]int64 // the last id on each shard
	marks    []sequence.Mark
	silent   int
	down     error
	asked    int
	dialled  map[string]int
}

func newWorld() (*world, *Floors) {
	w := &world{timeline: 2, last: 10, used: map[string]int64{"a": 9, "b": 8}, dialled: map[string]int{}}
	snap := directory.New(4, "a", []directory.Shard{{Name: "a", Hosts: []string{"a:1"}, Weight: 1}, {Name: "b", Hosts: []string{"b:1"}, Weight: 1}})
	snap.PutTable(directory.Table{Database: "d", Schema: "public", Name: "t"})
	return w, New(Config{
		Log: slog.New(slog.DiscardHandler), Snapshot: func() *directory.Snapshot { return snap },
		Dial: func(_ context.Context, shard, _ string) (Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dialled[shard]++
			return conn{w, shard}, w.down
		},
		Marks: func(context.Context, string, string, uint32) ([]sequence.Mark, int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked++
			return w.marks, w.silent
		},
		Guard: func(_ string, f func()) func() { return f },
	})
}

type conn struct {
	w     *world
	shard string
}

func (c conn) Generation() primary.Generation {
	return primary.Generation{System: "1", Timeline: c.w.timeline}
}
func (conn) Interrupt() {}
func (conn) Terminate() {}

func (c conn) Exec(sql string) ([][]string, error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	row := func(v ...any) [][]string {
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = fmt.Sprint(v[i])
		}
		return [][]string{texts}
	}
	switch {
	case strings.Contains(sql, "to_regclass"):
		return row("t"), nil
	case strings.HasPrefix(sql, "SELECT FROM weft.floor"):
		var want uint32
		_, _ = fmt.Sscanf(sql[strings.LastIndex(sql, ">="):], ">= %d", &want)
		if w.floor >= want {
			return [][]string{{}}, nil
		}
		return nil, nil
	case strings.Contains(sql, "pg_sequence_last_value"):
		return row(1, 1, 1_000_000_000, "f", 1, w.last), nil
	case strings.Contains(sql, "pg_attrdef"):
		return row("public", "t", "id", "t"), nil
	case strings.Contains(sql, "max("):
		return row(0, w.used[c.shard]), nil
	case strings.Contains(sql, "setval"):
		_, _ = fmt.Sscanf(sql[strings.LastIndex(sql, ", "):], ", %d", &w.last)
	case strings.HasPrefix(sql, "INSERT INTO weft.floor"):
		w.floor = w.timeline
	}
	return nil, nil
}

// TestEnsure: the first draw on a timeline is preceded by the floor, and no other.
func TestEnsure(t *testing.T) {
	w, f := newWorld()
	ctx := t.Context()
	ensure := func(timeline uint32) {
		t.Helper()
		if err := f.Ensure(ctx, "d", "s", timeline); err != nil {
			t.Fatal(err)
		}
	}
	ensure(1)
	if len(w.dialled) != 0 {
		t.Error("a shard that has never failed over is asked")
	}
	ensure(2)
	if w.last != 10 || w.floor != 2 || w.dialled["b"] != 1 {
		t.Errorf("nothing was lost: last %d, floor %d, dialled %v", w.last, w.floor, w.dialled)
	}
	ensure(2)
	if w.asked != 1 {
		t.Error("the floor of one timeline is set twice")
	}
	w.timeline, w.marks, w.used["b"] = 3, []sequence.Mark{{Low: 1, High: 20, Last: 20}}, 30
	ensure(3)
	if w.last <= 30 || w.floor != 3 {
		t.Errorf("rows are ahead: last %d, floor %d", w.last, w.floor)
	}
}

// TestOther: another proxy has set the floor, and has not heard of this one's draws.
func TestOther(t *testing.T) {
	w, f := newWorld()
	w.floor, w.marks = 2, []sequence.Mark{{Low: 1, High: 20, Last: 20}}
	if err := f.Ensure(t.Context(), "d", "s", 2); err != nil || w.last <= 20 || w.dialled["b"] != 0 {
		t.Errorf("last %d, dialled %v, %v", w.last, w.dialled, err)
	}
}

// TestFailed: without a floor there is no draw, and the next one tries again.
func TestFailed(t *testing.T) {
	w, f := newWorld()
	w.down = errors.New("down")
	if err := f.Ensure(t.Context(), "d", "s", 2); !errors.Is(err, w.down) {
		t.Errorf("%v", err)
	}
	w.down = nil
	if err := f.Ensure(t.Context(), "d", "s", 3); err == nil {
		t.Error("the home shard is on a lower timeline than the draw")
	}
	if err := f.Ensure(t.Context(), "d", "s", 2); err != nil {
		t.Error(err)
	}
}
