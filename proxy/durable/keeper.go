package durable

import (
	"context"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
)

// Config is what a Keeper needs. All fields are required.
type Config struct {
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	Views    func() map[string]*primary.View
	// Ask runs a query on a shard, as the service user.
	Ask func(ctx context.Context, shard, sql string) ([][]string, error)
}

// Keeper knows which shards are as durable as declared. Its methods may be called by several goroutines.
type Keeper struct {
	cfg   Config
	state atomic.Pointer[map[string]Verdict]
	// hasty are the defaults of shards that let commits not wait. Only Run uses it.
	hasty map[string]*defaults
}

// Verdict is what is known of one shard.
type Verdict struct {
	// Lacks is what the shard lacks; empty if it is as durable as declared.
	Lacks string
}

type defaults struct {
	asked time.Time
	hasty []string
}

const (
	// interval is how often the views are looked at: they are as old as a probe anyway.
	interval = 500 * time.Millisecond
	// askEvery is how often a shard is asked for its defaults.
	askEvery = 30 * time.Second
)

// New returns a Keeper that knows nothing before Run.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg, hasty: map[string]*defaults{}} }

// Run looks until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if snap := k.cfg.Snapshot(); snap != nil {
			k.look(ctx, snap, time.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look judges each shard.
func (k *Keeper) look(ctx context.Context, snap *directory.Snapshot, now time.Time) {
	was := k.Verdicts()
	if snap.Durability == primary.Undeclared {
		if was != nil {
			k.state.Store(nil)
		}
		return
	}
	views := k.cfg.Views()
	next := make(map[string]Verdict, len(snap.Shards))
	for i := range snap.Shards {
		name := snap.Shards[i].Name
		old, known := was[name]
		leader := views[name].Leader()
		if leader == nil {
			// While there is no primary nothing is committed, and what was known of the last one tells nothing of the next.
			next[name] = Verdict{Lacks: "no primary is known"}
			if known {
				next[name] = old
			}
			continue
		}
		v := Verdict{Lacks: snap.Durability.Lacks(leader.Seen.SyncNames, k.defaults(ctx, snap.Durability, name, now))}
		next[name] = v
		k.tell(snap.Durability, name, old, known, v)
	}
	if !maps.Equal(was, next) {
		k.state.Store(&next)
	}
}

// tell logs that a shard is, or is not, as durable as declared.
func (k *Keeper) tell(d primary.Durability, shard string, was Verdict, known bool, now Verdict) {
	switch {
	case known && was == now:
	case now.Lacks != "":
		k.cfg.Log.Warn("a shard is not as durable as the cluster declares", "shard", shard, "durability", string(d), "lacks", now.Lacks)
	case known && was.Lacks != "":
		k.cfg.Log.Info("a shard is as durable as the cluster declares", "shard", shard, "durability", string(d))
	}
}

// defaults returns the defaults of a shard that let commits not wait.
func (k *Keeper) defaults(ctx context.Context, d primary.Durability, shard string, now time.Time) []string {
	if d != primary.Synchronous {
		return nil
	}
	known := k.hasty[shard]
	if known == nil {
		known = &defaults{}
		k.hasty[shard] = known
	}
	if now.Sub(known.asked) < askEvery {
		return known.hasty
	}
	hasty, err := k.Hasty(ctx, shard)
	if err != nil {
		return known.hasty // asked again with the next look
	}
	known.asked, known.hasty = now, hasty
	return hasty
}

// Hasty asks a shard for its defaults that let commits not wait.
func (k *Keeper) Hasty(ctx context.Context, shard string) ([]string, error) {
	rows, err := k.cfg.Ask(ctx, shard, primary.HastySQL)
	if err != nil {
		return nil, err
	}
	hasty := primary.ReadHasty(rows)
	if rows, err := k.cfg.Ask(ctx, shard, primary.HastyFileSQL); err == nil { // the service user may have no right to it
		hasty = append(hasty, primary.ReadHasty(rows)...)
	}
	return hasty, nil
}

// Verdicts returns what is known of each shard. It is nil if the cluster declares nothing, or before the first look.
func (k *Keeper) Verdicts() map[string]Verdict {
	if m := k.state.Load(); m != nil {
		return *m
	}
	return nil
}

// Refuse returns the error of a COMMIT over several shards if one of them is not as durable as the cluster declares.
func (k *Keeper) Refuse(snap *directory.Snapshot, shard string) error {
	lacks := "nothing is known of its servers yet"
	if v, ok := k.Verdicts()[shard]; ok {
		lacks = v.Lacks
	}
	if lacks == "" {
		return nil
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is not as durable as the cluster declares", shard).
		WithDetail("The cluster has durability: %s, and on the shard's primary %s.", string(snap.Durability), lacks).
		WithHint("Give the shard a synchronous standby, or set durability_enforced: false in cluster.yaml. Transactions of one shard are not refused.")
}
