package gate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/quote"
	"weft/twopc"
)

// longestHold is how long a backend may hold a gate while others wait.
const longestHold = 5 * time.Second

// holdersSQL lists the backends that hold the gate of a database, and whether each has been in
// its present query or state for more than 5 s.
const holdersSQL = `SELECT l.pid, a.backend_start, a.xact_start, a.usename, l.mode,
 pg_catalog.clock_timestamp() > CASE WHEN a.state = 'active' THEN a.query_start ELSE a.state_change END + interval '5 s'
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.relation = pg_catalog.to_regclass('weft_gate.gate') AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
 AND l.pid <> pg_catalog.pg_backend_pid() AND l.mode <> 'AccessShareLock' AND a.wait_event IS DISTINCT FROM 'SyncRep'`

// GuardConfig is what a Guard needs. All fields are required.
type GuardConfig struct {
	Log *slog.Logger
	// Dial opens a connection of the service user.
	Dial func(ctx context.Context, shard, database string) (twopc.Conn, error)
}

// Guard ends backends that hold gates for too long. Its methods may be called by several goroutines.
type Guard struct {
	cfg GuardConfig

	mu sync.Mutex
	// seen is when a transaction was first seen holding a gate. The key is the backend's process ID
	// and start, the transaction's start, and the shard.
	seen map[string]time.Time
}

// NewGuard returns a Guard that has seen nothing.
func NewGuard(cfg GuardConfig) *Guard { return &Guard{cfg: cfg, seen: map[string]time.Time{}} }

// waitsSQL lists the databases of a server in which a backend waits for a table.
const waitsSQL = `SELECT DISTINCT d.datname FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database WHERE l.locktype = 'relation' AND NOT l.granted`

// Look ends the backends that keep others waiting at the gates of these databases. A gate
// at which no backend waits is left alone.
func (g *Guard) Look(ctx context.Context, shard string, databases []string) {
	for _, database := range databases {
		c, err := g.cfg.Dial(ctx, shard, database)
		if err != nil {
			continue // the database may have been dropped
		}
		stop := context.AfterFunc(ctx, c.Interrupt)
		rows, err := c.Exec(waitsSQL)
		stop()
		c.Terminate()
		if err != nil {
			return
		}
		for _, row := range rows {
			if slices.Contains(databases, row[0]) {
				g.look(ctx, shard, row[0])
			}
		}
		return
	}
}

// look ends the backends that have held the gate of a database for too long.
func (g *Guard) look(ctx context.Context, shard, database string) {
	c, err := g.cfg.Dial(ctx, shard, database)
	if err != nil {
		return
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(holdersSQL)
	for _, row := range rows {
		if long := g.saw(strings.Join(append(row[:3:3], shard), " "), time.Now()); !long && row[5] != "t" {
			continue
		}
		_, err = c.Exec("SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE pid = " + row[0] +
			" AND backend_start = " + quote.Literal(row[1]) + " AND xact_start = " + quote.Literal(row[2]))
		if err != nil {
			break
		}
		g.cfg.Log.Warn("ended a transaction that kept the gate of transactions of several shards", "shard", shard, "database", database, "user", row[3], "mode", row[4])
	}
	if err != nil && ctx.Err() == nil {
		g.cfg.Log.Debug("the gate could not be guarded", "shard", shard, "database", database, "err", err)
	}
}

// saw notes a holder and reports whether it has held a gate for too long.
func (g *Guard) saw(holder string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h, since := range g.seen {
		if now.Sub(since) > time.Minute {
			delete(g.seen, h)
		}
	}
	since, known := g.seen[holder]
	if !known {
		g.seen[holder] = now
	}
	return known && now.Sub(since) >= longestHold
}
