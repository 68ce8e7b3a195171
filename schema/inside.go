package schema

import (
	"context"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Inside is a table without rows that is declared inside a transaction block: nothing has to move, so
// the declaration can take effect with the block's COMMIT.
type Inside struct {
	Table      directory.Table
	Definition *Definition
	Notices    []*pgerr.Error
}

// insideConn reads a catalog inside a transaction.
type insideConn struct{ Conn }

func (c insideConn) Exec(sql string) ([][]string, error) { return c.Conn.Exec(catalog.Inside(sql)) }

const insideHint = "Call it by itself, when the transaction that makes the table is committed."

// DeclareInside judges the declaration of a table, over a connection to the home shard on which a transaction
// is open that has the table locked. It changes settings of the connection: the caller rolls back
// to a savepoint. snap is the cluster with what the block has declared before.
func DeclareInside(ctx context.Context, c Conn, snap *directory.Snapshot, req Request, kind directory.TableKind) (*Inside, error) {
	s := &session{Conn: c, ctx: ctx}
	if err := s.run(settings + quote.Literal("weft")); err != nil {
		return nil, err
	}
	facts := &session{Conn: insideConn{c}, ctx: ctx}
	seen, err := (&Mover{}).look(facts, s, snap, &req, kind)
	if err != nil {
		return nil, err
	}
	inside := func(format string, args ...any) error {
		return pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", insideHint)
	}
	v, rel := seen.verdict, seen.judgement.rel
	switch {
	case seen.def.steward != "":
		return nil, inside("%q has code that belongs to others (%s) and cannot be declared inside a transaction block", req.name(), strings.Join(seen.def.code, ", "))
	case len(v.restored) > 0:
		return nil, inside("%q cannot be declared inside a transaction block: its foreign key %q is off until it is declared", req.name(), v.restored[0].Name)
	case v.table.IDs.Column != "":
		return nil, inside("%q cannot be declared with routed ids inside a transaction block", req.name())
	}
	for _, r := range tree(rel) {
		for _, t := range r.Triggers {
			if t.Changes && kind == directory.Sharded {
				return nil, inside("%q has the trigger %q, which may change rows before they are stored, and cannot be declared inside a transaction block", req.name(), t.Name)
			}
		}
	}
	if kind == directory.Sharded {
		if need := needLookups(rel, &v.table); len(need) > 0 {
			return nil, inside("(%s) of %q is unique without the shard key and needs a lookup, which cannot be made inside a transaction block", strings.Join(need[0], ", "), req.name())
		}
	}
	for _, fk := range v.incoming {
		rows, err := s.one("SELECT EXISTS (SELECT FROM " + fk.Table.SQL() + ")")
		if err != nil {
			return nil, err
		}
		if rows == "t" {
			return nil, inside("foreign key %q of %q, which has rows, references %q", fk.Name, display(fk.Table), req.name())
		}
	}
	return &Inside{Table: v.table, Definition: seen.def, Notices: v.notices}, nil
}

// Empty locks a table inside an open transaction, and refuses a table with rows.
func Empty(ask func(sql string) ([][]string, error), table catalog.Name) error {
	rows, err := ask("LOCK TABLE " + table.SQL() + " IN ACCESS EXCLUSIVE MODE; SELECT EXISTS (SELECT FROM " + table.SQL() + ")")
	if err != nil {
		return err
	}
	if rows[0][0] == "t" {
		return pgerr.New(pgerr.FeatureNotSupported, "%q has rows, which cannot be moved to other shards inside a transaction block", display(table)).WithHint("%s", insideHint)
	}
	return nil
}
