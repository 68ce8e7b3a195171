package proxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/heat/trend"
	"weft/heat/verdict"
	"weft/pgerr"
	"weft/proxy/judge"
	"weft/rebalance"
	"weft/reshard"
	"weft/schema"
)

// outlook is what the proxy that judges finds out more slowly than what is hot: what would relieve saturated
// shards, and what has become unusual. The goroutine of run alone uses it.
type outlook struct {
	s     *Server
	sizes map[string]knownSizes // of buckets, by database
	moved time.Time             // when this proxy began a job by itself
	last  time.Time             // when it looked last
}

type knownSizes struct {
	sizes *schema.BucketSizes
	asked time.Time
}

const (
	// lookEvery is how often the proxy that judges looks, unless the configuration says otherwise.
	lookEvery = 15 * time.Second
	// movePause is how many looks pass at least between two jobs that weft begins by itself.
	movePause = 4
	// saturatedFor is for how many seconds a shard must have been saturated for a plan to be made.
	saturatedFor = 10.0
	// askSizes is how often shards are asked what buckets hold. A plan needs to know about how much it carries.
	askSizes = 10 * time.Minute
	// planUser stands for the user of jobs that weft begins by itself.
	planUser = "weft (heat.plan)"
)

// run looks until ctx ends.
func (o *outlook) run(ctx context.Context) {
	o.sizes = map[string]knownSizes{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(o.every()):
		}
		if o.s.keeper.verdicts.judge.Judges() {
			o.look(ctx)
		} else {
			o.last = time.Time{}
		}
	}
}

// every is how often to look.
func (o *outlook) every() time.Duration {
	if d := o.s.conf().Heat.LookEvery; d > 0 {
		return d
	}
	return lookEvery
}

// look looks at all proxies' work once, and notes what follows from it.
func (o *outlook) look(ctx context.Context) {
	now := time.Now()
	elapsed := now.Sub(o.last).Seconds()
	if o.last.IsZero() {
		elapsed = o.every().Seconds()
	}
	o.last = now
	state := o.s.keeper.verdicts.judge.State()
	r, silent := o.s.heatOfAll(ctx, heat.BucketPart|heat.KeyPart, false)
	v := heatView{report: r, snap: o.s.cfg.Snapshot()}
	notes := remember(state.Notes, v.snap, state.Words, elapsed)
	for _, s := range v.skews() {
		if s.Class == allClass {
			now := heat.Skew{Evenness: s.Evenness, Effective: s.Effective, Top: s.TopShare, First: int(s.TopBucket)}
			notes.Skews[s.Database] = state.Notes.Skews[s.Database].Next(now, int(s.Buckets), r.Databases[s.Database].Effective(), elapsed)
		}
	}
	notes.Advice = o.advise(ctx, r, &state, len(silent) == 0)
	o.s.keeper.verdicts.judge.Note(notes)
}

// remember returns the notes with what shards say now. Shards that say nothing and databases without work keep their past,
// as long as they exist.
func remember(before judge.Notes, snap *directory.Snapshot, words map[string]verdict.Word, elapsed float64) judge.Notes {
	out := judge.Notes{Skews: map[string]trend.Skew{}, Loads: map[string]trend.Load{}}
	for _, database := range snap.Databases() {
		if k, known := before.Skews[database]; known {
			out.Skews[database] = k.Next(heat.Skew{}, 0, 0, elapsed)
		}
	}
	for i := range snap.Shards {
		shard := snap.Shards[i].Name
		l, known := before.Loads[shard]
		if word := words[shard]; word.Known && word.Cores > 0 {
			out.Loads[shard] = l.Next(word.CPU, elapsed)
		} else if known {
			out.Loads[shard] = l
		}
	}
	return out
}

// advise plans how to relieve the shards that have been saturated for a while, and begins a job if the configuration
// says so and all proxies have said what their clients do.
func (o *outlook) advise(ctx context.Context, r heat.Report, state *judge.State, complete bool) (out []judge.Advice) {
	mode := o.s.conf().Heat.Plan
	found := lastingFindings(state.Findings)
	hot := saturatedShards(found)
	if mode == NoPlan || len(hot) == 0 || o.s.cfg.Directory == nil {
		return nil
	}
	snap := o.s.cfg.Snapshot()
	for _, database := range slices.Sorted(maps.Keys(r.Databases)) {
		concerned := false
		for b := range r.Databases[database].Buckets {
			concerned = concerned || hot[shardOf(snap, database, b)] != nil
		}
		if !concerned {
			continue
		}
		plan, err := o.s.remedy(ctx, database, r, found, o.sizesOf(ctx, database))
		if err != nil {
			o.s.log.Debug("there is no plan for saturated shards", "database", database, "err", err)
			continue
		}
		names := o.s.verdictNames(false)
		for i := range plan.steps {
			if s := &plan.steps[i]; s.Action == rebalance.MoveBuckets || s.Action == rebalance.Split {
				out = append(out, judge.Advice{Database: database, Shard: plan.l.shards[s.From].Name, Why: plan.reason(s), SQL: plan.sql(s, names)})
			}
		}
		if mode == AutoPlan && complete {
			o.act(ctx, database, plan)
		}
	}
	return out
}

// lastingFindings are the findings without those of shards that are saturated for a moment.
func lastingFindings(found []verdict.Finding) []verdict.Finding {
	lasting := map[string]bool{}
	for i := range found {
		if f := &found[i]; f.Kind == verdict.Shard && f.Verdict == verdict.Saturated && f.Age >= saturatedFor {
			lasting[f.Shard] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(found), func(f verdict.Finding) bool { return f.Kind == verdict.Shard && !lasting[f.Shard] })
}

// sizesOf is what the buckets of a database hold, as far as it is known: without it they count as equal.
func (o *outlook) sizesOf(ctx context.Context, database string) *schema.BucketSizes {
	known := o.sizes[database]
	if known.sizes != nil && time.Since(known.asked) < askSizes {
		return known.sizes
	}
	sizes, err := o.s.mover.SampleBuckets(ctx, database)
	if err != nil {
		o.s.log.Debug("what buckets hold is not known", "database", database, "err", err)
		sizes = &schema.BucketSizes{}
	}
	o.sizes[database] = knownSizes{sizes, time.Now()}
	return sizes
}

// errPlanned says that a job which weft has begun by itself still runs, or has done what is planned.
var errPlanned = errors.New("another job of weft's own runs, or has done it")

// act begins the job of a plan, as weft.rebalance does: one at a time, and at most one in movePause looks. Jobs that another
// proxy has begun count, as far as the database remembers them.
func (o *outlook) act(ctx context.Context, database string, plan *remedy) {
	pause := movePause * o.every()
	step := plan.first()
	if step == nil || time.Since(o.moved) < pause || time.Since(plan.begun) < pause {
		return
	}
	move := directory.Move{
		ID: reshard.NewJobID(), Database: database, Kind: directory.MoveRebalance, User: planUser, Why: plan.reason(step), Proxy: o.s.cfg.Proxy, State: directory.MovePreparing,
	}
	err := o.s.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if slices.ContainsFunc(old.Moves, func(m directory.Move) bool { return m.User == planUser }) {
			return nil, errPlanned
		}
		target := plan.target(old, database, step)
		if slices.Equal(target, old.PlacementOf(database, "")) {
			return nil, errPlanned
		}
		return withMove(old, move, target)
	})
	var refused *pgerr.Error
	switch {
	case err == nil:
		o.moved = time.Now()
		o.s.log.Info("a move of rows begins, because a shard is saturated", "job", move.ID, "database", database, "why", move.Why)
	case errors.Is(err, errPlanned) || errors.As(err, &refused):
		o.s.log.Debug("a saturated shard is not relieved now", "database", database, "err", err)
	default:
		o.s.log.Warn("a saturated shard cannot be relieved", "database", database, "err", err)
	}
}
