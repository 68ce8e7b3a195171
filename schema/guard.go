package schema

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// guardObjects is the text that makes what a shard needs for guards.
var guardObjects = sqlFile("guard")

// guardVersion tells which text a shard has been given.
var guardVersion = fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(guardObjects)))

// GuardTables tells every shard which tables of a database are sharded by which columns, so that
// tables with BEFORE triggers get and keep their guards. Each process does this once for a
// database; later declarations tell the shards themselves.
func (m *Mover) GuardTables(ctx context.Context, snap *directory.Snapshot, database string) error {
	if m.Guarded(snap, database) {
		return nil
	}
	var calls []string
	for _, t := range snap.Declared(database) {
		if guardable(t) {
			calls = append(calls, guardCall(&t))
		}
	}
	news, err := m.guard(ctx, snap, database, calls)
	if err != nil {
		return err
	}
	m.guarded.Store(database, true)
	if !news {
		return nil
	}
	return m.renew(ctx, database)
}

// Guarded reports whether GuardTables has nothing to do for a database.
func (m *Mover) Guarded(snap *directory.Snapshot, database string) bool {
	_, done := m.guarded.Load(database)
	return done || !slices.ContainsFunc(snap.Declared(database), guardable)
}

func guardable(t directory.Table) bool {
	return t.Kind == directory.Sharded && t.State == directory.Active
}

// followGuard tells all shards about a table that was declared, or the home shard about a table
// that is home again.
func (m *Mover) followGuard(ctx context.Context, snap *directory.Snapshot, t *directory.Table) error {
	if t.Kind != directory.Sharded {
		return nil
	}
	err := m.GuardTables(ctx, snap, t.Database)
	if err == nil {
		_, err = m.guard(ctx, snap, t.Database, []string{guardCall(t)})
	}
	var e *pgerr.Error
	if errors.As(err, &e) && e.Code == pgerr.InsufficientPrivilege {
		m.cfg.Log.Warn("shards cannot guard the shard keys of tables with BEFORE triggers, so these tables cannot be written", "database", t.Database, "err", err)
		return nil
	}
	return err
}

// guardCall returns the call that tells a shard about a table, if the shard has the table.
func guardCall(t *directory.Table) string {
	name := quote.Literal(catalog.Name{Schema: t.Schema, Name: t.Name}.SQL())
	columns := "NULL"
	if t.State != directory.Undeclaring {
		var names []string
		for _, c := range t.Columns {
			names = append(names, quote.Literal(c.Name))
		}
		columns = "ARRAY[" + strings.Join(names, ", ") + "]::text[]"
	}
	return "SELECT weft.guard_table(to_regclass(" + name + "), " + columns + ") WHERE to_regclass(" + name + ") IS NOT NULL"
}

// guard makes calls on all shards, and reports whether the guards of a table have changed.
func (m *Mover) guard(ctx context.Context, snap *directory.Snapshot, database string, calls []string) (news bool, err error) {
	const count = "SELECT count(*) FROM pg_trigger WHERE tgfoid = 'weft.strayed'::regproc"
	changed := make([]bool, len(snap.Shards))
	g, ctx := errgroup.WithContext(ctx)
	for i := range snap.Shards {
		g.Go(func() (err error) {
			defer pgerr.Recovered(&err)
			s, err := open(ctx, m.cfg.Shards, snap.Shards[i].Name, database, m.cfg.Service, "weft guard")
			if err != nil {
				return err
			}
			defer s.close()
			if err := installGuard(s); err != nil {
				return err
			}
			before, err := s.one(count)
			if err != nil {
				return err
			}
			if err := s.run(append([]string{"SET lock_timeout = '10s'"}, calls...)...); err != nil {
				return err
			}
			after, err := s.one(count)
			changed[i] = before != after
			return err
		})
	}
	err = g.Wait()
	return slices.Contains(changed, true), err
}

// installGuard installs sql/guard.sql on a shard, unless the shard has this version.
func installGuard(s *session) error {
	there, err := s.one("SELECT to_regprocedure('weft.guard_version()')")
	if err == nil && there != "" {
		there, err = s.one("SELECT weft.guard_version()")
	}
	if err != nil || there == guardVersion {
		return err
	}
	if err := s.run("BEGIN", "SELECT pg_advisory_xact_lock("+ownLock+")", freshNames); err != nil {
		return err
	}
	if err := s.run(guardObjects); err != nil {
		return err
	}
	return s.run("CREATE OR REPLACE FUNCTION weft.guard_version() RETURNS text LANGUAGE sql SET search_path = pg_catalog, pg_temp AS "+quote.Literal("SELECT "+quote.Literal(guardVersion)), "COMMIT")
}
