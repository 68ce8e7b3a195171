package lot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"weft/directory"
	"weft/sequence"
)

// world is a home shard, a, and two others. Each shard has one sequence.
type world struct {
	mu    sync.Mutex
	snap  *directory.Snapshot
	epoch int64
	next  int64 // what the home shard gives next
	lots  map[string]sequence.Lot
	cycle bool
	down  error
	noted bool
	// during is called while a shard is given a lot.
	during func()
	sizes  []int
}

func newWorld() (*world, *Lots) {
	var shards []directory.Shard
	for _, name := range []string{"a", "b", "c"} {
		shards = append(shards, directory.Shard{Name: name, Hosts: []string{name + ":1"}, Weight: 1})
	}
	w := &world{snap: directory.New(4, "a", shards), next: 1, lots: map[string]sequence.Lot{}}
	return w, New(Config{
		Snapshot: func() *directory.Snapshot { return w.snap },
		Epoch: func(*directory.Snapshot, string) int64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.epoch
		},
		Dial: func(_ context.Context, shard, _ string) (Conn, error) { return &conn{w: w, shard: shard}, w.down },
		Draw: func(_ context.Context, _, _ string, n int, _ int64) (low, high int64, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sizes = append(w.sizes, n)
			low, w.next = w.next, w.next+int64(n)
			return low, w.next - 1, nil
		},
		Spawn: func(f func(context.Context)) { f(context.Background()) },
	})
}

type conn struct {
	w     *world
	shard string
	given *sequence.Lot // until COMMIT
}

func (*conn) Interrupt() {}
func (*conn) Terminate() {}

func (c *conn) Exec(sql string) ([][]string, error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case sql == sequence.NotedSQL:
		if w.noted {
			return [][]string{{}}, nil
		}
	case strings.Contains(sql, "SELECT s.seqincrement, s.seqmin"): // NoteSQL and ExactStateSQL
		w.noted = true
		return [][]string{{"1", "1", "1000000000", fmt.Sprint(w.cycle)[:1], fmt.Sprint(w.next), ""}}, nil
	case strings.Contains(sql, "SELECT s.seqincrement, s.seqmax"): // LotSQL
		l := w.lots[c.shard]
		if l.High == 0 {
			return [][]string{{"1", "1000000000", "1000000000", "t", "", ""}}, nil
		}
		return [][]string{{"1", fmt.Sprint(l.High), fmt.Sprint(l.High - l.Left), "t", fmt.Sprint(l.Low), fmt.Sprint(l.High)}}, nil
	case strings.Contains(sql, "RESTART WITH"): // GiveSQL
		var l sequence.Lot
		_, err := fmt.Sscanf(sql[strings.Index(sql, "MAXVALUE"):], "MAXVALUE %d RESTART WITH %d", &l.High, &l.Low)
		l.Left = l.High - l.Low
		c.given = &l
		if w.during != nil {
			w.during()
		}
		return nil, err
	case sql == "COMMIT" && c.given != nil:
		w.lots[c.shard] = *c.given
	case strings.HasPrefix(sql, sequence.VoidSQL):
		delete(w.lots, c.shard)
	}
	return nil, nil
}

func (w *world) ensure(t *testing.T, l *Lots) {
	t.Helper()
	if err := l.Ensure(t.Context(), w.snap, "d", "s", false); err != nil {
		t.Fatal(err)
	}
}

// TestEnsure: each shard but the home shard is given a lot of its own, once.
func TestEnsure(t *testing.T) {
	w, l := newWorld()
	if l.Sure(w.snap, "d", "s") {
		t.Error("sure of what was never given")
	}
	w.ensure(t, l)
	b, c := w.lots["b"], w.lots["c"]
	if len(w.lots) != 2 || b.Low <= c.High && c.Low <= b.High || len(w.sizes) != 2 {
		t.Errorf("lots %+v", w.lots)
	}
	w.ensure(t, l)
	if !l.Sure(w.snap, "d", "s") || len(w.sizes) != 2 {
		t.Error("given again")
	}
	w.snap = w.snap.Clone() // something else has changed
	if l.Sure(w.snap, "d", "s") {
		t.Error("sure of a snapshot that nobody has looked at")
	}
	if w.ensure(t, l); len(w.sizes) != 2 {
		t.Error("given again for another snapshot")
	}
}

// TestVoid: lots of before a sequence was set are neither left nor given.
func TestVoid(t *testing.T) {
	w, l := newWorld()
	if err := l.Void(t.Context(), w.snap, "d"); err != nil || w.noted {
		t.Error("there is nothing to end", err)
	}
	w.ensure(t, l)
	w.epoch++
	w.snap = w.snap.Clone()
	if err := l.Void(t.Context(), w.snap, "d"); err != nil || len(w.lots) != 0 {
		t.Errorf("left: %v, %v", w.lots, err)
	}
	w.ensure(t, l)
	if len(w.lots) != 2 {
		t.Errorf("lots %v", w.lots)
	}
	_ = l.Void(t.Context(), w.snap, "d")
	w.epoch++
	w.snap = w.snap.Clone()
	times := 0
	w.during = func() { // another proxy sets the sequence while the first lot is on its way
		if times++; times == 1 {
			w.epoch++
		}
	}
	before := len(w.sizes)
	w.ensure(t, l)
	if n := len(w.sizes) - before; n != 3 && n != 4 {
		t.Errorf("%d draws, want one or two more than lots", n)
	}
}

// TestRefill: who uses up a lot gets a larger one, and who has enough none.
func TestRefill(t *testing.T) {
	w, l := newWorld()
	w.ensure(t, l)
	used := w.lots["b"]
	used.Left = 0
	w.lots["b"] = used
	given, err := l.Refill(t.Context(), w.snap, "d", "s", []string{"b"})
	if got := w.lots["b"]; err != nil || !given || got.Low <= used.High || got.Left != growth*firstLot-1 {
		t.Errorf("%t %v: %+v", given, err, got)
	}
	if given, err = l.Refill(t.Context(), w.snap, "d", "s", nil); err != nil || given {
		t.Error("given to nobody", err)
	}
	for range lookEvery {
		l.Sure(w.snap, "d", "s")
	}
	if w.lots["c"].Left < firstLot {
		t.Error("a lot that is too small by now was not refilled early")
	}
}

// TestFailed: what cannot be given is said, and tried again.
func TestFailed(t *testing.T) {
	w, l := newWorld()
	w.down = errors.New("down")
	if err := l.Ensure(t.Context(), w.snap, "d", "s", false); !errors.Is(err, w.down) {
		t.Error(err)
	}
	w.down, w.cycle = nil, true
	if err := l.Ensure(t.Context(), w.snap, "d", "s", false); err == nil || !strings.Contains(err.Error(), "cycles") {
		t.Error(err)
	}
	w.cycle = false
	w.ensure(t, l)
}
