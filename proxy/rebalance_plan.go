package proxy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/pgerr"
	"weft/rebalance"
	"weft/schema"
)

// layout is what a plan is made of: the buckets of a database and the shards. Buckets that are not
// used are not in it, so a plan counts buckets by their place in numbers.
type layout struct {
	costs     []rebalance.Cost
	shards    []rebalance.Shard
	now, pins []int
	numbers   []int
	sizes     *schema.BucketSizes
	work      *workload // nil if a plan is not about work
}

// newLayout lays out the buckets of a database.
func newLayout(snap *directory.Snapshot, database string, sizes *schema.BucketSizes, work *workload) *layout {
	l := &layout{shards: make([]rebalance.Shard, len(snap.Shards)), sizes: sizes, work: work}
	for i := range snap.Shards {
		sh := &snap.Shards[i]
		l.shards[i] = rebalance.Shard{Name: sh.Name, Weight: sh.Weight, Closed: sh.State != directory.ShardActive}
		if sh.State == directory.ShardDraining {
			l.shards[i].Weight = 0
		}
	}
	for b, at := range snap.PlacementOf(database, "") {
		if at == directory.Unused {
			continue
		}
		pin := rebalance.Unpinned
		if b >= snap.BucketCount && l.shards[at].Weight > 0 {
			pin = int(at) // a value was pinned there
		}
		for _, p := range snap.Pins {
			if i := slices.IndexFunc(snap.Shards, func(s directory.Shard) bool { return s.Name == p.Shard }); b >= p.First && b <= p.Last && i >= 0 {
				pin = i
			}
		}
		c := rebalance.Cost{}
		if b < len(sizes.Bytes) {
			c.Bytes = sizes.Bytes[b]
		}
		l.costs, l.now, l.pins, l.numbers = append(l.costs, c), append(l.now, int(at)), append(l.pins, pin), append(l.numbers, b)
	}
	if work != nil {
		work.weigh(snap, database, l)
	}
	return l
}

// plan returns the moves.
func (l *layout) plan(o rebalance.Options) []rebalance.Move {
	return rebalance.Plan(l.costs, l.shards, l.now, l.pins, o)
}

// after returns where buckets are when a plan is carried out.
func (l *layout) after(moves []rebalance.Move) []int {
	at := slices.Clone(l.now)
	for _, m := range moves {
		at[m.Bucket] = m.To
	}
	return at
}

// passage is what a plan takes from one shard to another.
type passage struct {
	from, to, buckets int
	rows, bytes, busy float64
	pinned            bool // all of it
}

// passages sums a plan up.
func (l *layout) passages(moves []rebalance.Move) []*passage {
	var out []*passage
	for _, m := range moves {
		i := slices.IndexFunc(out, func(p *passage) bool { return p.from == m.From && p.to == m.To })
		if i < 0 {
			i, out = len(out), append(out, &passage{from: m.From, to: m.To, pinned: true})
		}
		p, number := out[i], l.numbers[m.Bucket]
		p.buckets++
		p.bytes += m.Bytes
		p.pinned = p.pinned && l.pins[m.Bucket] == m.To
		if number < len(l.sizes.Rows) {
			p.rows += l.sizes.Rows[number]
		}
		if l.work != nil {
			p.busy += l.work.buckets[int32(number)].Busy()
		}
	}
	slices.SortFunc(out, func(a, b *passage) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return out
}

// rows describes a plan, a row for each pair of shards.
func (l *layout) rows(moves []rebalance.Move, o rebalance.Options) [][]string {
	before, after := rebalance.Levels(l.costs, l.shards, l.now, o), rebalance.Levels(l.costs, l.shards, l.after(moves), o)
	out := [][]string{}
	for _, p := range l.passages(moves) {
		takes := time.Duration(p.bytes / assumedPace * float64(time.Second)).Round(time.Second)
		out = append(out, []string{
			l.shards[p.from].Name, l.shards[p.to].Name, strconv.Itoa(p.buckets), fmt.Sprintf("%.0f", math.Round(p.rows)), fmt.Sprintf("%.0f", math.Round(p.bytes)),
			max(time.Second, takes).String(), level(before[p.from]), level(after[p.from]), level(before[p.to]), level(after[p.to]), l.reason(p, before, o),
		})
	}
	return out
}

// level spells a multiple of a share.
func level(x float64) string {
	if math.IsInf(x, 0) {
		return "-" // a shard without a share
	}
	return fmt.Sprintf("%.2f", x)
}

// reason says why buckets go.
func (l *layout) reason(p *passage, before []float64, o rebalance.Options) string {
	switch {
	case p.pinned:
		return "the buckets are pinned to " + l.shards[p.to].Name
	case l.shards[p.from].Weight == 0:
		return l.shards[p.from].Name + " is to be empty"
	}
	off := p.from
	if 1-before[p.to] > before[p.from]-1+0.01 { // of two that are equally far off, the busy one
		off = p.to
	}
	text := fmt.Sprintf("%s has %.2f times its share of the %s", l.shards[off].Name, before[off], what(o.Strategy))
	if l.work == nil {
		return text
	}
	return text + l.work.class(l, p.from) + fmt.Sprintf("; what goes keeps backends busy for %.1f ms per second", p.busy/1e6)
}

// what names what a strategy makes equal.
func what(s rebalance.Strategy) string {
	switch s {
	case rebalance.Load:
		return "work"
	case rebalance.Mixed:
		return "work and bytes"
	case rebalance.Buckets:
		return "buckets"
	}
	return "bytes"
}

// left tells why shards keep more than their share of the work.
func (l *layout) left(moves []rebalance.Move, o rebalance.Options) []*pgerr.Error {
	if l.work == nil {
		return nil
	}
	var out []*pgerr.Error
	for _, x := range rebalance.Rest(l.costs, l.shards, l.after(moves), l.pins, o) {
		e := &pgerr.Error{
			Severity: pgerr.SeverityNotice, Code: "00000",
			Message: fmt.Sprintf("%s stays at %.2f times its share of the %s", l.shards[x.Shard].Name, x.Level, what(o.Strategy)),
		}
		bucket := 0
		if x.Bucket >= 0 {
			bucket = l.numbers[x.Bucket]
		}
		switch percent := 100 * x.Part; x.Cause {
		case rebalance.OneKey:
			e.Detail = fmt.Sprintf("%.0f %% of that are buckets that are hot because of one key each, such as bucket %d. Elsewhere the key would be as hot.", percent, bucket)
			e.Hint = fmt.Sprintf("SELECT key, tables FROM weft.hot_keys WHERE bucket = %d names it. weft.isolate(table, key, shard) gives it a shard that others do not need.", bucket)
		case rebalance.Beside:
			e.Detail = fmt.Sprintf("%.0f %% of that is work that no bucket of this database brings: of tables that are not sharded, and of other databases.", percent)
			e.Hint = "SELECT * FROM weft.hot_statements shows it by statement and shard."
		case rebalance.Resting:
			e.Detail = fmt.Sprintf("%.0f %% of that are buckets that a rebalance has moved in the last %d minutes.", percent, int(rest.Minutes()))
			e.Hint = "Call it again later, or take buckets elsewhere with weft.move_buckets."
		case rebalance.Pinned:
			e.Detail = fmt.Sprintf("%.0f %% of that are buckets that are pinned there, such as bucket %d.", percent, bucket)
		default:
			e.Detail = fmt.Sprintf("%.0f %% of that are buckets which are too much for the room that other shards have, or more than the plan may move; the heaviest is bucket %d.", percent, bucket)
			e.Hint = "weft.grow_buckets makes smaller buckets."
		}
		out = append(out, e)
	}
	return out
}

// rest is for how long a bucket stays where a rebalance has taken it, whatever its work is.
const rest = 10 * time.Minute

// workload is the work that a database has now, over all proxies.
type workload struct {
	report  heat.Report
	buckets map[int32]heat.Load
	samples float64      // from how many equal samples that would be known as well
	rests   map[int]bool // buckets that a rebalance has moved of late
}

// newWorkload reads a report, and the jobs that the database remembers.
func newWorkload(r heat.Report, snap *directory.Snapshot, database string, jobs []schema.MoveRecord, now time.Time) *workload {
	w := &workload{report: r, buckets: r.Databases[database].Buckets, samples: r.Databases[database].Effective()}
	w.rests = restingBuckets(snap, database, jobs, now, func(kind directory.MoveKind) bool { return kind == directory.MoveRebalance })
	return w
}

// restingBuckets are the buckets that jobs of some kinds have moved of late, or move now.
func restingBuckets(snap *directory.Snapshot, database string, jobs []schema.MoveRecord, now time.Time, kinds func(directory.MoveKind) bool) map[int]bool {
	out := map[int]bool{}
	count := 0 // as MoveRecord.Count has it
	if snap.FirstBuckets > 0 {
		count = snap.BucketCount
	}
	for _, j := range jobs {
		if !kinds(directory.MoveKind(j.Kind)) || j.Count != count || snap.FindMove(j.ID) == nil && now.Sub(j.Ended) > rest {
			continue
		}
		for _, text := range j.Origin {
			list, err := schema.ReadBuckets(text, len(snap.PlacementOf(database, "")))
			if err != nil {
				continue // of buckets that there are not any more
			}
			for _, b := range list {
				out[b] = true
			}
		}
	}
	return out
}

// known fails if too little is known for a plan.
func (w *workload) known(shards int, s rebalance.Strategy) error {
	need := rebalance.Needed(shards)
	if w.samples >= need {
		return nil
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "too little is known of the work in this database for strategy %q", s).
		WithDetail("What is known from the statements of the last seconds that use sharded tables by their keys is as much as from %.0f equal ones, and %.0f are needed.", math.Floor(w.samples), need).
		WithHint("Call it while applications work, and see that heat.samples is not 0. SELECT * FROM weft.heat shows what is known. Strategies 'bytes' and 'buckets' need no work.")
}

// weigh adds the work to a layout.
func (w *workload) weigh(snap *directory.Snapshot, database string, l *layout) {
	top := topKeys(&w.report)
	for i, number := range l.numbers {
		c := &l.costs[i]
		c.Load, c.Rests = w.buckets[int32(number)].Cost(), w.rests[number]
		c.Key = min(1, ratio(top[bucketOf{database, int32(number)}], c.Load))
	}
	for i := range l.shards {
		l.shards[i].Load = w.report.Shards[l.shards[i].Name].Loose.Cost()
	}
	for other, d := range w.report.Databases {
		if other == database {
			continue
		}
		placed := snap.PlacementOf(other, "")
		for b, load := range d.Buckets {
			if int(b) < len(placed) && int(placed[b]) < len(l.shards) {
				l.shards[placed[b]].Load += load.Cost()
			}
		}
	}
}

// class says whether the buckets of a shard are mostly read, or mostly written.
func (w *workload) class(l *layout, shard int) string {
	sum := heat.Load{}
	for i, at := range l.now {
		if at == shard {
			sum = sum.Plus(w.buckets[int32(l.numbers[i])])
		}
	}
	switch all := sum.Cost(); {
	case all <= 0:
		return ""
	case sum.Write.Cost() >= mostly*all:
		return ", mostly of writes"
	case sum.Read.Cost() >= mostly*all:
		return ", mostly of reads"
	}
	return ""
}

// mostly is the part of work from which on it is called that of reads, or of writes.
const mostly = 0.8
