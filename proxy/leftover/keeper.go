package leftover

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weft/directory"
	"weft/twopc"
)

// Intervals of the work on what was left over.
const (
	resolveInterval = time.Second
	sweepInterval   = 3 * time.Second
	forgetInterval  = 250 * time.Millisecond
)

// settleTimeout bounds one attempt to settle something that was left over.
const settleTimeout = 15 * time.Second

// Directory is the part of the directory's store that a Keeper uses.
type Directory interface {
	Load(ctx context.Context) (*directory.Snapshot, error)
	Proxies(ctx context.Context) ([]directory.Proxy, error)
}

// Config is what a Keeper needs. All fields must be set, except where it says otherwise.
type Config struct {
	Proxy     string // the ID of this proxy; a proxy without one resolves nothing
	Log       *slog.Logger
	Directory Directory // nil for a proxy that is alone
	Snapshot  func() *directory.Snapshot
	// Dial opens a connection to a database of a shard, as the service user.
	Dial func(ctx context.Context, shard, database string) (twopc.Conn, error)
	// StopAt is called at the points of recovery. It may be nil.
	StopAt func(twopc.Point)
	// Guarded wraps what runs on a goroutine of its own.
	Guarded func(work string, f func()) func()
	// Away reports whether a shard is known to have no primary. It may be nil.
	Away func(shard string) bool
	// Kept reports whether no failover of a shard takes back what a server has answered, but not what began it. It may be nil.
	Kept func(shard, server string, began, answered time.Time) bool
	// Held reports whether the decision with a key is still needed to find out what a failover has lost. It may be nil.
	Held func(key string) bool
	// Harmed is told of a transaction of a database of which a failover has lost a part. It may be nil.
	Harmed func(database string, f twopc.Fate)
	// Hung reports whether another proxy stands still although its lease has not run out.
	Hung func(proxy string) bool
	// Publish tells all proxies how a pending change has ended. late says that a shard has yet to
	// follow.
	Publish func(ctx context.Context, p directory.Pending, outcome twopc.Outcome, late bool) error

	// What follows is called by Run at its intervals: Follow each time, with the snapshot of the
	// time before, which may be nil; CloseIdle each second; Guard, with the databases of a shard
	// that have declared tables, and Refresh every three seconds for each shard.
	Follow    func(before, snap *directory.Snapshot)
	CloseIdle func(now time.Time)
	Guard     func(ctx context.Context, shard string, databases []string)
	Refresh   func(ctx context.Context, snap *directory.Snapshot, shard string)
}

// Keeper ends what was left over.
type Keeper struct {
	cfg     Config
	hands   hands
	forgets forgets
	parts   forgets // decisions that are deleted, and whose parts are not
	doubts  doubts
	losses  twopc.Losses
	// metPrepared and metDecided say since when prepared transactions and decisions are known.
	metPrepared, metDecided acquaintances
	// unable are the shards known not to prepare transactions, checked the shards that have
	// been asked, both by name.
	unable  sync.Map
	checked sync.Map
}

// New returns a Keeper with nothing in hand.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg} }

// Resolver returns a resolver for the cluster.
func (k *Keeper) Resolver() *twopc.Resolver {
	return &twopc.Resolver{Cluster: k.cfg.Snapshot().Cluster, Dial: k.cfg.Dial, Log: k.cfg.Log, StopAt: k.cfg.StopAt, Kept: k.cfg.Kept, Left: k.left, Harmed: k.cfg.Harmed, Losses: &k.losses}
}

func (k *Keeper) stopAt(p twopc.Point) {
	if k.cfg.StopAt != nil {
		k.cfg.StopAt(p)
	}
}

// Run ends the transactions that were left over, on each shard separately: a shard that does not
// answer does not hold up the others. It returns when ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	var busy sync.Map
	once := func(name string, do func(context.Context)) {
		if _, at := busy.LoadOrStore(name, true); at {
			return
		}
		wg.Go(k.cfg.Guarded("resolver", func() {
			defer busy.Delete(name)
			ctx, cancel := context.WithTimeout(ctx, settleTimeout)
			defer cancel()
			do(ctx)
		}))
	}
	tick := time.NewTicker(forgetInterval)
	defer tick.Stop()
	var resolved, swept time.Time
	round := 0
	var last *directory.Snapshot
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		snap := k.cfg.Snapshot()
		if snap == nil || k.cfg.Proxy == "" {
			continue
		}
		k.cfg.Follow(last, snap)
		last = snap
		once("forget", func(ctx context.Context) { k.forgetAll(ctx); k.forgetParts(ctx) })
		now := time.Now()
		if now.Sub(resolved) >= resolveInterval {
			resolved = now
			k.cfg.CloseIdle(now)
			for i := range snap.Shards {
				shard := snap.Shards[i].Name
				once("resolve "+shard, func(ctx context.Context) { k.resolveOn(ctx, snap, shard) })
			}
		}
		if now.Sub(swept) >= sweepInterval {
			swept = now
			round++
			this := round // a sweep may outlast its interval
			for i := range snap.Shards {
				shard := snap.Shards[i].Name
				once("sweep "+shard, func(ctx context.Context) { k.sweep(ctx, snap, shard, this) })
				once("refresh "+shard, func(ctx context.Context) { k.cfg.Refresh(ctx, snap, shard) })
			}
		}
	}
}
