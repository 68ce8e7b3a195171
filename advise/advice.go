package advise

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"weft/catalog"
)

// Advice is what New has found out.
type Advice struct {
	Shards int `json:"shards"`
	// Statements is how many statements were planned, and Skipped how many were not, because others
	// have nearly all of the work. Unread is how many of them weft cannot read.
	Statements int `json:"statements"`
	Skipped    int `json:"skipped,omitempty"`
	Unread     int `json:"unread,omitempty"`
	// Recorded is how many recorded transactions there were. Without them columns about values speak
	// of rows.
	Recorded int `json:"recorded"`
	// Now is how the declarations fare that there are. Nil for none.
	Now *Candidate `json:"now,omitempty"`
	// Candidates are possible keys, the best first.
	Candidates []*Candidate `json:"candidates"`
}

// Candidate is one possible shard key, with what would become of the workload.
type Candidate struct {
	Key string `json:"key"`
	// Sharded are the columns that tables would be sharded by.
	Sharded []Ref `json:"sharded"`
	// Second are the second columns of keys of two columns.
	Second []Ref `json:"second,omitempty"`
	// Reference are the tables that every shard would have a copy of, and Home those that would stay
	// where they are.
	Reference []string `json:"reference"`
	Home      []string `json:"home"`

	// OneShard is the share of the time of statements that would run on one shard, OneShardCalls the
	// same of the calls, and WritesOneShard that of the calls that write.
	OneShard       float64 `json:"one_shard"`
	OneShardCalls  float64 `json:"one_shard_calls"`
	WritesOneShard float64 `json:"writes_one_shard"`
	// TwoPhase is the share of transactions that would write on several shards; without a recording, of
	// calls.
	TwoPhase float64 `json:"two_phase"`
	// Largest is the share of the heaviest value, and WorstShard how many times its share the heaviest
	// shard would have.
	Largest    float64 `json:"largest_value"`
	WorstShard float64 `json:"worst_shard"`
	// Capacity is how many times the work of one server the shards could do.
	Capacity float64 `json:"capacity"`

	// Broken are transactions that one shard holds today and several would hold then.
	Broken    []Broken   `json:"broken"`
	Refused   []Affected `json:"refused"`
	Scattered []Affected `json:"scattered"`
	Checks    []Check    `json:"checks"`
	// Obstacles say why weft would not take a declaration as things are.
	Obstacles []string `json:"obstacles"`
	SQL       []string `json:"sql"`
	Salt      *Salt    `json:"salt,omitempty"`

	score float64
	hyp   *hypothesis
	sim   *simulation
	load  []float64
}

// Affected is a statement that would not run on one shard.
type Affected struct {
	ID     int64   `json:"id"`
	Text   string  `json:"statement"`
	Time   float64 `json:"time"`  // share of all time
	Calls  float64 `json:"calls"` // share of all calls
	Shards float64 `json:"shards,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// Broken is transactions with the same writes.
type Broken struct {
	Statements []int64  `json:"statements"`
	Texts      []string `json:"texts"`
	Share      float64  `json:"share"` // of all transactions
}

// ErrNoStatements says that there is nothing to make an advice of.
var ErrNoStatements = errors.New("no statement names a table of the database")

// ErrNoCandidates says that no column could be a shard key.
var ErrNoCandidates = errors.New("no statement compares a column with a value or with another column, so no column can be a shard key")

// New finds out which shard keys fit a workload.
func New(in *Input) (*Advice, error) {
	w := newWork(in)
	if len(w.statements) == 0 {
		return nil, ErrNoStatements
	}
	a := &Advice{Shards: in.Shards, Statements: len(w.statements), Skipped: w.skipped, Recorded: len(in.Transactions)}
	now := &hypothesis{keys: map[catalog.Name]string{}, reference: map[catalog.Name]bool{}}
	if len(in.Declared) > 0 {
		now = w.asDeclared()
		c := w.try("as declared now", now)
		w.tell(c, c.sim)
		a.Now = c
	}
	today := w.simulate(now, &spread{rest: 1, distinct: 1 << 40})
	for _, o := range today.outcomes {
		if o.fate == uncounted {
			a.Unread++
		}
	}
	of := map[*Candidate]*domain{}
	domains := w.domains()
	for _, d := range domains {
		c := w.try(d.name(), w.declare(d))
		a.Candidates, of[c] = append(a.Candidates, c), d
	}
	if len(a.Candidates) == 0 {
		return nil, ErrNoCandidates
	}
	slices.SortStableFunc(a.Candidates, better)
	for i, c := range a.Candidates[:min(len(a.Candidates), maxImproved)] {
		a.Candidates[i] = w.improve(c, of[c])
		of[a.Candidates[i]] = of[c]
	}
	slices.SortStableFunc(a.Candidates, better)
	for _, c := range slices.Clone(a.Candidates[:min(len(a.Candidates), maxComposed)]) {
		if both := w.compose(c, of[c], domains); both != nil {
			a.Candidates = append(a.Candidates, both)
		}
	}
	slices.SortStableFunc(a.Candidates, better)
	for _, c := range a.Candidates {
		w.tell(c, today)
	}
	return a, nil
}

// better orders candidates, the best first.
func better(x, y *Candidate) int {
	return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(y.OneShard, x.OneShard), cmp.Compare(x.Key, y.Key))
}

// asDeclared is the hypothesis that all stays as it is.
func (w *work) asDeclared() *hypothesis {
	h := &hypothesis{keys: map[catalog.Name]string{}, reference: map[catalog.Name]bool{}, declared: w.in.Declared}
	for i := range h.declared {
		t := &h.declared[i]
		n := catalog.Name{Schema: t.Schema, Name: t.Name}
		if len(t.Columns) == 0 {
			h.reference[n] = true
		} else {
			h.keys[n] = t.Columns[0].Name
		}
	}
	return h
}

// maxImproved bounds for how many candidates other hypotheses are tried.
const maxImproved = 8

// improve tries other hypotheses for a domain than the first, where a table has several columns of it, or
// could be on every shard.
func (w *work) improve(best *Candidate, d *domain) *Candidate {
	for _, rel := range w.tables {
		columns := d.tables()[rel.Name]
		if len(columns) == 0 || w.usage[rel.Name].weight < noticed {
			continue
		}
		for _, column := range columns[1:min(len(columns), 4)] {
			h := best.hyp.clone()
			h.keys[rel.Name] = column
			if c := w.try(best.Key, h); c.score > best.score*1.001 {
				best = c
			}
		}
		if _, known := w.in.Tables[rel.Name]; known && len(best.hyp.keys) > 1 && w.small(rel.Name) && w.seldomWritten(rel.Name) {
			h := best.hyp.clone()
			delete(h.keys, rel.Name)
			w.refer(h)
			if c := w.try(best.Key, h); h.reference[rel.Name] && c.score > best.score*1.01 {
				best = c
			}
		}
	}
	return best
}

// try simulates a hypothesis and counts.
func (w *work) try(key string, h *hypothesis) *Candidate {
	rows := w.rowsOf(h)
	c := &Candidate{Key: key, hyp: h, sim: w.simulate(h, rows)}
	sp := rows
	if len(c.sim.keys) > 0 {
		sp = workOf(c.sim.keys, w.in.Shards)
	}
	c.Largest = sp.largest()
	c.count(w, sp)
	return c
}

// count adds up what becomes of all statements.
func (c *Candidate) count(w *work, sp *spread) {
	var time, calls, writes float64
	var refusedTime, refusedCalls float64
	n := float64(w.in.Shards)
	load, by := make([]float64, w.in.Shards), sp.shards(w)
	add := func(weight float64, parts []float64) {
		for i := range load {
			load[i] += weight * parts[i]
		}
	}
	even := make([]float64, w.in.Shards)
	for i := range even {
		even[i] = 1 / n
	}
	for i := range w.statements {
		s, o := &w.statements[i], &c.sim.outcomes[i]
		if o.fate == uncounted {
			continue
		}
		time, calls = time+s.weight, calls+s.calls
		if o.writes {
			writes += s.calls
		}
		if o.fate == refused {
			refusedTime, refusedCalls = refusedTime+s.weight, refusedCalls+s.calls
			load[0] += s.weight
			continue
		}
		c.OneShard += s.weight * o.one
		c.OneShardCalls += s.calls * o.one
		if o.writes {
			c.WritesOneShard += s.calls * o.one
			c.TwoPhase += s.calls * (1 - o.one)
		}
		load[0] += s.weight * o.home
		add(s.weight*o.free, even)
		add(s.weight*(o.one-o.home-o.free), by)
		if several := o.shards - o.one; several > 1e-9 {
			// Each shard searches as the one server did. A write is also prepared and committed.
			if o.writes {
				several *= 2
			}
			add(s.weight*several, even)
		}
	}
	c.OneShard, c.OneShardCalls = roundShare(c.OneShard, time), roundShare(c.OneShardCalls, calls)
	c.WritesOneShard, c.TwoPhase = roundShare(c.WritesOneShard, writes), roundShare(c.TwoPhase, calls)
	if writes == 0 {
		c.WritesOneShard = 1
	}
	total, worst := 0.0, 0.0
	for _, l := range load {
		total, worst = total+l, max(worst, l)
	}
	c.load, c.WorstShard, c.Capacity = load, ratio(worst*n, total), ratio(time, worst)
	c.score = c.Capacity * (1 - max(ratio(refusedTime, time), ratio(refusedCalls, calls)))
	for i := range c.sim.outcomes {
		if c.sim.outcomes[i].fate == refused {
			c.score *= 0.95
		}
	}
	for t, column := range c.hyp.keys {
		if w.updates(Ref{t, column})+w.updates(Ref{t, c.hyp.second[t]}) > 0 {
			c.score *= 0.5
			break
		}
	}
}

// roundShare is a ratio without what sums of fractions are off by.
func roundShare(part, whole float64) float64 {
	return math.Round(ratio(part, whole)*1e9) / 1e9
}

// updates is the share of calls that set a column.
func (w *work) updates(r Ref) float64 {
	n := 0.0
	for i := range w.statements {
		if slices.Contains(w.statements[i].sight.sets, r) {
			n += w.statements[i].calls
		}
	}
	return n
}
