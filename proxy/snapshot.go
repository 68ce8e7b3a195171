package proxy

import (
	"slices"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A snapshot that one session exports and others import, as pg_dump -j does, is one of every
// shard: its name is made of the names that they have on the shards, and so every proxy
// can read it.
//
//	weft/shard-0=00000003-0000001B-1,shard-1=00000004-00000002-1

const (
	snapshotPrefix = "weft/"
	// snapshotAtomic: no transaction of several shards lies between its parts.
	snapshotAtomic = "atomic/"
)

// exportQuery runs a simple query that exports the block's snapshot.
func (s *Session) exportQuery(text []byte, f *parser.Facts, n int) error {
	name, err := s.exportSnapshots()
	if err != nil {
		return s.refuseQuery(err, n)
	}
	edits, err := parser.IdentityEdits(string(text), parser.Identity{Self: s.id, Snapshot: name, Options: s.scanOptions()})
	if err != nil {
		edits = nil // the backend will find it wrong too
	}
	sql := string(text)
	s.client.Consume(wire.HeaderLen + n)
	return s.sendEdited(sql, edits, f)
}

// exportSnapshots makes every shard export its snapshot. The home shard's backend is then at hand.
func (s *Session) exportSnapshots() (name string, err error) {
	if err := s.takeSnapshots(); err != nil {
		return "", err
	}
	var parts []string
	err = s.withEveryShard(func(c *pool.Conn) error {
		var rows [][]string
		s.beside(c, func() { rows, err = c.Exec("SELECT pg_catalog.pg_export_snapshot()") })
		if err == nil {
			parts = append(parts, c.Shard()+"="+rows[0][0])
		}
		return err
	})
	if err != nil {
		return "", err
	}
	name = snapshotPrefix
	if s.block.gated {
		name += snapshotAtomic
	}
	return name + strings.Join(parts, ","), nil
}

// withEveryShard does something with a participant of the block on each shard, the home shard's first.
func (s *Session) withEveryShard(do func(c *pool.Conn) error) error {
	if err := s.useLane(s.lane); err != nil {
		return err
	}
	if err := s.sent(); err != nil {
		return err
	}
	if err := do(s.conn); err != nil {
		return err
	}
	return s.withOthers(func(_ int, c *pool.Conn) error { return do(c) })
}

// importQuery runs SET TRANSACTION SNAPSHOT, in a block.
func (s *Session) importQuery(text []byte, n int) error {
	id, ok := parser.ImportedSnapshot(string(text), s.scanOptions())
	if !ok {
		return s.refuseQuery(pgerr.New(pgerr.FeatureNotSupported, "SET TRANSACTION SNAPSHOT must be a statement of its own"), n)
	}
	if err := s.importSnapshots(id); err != nil {
		return s.refuseQuery(err, n)
	}
	return s.answerCommand("SET", n)
}

// importSnapshots makes every shard see what another session's block sees.
func (s *Session) importSnapshots(id string) error {
	b := &s.block
	if b.snapped || b.sealed {
		return pgerr.New(pgerr.ActiveSQLTransaction, "SET TRANSACTION SNAPSHOT must be called before any query")
	}
	if err := s.learnOptions(); err != nil {
		return err
	}
	if err := s.maySerialize("import a snapshot"); err != nil {
		return err
	}
	list, ok := strings.CutPrefix(id, snapshotPrefix)
	list, gated := strings.CutPrefix(list, snapshotAtomic)
	parts := strings.Split(list, ",")
	if !ok || len(parts) != len(s.snap.Shards) {
		return pgerr.New(pgerr.InvalidParameterValue, "invalid snapshot identifier: %q", id).
			WithHint("A snapshot of all shards comes from pg_export_snapshot() through weft.")
	}
	// Those that have joined may have been asked something already.
	if s.conn != nil {
		if err := s.park(); err != nil {
			return err
		}
	}
	if err := s.beginAnew(); err != nil {
		return err
	}
	err := s.withEveryShard(func(c *pool.Conn) error {
		i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, c.Shard()+"=") })
		if i < 0 {
			return pgerr.New(pgerr.InvalidParameterValue, "invalid snapshot identifier: %q", id).WithHint("It has no part for shard %q.", c.Shard())
		}
		return s.execBeside(c, "SET TRANSACTION SNAPSHOT "+pool.QuoteLiteral(parts[i][len(c.Shard())+1:]))
	})
	if err != nil {
		return err
	}
	b.snapped, b.gated = true, gated
	return nil
}
