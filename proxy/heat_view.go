package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"weft/console"
	"weft/directory"
	"weft/heat"
	"weft/heat/limit"
	"weft/heat/trend"
	"weft/heat/verdict"
	"weft/parser"
	"weft/proxy/judge"
	"weft/proxy/peer"
)

// Heat implements console.Source.
func (a adminSource) Heat(ctx context.Context, what console.Aspect, values bool) console.Heat {
	r, silent := a.srv.heatOfAll(ctx, partsOf[what], values && !a.srv.conf().Heat.Hashed)
	if a.silent != nil && len(silent) > 0 {
		a.silent(silent, "what its clients do is not counted")
	}
	return a.srv.heatOf(r, what)
}

// partsOf are the parts of a report that an aspect is made of.
var partsOf = [...]heat.Parts{
	console.HeatKeys: heat.KeyPart | heat.MomentPart, console.HeatStatements: heat.StatementPart, console.HeatBuckets: heat.BucketPart | heat.KeyPart,
	console.HeatShards: 0, console.HeatSkews: heat.BucketPart | heat.KeyPart,
}

// heatOf makes an aspect of a report.
func (s *Server) heatOf(r heat.Report, what console.Aspect) (out console.Heat) {
	state := s.keeper.verdicts.judge.State()
	v := heatView{report: r, snap: s.cfg.Snapshot(), now: time.Now(), found: newFound(state.Findings), words: state.Words, notes: state.Notes, limits: s.knownLimits()}
	if s.conf().Heat.Hashed {
		v.name = s.counts.heat.nameOf
	}
	switch what {
	case console.HeatKeys:
		out.Keys = v.keys()
	case console.HeatStatements:
		out.Statements = v.statements()
	case console.HeatBuckets:
		out.Buckets = v.buckets()
	case console.HeatShards:
		out.Shards = v.shards()
	case console.HeatSkews:
		out.Skews = v.skews()
	}
	return out
}

// heatOfAll is what all proxies know together of what is hot, with the values of keys or without.
// silent says why a proxy gave no answer.
func (s *Server) heatOfAll(ctx context.Context, parts heat.Parts, values bool) (r heat.Report, silent []error) {
	r = s.counts.heat.report(parts, values)
	answers, silent := s.circle.Ask(ctx, peer.Question{Heat: true, Parts: &parts, All: values})
	for _, b := range answers {
		var other heat.Report
		if json.Unmarshal(b, &other) != nil {
			silent = append(silent, errors.New("another proxy did not say what is hot: it is of another version"))
			continue
		}
		r = heat.Merge(r, other)
	}
	for _, err := range silent {
		s.log.Debug("another proxy did not say what is hot", "err", err)
	}
	return r, silent
}

// heatView turns a report into what views show.
type heatView struct {
	report heat.Report
	snap   *directory.Snapshot
	now    time.Time
	name   func(heat.Name) string // names keys whose values are not shown; nil: values are
	found  found
	words  map[string]verdict.Word // of shards
	notes  judge.Notes
	limits limit.Limits
}

func work(l heat.Load) console.Work {
	r, w := l.Read, l.Write
	return console.Work{
		Reads: r.Calls, Writes: w.Calls, Failed: r.Failed + w.Failed, Rows: r.Rows + w.Rows, Bytes: r.Bytes + w.Bytes, Busy: (r.Busy + w.Busy) / 1e6,
	}
}

// ratio is a share of a whole, 0 of nothing.
func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// milliseconds is a quantile of times that are in nanoseconds.
func milliseconds(h *heat.Histogram, q float64) float64 { return h.Quantile(q) / 1e6 }

// shardOf names the shard that a bucket of a database is on, "" if there is no such bucket.
func (v *heatView) shardOf(database string, bucket int32) string {
	return shardOf(v.snap, database, bucket)
}

func shardOf(snap *directory.Snapshot, database string, bucket int32) string {
	placed := snap.PlacementOf(database, "")
	if bucket < 0 || int(bucket) >= len(placed) || int(placed[bucket]) >= len(snap.Shards) {
		return ""
	}
	return snap.Shards[placed[bucket]].Name
}

// group is tables of a database whose equal keys are on one shard.
type group struct {
	database string
	number   uint32
}

// groups lists the declared tables by their group.
func (v *heatView) groups() map[group][]string {
	out := map[group][]string{}
	for i := range v.snap.Tables {
		t := &v.snap.Tables[i]
		g := group{t.Database, t.Colocation()}
		out[g] = append(out[g], t.Schema+"."+t.Name)
	}
	return out
}

func (v *heatView) keys() []console.HotKey {
	var out []console.HotKey
	tables, warming := v.groups(), verdict.Warming(&v.report.Moment, v.shardOf)
	for i := range v.report.Keys.Entries {
		e := &v.report.Keys.Entries[i]
		k := console.HotKey{
			Work: work(e.Load), Database: e.Name.Database, Tables: append([]string{}, tables[group{e.Name.Database, e.Name.Group}]...), Key: e.Value, Bucket: int64(e.Bucket), Shard: v.shardOf(e.Name.Database, e.Bucket),
			Median: milliseconds(&e.Times, 0.5), NinetyNinth: milliseconds(&e.Times, 0.99), Since: v.before(e.Age),
			Finding: v.found.of(verdict.Object{Kind: verdict.Key, Database: e.Name.Database, Group: e.Name.Group, ID: e.Name.ID}),
		}
		if k.Verdict == "" && warming[e.Name] {
			k.Verdict = string(verdict.Warm)
		}
		if v.name != nil {
			k.Key = v.name(e.Name)
		}
		cost := e.Count - e.Error/2
		all := v.report.Databases[e.Name.Database].Load.Cost()
		k.Share, k.Error = ratio(cost, all), ratio(e.Error/2, all)
		k.OfShard = ratio(cost, v.report.Shards[k.Shard].Load.Cost())
		out = append(out, k)
	}
	return out
}

func (v *heatView) statements() []console.HotStatement {
	var out []console.HotStatement
	for i := range v.report.Statements.Entries {
		e := &v.report.Statements.Entries[i]
		text := parser.Statement(e.Name.Text)
		out = append(out, console.HotStatement{
			Work: work(e.Load), ID: statementID(text), Database: e.Name.Database, User: e.Name.User, Text: text, Shard: e.Name.Shard,
			OfShard: ratio(e.Count-e.Error/2, v.report.Shards[e.Name.Shard].Load.Cost()), Median: milliseconds(&e.Times, 0.5), NinetyNinth: milliseconds(&e.Times, 0.99),
			Since: v.before(e.Age),
		})
	}
	return out
}

// before is so many seconds ago.
func (v *heatView) before(seconds float64) time.Time {
	return v.now.Add(-time.Duration(seconds * float64(time.Second)))
}

// bucketOf names a bucket of a database.
type bucketOf struct {
	database string
	bucket   int32
}

// topKeys returns the work of the heaviest key of each bucket, as far as keys are known.
func topKeys(r *heat.Report) map[bucketOf]float64 {
	top := map[bucketOf]float64{}
	for i := range r.Keys.Entries {
		e := &r.Keys.Entries[i]
		where := bucketOf{e.Name.Database, e.Bucket}
		top[where] = max(top[where], e.Load.Cost())
	}
	return top
}

func (v *heatView) buckets() []console.HotBucket {
	top := topKeys(&v.report)
	var out []console.HotBucket
	for _, database := range slices.Sorted(maps.Keys(v.report.Databases)) {
		d := v.report.Databases[database]
		all := 0.0
		for _, l := range d.Buckets {
			all += l.Cost()
		}
		first := len(out)
		for n, l := range d.Buckets {
			share := ratio(l.Cost(), all)
			out = append(out, console.HotBucket{
				Work: work(l), Database: database, Number: int64(n), Shard: v.shardOf(database, n), Share: share,
				OverMean: share * float64(v.snap.BucketCount), TopKey: min(1, ratio(top[bucketOf{database, n}], l.Cost())),
				Finding: v.found.of(verdict.Object{Kind: verdict.Bucket, Database: database, Bucket: n}),
			})
		}
		slices.SortFunc(out[first:], func(a, b console.HotBucket) int {
			return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Number, b.Number))
		})
	}
	return out
}

func (v *heatView) shards() []console.ShardLoad {
	all, weights := 0.0, 0.0
	for i := range v.snap.Shards {
		all += v.report.Shards[v.snap.Shards[i].Name].Load.Cost()
		weights += float64(v.snap.Shards[i].Weight)
	}
	var out []console.ShardLoad
	for i := range v.snap.Shards {
		name := v.snap.Shards[i].Name
		s := v.report.Shards[name]
		share := ratio(s.Load.Cost(), all)
		var active *console.Active
		if w := v.words[name]; w.Known {
			active = &console.Active{CPU: w.CPU, Lock: w.Lock, IO: w.IO, WAL: w.WAL, Machine: w.Machine}
		}
		utilisation, full := v.forecast(name)
		slowdown, allows := v.limit(name)
		out = append(out, console.ShardLoad{
			Active: active, Utilisation: utilisation, FullAt: full, Slowdown: slowdown, Allows: allows, Finding: v.found.of(verdict.Object{Kind: verdict.Shard, Shard: name}),
			Work: work(s.Load), Shard: name, Share: share, OverMean: ratio(share*weights, float64(v.snap.Shards[i].Weight)),
			Median: milliseconds(&s.Times, 0.5), NinetyNinth: milliseconds(&s.Times, 0.99),
			WaitMedian: milliseconds(&s.Waits, 0.5), WaitNinetyNinth: milliseconds(&s.Waits, 0.99),
		})
	}
	return out
}

// forecast returns which part of a shard's cores is in use, nil if that is not known, and when all will be, zero if that
// cannot be told.
func (v *heatView) forecast(shard string) (utilisation *float64, full time.Time) {
	w := v.words[shard]
	if !w.Known || w.Cores <= 0 {
		return nil, full
	}
	if in, known := v.notes.Loads[shard].Full(w.Cores); known {
		full = v.now.Add(seconds(in)).Truncate(time.Minute)
	}
	x := w.CPU / w.Cores
	return &x, full
}

// allClass is the class of all work.
const allClass = "all"

// classes are the classes of work, and what of a load belongs to each.
var classes = []struct {
	name string
	of   func(heat.Load) heat.Load
}{
	{"read", func(l heat.Load) heat.Load { return heat.Load{Read: l.Read} }},
	{"write", func(l heat.Load) heat.Load { return heat.Load{Write: l.Write} }},
	{allClass, func(l heat.Load) heat.Load { return l }},
}

func (v *heatView) skews() []console.Skew {
	over := 0.0
	for _, s := range v.shards() {
		over = max(over, s.OverMean)
	}
	var out []console.Skew
	for _, database := range slices.Sorted(maps.Keys(v.report.Databases)) {
		d := v.report.Databases[database]
		total := 0.0
		for _, l := range d.Buckets {
			total += l.Calls()
		}
		if total == 0 {
			continue // no sharded table is used
		}
		for _, c := range classes {
			amounts := make([]float64, v.snap.BucketCount)
			all, calls := 0.0, 0.0
			for n, l := range d.Buckets {
				for int(n) >= len(amounts) {
					amounts = append(amounts, 0) // buckets of isolated values come last
				}
				amounts[n] = c.of(l).Cost()
				all += amounts[n]
				calls += c.of(l).Calls()
			}
			s := heat.NewSkew(amounts, d.Samples*calls/total)
			key := 0.0
			for i := range v.report.Keys.Entries {
				if e := &v.report.Keys.Entries[i]; e.Name.Database == database {
					key = max(key, c.of(e.Load).Cost())
				}
			}
			var past trend.Skew
			if c.name == allClass {
				past = v.notes.Skews[database]
			}
			out = append(out, console.Skew{
				Usual: past.Usual, Warned: past.Warned,
				Database: database, Class: c.name, Evenness: s.Evenness, Effective: s.Effective, Buckets: int64(len(amounts)), Gini: s.Gini, TopBucket: int64(s.First),
				TopShare: s.Top, TopKey: min(1, ratio(key, all)), ShardsOverMean: over,
				CrossShard: d.Share(heat.Scatter, heat.Several, heat.TwoPhase), Scatter: d.Share(heat.Scatter), TwoPhase: d.TwoPhase(),
			})
		}
	}
	return out
}
