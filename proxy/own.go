package proxy

import (
	"context"

	"weft/pgerr"
	"weft/pool"
	"weft/proxy/own"
	"weft/schema"
)

// newOwns returns what makes weft's own tables on the shards.
func newOwns(s *Server) *own.Tables {
	return own.New(own.Config{
		Log: s.log, Turn: s.register.turn,
		Install: func(ctx context.Context, shard, database string) (*schema.Own, error) {
			return schema.Install(ctx, dialer{srv: s, atOnce: true}, s.cfg.Snapshot().Cluster, shard, database, s.cfg.ServiceUser)
		},
		Unable: func(shard string) { s.left.WarnUnable(shard) },
	})
}

// installOwn makes weft's own tables on all shards as soon as transactions can need them,
// so that no transaction waits for them. An error is only logged here; the first
// transaction that needs the tables reports it.
func (u *utility) installOwn(ctx context.Context) {
	snap := u.s.srv.cfg.Snapshot()
	for i := range snap.Shards {
		if _, err := u.s.srv.keeper.owns.Ensure(ctx, snap.Shards[i].Name, u.s.db.Name); err != nil {
			u.s.log.Warn("weft's own tables could not be made", "shard", snap.Shards[i].Name, "database", u.s.db.Name, "err", err)
		}
	}
}

// mayPrepare refuses a transaction on several shards if the shard of c cannot take part in
// its commit.
func (u *utility) mayPrepare(c *pool.Conn) error {
	own, err := u.s.srv.keeper.owns.Ensure(u.s.srv.ctx, c.Shard(), u.s.db.Name)
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
