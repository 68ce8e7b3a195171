package proxy

import (
	"testing"

	"weft/vindex"
)

func TestGoesRound(t *testing.T) {
	type graph = map[vindex.ID][]vindex.ID
	chain := graph{}
	for i := range 100_000 {
		chain[vindex.ID(i)] = []vindex.ID{vindex.ID(i + 1)}
	}
	for _, tc := range []struct {
		name string
		next graph
		want int
	}{
		{"nothing", graph{}, 0},
		{"a chain", chain, 0},
		{"a swap", graph{1: {2}, 2: {1}}, 2},
		{"three, and one that leads there", graph{1: {2}, 2: {3}, 3: {1}, 4: {1}}, 3},
		{"a fork with one end", graph{1: {2, 3}, 3: {4}, 4: {3}}, 2},
		{"two ways to an end", graph{1: {2, 3}, 2: {4}, 3: {4}}, 0},
	} {
		if got := goesRound(tc.next); len(got) != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
