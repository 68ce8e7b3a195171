package copies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/proxy/pause"
	"weft/quote"
)

// Conn is a connection of the service user to a database of a shard.
type Conn interface {
	Exec(sql string) ([][]string, error)
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	Terminate()
}

// Config is what Copies need. All fields are required.
type Config struct {
	Log *slog.Logger
	// Turn returns the databases whose turn it is, of those that want it.
	Turn func(databases []string, wants func(database string) bool) []string
	// Install makes sure that a shard has weft's own tables in a database.
	Install func(ctx context.Context, shard, database string) error
	// Away reports whether a shard is known to have no primary: nothing is written there, and the log has said so.
	Away func(shard string) bool
	// Dial opens a connection of the service user.
	Dial func(ctx context.Context, shard, database string) (Conn, error)
	// Guarded returns f for a goroutine that may panic.
	Guarded func(f func()) func()
}

// Copies remembers the copies that this proxy has written. Its methods may be called by several goroutines.
type Copies struct {
	cfg    Config
	pauses pause.Pauses[place]

	mu   sync.Mutex // held while copies are written
	last map[place]written
}

// place is a database of a shard.
type place struct{ shard, database string }

// New returns Copies of which none is known to be written.
func New(cfg Config) *Copies { return &Copies{cfg: cfg, last: map[place]written{}} }

// written is a copy as it was written: the whole copy, and the part that concerns its
// database.
type written struct {
	whole, part string
	at          time.Time
}

const (
	// copyInterval is how often changes of other databases alone are written to a copy.
	copyInterval = time.Minute
	// writeTimeout bounds how long writing a copy may take.
	writeTimeout = 10 * time.Second
)

// copyTable makes the table of the copy. Only the service user needs it. The lock lets proxies make it one after the other: IF NOT EXISTS does not.
const copyTable = `LOCK TABLE weft.own IN SHARE ROW EXCLUSIVE MODE; CREATE TABLE IF NOT EXISTS weft.directory (single boolean PRIMARY KEY DEFAULT true CHECK (single), ` +
	`version bigint NOT NULL, content text NOT NULL, written timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()); ` +
	`REVOKE ALL ON weft.directory FROM PUBLIC; `

// Keep writes the copies of one database that are not known to be written.
func (c *Copies) Keep(ctx context.Context, snap *directory.Snapshot, database string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if whole, ok := c.encode(snap); ok && c.differs(snap, database, whole) {
		c.keepOf(ctx, snap, whole, database, true)
	}
}

// KeepDue writes the copies that are due, of databases whose turn it is.
func (c *Copies) KeepDue(ctx context.Context, snap *directory.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := snap.Databases()
	for key := range c.last { // the last table of a database may have been undeclared
		if !slices.Contains(names, key.database) {
			names = append(names, key.database)
		}
	}
	if len(names) == 0 {
		return
	}
	whole, ok := c.encode(snap)
	if !ok {
		return
	}
	now := time.Now()
	for _, name := range c.cfg.Turn(names, func(name string) bool { return c.wants(snap, name, whole, now) }) {
		if c.differs(snap, name, whole) {
			c.keepOf(ctx, snap, whole, name, false)
		}
	}
}

// encode returns a copy of a snapshot.
func (c *Copies) encode(snap *directory.Snapshot) (text string, ok bool) {
	text, err := snap.EncodeCopy()
	if err != nil {
		c.cfg.Log.Error("the directory cannot be copied", "err", err)
	}
	return text, err == nil
}

// differs reports whether a shard is not known to have a copy. mu is held.
func (c *Copies) differs(snap *directory.Snapshot, database, whole string) bool {
	return slices.ContainsFunc(snap.Shards, func(sh directory.Shard) bool { return c.last[place{sh.Name, database}].whole != whole })
}

// wants reports whether a copy of a database is due on some shard. mu is held.
func (c *Copies) wants(snap *directory.Snapshot, database, whole string, now time.Time) bool {
	part, err := snap.Confined(database).EncodeCopy()
	return err != nil || slices.ContainsFunc(snap.Shards, func(sh directory.Shard) bool {
		return c.isDue(place{sh.Name, database}, written{whole, part, now})
	})
}

// isDue reports whether a copy that no session waits for is to be written. mu is held.
func (c *Copies) isDue(key place, next written) bool {
	last := c.last[key]
	return last.whole != next.whole && !c.cfg.Away(key.shard) && c.pauses.Due(key, next.at) && (last.part != next.part || next.at.Sub(last.at) >= copyInterval)
}

// keepOf writes the copies of one database, on all shards at once; if now is set, also those
// that are not due. mu is held.
func (c *Copies) keepOf(ctx context.Context, snap *directory.Snapshot, whole, database string, now bool) {
	part, ok := c.encode(snap.Confined(database))
	if !ok {
		return
	}
	next := written{whole, part, time.Now()}
	var wg sync.WaitGroup
	errs := make([]error, len(snap.Shards))
	var due []int
	for i := range snap.Shards {
		key := place{snap.Shards[i].Name, database}
		if c.last[key].whole == next.whole || !now && !c.isDue(key, next) {
			continue
		}
		due = append(due, i)
		errs[i] = errors.New("not written")
		wg.Go(c.cfg.Guarded(func() { errs[i] = c.write(ctx, key, snap.Number(), next.whole) }))
	}
	wg.Wait()
	for _, i := range due {
		key := place{snap.Shards[i].Name, database}
		if errs[i] == nil {
			c.last[key] = next
			c.pauses.Done(key)
			continue
		}
		delete(c.last, key)
		if news := c.pauses.Failed(key, next.at); news && ctx.Err() == nil {
			c.cfg.Log.Warn("the copy of the directory was not written", "shard", key.shard, "database", key.database, "err", errs[i])
		}
	}
}

// write writes the copy of one database on one shard, unless a newer copy is there.
func (c *Copies) write(ctx context.Context, key place, number int64, content string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := c.cfg.Install(ctx, key.shard, key.database); err != nil {
		return err
	}
	conn, err := c.cfg.Dial(ctx, key.shard, key.database)
	if err != nil {
		return err
	}
	defer conn.Terminate()
	defer context.AfterFunc(ctx, conn.Interrupt)()
	rows, err := conn.Exec("SELECT pg_catalog.to_regclass('weft.directory') IS NULL")
	if err != nil {
		return err
	}
	if len(rows) == 1 && rows[0][0] == "t" {
		if _, err := conn.Exec(copyTable); err != nil {
			return err
		}
	}
	_, err = conn.Exec(fmt.Sprintf("INSERT INTO weft.directory AS d (version, content) VALUES (%d, %s) ON CONFLICT (single) DO UPDATE "+
		"SET version = excluded.version, content = excluded.content, written = pg_catalog.clock_timestamp() WHERE d.version < excluded.version AND d.content <> excluded.content",
		number, quote.Literal(content)))
	return err
}
