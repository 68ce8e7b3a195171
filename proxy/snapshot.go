package proxy

import (
	"slices"
	"strings"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/reshard"
	"weft/wire"
)

// A snapshot that one session exports and others import, as pg_dump -j does, consists of
// one snapshot on every shard. Its name is made of their names, so that every proxy can
// read it, behind a fingerprint of the placement by which the snapshots were taken: rows
// that have moved since are elsewhere.
//
//	weft/9c3b6ff1d0c2e7a4/shard-0=00000003-0000001B-1,shard-1=00000004-00000002-1

const (
	snapshotPrefix = "weft/"
	// snapshotAtomic marks a snapshot that has no transaction on several shards in only
	// some of its parts.
	snapshotAtomic = "atomic/"
)

// exportQuery runs a simple query that exports the block's snapshot.
func (t *transaction) exportQuery(text []byte, f *parser.Facts, n int) error {
	name, err := t.exportSnapshots()
	if err != nil {
		return t.s.route.refuseQuery(err, n)
	}
	edits, err := parser.IdentityEdits(string(text), parser.Identity{Self: t.s.id, Snapshot: name, Options: t.s.record.scanOptions()})
	if err != nil {
		edits = nil // the backend will reject the text, too
	}
	sql := string(text)
	t.s.client.Consume(wire.HeaderLen + n)
	return t.s.drawn.sendEdited(sql, edits, f)
}

// exportSnapshots makes every shard export its snapshot. Afterwards the home shard's
// backend is at hand.
func (t *transaction) exportSnapshots() (name string, err error) {
	if err := t.takeSnapshots(); err != nil {
		return "", err
	}
	var parts []string
	err = t.withEveryShard(func(c *pool.Conn) error {
		var rows [][]string
		t.s.every.beside(c, func() { rows, err = c.Exec("SELECT pg_catalog.pg_export_snapshot()") })
		if err == nil {
			parts = append(parts, c.Shard()+"="+rows[0][0])
		}
		return err
	})
	if err != nil {
		return "", err
	}
	name = snapshotPrefix + directory.PlacesIn(t.s.route.snap).Name() + "/"
	if t.snapshots == snappedAtomically {
		name += snapshotAtomic
	}
	return name + strings.Join(parts, ","), nil
}

// withEveryShard calls do with a participant of the block on each shard, the home shard's
// first.
func (t *transaction) withEveryShard(do func(c *pool.Conn) error) error {
	if err := t.s.held.useLane(t.s.lane); err != nil {
		return err
	}
	if err := t.quiesce(); err != nil {
		return err
	}
	if err := do(t.s.held.conn); err != nil {
		return err
	}
	return t.s.every.withOthers(func(_ int, c *pool.Conn) error { return do(c) })
}

// importQuery runs SET TRANSACTION SNAPSHOT in a block.
func (t *transaction) importQuery(text []byte, n int) error {
	id, ok := parser.ImportedSnapshot(string(text), t.s.record.scanOptions())
	if !ok {
		return t.s.route.refuseQuery(pgerr.New(pgerr.FeatureNotSupported, "SET TRANSACTION SNAPSHOT must be a statement of its own").
			WithHint("Send it alone, as the first statement after BEGIN."), n)
	}
	if err := t.importSnapshots(id); err != nil {
		return t.s.route.refuseQuery(err, n)
	}
	return t.s.route.answerCommand("SET", n)
}

// importSnapshots makes every shard see what the block of another session sees.
func (t *transaction) importSnapshots(id string) error {
	b := &t.block
	if b.isSnapped() || b.isSealed() {
		return pgerr.New(pgerr.ActiveSQLTransaction, "SET TRANSACTION SNAPSHOT must be called before any query")
	}
	if err := t.s.record.learnOptions(); err != nil {
		return err
	}
	if err := t.maySerialize("import a snapshot"); err != nil {
		return err
	}
	list, ok := strings.CutPrefix(id, snapshotPrefix)
	at, list, _ := strings.Cut(list, "/")
	list, gated := strings.CutPrefix(list, snapshotAtomic)
	parts := strings.Split(list, ",")
	if !ok || len(parts) != len(t.s.route.snap.Shards) {
		return pgerr.New(pgerr.InvalidParameterValue, "invalid snapshot identifier: %q", id).
			WithHint("A snapshot of all shards comes from pg_export_snapshot() through weft.")
	}
	// Backends that have joined may have run a query already.
	if t.s.held.conn != nil {
		if err := t.s.held.park(); err != nil {
			return err
		}
	}
	if err := t.beginAnew(); err != nil {
		return err
	}
	b.noteSnapshots(snapshotsBegin)
	err := t.s.route.touch.enterAll(reshard.Read)
	if err == nil && at != directory.PlacesIn(t.s.route.snap).Name() {
		err = errRowsMoved()
	}
	if err != nil {
		b.noteSnapshots(snapshotsFail)
		return err
	}
	err = t.withEveryShard(func(c *pool.Conn) error {
		i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, c.Shard()+"=") })
		if i < 0 {
			return pgerr.New(pgerr.InvalidParameterValue, "invalid snapshot identifier: %q", id).WithHint("It has no part for shard %q.", c.Shard())
		}
		return t.s.every.execBeside(c, "SET TRANSACTION SNAPSHOT "+quote.Literal(parts[i][len(c.Shard())+1:]))
	})
	if err != nil {
		b.noteSnapshots(snapshotsFail)
		return err
	}
	if gated {
		b.noteSnapshots(snapshotsGated)
	}
	t.s.route.touch.snapped()
	return nil
}
