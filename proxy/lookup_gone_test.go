package proxy

import (
	"errors"
	"slices"
	"testing"

	"weft/pgerr"
	"weft/plan"
)

// TestRowsGone: only an entry of the very row and value that another row was found for says that the other row has gone.
func TestRowsGone(t *testing.T) {
	k := &keeping{met: []lookupClaim{{lookup: "a", entry: "7:-5:6161"}, {lookup: "b", entry: "8:6:62:63"}}}
	for _, c := range []struct {
		lookup, entry string
		n             int
		want          bool
	}{
		{"a", "7:-5:6161", 1, true},
		{"a", "9:-5:6161", 1, true}, // the bucket of a value can have another number
		{"a", "7:-5:6161", -1, false},
		{"a", "7:5:6161", 1, false},
		{"a", "7:-5:61", 1, false},
		{"b", "7:-5:6161", 1, false},
		{"b", "8:6:62:63", 1, true},
	} {
		gone := k.rowsGone(map[string]map[string]int{c.lookup: {c.entry: c.n}})
		if gone[c.lookup] != c.want || len(gone) > 1 {
			t.Errorf("%+v: %v", c, gone)
		}
	}
	taken := pgerr.New(pgerr.UniqueViolation, "duplicate")
	taken.Schema, taken.Table = "weft", "a"
	if got := goneError(taken, takenIn(taken), map[string]bool{"a": true}); pgerr.From(got).Code != pgerr.SerializationFailure || !errors.Is(got, taken) {
		t.Errorf("a value that was taken meanwhile: %v", got)
	}
	if got := goneError(taken, takenIn(taken), map[string]bool{"b": true}); !errors.Is(got, taken) || errors.Is(got, errRowGone) {
		t.Errorf("a value that was taken before: %v", got)
	}
}

// TestAstrayError: a foreign key fails because of the shard only where the row was sent to another one, and no row is updated.
func TestAstrayError(t *testing.T) {
	var got []bool
	for _, x := range []*gathering{
		{write: &plan.Write{Shape: &plan.Whole{}}, progress: progress{astray: true}},
		{write: &plan.Write{Shape: &plan.Rows{Rows: make([]plan.Row, 1)}}, progress: progress{astray: true}},
		{write: &plan.Write{Shape: &plan.Whole{}}},
		{write: &plan.Write{Shape: &plan.Whole{Updates: true}}, progress: progress{astray: true}},
		{write: &plan.Write{Shape: &plan.Rows{Rows: make([]plan.Row, 2)}}, progress: progress{astray: true}},
		{write: &plan.Write{Shape: &plan.Local{}}, progress: progress{astray: true}},
	} {
		got = append(got, errors.Is(x.astrayError(pgerr.New(foreignKeyViolation, "no such row")), errRowGone))
	}
	if !slices.Equal(got, []bool{true, true, false, false, false, false}) {
		t.Error(got)
	}
}
