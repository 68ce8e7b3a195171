package consistency

import (
	"slices"
	"strings"
)

// edge is a dependency: the other transaction must have come first.
type edge struct {
	to   int
	kind string // ww: it overwrote; wr: it saw
}

// cycles looks for transactions that each came before the other.
func (c *checker) cycles() {
	graph := c.graph()
	for _, kinds := range [][]string{{"ww"}, {"ww", "wr"}} {
		name := "G0"
		if len(kinds) > 1 {
			name = "G1c"
		}
		for _, group := range components(graph, kinds) {
			var names []string
			for _, t := range group {
				names = append(names, c.history[t].Name)
			}
			slices.Sort(names)
			c.add(name, "each came before the other: %s", strings.Join(names, ", "))
		}
		if len(c.found) > 0 {
			return // the larger cycles contain the smaller
		}
	}
}

// graph has the dependencies of each transaction that happened.
func (c *checker) graph() [][]edge {
	out := make([][]edge, len(c.history))
	for key, list := range c.order {
		for i := 1; i < len(list); i++ {
			from, to := c.writer[key][list[i-1]], c.writer[key][list[i]]
			if from != to {
				out[from] = append(out[from], edge{to, "ww"})
			}
		}
	}
	for i, t := range c.history {
		if t.Outcome != Committed {
			continue
		}
		for _, op := range t.Ops {
			if op.Append != "" || len(op.Read) == 0 {
				continue
			}
			if w := c.writer[op.Key][op.Read[len(op.Read)-1]]; w != i {
				out[w] = append(out[w], edge{i, "wr"})
			}
		}
	}
	return out
}

// components returns the groups of nodes that reach each other by edges of these
// kinds (Tarjan's strongly connected components with more than one node).
func components(graph [][]edge, kinds []string) [][]int {
	t := &tarjan{graph: graph, kinds: kinds, index: make([]int, len(graph)), low: make([]int, len(graph)), on: make([]bool, len(graph))}
	for n := range graph {
		if t.index[n] == 0 {
			t.visit(n)
		}
	}
	return t.out
}

type tarjan struct {
	graph      [][]edge
	kinds      []string
	index, low []int
	on         []bool
	stack      []int
	next       int
	out        [][]int
}

func (t *tarjan) visit(n int) {
	t.next++
	t.index[n], t.low[n] = t.next, t.next
	t.stack, t.on[n] = append(t.stack, n), true
	for _, e := range t.graph[n] {
		if !slices.Contains(t.kinds, e.kind) {
			continue
		}
		if t.index[e.to] == 0 {
			t.visit(e.to)
			t.low[n] = min(t.low[n], t.low[e.to])
		} else if t.on[e.to] {
			t.low[n] = min(t.low[n], t.index[e.to])
		}
	}
	if t.low[n] != t.index[n] {
		return
	}
	at := slices.Index(t.stack, n)
	group := slices.Clone(t.stack[at:])
	t.stack = t.stack[:at]
	for _, m := range group {
		t.on[m] = false
	}
	if len(group) > 1 {
		t.out = append(t.out, group)
	}
}
