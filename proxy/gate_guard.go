package proxy

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/quote"
)

// Clients' backends go through the gate in ROW EXCLUSIVE mode, for the
// moments in which a transaction of several shards is prepared and committed. weft's own connections shut it, in SHARE mode, for
// moments (see gatekeeper). Whoever holds it for longer is ended, for others wait: a client can be slow inside, with a
// trigger that is deferred to its COMMIT.
//
// What is prepared has no process and is the resolver's. One that
// waits for a standby to confirm its COMMIT is let be.

// gateHold is how long somebody may hold a gate.
const gateHold = 5 * time.Second

// gateHolders lists who holds the gate of a database, and whether he has done nothing but that for longer.
const gateHolders = `SELECT l.pid, a.backend_start, a.xact_start, a.usename, l.mode,
 pg_catalog.clock_timestamp() > CASE WHEN a.state = 'active' THEN a.query_start ELSE a.state_change END + interval '5 s'
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = pg_catalog.to_regclass('weft_gate.gate') AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
 AND l.pid <> pg_catalog.pg_backend_pid() AND l.mode <> 'AccessShareLock' AND a.wait_event IS DISTINCT FROM 'SyncRep'`

// gateGuard is who has been seen to hold a gate, and when first: a transaction, by its shard, process and beginning.
type gateGuard struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

// saw notes a holder and reports whether it has been one for too long.
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

// gateWaits lists the databases of a server in which somebody waits for a table.
const gateWaits = `SELECT DISTINCT d.datname FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database WHERE l.locktype = 'relation' AND NOT l.granted`

// guardGates ends those who keep others waiting at the gate of one of the databases. A
// gate that nobody waits at is let be.
func (k *keeper) guardGates(ctx context.Context, shard string, databases []string) {
	for _, database := range databases {
		c, err := k.s.dialService(ctx, shard, database)
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
				k.guardGate(ctx, shard, row[0])
			}
		}
		return
	}
}

// guardGate ends those who keep the gate of a database.
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
