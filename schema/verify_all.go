package schema

import (
	"context"
	"fmt"
	"strings"

	"weft/directory"
	"weft/pgerr"
)

// Verdict is a sentence about something that Verify has looked at.
type Verdict struct {
	Words string
	Wrong bool
}

// Verify compares all that the shards of a cluster must agree on in a database: schemas, copies of reference tables, rows and
// the shards they are on, and lookups, which it repairs. It reads every row, and tells of each table when it has seen it.
func (m *Mover) Verify(ctx context.Context, database, user string, tell func(Verdict)) error {
	list, err := m.Diff(ctx, database, user)
	if err != nil {
		return err
	}
	for _, d := range list {
		tell(Verdict{fmt.Sprintf("%s of shard %s: %s", d.Object, d.Shard, d.What), true})
	}
	if len(list) == 0 {
		tell(Verdict{Words: "the schemas of all shards are the same"})
	}
	snap, err := m.load(ctx, database)
	if err != nil {
		return err
	}
	for _, t := range snap.Declared(database) {
		if t.State != directory.Active {
			continue
		}
		req := Request{Database: database, User: user}
		req.Table.Schema, req.Table.Name = t.Schema, t.Name
		if err := m.verifyTable(ctx, snap, t.Kind, req, tell); err != nil {
			return err
		}
	}
	return m.verifyAllLookups(ctx, Request{Database: database, User: user}, tell)
}

// verifyTable looks at the rows of one table.
func (m *Mover) verifyTable(ctx context.Context, snap *directory.Snapshot, kind directory.TableKind, req Request, tell func(Verdict)) error {
	switch kind {
	case directory.Reference:
		lines, same, err := m.verifyCopies(ctx, snap, &req)
		for _, l := range lines {
			tell(Verdict{l, !same})
		}
		return m.ended(ctx, err)
	case directory.Sharded:
		found, err := m.VerifyPlacement(ctx, req)
		for _, p := range found {
			tell(p.verdict())
		}
		return err
	}
	return nil
}

// verdict says whether the rows of a table are where they should be.
func (p *Placement) verdict() Verdict {
	if p.Misplaced == 0 {
		return Verdict{Words: fmt.Sprintf("%s: all %d rows are on the shards of their keys", display(p.Table), p.Rows)}
	}
	return Verdict{fmt.Sprintf("%s: %d of %d rows are on the wrong shard: %s", display(p.Table), p.Misplaced, p.Rows, strings.Join(p.Examples, "; ")), true}
}

// verifyAllLookups compares the lookups of all tables with the rows.
func (m *Mover) verifyAllLookups(ctx context.Context, req Request, tell func(Verdict)) error {
	list, err := m.Lookups(ctx, &req)
	if err != nil {
		return err
	}
	for _, l := range list {
		r, err := m.VerifyLookup(ctx, l, func(*pgerr.Error) {}) // the report says the same
		if err != nil {
			return err
		}
		what, wrong := fmt.Sprintf("lookup %s: has all %d rows", r.Name, r.Rows), false
		if r.Missing+r.Stale+r.Duplicates > 0 {
			what, wrong = fmt.Sprintf("lookup %s: %d entries were missing and %d stale, which is repaired; %d values are in rows of more than one shard", r.Name, r.Missing, r.Stale, r.Duplicates), true
		}
		tell(Verdict{what, wrong})
	}
	return nil
}
