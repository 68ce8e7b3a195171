package proxy

import (
	"context"
	"slices"
)

// Clients' backends lock weft.gate by their own roles, because LOCK is the only command that
// locks without taking a snapshot first, and PostgreSQL has no right to one mode of locking alone. So
// anybody may lock it, in any mode, for as long as a transaction lasts. weft itself passes
// or shuts the gate for moments: whoever holds it for longer, or in a mode that weft never
// asks for, is ended.
//
// Those inside are a transaction that is about to be prepared (ROW EXCLUSIVE; what is prepared
// has no process and is the resolver's), and a reader that takes its snapshots (SHARE). One that
// waits for a standby to confirm its COMMIT is let be.
const gateGuard = `SELECT a.usename, l.mode, pg_catalog.pg_terminate_backend(l.pid) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = pg_catalog.to_regclass('weft.gate') AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
 AND l.pid <> pg_catalog.pg_backend_pid() AND l.mode NOT IN ('AccessShareLock')
 AND (l.mode NOT IN ('RowExclusiveLock', 'ShareLock') OR a.wait_event IS DISTINCT FROM 'SyncRep'
  AND pg_catalog.clock_timestamp() > CASE WHEN a.state = 'active' THEN a.query_start ELSE a.state_change END + interval '5 s')`

// gateWaits lists the databases of a server in which somebody waits for a table.
const gateWaits = `SELECT DISTINCT d.datname FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database WHERE l.locktype = 'relation' AND NOT l.granted`

// guardGates ends those who keep others waiting at the gate of one of the databases. A
// gate that nobody waits at is let be.
func (s *Server) guardGates(ctx context.Context, shard string, databases []string) {
	for _, database := range databases {
		c, err := s.dialService(ctx, shard, database)
		if err != nil {
			continue // it may have been dropped
		}
		stop := context.AfterFunc(ctx, c.Interrupt)
		rows, err := c.Exec(gateWaits)
		stop()
		c.Terminate()
		if err != nil {
			return
		}
		for _, row := range rows {
			if slices.Contains(databases, row[0]) {
				s.guardGate(ctx, shard, row[0])
			}
		}
		return
	}
}

// guardGate ends those who keep the gate of a database.
func (s *Server) guardGate(ctx context.Context, shard, database string) {
	c, err := s.dialService(ctx, shard, database)
	if err != nil {
		return
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(gateGuard)
	if err != nil && ctx.Err() == nil {
		s.log.Debug("the gate could not be guarded", "shard", shard, "database", database, "err", err)
	}
	for _, row := range rows {
		s.log.Warn("ended a transaction that kept the gate of transactions of several shards", "shard", shard, "database", database, "user", row[0], "mode", row[1])
	}
}
