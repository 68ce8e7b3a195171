package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/pool"
)

// Every database with declared tables keeps a copy of the directory on every shard, so that
// a lost etcd can be rebuilt: see directory.Copy and weft recover --directory. The proxy that
// declares something writes it before it answers; what could not be written then is
// written later, by all proxies.

// copies is what this proxy knows to be written.
type copies struct {
	mu      sync.Mutex // held while somebody writes
	written map[ownKey]string
	tried   map[ownKey]time.Time
}

// copyRetry is the pause before a shard that could not be written to is tried again.
const copyRetry = 15 * time.Second

// copyTable makes the place of the copy. Nobody but the service user needs it.
const copyTable = `CREATE TABLE IF NOT EXISTS weft.directory (single boolean PRIMARY KEY DEFAULT true CHECK (single), ` +
	`version bigint NOT NULL, content text NOT NULL, written timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()); ` +
	`REVOKE ALL ON weft.directory FROM PUBLIC; `

// keep writes the copies that are not known to be written. again: also those that failed
// a moment ago.
func (k *copies) keep(ctx context.Context, s *Server, snap *directory.Snapshot, again bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.written == nil {
		k.written, k.tried = map[ownKey]string{}, map[ownKey]time.Time{}
	}
	names := databases(snap)
	for key := range k.written { // the last table may have been undeclared
		if !slices.Contains(names, key.database) {
			names = append(names, key.database)
		}
	}
	if len(names) == 0 {
		return
	}
	content, err := snap.EncodeCopy()
	if err != nil {
		s.log.Error("the directory cannot be copied", "err", err)
		return
	}
	for _, database := range names {
		for i := range snap.Shards {
			key := ownKey{snap.Shards[i].Name, database}
			if k.written[key] == content || !again && time.Since(k.tried[key]) < copyRetry || ctx.Err() != nil {
				continue
			}
			k.tried[key] = time.Now()
			if err := s.writeCopy(ctx, key, snap.Number(), content); err != nil {
				delete(k.written, key)
				if ctx.Err() == nil {
					s.log.Warn("the copy of the directory was not written", "shard", key.shard, "database", key.database, "err", err)
				}
				continue
			}
			k.written[key] = content
			delete(k.tried, key)
		}
	}
}

// writeCopy writes one, unless a newer one is there.
func (s *Server) writeCopy(ctx context.Context, key ownKey, number int64, content string) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if _, err := s.own(ctx, key.shard, key.database); err != nil {
		return err
	}
	c, err := s.dialService(ctx, key.shard, key.database)
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
		number, pool.QuoteLiteral(content)))
	return err
}

// keepCopies writes the copies of what the session has just declared.
func (s *Session) keepCopies(ctx context.Context) {
	if snap := s.srv.cfg.Snapshot(); s.srv.cfg.Directory != nil && snap.Foreign == nil {
		s.srv.copies.keep(ctx, s.srv, snap, true)
	}
}
