package advise

import (
	"math/rand/v2"
	"slices"

	"weft/plan"
	"weft/planner"
	"weft/recording"
)

const (
	// draws is how many executions are made up for a statement without recorded ones.
	draws = 64
	// drawnElements is how many values an array has whose length is not known.
	drawnElements = 8
)

// example is one execution of a statement.
type example struct{ values []recording.Value }

// fate is what would become of a statement.
type fate uint8

const (
	uncounted fate = iota // DDL, or a text that weft cannot read
	counted
	refused
)

// outcome is what would become of the executions of one statement. Amounts are shares of its
// executions.
type outcome struct {
	fate   fate
	reason string // why it is refused, or scattered
	writes bool
	one    float64 // on one shard
	home   float64 // those of them on the home shard, because of home tables
	free   float64 // those of them on any shard
	shards float64 // how many shards an execution visits
	knows  float64 // those that say the key
}

// simulation is all statements under one hypothesis.
type simulation struct {
	w        *work
	spread   *spread
	bits     int // of the first column of a key of two; 0 for keys of one
	plans    []*plan.Plan
	outcomes []outcome
	// keys counts recorded values of the key, by the work on them.
	keys map[uint64]float64
}

// simulate plans all statements.
func (w *work) simulate(h *hypothesis, sp *spread) *simulation {
	s := &simulation{w: w, spread: sp, bits: h.bits, keys: map[uint64]float64{}}
	env := w.environment(h)
	for i := range w.statements {
		st := &w.statements[i]
		planned := planner.Plan
		if len(st.lists) > 0 {
			planned = planner.PlanGathered // the planner takes a list of one value for one shard
		}
		p := planned(env, st.Text, st.literals, nil)
		s.plans = append(s.plans, p)
		s.outcomes = append(s.outcomes, s.outcome(st, p))
	}
	return s
}

// outcome looks at the executions of one statement.
func (s *simulation) outcome(st *statement, p *plan.Plan) outcome {
	o := outcome{fate: counted, writes: p.Writes}
	switch p.Route {
	case plan.Refused:
		if p.Unread {
			return outcome{}
		}
		return outcome{fate: refused, writes: p.Writes, reason: p.Refusal.Message}
	case plan.Every, plan.Call, plan.Program:
		return outcome{}
	case plan.Home:
		o.one, o.home, o.shards = 1, 1, 1
		return o
	case plan.Any, plan.AnyCopy:
		o.one, o.free, o.shards = 1, 1, 1
		return o
	case plan.Gathered:
		o.shards = float64(s.w.in.Shards)
		if p.Across == nil && p.Refusal != nil {
			return outcome{fate: refused, writes: p.Writes, reason: p.Refusal.Message}
		}
		return o
	}
	list := st.examples
	if len(list) == 0 {
		list = make([]example, draws)
	}
	v := visitor{s: s, random: rand.New(rand.NewPCG(uint64(st.ID), 1)), lists: st.lists}
	part := 1 / float64(len(list))
	one, free, knows, visits := 0, 0, 0, 0
	for i := range list {
		v.begin(list[i].values)
		v.instances(p.Instances)
		if len(st.examples) > 0 && len(v.keys) > 0 {
			for _, k := range v.keys {
				s.keys[k] += st.weight * part / float64(len(v.keys))
			}
		}
		if !v.all {
			knows++
		}
		switch n := v.set.count(); n {
		case 0:
			one, free, visits = one+1, free+1, visits+1
		case 1:
			one, visits = one+1, visits+1
		default:
			visits += n
		}
	}
	n := float64(len(list))
	o.one, o.free, o.knows, o.shards = float64(one)/n, float64(free)/n, float64(knows)/n, float64(visits)/n
	if o.one < 1-1e-9 && p.Across == nil && p.Refusal != nil {
		o.reason = p.Refusal.Message
		if o.one < 0.5 {
			o.fate = refused
		}
	}
	return o
}

// visitor finds the shards of one execution.
type visitor struct {
	s      *simulation
	random *rand.Rand
	values []recording.Value
	drawn  map[int]recording.Value
	lists  []int // parameters that stand for lists
	set    shardSet
	keys   []uint64 // values of the key
	all    bool     // an instance says nothing of its key
}

func (v *visitor) begin(values []recording.Value) {
	v.values, v.drawn, v.keys, v.all = values, map[int]recording.Value{}, v.keys[:0], false
	v.set = newShardSet(v.s.w.in.Shards)
}

func (v *visitor) instances(list []plan.Instance) {
	for i := range list {
		in := &list[i]
		if v.s.bits > 0 && len(in.Keys) == 2 && v.two(in.Keys) {
			continue
		}
		sums, known := v.sums(in.Keys)
		if !known && in.Lookup != nil {
			sums, known = v.sums(in.Lookup.Keys)
		}
		if !known {
			v.all = true
			v.set.addAll()
			continue
		}
		for _, k := range sums {
			v.keys = append(v.keys, k)
			v.set.add(v.s.w.place(k))
		}
	}
}

// place returns the shard of a value. Which one it is says nothing of the shard that weft would
// choose, but values are as evenly spread.
func (w *work) place(value uint64) int {
	value ^= value >> 33
	value *= 0xff51afd7ed558ccd
	value ^= value >> 33
	value *= 0xc4ceb9fe1a85ec53
	value ^= value >> 33
	return int(value % uint64(w.in.Shards))
}

// sums returns the values that the key may have. Of several key columns together each combination
// counts.
func (v *visitor) sums(keys [][]plan.Set) (sums []uint64, known bool) {
	sums = []uint64{0}
	for _, sets := range keys {
		if len(sets) == 0 {
			return nil, false
		}
		best, found := []uint64(nil), false
		for _, set := range sets {
			if list, ok := v.set1(set); ok && (!found || len(list) < len(best)) {
				best, found = list, true
			}
		}
		if !found {
			return nil, false
		}
		if len(keys) == 1 {
			return best, true
		}
		var next []uint64
		for _, a := range sums {
			for _, b := range best {
				next = append(next, a*0x9e3779b97f4a7c15+b)
			}
		}
		sums = next
	}
	return sums, len(keys) > 0
}

// set1 returns the values of one set.
func (v *visitor) set1(set plan.Set) ([]uint64, bool) {
	out := []uint64{}
	for i := range set {
		list, ok := v.source(&set[i])
		if !ok {
			return nil, false
		}
		for _, k := range list {
			out = appendNew(out, k)
		}
	}
	return out, true
}

// source returns the values that a source stands for.
func (v *visitor) source(src *plan.Source) ([]uint64, bool) {
	switch src.Kind {
	case plan.Param:
		if slices.Contains(v.lists, src.Index) {
			return v.param(src.Index, drawnElements), true
		}
		return v.param(src.Index, 1), true
	case plan.ParamArray:
		return v.param(src.Index, drawnElements), true
	case plan.Literal, plan.Array:
		// Literals of a normalised text are rare: they stand after all parameters.
		return v.param(1<<16+src.Index, 1), true
	case plan.Generated:
		return []uint64{v.random.Uint64() | 1}, true
	case plan.Computed:
		left, ok := v.source(&src.Expr.Left)
		right, also := v.source(&src.Expr.Right)
		if !ok || !also || len(left) == 0 || len(right) == 0 {
			return nil, false
		}
		return []uint64{left[0]*31 + right[0] + uint64(src.Expr.Op)}, true
	case plan.Constant:
		return []uint64{recording.Key{}.Sum([]byte(src.Text))}, true
	}
	return []uint64{0}, true // NULL
}

// param returns the values of a parameter: the recorded ones, or made up ones, as the values of the
// key are spread.
func (v *visitor) param(i, n int) []uint64 {
	if i < len(v.values) && len(v.values[i]) > 0 {
		return v.values[i]
	}
	if v.drawn[i] == nil {
		for range n {
			v.drawn[i] = append(v.drawn[i], v.s.spread.draw(v.random))
		}
	}
	return v.drawn[i]
}

// shardSet is a set of shards.
type shardSet []bool

func newShardSet(n int) shardSet { return make(shardSet, n) }

func (s shardSet) add(i int) { s[i] = true }

func (s shardSet) addAll() {
	for i := range s {
		s[i] = true
	}
}

func (s shardSet) count() int {
	n := 0
	for _, in := range s {
		if in {
			n++
		}
	}
	return n
}

// writtenBy returns the shards that a recorded transaction would write on, and the statements that
// write.
func (s *simulation) writtenBy(t recording.Transaction) (shardSet, []int64) {
	set := newShardSet(s.w.in.Shards)
	var ids []int64
	for i := range t {
		at, ok := s.w.index[t[i].ID]
		if !ok || s.outcomes[at].fate != counted || !s.outcomes[at].writes {
			continue
		}
		ids = append(ids, t[i].ID)
		v := visitor{s: s, random: rand.New(rand.NewPCG(uint64(t[i].ID), uint64(i)))}
		v.begin(t[i].Values)
		switch p := s.plans[at]; p.Route {
		case plan.Keyed:
			v.instances(p.Instances)
		case plan.Gathered:
			v.set.addAll()
		default:
			v.set.add(0)
		}
		for i, in := range v.set {
			set[i] = set[i] || in
		}
	}
	return set, ids
}
