package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
	"weft/quote"
)

// Nobody draws from a sequence but on the home shard. The others have those that the
// defaults of declared tables name, used up: see package schema. So what changes such a
// sequence goes to all shards, and leaves it used up there.

// feeds reports whether a declared table draws from a sequence.
func (a *analysis) feeds(seq catalog.Name) bool {
	for _, t := range a.allTables() {
		rel := a.env.Schema.Relation(t.name())
		for rel != nil && rel.Parent != nil {
			rel = rel.Parent
		}
		if rel != nil && feeds(rel, seq) {
			return true
		}
	}
	return false
}

func feeds(rel *catalog.Relation, seq catalog.Name) bool {
	return slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool {
		return c.Sequence == seq || strings.Contains(c.Default, "nextval") && strings.Contains(c.Default, seq.Name)
	}) || slices.ContainsFunc(rel.Children, func(c *catalog.Relation) bool { return feeds(c, seq) })
}

// alterSequence is the route of ALTER SEQUENCE.
func (a *analysis) alterSequence(n *pg.AlterSeqStmt) plan.Route {
	r := a.across(rangeVar(n.Sequence))
	if r != plan.Every {
		return r
	}
	if !slices.ContainsFunc(n.Options, func(o *pg.Node) bool { return o.GetDefElem().GetDefname() != "restart" }) {
		return plan.Home // which alone draws from it
	}
	rel := a.named(rangeVar(n.Sequence))
	fewer := proto.Clone(n).(*pg.AlterSeqStmt)
	fewer.Options = slices.DeleteFunc(fewer.Options, func(o *pg.Node) bool { return o.GetDefElem().GetDefname() == "restart" })
	fewer.Options = append(fewer.Options, &pg.Node{Node: &pg.Node_DefElem{DefElem: &pg.DefElem{Defname: "restart"}}})
	r = a.elsewhere(&pg.Node{Node: &pg.Node_AlterSeqStmt{AlterSeqStmt: fewer}})
	if r == plan.Every {
		a.change().Elsewhere += "; " + usedUp(rel.Name)
	}
	return r
}

// usedUp leaves nothing to draw from a sequence.
func usedUp(n catalog.Name) string {
	name := literalOf(quotedName(n))
	return "SELECT pg_catalog.setval(seqrelid, CASE WHEN seqincrement > 0 THEN seqmax ELSE seqmin END, true) FROM pg_catalog.pg_sequence WHERE seqrelid = " + name + "::pg_catalog.regclass"
}

func quotedName(n catalog.Name) string { return quote.Name(n.Schema, n.Name) }

func literalOf(s string) string {
	if strings.Contains(s, `\`) {
		return "E'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", "''") + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// retypesIdentity: the type of an identity's sequence changes with that of its column. On
// the other shards it is used up, at a value that another type may not have.
func (a *analysis) retypesIdentity(rel *catalog.Relation, column string) {
	c := findColumn(rel, column)
	if c == nil || c.Identity == 0 || c.Sequence.Name == "" || a.change().Elsewhere != "" || len(a.client.tree.Statements) != 1 {
		return
	}
	a.out.Exact = true
	a.change().Elsewhere = "ALTER SEQUENCE " + quotedName(c.Sequence) + " RESTART; " + strings.TrimRight(strings.TrimSpace(a.client.sql), ";") + "\n; " + usedUp(c.Sequence)
}

// drawsNow notes the sequences of a new default that the other shards do not have yet.
func (a *analysis) drawsNow(value *pg.Node) {
	parser.Walk(value, func(m any) bool {
		f, ok := m.(*pg.FuncCall)
		if !ok || len(f.Args) != 1 {
			return true
		}
		if names := nameList(f.Funcname); names[len(names)-1] != "nextval" {
			return true
		}
		arg, ok := argument(f.Args[0])
		if !ok || arg.Text == "" {
			return true
		}
		schema, name, ok := regclass(arg.Text)
		if !ok {
			return true
		}
		if rel := a.named(named{schema, name}); rel != nil && rel.Kind == catalog.Sequence && a.placeOf(rel) == onHome {
			a.change().Sequences = append(a.change().Sequences, nameOf(rel.Name))
		}
		return true
	})
}

// dropSequences: others may have a sequence of the home shard that a default named once.
func (a *analysis) dropSequences(n *pg.DropStmt) plan.Route {
	a.out.Writes = true
	if a.env.Tables.Empty() || n.RemoveType != pg.ObjectType_OBJECT_SEQUENCE {
		return plan.Home
	}
	for _, o := range n.Objects {
		if x, ok := dotted(o, 0); !ok || a.named(x) == nil {
			return plan.Home
		}
	}
	lenient := proto.Clone(n).(*pg.DropStmt)
	lenient.MissingOk = true
	return a.elsewhere(&pg.Node{Node: &pg.Node_DropStmt{DropStmt: lenient}})
}
