package advise

import (
	"math"

	"weft/catalog"
	"weft/plan"
)

const (
	// maxComposed bounds for how many candidates second columns are tried, and maxSeconds how many for each.
	maxComposed, maxSeconds = 3, 8
	// maxBits bounds how many bits of a place the first column decides.
	maxBits = 8
	// worth is how many times better a key of two columns must be than that of one.
	worth = 1.05
)

// compose tries keys of two columns where one alone has a value that is too heavy for a shard, and returns the best of those that are better.
// Values of the first column are spread over so many places that the heaviest is no more than a shard's share.
func (w *work) compose(c *Candidate, first *domain, all []*domain) *Candidate {
	if c.hyp.declared != nil || c.Largest < 1/(2*float64(w.in.Shards)) {
		return nil
	}
	var best *Candidate
	for _, d := range all[:min(len(all), maxSeconds)] {
		if d == first {
			continue
		}
		h := w.pair(c.hyp, d)
		if h == nil {
			continue
		}
		h.bits = min(max(int(math.Log2(1/max(c.Largest, 1e-9))), 1), maxBits)
		x := w.try(first.name()+", "+d.name(), h)
		if x.score > c.score*worth && (best == nil || x.score > best.score) {
			best = x
		}
	}
	return best
}

// pair returns the hypothesis that tables have a column of a domain as the second one of their keys. Tables without such a column are not sharded. Nil: there
// are none with it.
func (w *work) pair(h *hypothesis, d *domain) *hypothesis {
	columns := d.tables()
	out := h.clone()
	for t, key := range h.keys {
		if len(columns[t]) == 0 || columns[t][0] == key {
			delete(out.keys, t)
			continue
		}
		if out.second == nil {
			out.second = map[catalog.Name]string{}
		}
		out.second[t] = columns[t][0]
	}
	if out.second == nil {
		return nil
	}
	clear(out.reference)
	w.refer(out)
	return out
}

// two adds the shards of an instance whose key has two columns. It reports false if the first is not known.
func (v *visitor) two(keys [][]plan.Set) bool {
	first, known := v.sums(keys[:1])
	if !known {
		return false
	}
	second, whole := v.sums(keys[1:])
	n := v.s.w.in.Shards
	// Values of the first column have a run of the shards each, and the second column says where in the run.
	width := max(1, n>>v.s.bits)
	for _, a := range first {
		start := v.s.w.place(a) / width * width
		if !whole {
			v.all = true
			for i := range width {
				v.set.add((start + i) % n)
			}
			continue
		}
		for _, b := range second {
			both := a*0x9e3779b97f4a7c15 + b
			v.keys = append(v.keys, both)
			v.set.add((start + v.s.w.place(both)%width) % n)
		}
	}
	return true
}
