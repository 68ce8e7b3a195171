package reshard

import (
	"testing"

	"weft/directory"
)

func TestEarly(t *testing.T) {
	at := func(shards int, placement ...uint16) *directory.Snapshot {
		return &directory.Snapshot{Shards: make([]directory.Shard, shards), Placement: placement}
	}
	before, after, joined := at(2, 0, 1, 0), at(2, 0, 1, 1), at(3, 0, 1, 0)
	for _, c := range []struct {
		name string
		note func(e *Early)
		want string // fits before, after, before with a shard more
	}{
		{"none", func(*Early) {}, "✓✓✓"},
		{"no job", func(e *Early) { e.Note(before, nil) }, "✓--"},
		{"between rounds", func(e *Early) { e.Note(before, barrier("")) }, "✓--"},
		{"writes held", func(e *Early) { e.Note(before, barrier(directory.HoldWrites)) }, "✓--"},
		{"all held", func(e *Early) { e.Note(before, barrier(directory.HoldAll)) }, "---"},
		{"carried", func(e *Early) { e.Note(before, barrier(directory.Carried)) }, "---"},
		{"the first counts", func(e *Early) { e.Note(after, nil); e.Note(before, nil) }, "-✓-"},
		{"forgotten", func(e *Early) { e.Note(after, barrier(directory.Carried)); e.Forget() }, "✓✓✓"},
	} {
		var e Early
		c.note(&e)
		if got := mark(e.Fits(before)) + mark(e.Fits(after)) + mark(e.Fits(joined)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
