package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
	"weft/plan"
)

// A table by itself as a piece: the needed columns of the rows that pass the conditions that cannot
// raise an error.

// tablePiece makes the piece that reads a table, and returns its number. Equal pieces are made
// once.
func (r *remainder) tablePiece(x *appearance, rv *pg.RangeVar) (int, error) {
	sel := &pg.SelectStmt{LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE}
	p := plan.Piece{Name: x.calledName()}
	r.columns(x, rv, sel, &p)

	from := &pg.RangeVar{Schemaname: x.rv.Schemaname, Relname: x.rv.Relname, Inh: x.rv.Inh, Relpersistence: "p", Location: -1}
	if x.rel != nil {
		// Without its schema the name might mean another table under the client's search_path on
		// another server.
		from.Schemaname = x.rel.Schema
	}
	node := &pg.Node{Node: &pg.Node_RangeVar{RangeVar: from}}
	if x.sample != nil {
		s := proto.Clone(x.sample).(*pg.RangeTableSample)
		s.Relation = node
		node = &pg.Node{Node: &pg.Node_RangeTableSample{RangeTableSample: s}}
	}
	sel.FromClause = []*pg.Node{node}
	sel.WhereClause = conjunction(r.conditions(x))

	text, err := r.a.gatherer().render(selectOf(sel))
	if err != nil {
		return 0, err
	}
	p.Text = text
	switch {
	case x.instance != nil:
		p.Where = plan.OnShards
		p.Instances = []plan.Instance{r.solved(x.instance)}
	case r.everywhere(x):
		p.Where = plan.OnCopy
	default:
		p.Where = plan.OnHome
	}
	n := r.add(p, x.sample == nil && (x.rel == nil || x.rel.Kind != catalog.View))
	in := inputOf{x: x, piece: n}
	for _, t := range sel.TargetList {
		name := ""
		if names := nameList(t.GetResTarget().GetVal().GetColumnRef().GetFields()); len(names) == 1 {
			name = names[0]
		}
		in.columns = append(in.columns, name)
	}
	r.inputs = append(r.inputs, in)
	return n, nil
}

// add adds a piece, or finds an equal one, and returns its number.
func (r *remainder) add(p plan.Piece, shared bool) int {
	if shared {
		for i := range r.gather.Pieces {
			q := &r.gather.Pieces[i]
			if r.shared[i] && q.Where == p.Where && slices.Equal(q.Text, p.Text) {
				q.Instances = append(q.Instances, p.Instances...)
				return i
			}
		}
	}
	r.gather.Pieces = append(r.gather.Pieces, p)
	r.shared = append(r.shared, shared)
	return len(r.gather.Pieces) - 1
}

// everywhere reports whether every shard has the whole table.
func (r *remainder) everywhere(x *appearance) bool {
	switch {
	case x.table != nil:
		return x.table.Reference
	case x.rel != nil && x.rel.Kind == catalog.View && !x.rel.System():
		return r.a.commands().placeOf(x.rel) == onEvery
	}
	return false
}

// columns fills in the columns that the piece yields.
func (r *remainder) columns(x *appearance, rv *pg.RangeVar, sel *pg.SelectStmt, p *plan.Piece) {
	if !x.known() {
		r.unknownColumns(x, rv, sel)
		return
	}
	renamed := x.columnNames()
	all := r.mentions.all[rv] || r.mentions.starred[x.name]
	if all && len(x.rel.Columns) == 0 {
		r.refuse("Leave out its row and its star: they are empty.", "%q has no columns, and its rows cannot be carried between shards", x.calledName())
	}
	for i := range x.rel.Columns {
		c := &x.rel.Columns[i]
		if !all && !r.mentions.column(x.name, renamed[i]) {
			continue
		}
		if slices.Contains(x.lookups, c.Name) {
			p.Index = append(p.Index, len(sel.TargetList))
		}
		sel.TargetList = append(sel.TargetList, targetOf(nameNode(c.Name), ""))
		typ, coll := "", ""
		if c.Type != c.Base {
			typ = c.TypeName
		}
		if c.Collation.Name != "" {
			coll = c.Collation.SQL()
		}
		p.Types, p.Collations = append(p.Types, typ), append(p.Collations, coll)
	}
	for _, name := range x.system {
		n, typ := nameNode(name), ""
		if name == tableOID && x.table != nil {
			n, typ = tableName(n), "pg_catalog.regclass::pg_catalog.oid"
		}
		sel.TargetList = append(sel.TargetList, targetOf(n, name))
		p.Types, p.Collations = append(p.Types, typ), append(p.Collations, "")
	}
	if x.marked {
		sel.TargetList = append(sel.TargetList, targetOf(constantTrue(), rowMark))
		p.Types, p.Collations = append(p.Types, ""), append(p.Collations, "")
	}
	r.atLeastOne(sel, p)
}

// tableName returns the name of the table with an OID, with its schema: tables have the same names on all shards, and not the
// same OIDs.
func tableName(oid *pg.Node) *pg.Node {
	const classes = 1259 // pg_class
	object := builtin("pg_identify_object", cast(intNode(classes), "oid"), oid, intNode(0))
	return &pg.Node{Node: &pg.Node_AIndirection{AIndirection: &pg.A_Indirection{Arg: object, Indirection: []*pg.Node{pg.MakeStrNode("identity")}}}}
}

// atLeastOne gives the piece a column if it has none: rows count even if none of their columns is
// needed.
func (r *remainder) atLeastOne(sel *pg.SelectStmt, p *plan.Piece) {
	if len(sel.TargetList) > 0 {
		return
	}
	sel.TargetList = []*pg.Node{targetOf(constantTrue(), r.unnamed("one"))}
	p.Types, p.Collations = append(p.Types, ""), append(p.Collations, "")
}

// unknownColumns fills in the columns of system catalogs and temporary tables: every name that is
// not known to belong elsewhere counts as one of them.
func (r *remainder) unknownColumns(x *appearance, rv *pg.RangeVar, sel *pg.SelectStmt) {
	star := []*pg.Node{targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
	if r.mentions.all[rv] || r.mentions.starred[x.name] || len(r.mentions.bare) > 0 {
		sel.TargetList = star
		return
	}
	var names []string
	for q, list := range r.mentions.qualified {
		if q == x.name || r.mentions.joins[q] {
			for name := range list {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 || len(r.mentions.joins) > 0 {
		sel.TargetList = star
		return
	}
	slices.Sort(names)
	for _, name := range names {
		sel.TargetList = append(sel.TargetList, targetOf(nameNode(name), ""))
	}
}

// conditions returns the conditions that may be checked where the table is read.
func (r *remainder) conditions(x *appearance) []*pg.Node {
	if !r.a.notes.volatile {
		return x.conditions
	}
	// Conditions outside of a query would hide rows from functions with effects inside it.
	var out []*pg.Node
	for i, c := range x.conditions {
		if !slices.Contains(x.through, i) {
			out = append(out, c)
		}
	}
	return out
}

// solved returns what is known of an instance's key.
func (r *remainder) solved(x *instance) plan.Instance {
	in := x.solve(r.a.gatherer().classesOf(x.scope))
	r.a.settleInstance(&in)
	return in
}

// unnamed returns a name that the statement does not use.
func (r *remainder) unnamed(name string) string {
	for i := 1; r.mentions.named(name); i++ {
		name += strconv.Itoa(i)
	}
	return name
}

// calledName returns the name under which people know the table.
func (x *appearance) calledName() string { return called(x.rv) }

// rowMark is a column that is there only to say that a row exists.
const rowMark = "weft_row"

// wholeRow returns the value of a reference to a whole row.
func (x *appearance) wholeRow() (*pg.Node, bool) {
	if !x.known() {
		return nil, false
	}
	row := &pg.RowExpr{RowFormat: pg.CoercionForm_COERCE_EXPLICIT_CALL, Location: -1}
	sure := ""
	for i, name := range x.columnNames() {
		row.Args = append(row.Args, nameNode(x.name, name))
		if c := &x.rel.Columns[i]; c.NotNull && sure == "" {
			sure = name
		}
	}
	typ := &pg.TypeName{Names: []*pg.Node{pg.MakeStrNode(x.rel.Schema), pg.MakeStrNode(x.rel.Name.Name)}, Typemod: -1, Location: -1}
	n := &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{
		Arg: &pg.Node{Node: &pg.Node_RowExpr{RowExpr: row}}, TypeName: typ, Location: -1,
	}}}
	nullable := false
	for s := x.scope; s != nil; s = s.parent {
		nullable = nullable || s.nullable
	}
	if !nullable {
		return n, true
	}
	if sure == "" {
		if x.hasColumn(rowMark) {
			return nil, false
		}
		x.marked, sure = true, rowMark
	}
	// A missing row has no value, which differs from a row of NULLs.
	when := &pg.CaseWhen{
		Expr: &pg.Node{Node: &pg.Node_NullTest{NullTest: &pg.NullTest{
			Arg: nameNode(x.name, sure), Nulltesttype: pg.NullTestType_IS_NOT_NULL, Location: -1,
		}}},
		Result: n, Location: -1,
	}
	return &pg.Node{Node: &pg.Node_CaseExpr{CaseExpr: &pg.CaseExpr{
		Args: []*pg.Node{{Node: &pg.Node_CaseWhen{CaseWhen: when}}}, Location: -1,
	}}}, true
}

// incomparable are the types that cannot be grouped by: json, xml and the geometric types.
var incomparable = map[datum.Type]bool{114: true, 142: true, 600: true, 601: true, 602: true, 603: true, 604: true, 628: true, 718: true}

func selectOf(s *pg.SelectStmt) *pg.Node {
	return &pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: s}}
}

func targetOf(n *pg.Node, name string) *pg.Node {
	return &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Name: name, Val: n, Location: -1}}}
}

func constantTrue() *pg.Node {
	return &pg.Node{Node: &pg.Node_AConst{AConst: &pg.A_Const{Val: &pg.A_Const_Boolval{Boolval: &pg.Boolean{Boolval: true}}, Location: -1}}}
}

// conjunction joins conditions by AND.
func conjunction(list []*pg.Node) *pg.Node {
	switch len(list) {
	case 0:
		return nil
	case 1:
		return list[0]
	}
	return &pg.Node{Node: &pg.Node_BoolExpr{BoolExpr: &pg.BoolExpr{Boolop: pg.BoolExprType_AND_EXPR, Args: list, Location: -1}}}
}
