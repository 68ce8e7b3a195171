package proxy

import (
	"fmt"
	"slices"
	"time"

	"weft/directory"
	"weft/heat/verdict"
	"weft/quote"
	"weft/rebalance"
	"weft/schema"
)

// remedy is a plan that relieves saturated shards, by the buckets and keys of one database.
type remedy struct {
	l       *layout
	buckets int // of the cluster
	shards  map[int]*verdict.Finding
	keys    []*verdict.Finding
	steps   []rebalance.Step
	begun   time.Time // when weft last began a job of the database by itself
}

// saturatedShards are what was found of shards that have more work than they can do.
func saturatedShards(found []verdict.Finding) map[string]*verdict.Finding {
	out := map[string]*verdict.Finding{}
	for i := range found {
		f := &found[i]
		if f.Kind == verdict.Shard && (f.Verdict == verdict.Hot || f.Verdict == verdict.Saturated) && (out[f.Shard] == nil || f.Verdict == verdict.Hot) {
			out[f.Shard] = f
		}
	}
	return out
}

// newRemedy makes a plan. The layout must know the work of its database.
func newRemedy(snap *directory.Snapshot, database string, l *layout, found []verdict.Finding, isolates func(database string, group uint32) bool) *remedy {
	r := &remedy{l: l, buckets: snap.BucketCount, shards: map[int]*verdict.Finding{}}
	c := rebalance.Case{Costs: l.costs, Shards: l.shards, Now: l.now, Pins: l.pins, Options: rebalance.Options{Strategy: rebalance.Load, Samples: l.work.samples}}
	hot := saturatedShards(found)
	for i := range l.shards {
		if f := hot[l.shards[i].Name]; f != nil {
			r.shards[i] = f
			c.Saturated = append(c.Saturated, rebalance.Saturated{Shard: i, Beside: f.Reason == verdict.Home || f.Reason == verdict.Scatter})
		}
	}
	for i := range found {
		f := &found[i]
		at := slices.Index(l.numbers, int(f.In))
		if f.Kind != verdict.Key || f.Verdict != verdict.Hot || f.Database != database || at < 0 || hot[f.On] == nil ||
			!slices.Contains([]verdict.Reason{verdict.SingleKey, verdict.HotRow, verdict.BigTenant}, f.Reason) {
			continue
		}
		r.keys = append(r.keys, f)
		c.Keys = append(c.Keys, rebalance.HotKey{
			Bucket: at, Load: f.Share * l.work.report.Shards[f.On].Load.Cost(), Tenant: f.Reason == verdict.BigTenant && isolates(database, f.Group),
		})
	}
	r.steps = rebalance.Relieve(c)
	return r
}

// rows describes the plan. Names say how keys are called, and which of their values SQL may have.
func (r *remedy) rows(names verdict.Names) [][]string {
	out := [][]string{}
	for i := range r.steps {
		s := &r.steps[i]
		to, levels := "", []string{level(s.Before[s.From]), level(s.After[s.From]), "", ""}
		if s.To >= 0 {
			to = r.l.shards[s.To].Name
			levels[2], levels[3] = level(s.Before[s.To]), level(s.After[s.To])
		}
		row := append([]string{fmt.Sprint(i + 1), string(s.Action), r.object(s, names), r.l.shards[s.From].Name, to}, levels...)
		out = append(out, append(row, r.reason(s), r.sql(s, names)))
	}
	return out
}

// numbers are the buckets of a step as people and weft.move_buckets write them.
func (r *remedy) numbers(s *rebalance.Step) string {
	var list []int
	for _, b := range s.Buckets {
		list = append(list, r.l.numbers[b])
	}
	slices.Sort(list)
	return schema.Ranges(list)
}

// object names what a step is about.
func (r *remedy) object(s *rebalance.Step, names verdict.Names) string {
	switch {
	case s.Key >= 0:
		return r.keys[s.Key].Words(names).Object
	case len(s.Buckets) == 1:
		return "bucket " + r.numbers(s)
	case len(s.Buckets) > 1:
		return "buckets " + r.numbers(s)
	}
	return "shard " + r.l.shards[s.From].Name
}

// reason says why a step is as it is. It names no key.
func (r *remedy) reason(s *rebalance.Step) string {
	from := r.l.shards[s.From].Name
	switch s.Action {
	case rebalance.MoveBuckets:
		return fmt.Sprintf("%s has more work than it can do%s, and %s has room; what goes is %.0f %% of it", from, r.l.work.class(r.l, s.From), r.l.shards[s.To].Name, 100*r.relief(s))
	case rebalance.IsolateKey:
		return fmt.Sprintf("the key has had much of the work of %s for more than an hour, and %s has room for it", from, r.l.shards[s.To].Name)
	case rebalance.Split:
		return "many keys of the bucket have a part of its work, which is more than another shard has room for: with more buckets, some of the keys can leave"
	}
	if s.Key >= 0 {
		return r.why(s)
	}
	return from + " stays saturated: " + hindrances[s.Cause]
}

// hindrances are why no bucket leaves a saturated shard.
var hindrances = map[rebalance.Cause]string{
	rebalance.Full:      "no other shard has much less work for its weight. Add a shard with weft.add_shard, or a larger server",
	rebalance.Beside:    "its work is of statements that no bucket brings along, on tables that are not sharded, over several shards, or in other databases",
	rebalance.Resting:   "most of its work is in buckets that were moved in the last ten minutes",
	rebalance.Pinned:    "most of its work is in buckets that are pinned there",
	rebalance.OneKey:    "most of its work is in buckets that are hot because of one key each, and these would be as hot elsewhere",
	rebalance.Undivided: "its buckets have too little work each for a move that would be felt, or more than others have room for",
}

// why says why a hot key stays where it is.
func (r *remedy) why(s *rebalance.Step) string {
	text := "one key is on one shard, and would be as hot on another"
	switch r.keys[s.Key].Reason {
	case verdict.HotRow:
		text = "transactions wait for each other's locks on the key's rows, and would do so on any shard"
	case verdict.BigTenant:
		text = "no shard has room for the key, or its vindex gives no key a bucket of its own"
	}
	if s.Along {
		return text + ". Its neighbours leave, so that they do not wait because of it"
	}
	return text + ". It has no neighbours whose leaving would be felt"
}

// relief is which part of the work of a saturated shard a step takes away.
func (r *remedy) relief(s *rebalance.Step) float64 {
	return ratio(s.Before[s.From]-s.After[s.From], s.Before[s.From])
}

// sql is the statement that does a step, or shows more of what is left. It is "" if a key's value is needed
// and not known.
func (r *remedy) sql(s *rebalance.Step, names verdict.Names) string {
	switch s.Action {
	case rebalance.MoveBuckets:
		return fmt.Sprintf("SELECT weft.move_buckets('%s', %s)", r.numbers(s), quote.Literal(r.l.shards[s.To].Name))
	case rebalance.Split:
		return fmt.Sprintf("SELECT weft.grow_buckets(%d)", 2*r.buckets)
	case rebalance.IsolateKey:
		f := r.keys[s.Key]
		value, whole := names.Value(f)
		tables := names.Tables(f.Database, f.Group)
		if !whole || len(tables) == 0 {
			return ""
		}
		return fmt.Sprintf("SELECT weft.isolate(%s, %s, %s)", quote.Literal(tables[0]), quote.Literal(value), quote.Literal(r.l.shards[s.To].Name))
	}
	if s.Key >= 0 {
		return fmt.Sprintf("SELECT * FROM weft.hot_keys WHERE database = %s AND bucket = %s", quote.Literal(r.keys[s.Key].Database), r.numbers(s))
	}
	return "SELECT * FROM weft.load"
}

// first is the first step that moves buckets, nil if there is none. weft does no other step by itself.
func (r *remedy) first() *rebalance.Step {
	if i := slices.IndexFunc(r.steps, func(s rebalance.Step) bool { return s.Action == rebalance.MoveBuckets }); i >= 0 {
		return &r.steps[i]
	}
	return nil
}

// target is where buckets of a database are when a step is done.
func (r *remedy) target(snap *directory.Snapshot, database string, s *rebalance.Step) []uint16 {
	target := slices.Clone(snap.PlacementOf(database, ""))
	for _, b := range s.Buckets {
		if n := r.l.numbers[b]; n < len(target) && target[n] == uint16(s.From) {
			target[n] = uint16(s.To)
		}
	}
	return target
}
