package planner

import (
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
)

// The functions below make nodes of a tree.

func selectNode(s *pg.SelectStmt) *pg.Node {
	return &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: s}}
}

func targetNode(n *pg.Node, name string) *pg.Node {
	return pg.MakeResTargetNodeWithNameAndVal(name, n, -1)
}

// cast returns value::type, of a built-in type.
func cast(n *pg.Node, typ string) *pg.Node {
	return castAs(n, &pg.TypeName{Names: []*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode(typ)}, Typemod: -1})
}

func castAs(n *pg.Node, t *pg.TypeName) *pg.Node {
	return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{Arg: n, TypeName: t, Location: -1}}}
}

// builtin returns a call of a built-in function.
func builtin(name string, args ...*pg.Node) *pg.Node {
	return pg.MakeFuncCallNode([]*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode(name)}, args, -1)
}

func boolNode(v bool) *pg.Node {
	return &pg.Node{Node: &pg.Node_AConst{AConst: &pg.A_Const{Val: &pg.A_Const_Boolval{Boolval: &pg.Boolean{Boolval: v}}, Location: -1}}}
}

func isNull(n *pg.Node) bool { return n.GetAConst().GetIsnull() }

// inputAlias is the name that a block gives the rows of its piece.
const inputAlias = "weft"

// inputColumn returns the name that a block gives a column of its piece.
func inputColumn(i int) string { return "c" + strconv.Itoa(i+1) }

// inputNode returns the rows of a piece as an item of FROM, with columns columns. A column whose
// collation differs from that of its type gets it back. With -1 columns the rows keep their own
// names.
func inputNode(piece, columns int, collations []collation) *pg.Node {
	alias := &pg.Alias{Aliasname: inputAlias}
	for i := range max(columns, 0) {
		alias.Colnames = append(alias.Colnames, pg.MakeStrNode(inputColumn(i)))
	}
	rv := &pg.Node{Node: &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
		Relname: inputMark(piece), Inh: true, Relpersistence: "p", Alias: alias, Location: -1,
	}}}
	named := false
	for _, c := range collations {
		named = named || c.name.Name != ""
	}
	if !named {
		return rv
	}
	in := newSelect()
	in.FromClause = []*pg.Node{rv}
	for i := range columns {
		n := nameNode(inputAlias, inputColumn(i))
		if i < len(collations) {
			n = collations[i].apply(n)
		}
		in.TargetList = append(in.TargetList, targetNode(n, inputColumn(i)))
	}
	return &pg.Node{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{
		Subquery: selectNode(in), Alias: &pg.Alias{Aliasname: inputAlias},
	}}}
}

// collation is the collation by which strings are compared.
type collation struct {
	name  catalog.Name // empty for the database's default
	bytes bool         // the collation compares bytes
	loose bool         // different strings may be equal
}

func (c collation) apply(n *pg.Node) *pg.Node {
	if c.name.Name == "" {
		return n
	}
	clause := &pg.CollateClause{Arg: n, Location: -1}
	if c.name.Schema != "" {
		clause.Collname = append(clause.Collname, pg.MakeStrNode(c.name.Schema))
	}
	clause.Collname = append(clause.Collname, pg.MakeStrNode(c.name.Name))
	return &pg.Node{Node: &pg.Node_CollateClause{CollateClause: clause}}
}

// collationOf returns the collation of an expression over the block's FROM; x is the column that
// the expression is, if it is one. ok is false if the collation cannot be told.
func (b *block) collationOf(a *analysis, n *pg.Node, x *column) (c collation, ok bool) {
	def := collation{bytes: a.env.Schema.Bytewise}
	if !b.collated {
		return def, true
	}
	if x == nil && b.level != nil {
		x = b.level.column(n)
	}
	if x != nil {
		switch {
		case x.stored != nil:
			return collation{name: x.stored.Collation, bytes: x.stored.Bytewise, loose: x.stored.Nondeterministic}, true
		case x.typ == datum.Text || x.typ == datum.Varchar || x.typ == datum.Bpchar || x.typ == 0:
			return c, false
		}
		return def, true
	}
	if clause := n.GetCollateClause(); clause != nil {
		names := nameList(clause.Collname)
		c.name.Name = names[len(names)-1]
		if len(names) > 1 {
			c.name.Schema = names[len(names)-2]
		}
		if c.name.Schema == "" || c.name.Schema == "pg_catalog" {
			c.bytes = c.name.Name == "C" || c.name.Name == "POSIX" || c.name.Name == "ucs_basic"
		}
		c.loose = !c.bytes
		return c, true
	}
	ok = b.level != nil
	walkLevel(n, func(m any) {
		switch m := m.(type) {
		case *pg.CollateClause, *pg.SubLink:
			ok = false
		case *pg.ColumnRef:
			if !ok {
				return
			}
			x := b.level.column(&pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: m}})
			if x == nil && b.level.wholeRow(m) {
				return
			}
			ok = x != nil && x.stored != nil && x.stored.Collation.Name == ""
		}
	})
	return def, ok
}

// wholeRow reports whether a name is that of a table and stands for its rows.
func (l *level) wholeRow(ref *pg.ColumnRef) bool {
	names := nameList(ref.Fields)
	if len(names) == 0 {
		return false
	}
	it, _ := l.item(names)
	return it != nil && !it.opaque
}

// placeless returns an expression without its positions in the text.
func placeless(n *pg.Node) *pg.Node {
	n = proto.Clone(n).(*pg.Node)
	clearPlaces(n.ProtoReflect())
	return n
}

func clearPlaces(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Name() == "location" && f.Kind() == protoreflect.Int32Kind:
			m.Clear(f)
		case f.IsList() && f.Kind() == protoreflect.MessageKind:
			for i := range v.List().Len() {
				clearPlaces(v.List().Get(i).Message())
			}
		case f.Kind() == protoreflect.MessageKind && !f.IsMap():
			clearPlaces(v.Message())
		}
		return true
	})
}

func intNode(i int) *pg.Node { return pg.MakeAConstIntNode(int64(i), -1) }

func coalesce(args ...*pg.Node) *pg.Node {
	return &pg.Node{Node: &pg.Node_CoalesceExpr{CoalesceExpr: &pg.CoalesceExpr{Args: args, Location: -1}}}
}

// walkNodes visits the nodes of an expression. It does not descend into nodes for which visit
// returns false.
func walkNodes(n *pg.Node, visit func(*pg.Node) bool) {
	parser.Walk(n, func(m any) bool {
		if m, ok := m.(*pg.Node); ok {
			return visit(m)
		}
		return true
	})
}
