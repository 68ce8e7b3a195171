package leftover

import "context"

// checkPrepared finds out, once, whether a shard can prepare transactions.
func (k *Keeper) checkPrepared(ctx context.Context, shard, database string) {
	if _, done := k.checked.Load(shard); done {
		return
	}
	c, err := k.cfg.Dial(ctx, shard, database)
	if err != nil {
		return
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	if rows, err := c.Exec("SHOW max_prepared_transactions"); err == nil && len(rows) == 1 {
		k.checked.Store(shard, true)
		if rows[0][0] == "0" {
			k.WarnUnable(shard)
		}
	}
}

// WarnUnable says once that a shard cannot prepare transactions.
func (k *Keeper) WarnUnable(shard string) {
	if _, said := k.unable.LoadOrStore(shard, true); !said {
		k.cfg.Log.Warn("max_prepared_transactions is 0: transactions cannot write on this shard and others. Set it to at least pool.max_per_shard and restart the server", "shard", shard)
	}
}
