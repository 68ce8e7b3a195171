package importer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A stream that breaks off anywhere, and begins again at any transaction that the source may still have, brings every change
// exactly once.
func TestBatchExactlyOnce(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		var sizes []int
		total := 0
		for range 1 + r.IntN(12) {
			n := r.IntN(40)
			if r.IntN(6) == 0 {
				n = mostRows - 5 + r.IntN(mostRows)
			}
			sizes = append(sizes, n)
			total += n
		}
		var applied []string  // of the target
		var position Position // of the target, in the same transaction
		confirmed := 0        // transactions that the source has forgotten
		for lives := 0; ; lives++ {
			if lives > 1000 {
				t.Fatal("it does not come to an end")
			}
			dies := r.IntN(2*total+10) + 1
			if live(sizes, confirmed, &position, &applied, &confirmed, r, dies) {
				break
			}
		}
		if len(applied) != total {
			t.Fatalf("seed %d: %d changes of %d", seed, len(applied), total)
		}
		if c := slices.Compact(slices.Clone(applied)); len(c) != total || !slices.IsSorted(c) {
			t.Fatalf("seed %d: changes twice or out of order", seed)
		}
	}
}

// live is one process: it dies after some changes, or reports true at the end of the stream.
func live(sizes []int, from int, position *Position, applied *[]string, confirmed *int, r *rand.Rand, dies int) bool {
	b := batch{position: *position}
	var pending []string
	now := time.Unix(0, 0)
	flush := func() {
		*applied = append(*applied, pending...)
		*position = b.position
		pending = nil
		b.clear()
	}
	for i, n := range sizes {
		if i < from {
			continue
		}
		b.begin(LSN(i + 1))
		for k := range n {
			if dies--; dies == 0 {
				return false
			}
			now = now.Add(time.Duration(r.IntN(20)) * time.Millisecond)
			if b.wants() {
				b.add(&Change{}, now)
				pending = append(pending, fmt.Sprintf("%03d/%06d", i, k))
			}
			if b.ready(now) {
				flush()
			}
		}
		b.end(LSN(i+1), now)
		if b.ready(now) {
			flush()
		}
		if len(b.changes) == 0 && r.IntN(2) == 0 {
			*confirmed = i + 1
		}
	}
	flush()
	return true
}

func TestBatchReady(t *testing.T) {
	t0 := time.Unix(100, 0)
	fill := func(n int, open bool) *batch {
		b := &batch{}
		b.begin(7)
		for range n {
			b.wants()
			b.add(&Change{}, t0)
		}
		if !open {
			b.end(8, t0)
		}
		return b
	}
	for _, c := range []struct {
		rows  int
		open  bool
		after time.Duration
		want  bool
	}{
		{0, false, time.Hour, false},
		{1, false, batchTime / 2, false},
		{1, false, batchTime, true},
		{1, true, time.Hour, false}, // a transaction is applied whole
		{batchRows, false, 0, true},
		{batchRows, true, 0, false},
		{mostRows, true, 0, true}, // unless it is too large
	} {
		if got := fill(c.rows, c.open).ready(t0.Add(c.after)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
