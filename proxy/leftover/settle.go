package leftover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/twopc"
)

// settlePause is between two attempts to end a transaction whose deciding shard does not answer.
const settlePause = 50 * time.Millisecond

// Settle ends the transactions in doubt that the new primary of a shard is concerned with, before sessions use it: those prepared there, and those
// prepared elsewhere that the shard has decided. Transactions that are still being decided, or whose deciding shard does not answer before ctx ends, are
// left to the resolver.
func (k *Keeper) Settle(ctx context.Context, shard string) {
	snap := k.cfg.Snapshot()
	in := snap.Databases()
	if len(in) == 0 || k.cfg.Proxy == "" {
		return
	}
	began, settled := time.Now(), 0
	var left []twopc.InDoubt
	var err error
	for {
		if left, err = k.concerned(ctx, snap, shard); len(left) > 0 {
			n := len(left)
			left, err = k.Resolver().EndKnown(ctx, left)
			settled += n - len(left)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(settlePause):
		}
	}
	if settled > 0 || len(left) > 0 || err != nil {
		k.cfg.Log.Info("settled a shard that has a primary again", "shard", shard, "ended", settled, "left", len(left), "took", time.Since(began).Round(time.Millisecond).String(), "err", err)
	}
}

// concerned lists the prepared transactions that a shard has decided or has to follow. Other shards that do not answer are left out.
func (k *Keeper) concerned(ctx context.Context, snap *directory.Snapshot, shard string) ([]twopc.InDoubt, error) {
	lists := make([][]twopc.InDoubt, len(snap.Shards))
	var failed error
	var wg sync.WaitGroup
	for i := range snap.Shards {
		name := snap.Shards[i].Name
		if name != shard && k.cfg.Away != nil && k.cfg.Away(name) {
			continue
		}
		wg.Go(k.cfg.Guarded("settlement of a shard", func() {
			found, err := k.findLeft(ctx, name, snap.Databases())
			for _, d := range found {
				if d.Participant == name && (name == shard || d.Decider == shard) {
					lists[i] = append(lists[i], d)
				}
			}
			if name == shard {
				failed = err
			}
		}))
	}
	wg.Wait()
	return slices.Concat(lists...), failed
}

// SettleLeft settles the pending changes whose proxy or session is gone.
func (k *Keeper) SettleLeft(ctx context.Context, snap *directory.Snapshot) {
	for _, p := range snap.Pending {
		n, ok := twopc.ParseName(p.ID)
		if !ok || p.Proxy == k.cfg.Proxy && k.hands.has(n.Nonce) || p.Proxy != k.cfg.Proxy && k.Alive(ctx, p.Proxy) {
			continue
		}
		err := k.settlePending(ctx, p, n)
		if err != nil && !errors.Is(err, twopc.ErrUndecided) && ctx.Err() == nil {
			k.cfg.Log.Warn("unfinished change of a schema", "database", p.Database, "err", err)
		}
	}
}

// settlePending finds out how a change ended, ends it on all shards, and tells every proxy. The
// entry in the directory was made after the row of the decision, so the deciding shard knows
// the outcome. As a resolver it needs no Driver: the deciding transaction has ended, or is ended
// first, and the others are made to end as it has.
func (k *Keeper) settlePending(ctx context.Context, p directory.Pending, n twopc.Name) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	r := k.Resolver()
	outcome, err := twopc.ParseOutcome(p.Outcome), error(nil)
	if outcome == twopc.Open {
		outcome, err = r.Decide(ctx, p.Database, n, twopc.Force)
	}
	if err != nil {
		return err
	}
	var late error
	for _, shard := range p.Shards {
		n.Participant = shard
		late = errors.Join(late, r.Finish(ctx, twopc.InDoubt{Name: n, Shard: shard, Database: p.Database}, outcome))
	}
	if late != nil && p.Outcome != "" {
		return late // all proxies know the outcome already
	}
	return errors.Join(late, k.cfg.Publish(ctx, p, outcome, late != nil))
}

// Alive reports whether a proxy is still registered. It reports true if the directory cannot be
// read.
func (k *Keeper) Alive(ctx context.Context, id string) bool {
	live, err := k.cfg.Directory.Proxies(ctx)
	return err != nil || slices.ContainsFunc(live, func(p directory.Proxy) bool { return p.ID == id })
}
