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

// Values of a sequence are drawn on the home shard alone, but for lots (package proxy/lot). The other shards have the sequences that
// defaults of declared tables name, used up: see package schema. So a command that changes such a
// sequence goes to all shards, and leaves it used up there.

// feeds reports whether a declared table draws from a sequence.
func (ob objects) feeds(seq catalog.Name) bool {
	for _, t := range ob.a.commands().allTables() {
		rel := ob.a.env.Schema.Relation(t.name())
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

// A sequence that a column of a declared table owns is on all shards as well, whether or not a
// default draws from it: it is dropped with the column.

// createSequence is the route of CREATE SEQUENCE.
func (ob objects) createSequence(n *pg.CreateSeqStmt) plan.Route {
	to := rangeVar(n.Sequence)
	if owner, ok := ob.newOwner(n.Options); !ok || owner == nil || ob.a.declared(owner) == nil || ob.a.commands().named(to) != nil {
		return plan.Home
	}
	name := quote.Ident(to.name)
	if to.schema != "" {
		name = quote.Name(to.schema, to.name)
	}
	r := ob.a.definitions().elsewhere(&pg.Node{Node: &pg.Node_CreateSeqStmt{CreateSeqStmt: n}})
	if r == plan.Every {
		ob.a.commands().change().Elsewhere += "; " + usedUp(name)
	}
	return r
}

// newOwner returns the table that a sequence is to be owned by, or nil for NONE and for a table
// that does not exist. ok is false if the command names no owner.
func (ob objects) newOwner(options []*pg.Node) (owner *catalog.Relation, ok bool) {
	for _, o := range options {
		if o.GetDefElem().GetDefname() != "owned_by" {
			continue
		}
		owner, ok = nil, true
		if x, found := dotted(o.GetDefElem().GetArg(), 1); found {
			owner = ob.a.commands().named(x)
		}
	}
	return owner, ok
}

// alterSequence is the route of ALTER SEQUENCE.
func (ob objects) alterSequence(n *pg.AlterSeqStmt) plan.Route {
	r := ob.a.commands().across(rangeVar(n.Sequence))
	rel := ob.a.commands().named(rangeVar(n.Sequence))
	owner, owned := ob.newOwner(n.Options)
	if r == plan.Home && rel != nil && rel.Kind == catalog.Sequence && owner != nil && ob.a.declared(owner) != nil {
		ob.a.commands().change().Sequences = append(ob.a.commands().change().Sequences, nameOf(rel.Name))
		r = ob.a.commands().everywhere()
	}
	if r != plan.Every {
		return r
	}
	if !slices.ContainsFunc(n.Options, func(o *pg.Node) bool { return o.GetDefElem().GetDefname() != "restart" }) {
		return plan.Home // values are drawn there alone
	}
	fewer := proto.Clone(n).(*pg.AlterSeqStmt)
	fewer.Options = slices.DeleteFunc(fewer.Options, func(o *pg.Node) bool { return o.GetDefElem().GetDefname() == "restart" })
	fewer.Options = append(fewer.Options, &pg.Node{Node: &pg.Node_DefElem{DefElem: &pg.DefElem{Defname: "restart"}}})
	if owned && owner != nil && ob.a.declared(owner) == nil {
		// The other shards have the sequence and lack the table.
		disown(fewer.Options)
	}
	r = ob.a.definitions().elsewhere(&pg.Node{Node: &pg.Node_AlterSeqStmt{AlterSeqStmt: fewer}})
	if r == plan.Every {
		ob.a.commands().change().Elsewhere += "; " + usedUp(rel.Name.SQL())
	}
	return r
}

// disown replaces the owner in a sequence's options by OWNED BY NONE.
func disown(options []*pg.Node) {
	none := &pg.Node{Node: &pg.Node_String_{String_: &pg.String{Sval: "none"}}}
	for _, o := range options {
		if e := o.GetDefElem(); e.GetDefname() == "owned_by" {
			e.Arg = &pg.Node{Node: &pg.Node_List{List: &pg.List{Items: []*pg.Node{none}}}}
		}
	}
}

// usedUp returns the statement that uses up a sequence, whose name is quoted.
func usedUp(sequence string) string {
	name := quote.Literal(sequence)
	return "SELECT pg_catalog.setval(seqrelid, CASE WHEN seqincrement > 0 THEN seqmax ELSE seqmin END, true) FROM pg_catalog.pg_sequence WHERE seqrelid = " + name + "::pg_catalog.regclass"
}

// retypesIdentity makes the other shards use up an identity's sequence again: its type changes with
// that of the column, and another type may not have the old last value.
func (ob objects) retypesIdentity(rel *catalog.Relation, column string) {
	c := findColumn(rel, column)
	if c == nil || c.Identity == 0 || c.Sequence.Name == "" || ob.a.commands().change().Elsewhere != "" || len(ob.a.client.tree.Statements) != 1 {
		return
	}
	ob.a.out.Exact = true
	ob.a.commands().change().Elsewhere = "ALTER SEQUENCE " + c.Sequence.SQL() + " RESTART; " + strings.TrimRight(strings.TrimSpace(ob.a.client.sql), ";") + "\n; " + usedUp(c.Sequence.SQL())
}

// drawsNow notes the sequences of a new default that the other shards lack.
func (ob objects) drawsNow(value *pg.Node) {
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
		if rel := ob.a.commands().named(named{schema, name}); rel != nil && rel.Kind == catalog.Sequence && ob.a.commands().placeOf(rel) == onHome {
			ob.a.commands().change().Sequences = append(ob.a.commands().change().Sequences, nameOf(rel.Name))
		}
		return true
	})
}

// dropSequences returns the route of DROP SEQUENCE: other shards may have a sequence of the home
// shard that a default once named.
func (ob objects) dropSequences(n *pg.DropStmt) plan.Route {
	ob.a.out.Writes = true
	if ob.a.env.Tables.Empty() || n.RemoveType != pg.ObjectType_OBJECT_SEQUENCE {
		return plan.Home
	}
	for _, o := range n.Objects {
		if x, ok := dotted(o, 0); !ok || ob.a.commands().named(x) == nil {
			return plan.Home
		}
	}
	lenient := proto.Clone(n).(*pg.DropStmt)
	lenient.MissingOk = true
	return ob.a.definitions().elsewhere(&pg.Node{Node: &pg.Node_DropStmt{DropStmt: lenient}})
}
