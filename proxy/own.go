package proxy

import (
	"context"
	"sync"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/schema"
)

// owns remembers weft's own tables on the shards, by database.
type owns struct {
	mu    sync.Mutex
	known map[ownKey]*schema.Own
}

type ownKey struct{ shard, database string }

// installTimeout bounds how long making weft's own tables may take: another session may
// hold a lock.
const installTimeout = 10 * time.Second

// own makes sure that a shard has weft's own tables in a database.
func (k *keeper) own(ctx context.Context, shard, database string) (*schema.Own, error) {
	key := ownKey{shard, database}
	k.owns.mu.Lock()
	own := k.owns.known[key]
	k.owns.mu.Unlock()
	if own != nil {
		return own, nil
	}
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	own, err := schema.Install(ctx, dialer{k.s}, k.s.cfg.Snapshot().Cluster, shard, database, k.s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	if own.MaxPrepared == 0 {
		// Asked again next time: the server may have been restarted with more.
		k.s.left.WarnUnable(shard)
		return own, nil
	}
	k.owns.mu.Lock()
	defer k.owns.mu.Unlock()
	if k.owns.known == nil {
		k.owns.known = map[ownKey]*schema.Own{}
	}
	k.owns.known[key] = own
	return own, nil
}

// installOwn makes weft's own tables on all shards as soon as transactions can need them,
// so that no transaction waits for them. An error is only logged here; the first
// transaction that needs the tables reports it.
func (u *utility) installOwn(ctx context.Context) {
	snap := u.s.srv.cfg.Snapshot()
	for i := range snap.Shards {
		if _, err := u.s.srv.keeper.own(ctx, snap.Shards[i].Name, u.s.db.Name); err != nil {
			u.s.log.Warn("weft's own tables could not be made", "shard", snap.Shards[i].Name, "database", u.s.db.Name, "err", err)
		}
	}
}

// disown forgets the tables of a database: another database may have its name now.
func (k *keeper) disown(database string) {
	k.owns.mu.Lock()
	defer k.owns.mu.Unlock()
	for key := range k.owns.known {
		if key.database == database {
			delete(k.owns.known, key)
			k.refreshed.done.Delete(key)
		}
	}
}

// disownAll forgets the tables of all databases: databases have come or gone.
func (k *keeper) disownAll() {
	k.owns.mu.Lock()
	defer k.owns.mu.Unlock()
	clear(k.owns.known)
	k.refreshed.done.Clear()
}

// mayPrepare refuses a transaction on several shards if the shard of c cannot take part in
// its commit.
func (u *utility) mayPrepare(c *pool.Conn) error {
	own, err := u.s.srv.keeper.own(u.s.srv.ctx, c.Shard(), u.s.db.Name)
	if err != nil {
		return err
	}
	if own.MaxPrepared == 0 {
		return unable(c.Shard())
	}
	return nil
}

// unable is the error of a shard that cannot prepare transactions.
func unable(shard string) *pgerr.Error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "a transaction cannot write on more than one shard: prepared transactions are disabled on shard %q", shard).
		WithHint("Set max_prepared_transactions on that server to at least weft's pool.max_per_shard and restart it; or keep the statements of a transaction to one value of the shard key.")
}
