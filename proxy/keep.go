package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/quote"
)

// Every database with declared tables keeps a copy of the directory on every shard, so that a
// lost etcd can be rebuilt: see directory.Copy and weft recover --directory. The proxy that
// declares something writes the copies of its database before it answers; a copy that could not
// be written then is written later, by all proxies. Changes that concern other databases only
// are written to a copy now and then: with many databases, each declaration would have to be
// written to all of them.

// copies remembers the copies that this proxy has written.
type copies struct {
	mu     sync.Mutex // held while copies are written
	last   map[ownKey]writtenCopy
	pauses pauses
}

// writtenCopy is a copy as it was written: the whole copy, and the part that concerns its
// database.
type writtenCopy struct {
	whole, part string
	at          time.Time
}

// copyInterval is how often changes of other databases alone are written to a copy.
const copyInterval = time.Minute

// copyTable makes the table of the copy. Only the service user needs it.
const copyTable = `CREATE TABLE IF NOT EXISTS weft.directory (single boolean PRIMARY KEY DEFAULT true CHECK (single), ` +
	`version bigint NOT NULL, content text NOT NULL, written timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()); ` +
	`REVOKE ALL ON weft.directory FROM PUBLIC; `

// keep writes the copies that are not known to be written: those of one database or, if
// database is empty, of all databases whose copies are due.
func (k *copies) keep(ctx context.Context, s *Server, snap *directory.Snapshot, database string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil {
		k.last = map[ownKey]writtenCopy{}
	}
	names := []string{database}
	if database == "" {
		names = snap.Databases()
		for key := range k.last { // the last table of a database may have been undeclared
			if !slices.Contains(names, key.database) {
				names = append(names, key.database)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	whole, err := snap.EncodeCopy()
	if err != nil {
		s.log.Error("the directory cannot be copied", "err", err)
		return
	}
	now := time.Now()
	if database == "" {
		names = s.register.turn(names, func(name string) bool { return k.wants(snap, name, whole, now) })
	}
	for _, name := range names {
		if slices.ContainsFunc(snap.Shards, func(sh directory.Shard) bool { return k.last[ownKey{sh.Name, name}].whole != whole }) {
			k.keepOf(ctx, s, snap, whole, name, database != "")
		}
	}
}

// wants reports whether a copy of a database is due on some shard. mu is held.
func (k *copies) wants(snap *directory.Snapshot, database, whole string, now time.Time) bool {
	part, err := snap.Confined(database).EncodeCopy()
	return err != nil || slices.ContainsFunc(snap.Shards, func(sh directory.Shard) bool {
		return k.isDue(ownKey{sh.Name, database}, writtenCopy{whole, part, now})
	})
}

// isDue reports whether a copy that no session waits for is to be written. mu is held.
func (k *copies) isDue(key ownKey, next writtenCopy) bool {
	last := k.last[key]
	return last.whole != next.whole && k.pauses.due(key, next.at) && (last.part != next.part || next.at.Sub(last.at) >= copyInterval)
}

// keepOf writes the copies of one database, on all shards at once; if now is set, also those
// that are not due. mu is held.
func (k *copies) keepOf(ctx context.Context, s *Server, snap *directory.Snapshot, whole, database string, now bool) {
	part, err := snap.Confined(database).EncodeCopy()
	if err != nil {
		s.log.Error("the directory cannot be copied", "err", err)
		return
	}
	next := writtenCopy{whole, part, time.Now()}
	var wg sync.WaitGroup
	errs := make([]error, len(snap.Shards))
	var due []int
	for i := range snap.Shards {
		key := ownKey{snap.Shards[i].Name, database}
		if k.last[key].whole == next.whole || !now && !k.isDue(key, next) {
			continue
		}
		due = append(due, i)
		errs[i] = errors.New("not written")
		wg.Go(s.guarded("copy of the directory", func() { errs[i] = s.keeper.writeCopy(ctx, key, snap.Number(), next.whole) }))
	}
	wg.Wait()
	for _, i := range due {
		key := ownKey{snap.Shards[i].Name, database}
		if errs[i] == nil {
			k.last[key] = next
			k.pauses.done(key)
			continue
		}
		delete(k.last, key)
		k.pauses.failed(key, next.at)
		if ctx.Err() == nil {
			s.log.Warn("the copy of the directory was not written", "shard", key.shard, "database", key.database, "err", errs[i])
		}
	}
}

// writeCopy writes the copy of one database on one shard, unless a newer copy is there.
func (k *keeper) writeCopy(ctx context.Context, key ownKey, number int64, content string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if _, err := k.own(ctx, key.shard, key.database); err != nil {
		return err
	}
	c, err := k.s.dialService(ctx, key.shard, key.database)
	if err != nil {
		return err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft.directory') IS NULL")
	if err != nil {
		return err
	}
	if len(rows) == 1 && rows[0][0] == "t" {
		if _, err := c.Exec(copyTable); err != nil {
			return err
		}
	}
	_, err = c.Exec(fmt.Sprintf("INSERT INTO weft.directory AS d (version, content) VALUES (%d, %s) ON CONFLICT (single) DO UPDATE "+
		"SET version = excluded.version, content = excluded.content, written = pg_catalog.clock_timestamp() WHERE d.version < excluded.version AND d.content <> excluded.content",
		number, quote.Literal(content)))
	return err
}

// keepCopies writes the copies of what the session has just declared.
func (cm *commit) keepCopies(ctx context.Context) {
	if snap := cm.s.srv.cfg.Snapshot(); cm.s.srv.cfg.Directory != nil && snap.Foreign == nil {
		cm.s.srv.keeper.copies.keep(ctx, cm.s.srv, snap, cm.s.db.Name)
	}
}
