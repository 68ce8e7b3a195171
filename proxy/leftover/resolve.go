package leftover

import (
	"context"
	"errors"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/twopc"
)

// resolveOn ends the transactions that are in doubt on a shard.
func (k *Keeper) resolveOn(ctx context.Context, snap *directory.Snapshot, shard string) {
	in := snap.Databases()
	if len(in) == 0 {
		k.checkPrepared(ctx, shard, "postgres")
		return
	}
	found, err := k.findLeft(ctx, shard, in)
	if err == nil {
		k.doubts.set(shard, found, time.Now())
		k.acquaint(shard, found, time.Now())
	}
	if err != nil || len(found) == 0 {
		return // a shard that does not answer is the pool's business
	}
	r := k.Resolver()
	var live map[string]bool
	_, err = r.Resolve(ctx, found, func(d twopc.InDoubt) twopc.Urgency {
		if d.Judge(false, false, true) == twopc.LetBe || d.Participant != shard {
			return twopc.LetBe // the transaction is too young, or belongs to another shard on this server
		}
		if d.Incarnation == k.cfg.Proxy {
			return d.Judge(true, k.hands.has(d.Nonce), true)
		}
		if live == nil {
			live = k.live(ctx)
		}
		return d.Judge(false, false, (live[d.Incarnation] || len(live) == 0) && !k.cfg.Hung(d.Incarnation))
	})
	if err != nil && ctx.Err() == nil {
		k.cfg.Log.Warn("transactions are in doubt", "shard", shard, "err", err)
	}
}

// acquaint notes for how long each prepared transaction of a shard is known.
func (k *Keeper) acquaint(shard string, found []twopc.InDoubt, now time.Time) {
	gids := make([]string, len(found))
	for i := range found {
		gids[i] = found[i].GID()
	}
	since := k.metPrepared.meet(place{shard: shard}, gids, now)
	for i := range found {
		found[i].Known = now.Sub(since[gids[i]])
	}
}

// findLeft lists the cluster's prepared transactions on a shard. Any database shows them, so
// findLeft asks the first one that lets weft in: others may have been dropped there.
func (k *Keeper) findLeft(ctx context.Context, shard string, in []string) ([]twopc.InDoubt, error) {
	var c twopc.Conn
	var err error
	for _, database := range in {
		if c, err = k.cfg.Dial(ctx, shard, database); !closedDatabase(err) {
			k.checkPrepared(ctx, shard, database)
			break
		}
	}
	if err != nil {
		return nil, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(twopc.FindSQL(k.cfg.Snapshot().Cluster))
	if err != nil {
		return nil, err
	}
	return twopc.ReadFound(shard, rows), nil
}

// closedDatabase reports whether the server has answered, but does not let weft into the
// database.
func closedDatabase(err error) bool {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case pgerr.InvalidCatalogName, pgerr.ObjectNotInPrerequisiteState, pgerr.InsufficientPrivilege, pgerr.TooManyConnections:
		return true
	}
	return false
}

// live returns the IDs of the registered proxies, or none if they cannot be found out.
func (k *Keeper) live(ctx context.Context) map[string]bool {
	out := map[string]bool{}
	if k.cfg.Directory == nil {
		return out
	}
	list, err := k.cfg.Directory.Proxies(ctx)
	if err != nil {
		return out
	}
	for _, p := range list {
		out[p.ID] = true
	}
	return out
}

// Arbitrate returns how a transaction ended whose COMMIT was not answered, or Open if that cannot be found out before ctx ends.
func (k *Keeper) Arbitrate(ctx context.Context, n twopc.Name, database string) twopc.Outcome {
	r := k.Resolver()
	for {
		o, err := r.Decide(ctx, database, n, twopc.Force)
		if err == nil {
			return o
		}
		select {
		case <-ctx.Done():
			return twopc.Open
		case <-time.After(100 * time.Millisecond):
		}
	}
}
