package advise

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

const (
	// enough is how many values each shard needs so that their number does not matter.
	enough = 10
	// apart is how many values are placed one by one.
	apart = 1000
)

// spread is how work or rows are spread over the values of a key.
type spread struct {
	top      []share // the heaviest values, the first first
	rest     float64 // share of all others
	distinct float64 // how many others there are
}

type share struct {
	value uint64
	part  float64
}

// rowsOf returns how the rows of the tables of a hypothesis are spread, by the table that is spread
// worst.
func (w *work) rowsOf(h *hypothesis) *spread {
	worst := &spread{rest: 1, distinct: 1 << 40}
	var most float64
	for t := range h.keys {
		most = max(most, w.in.Tables[t].Rows)
	}
	found := false
	for t, column := range h.keys {
		table := w.in.Tables[t]
		c, ok := table.Columns[column]
		if !ok || table.Rows < most/10 {
			continue
		}
		sp := c.spread(table.Rows)
		if second, ok := table.Columns[h.second[t]]; ok {
			sp = &spread{rest: 1, distinct: max(1, 1/max(sp.largest()*second.spread(table.Rows).largest(), 1e-12))}
		}
		if !found || sp.largest() > worst.largest() || sp.largest() == worst.largest() && sp.distinct < worst.distinct {
			worst, found = sp, true
		}
	}
	return worst
}

// spread makes a spread of the statistics of a column in a table of so many rows.
func (c ColumnStats) spread(rows float64) *spread {
	sp := &spread{rest: 1 - c.Null}
	if c.Null > 0 {
		sp.top = append(sp.top, share{0, c.Null})
	}
	for i, part := range c.Common {
		sp.top, sp.rest = append(sp.top, share{uint64(i) + 1, part}), sp.rest-part
	}
	sp.rest = max(sp.rest, 0)
	if sp.distinct = 1 << 40; c.Distinct != 0 {
		sp.distinct = max(c.distinct(rows)-float64(len(c.Common)), 0)
	}
	if sp.distinct < 1 && sp.rest > 0 {
		sp.distinct = 1
	}
	slices.SortStableFunc(sp.top, func(a, b share) int { return cmp.Compare(b.part, a.part) })
	return sp
}

// workOf makes a spread of recorded values. Values that were seen a few times only say nothing of
// their own weight.
func workOf(keys map[uint64]float64, shards int) *spread {
	total := 0.0
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		total += keys[k]
	}
	sp := &spread{}
	if total == 0 {
		return sp
	}
	values := slices.SortedFunc(maps.Keys(keys), func(a, b uint64) int { return cmp.Or(cmp.Compare(keys[b], keys[a]), cmp.Compare(a, b)) })
	mean := total / float64(len(values))
	for i, k := range values {
		if i < apart && (keys[k] >= 3*mean || len(values) < enough*shards) {
			sp.top = append(sp.top, share{k, keys[k] / total})
			continue
		}
		sp.rest += keys[k] / total
		sp.distinct++
	}
	return sp
}

// largest is the share of the heaviest value.
func (sp *spread) largest() float64 {
	if len(sp.top) == 0 {
		return ratio(sp.rest, sp.distinct)
	}
	return max(sp.top[0].part, ratio(sp.rest, sp.distinct))
}

// draw makes up a value.
func (sp *spread) draw(r *rand.Rand) uint64 {
	at := r.Float64()
	for _, s := range sp.top {
		if at -= s.part; at < 0 {
			return s.value
		}
	}
	if sp.distinct < 1 {
		return 1
	}
	return 1<<20 + uint64(r.Float64()*sp.distinct)
}

// shards returns which share of the work each shard has.
func (sp *spread) shards(w *work) []float64 {
	out := make([]float64, w.in.Shards)
	for _, s := range sp.top {
		out[w.place(s.value)] += s.part
	}
	if n := sp.distinct; n > 0 && n < float64(enough*w.in.Shards) {
		for i := range int(n) {
			out[w.place(1<<20+uint64(i))] += sp.rest / n
		}
		return out
	}
	for i := range out {
		out[i] += sp.rest / float64(w.in.Shards)
	}
	return out
}
