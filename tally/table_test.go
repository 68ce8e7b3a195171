package tally

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

var me = Owner{"u", "d"}

func TestAdd(t *testing.T) {
	tab := NewTable(1 << 20)
	var a Anchor
	st := tab.Find(&a, me, "select 1")
	st.Add(Call{At: 1, Time: 300, Rows: 2, Shards: 1, Kind: Shard})
	st.Add(Call{At: 2, Time: 100, Rows: 0, Shards: 4, Kind: Gather})
	st.Add(Call{At: 3, Time: 50, Rows: 5, Shards: 1, Kind: Gather, GoesOn: true})
	st.Add(Call{At: 4, Time: 7000, Failed: true})
	all := tab.All()
	if len(all) != 1 {
		t.Fatal(all)
	}
	c := all[0]
	c.Since = time.Time{}
	want := Counts{Owner: me, Norm: "select 1", Kind: Gather, Calls: 3, Errors: 1, Rows: 7, Shards: 6, Total: 450, Min: 50, Max: 300}
	if c != want || c.Mean() != 225 {
		t.Errorf("got %+v, mean %v", c, c.Mean())
	}
	if (Counts{Calls: 1, Errors: 1, Total: 1}).Mean() != 0 {
		t.Error("a mean of nothing")
	}
}

// One statement per owner and text, however it is found.
func TestFind(t *testing.T) {
	tab := NewTable(1 << 20)
	var a, b Anchor
	st := tab.Find(&a, me, "x")
	if tab.Find(&a, me, "x") != st || tab.Find(&b, me, "x") != st {
		t.Error("the same text is counted twice")
	}
	if tab.Find(&a, Owner{"u", "e"}, "x") == st || tab.Find(&a, Owner{"v", "d"}, "x") == st || tab.Find(&a, me, "x") != st {
		t.Error("owners are not told apart")
	}
	tab.Reset(func(o Owner) bool { return o == me })
	again := tab.Find(&a, me, "x")
	if again == st || tab.Find(&b, me, "x") != again || tab.State().Statements != 3 {
		t.Error("what was reset is found again")
	}
	for i := range 3 * maxLinks {
		tab.Find(&a, Owner{"u", fmt.Sprint(i)}, "x")
	}
	n := 0
	for l := a.first.Load(); l != nil; l = l.next {
		n++
	}
	if n > maxLinks {
		t.Errorf("an anchor with %d links", n)
	}
	if tab.Find(&a, me, "x") != again {
		t.Error("lost among many owners")
	}
}

// The bound holds, and those used last stay.
func TestBound(t *testing.T) {
	const limit = 64 << 10
	tab := NewTable(limit)
	var keep Anchor
	kept := tab.Find(&keep, me, "kept")
	for i := range 5000 {
		var a Anchor
		tab.Find(&a, me, fmt.Sprint("select ", i))
		kept.Add(Call{At: Now()})
		if s := tab.State(); s.Bytes > limit {
			t.Fatalf("%d bytes held", s.Bytes)
		}
	}
	s := tab.State()
	if tab.Find(&keep, me, "kept") != kept || s.Dropped == 0 || s.Statements < 50 || s.Statements+int(s.Dropped) != 5001 {
		t.Errorf("%+v", s)
	}
	var a Anchor
	if tab.Find(&a, me, string(make([]byte, limit))) != nil {
		t.Error("kept a text larger than the table")
	}
	tab.Resize(limit / 2)
	if s := tab.State(); s.Bytes > limit/2 {
		t.Errorf("%d bytes held after Resize", s.Bytes)
	}
}

func TestConcurrent(t *testing.T) {
	tab := NewTable(8 << 10)
	anchors := make([]Anchor, 40)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 4000 {
				n := (i*7 + g) % len(anchors)
				if st := tab.Find(&anchors[n], me, fmt.Sprint("statement ", n)); st != nil {
					st.Add(Call{At: Now(), Time: int64(i)})
				}
				if i%1000 == 0 {
					tab.Reset(func(Owner) bool { return g == 0 })
					tab.All()
				}
			}
		})
	}
	wg.Wait()
}

// What stands on the way of every statement.
func TestNoAllocations(t *testing.T) {
	tab := NewTable(1 << 20)
	h := NewHistogram(Durations)
	var a Anchor
	tab.Find(&a, me, "x")
	if n := testing.AllocsPerRun(100, func() {
		tab.Find(&a, me, "x").Add(Call{At: Now(), Time: 5, Rows: 1, Shards: 1})
		h.Add(7, 12345)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	tab := NewTable(1 << 20)
	h, k := NewHistogram(Durations), NewHistogram(Durations)
	var a Anchor
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			t := Now()
			d := Now() - t
			tab.Find(&a, me, "x").Add(Call{At: t, Time: d, Rows: 1, Shards: 1, Kind: Shard})
			h.Add(7, d)
			k.Add(7, d)
		}
	})
}
