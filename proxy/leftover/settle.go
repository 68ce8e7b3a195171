package leftover

import (
	"context"
	"errors"
	"slices"

	"weft/directory"
	"weft/twopc"
)

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
