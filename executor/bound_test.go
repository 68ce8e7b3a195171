package executor

import (
	"slices"
	"testing"

	"weft/datum"
	"weft/plan"
	"weft/vindex"
)

// TestBounds: an inequality on the key of a range vindex visits the zones it
// leaves, and every shard where it cannot be told.
func TestBounds(t *testing.T) {
	zones := []any{
		map[string]any{"below": 100, "buckets": "0-3"},
		map[string]any{"below": 200, "buckets": "4-7"},
		map[string]any{"buckets": "8-15"},
	}
	table := declare(t, "range", vindex.Params{"zones": zones}, 16, column{"k", datum.Int8})
	snap := cluster(16, 4)
	for i := range snap.Placement {
		snap.Placement[i] = uint16(i / 4)
	}
	low, high := true, false
	bound := func(i int, low bool) plan.Bound { return plan.Bound{Source: lit(i, datum.Int4), Low: low} }
	for _, test := range []struct {
		text   string
		bounds []plan.Bound
		want   []int
	}{
		{"k < 100", []plan.Bound{bound(0, high)}, []int{0, 1}}, // the end itself is not known to be out
		{"k < 99", []plan.Bound{bound(0, high)}, []int{0}},
		{"k >= 200", []plan.Bound{bound(0, low)}, []int{2, 3}},
		{"k between 100 and 199", []plan.Bound{bound(0, low), bound(1, high)}, []int{1}},
		{"k > 5 and k > 150 and k < 160", []plan.Bound{bound(0, low), bound(1, low), bound(2, high)}, []int{1}},
		{"k between 300 and 50", []plan.Bound{bound(0, low), bound(1, high)}, []int{3}}, // none: the home shard will do
		{"k > 1.5", []plan.Bound{{Source: lit(0, datum.Numeric), Low: true}}, []int{0, 1, 2, 3}},
	} {
		p := keyed(table, nil)
		p.Instances[0].Bounds = test.bounds
		var b Binder
		shards, err := b.Bind(p, snap, scanned(t, test.text))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got := slices.Collect(shards.All()); !slices.Equal(got, test.want) {
			t.Errorf("%s: shards %v, want %v", test.text, got, test.want)
		}
	}
}
