package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/quote"
)

// Clients' backends go through the gate in ROW EXCLUSIVE mode, for the moments in which a
// transaction of several shards is prepared and committed. weft's service connections shut the
// gate in SHARE mode, for moments (see gatekeeper). A backend that holds the gate for longer is
// ended, as others wait for it: a client can be slow inside, with a trigger that is deferred to
// its COMMIT.
//
// A prepared transaction has no process and is left to the resolver. A backend that waits for a
// standby to confirm its COMMIT is not ended.

// gateHold is how long a backend may hold a gate while others wait.
const gateHold = 5 * time.Second

// gateHolders lists the backends that hold the gate of a database, and whether each has been in
// its present query or state for more than 5 s.
const gateHolders = `SELECT l.pid, a.backend_start, a.xact_start, a.usename, l.mode,
 pg_catalog.clock_timestamp() > CASE WHEN a.state = 'active' THEN a.query_start ELSE a.state_change END + interval '5 s'
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = pg_catalog.to_regclass('weft_gate.gate') AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
 AND l.pid <> pg_catalog.pg_backend_pid() AND l.mode <> 'AccessShareLock' AND a.wait_event IS DISTINCT FROM 'SyncRep'`

// gateGuard remembers when a transaction was first seen holding a gate. The key is the
// backend's process ID and start, the transaction's start, and the shard.
type gateGuard struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

// saw notes a holder and reports whether it has held a gate for too long.
func (g *gateGuard) saw(holder string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h, since := range g.seen {
		if now.Sub(since) > time.Minute {
			delete(g.seen, h)
		}
	}
	since, known := g.seen[holder]
	if !known {
		if g.seen == nil {
			g.seen = map[string]time.Time{}
		}
		g.seen[holder] = now
	}
	return known && now.Sub(since) >= gateHold
}

// gateWaits lists the databases of a server in which a backend waits for a table.
const gateWaits = `SELECT DISTINCT d.datname FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database WHERE l.locktype = 'relation' AND NOT l.granted`

// guardGates ends the backends that keep others waiting at the gates of these databases. A gate
// at which no backend waits is left alone.
func (k *keeper) guardGates(ctx context.Context, shard string, databases []string) {
	for _, database := range databases {
		c, err := k.s.dialService(ctx, shard, database)
		if err != nil {
			continue // the database may have been dropped
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
				k.guardGate(ctx, shard, row[0])
			}
		}
		return
	}
}

// guardGate ends the backends that have held the gate of a database for too long.
func (k *keeper) guardGate(ctx context.Context, shard, database string) {
	c, err := k.s.dialService(ctx, shard, database)
	if err != nil {
		return
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(gateHolders)
	for _, row := range rows {
		if long := k.guard.saw(strings.Join(append(row[:3:3], shard), " "), time.Now()); !long && row[5] != "t" {
			continue
		}
		_, err = c.Exec("SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = " + row[0] +
			" AND backend_start = " + quote.Literal(row[1]) + " AND xact_start = " + quote.Literal(row[2]))
		if err != nil {
			break
		}
		k.s.log.Warn("ended a transaction that kept the gate of transactions of several shards", "shard", shard, "database", database, "user", row[3], "mode", row[4])
	}
	if err != nil && ctx.Err() == nil {
		k.s.log.Debug("the gate could not be guarded", "shard", shard, "database", database, "err", err)
	}
}
