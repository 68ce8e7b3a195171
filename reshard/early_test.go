package reshard

import (
	"testing"

	"weft/directory"
)

func TestEarly(t *testing.T) {
	before, after := []uint16{0, 1, 0}, []uint16{0, 1, 1}
	for _, c := range []struct {
		name string
		note func(e *Early)
		want string // fits before, after, before with a shard more
	}{
		{"none", func(*Early) {}, "✓✓✓"},
		{"no job", func(e *Early) { e.Note(before, 2, nil) }, "✓--"},
		{"between rounds", func(e *Early) { e.Note(before, 2, barrier("")) }, "✓--"},
		{"writes held", func(e *Early) { e.Note(before, 2, barrier(directory.HoldWrites)) }, "✓--"},
		{"all held", func(e *Early) { e.Note(before, 2, barrier(directory.HoldAll)) }, "---"},
		{"carried", func(e *Early) { e.Note(before, 2, barrier(directory.Carried)) }, "---"},
		{"the first counts", func(e *Early) { e.Note(after, 2, nil); e.Note(before, 2, nil) }, "-✓-"},
		{"forgotten", func(e *Early) { e.Note(after, 2, barrier(directory.Carried)); e.Forget() }, "✓✓✓"},
	} {
		var e Early
		c.note(&e)
		if got := mark(e.Fits(before, 2)) + mark(e.Fits(after, 2)) + mark(e.Fits(before, 3)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
