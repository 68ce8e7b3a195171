package schema

import (
	"context"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Inside is a table without rows that is declared inside a transaction block: nothing has to move, so
// the declaration can take effect with the block's COMMIT.
type Inside struct {
	Table   directory.Table
	Notices []*pgerr.Error
	// Uniques: the table needs lookups for its unique indexes.
	Uniques bool

	def   *Definition
	views []Object // those that can live on every shard from now on
}

// Apply makes the table and its views on another shard, inside an open transaction, and leaves the settings of
// the connection as they were.
func (in *Inside) Apply(ctx context.Context, c Conn, shard string) error {
	return insideSettings(&session{Conn: c, ctx: ctx, shard: shard}, func(s *session) error {
		if err := in.def.applyAll(s); err != nil {
			return err
		}
		return applyObjects(s, in.views)
	})
}

// insideConn reads a catalog inside a transaction.
type insideConn struct{ Conn }

func (c insideConn) Exec(sql string) ([][]string, error) { return c.Conn.Exec(catalog.Inside(sql)) }

const insideHint = "Call it by itself, when the transaction that makes the table is committed. In a migration: atomic = False (Django), disable_ddl_transaction! (Rails), transaction: false (knex)."

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
	for _, fk := range v.incoming {
		rows, err := s.one("SELECT EXISTS (SELECT FROM " + fk.Table.SQL() + ")")
		if err != nil {
			return nil, err
		}
		if rows == "t" {
			return nil, inside("foreign key %q of %q, which has rows, references %q", fk.Name, display(fk.Table), req.name())
		}
	}
	if who, err := follower(s, seen); err != nil {
		return nil, err
	} else if who != "" {
		return nil, inside("%s is about %q and would have to follow it to the other shards, which cannot be done inside a transaction block", who, req.name())
	}
	in := &Inside{Table: v.table, Notices: v.notices, def: seen.def, Uniques: kind == directory.Sharded && len(needLookups(rel, &v.table)) > 0}
	d := &declaration{ctx: ctx, req: &req, kind: kind, table: v.table, snap: snap, home: s, seen: seen, notice: func(n *pgerr.Error) { in.Notices = append(in.Notices, n) }}
	in.views, err = d.copiedViews()
	return in, err
}

// follower returns a function, or another object that is not a relation, that is on the home shard alone because
// of the table: its body mentions the table, or it uses the type of the table's rows. What the table itself needs is
// no follower.
func follower(s *session, seen *sight) (string, error) {
	needs := map[string]bool{}
	for _, o := range seen.def.Needs {
		needs[o.Kind+" "+o.Name] = true
	}
	own, err := belongings(s)
	if err != nil {
		return "", err
	}
	byNode := map[node]*belonging{}
	table := seen.judgement.req.Table
	for _, b := range own {
		byNode[b.node] = b
		if needs[b.key()] {
			continue
		}
		for _, f := range seen.judgement.schema.Functions(b.name.Name) {
			if f.Name == b.name && slices.Contains(f.Mentions, table) {
				return b.key(), nil
			}
		}
	}
	rows, err := s.Exec("SELECT d.classid, d.objid FROM pg_depend d JOIN pg_class c ON c.oid = " + quote.Literal(table.SQL()) + `::regclass
JOIN pg_type t ON t.oid = c.reltype WHERE d.deptype = 'n' AND (d.refclassid = 'pg_type'::regclass AND d.refobjid IN (t.oid, t.typarray) OR d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid)`)
	if err != nil {
		return "", err
	}
	for _, r := range rows {
		if b := byNode[node{r[0], r[1]}]; b != nil && !needs[b.key()] {
			return b.key(), nil
		}
	}
	return "", nil
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
