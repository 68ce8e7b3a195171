package planner

import (
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
	"weft/quote"
)

// The size of a sharded table is the sum of its sizes on all shards. A query that asks for sizes,
// of one table or of all relations in pg_class, is gathered: its piece has the sizes of the sharded
// relations on each shard by name, and its remainder is the query itself, on the home shard, with
// each call replaced by the sum for the relation that is asked for. The sizes of other relations
// are taken on the home shard.

// sizeFunctions are the built-in functions that tell the size of a relation.
var sizeFunctions = set("pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size")

// The names of the sums in the remainder. They must differ from the columns that a call names.
const (
	sizesName     = "weft_sizes"
	sizesAlias    = "weft_size"
	sizesRelation = "weft_relation"
)

// inlineSizes is how many relations' sizes surely fit into the remainder, so that it runs in the
// client's own transaction.
const inlineSizes = 2000

// maxSizes bounds the names in a text for the shards.
const maxSizes = 20000

// sizes is a query that asks for sizes, on its way to a Gather.
type sizes struct {
	a         *analysis
	columns   []string // the call that each column of the piece makes
	relations []catalog.Name
	instances []plan.Instance
	all       bool // only the query knows which relations it asks for
}

// sized returns the route of a statement that calls size functions; r is its route without them.
func (ga gatherer) sized(sel *pg.SelectStmt, r plan.Route) plan.Route {
	calls := ga.a.touched.sizes
	if len(calls) == 0 || ga.a.env.Tables.Empty() || ga.a.refused() {
		return r
	}
	s := &sizes{a: ga.a}
	for _, f := range calls {
		s.ask(f)
	}
	if s.all {
		s.everything()
	}
	name := lastOf(calls[0].Funcname)
	switch {
	case len(s.relations) == 0:
		return r
	case sel == nil || ga.a.touched.sizesInView || ga.a.touched.writesHome:
		ga.a.unsupported("Ask for it in a SELECT of its own.", "%s adds up all shards, and can only be called by a query itself", name)
	case len(ga.a.touched.sharded) > 0:
		ga.a.unsupported("Ask for it in a statement of its own.", "%s adds up all shards, and cannot be called where sharded table %q is read", name, ga.a.touched.sharded[0])
	case len(ga.a.touched.sequences) > 0 || ga.a.touched.advisory:
		ga.a.unsupported("Ask for it in a statement of its own.", "%s adds up all shards, and cannot be called beside sequences and advisory locks", name)
	case len(s.relations) > maxSizes || len(s.relations) > inlineSizes && ga.readsHome():
		ga.a.unsupported("Name the table: pg_table_size('…').", "%s cannot add up %d relations of all shards", name, len(s.relations))
	}
	if ga.a.refused() {
		return plan.Refused
	}
	g := s.gather(sel)
	if g == nil {
		ga.a.unsupported("Ask for it as an item of a SELECT.", "%s adds up all shards, and cannot be called like this", name)
		return plan.Refused
	}
	ga.a.out.Across = g
	return plan.Gathered
}

func lastOf(nodes []*pg.Node) string {
	names := nameList(nodes)
	return names[len(names)-1]
}

// readsHome reports whether the statement reads more of the home shard than the catalogs.
func (ga gatherer) readsHome() bool {
	return slices.ContainsFunc(ga.a.touched.home, func(name string) bool {
		rel := ga.a.find("", name)
		return rel == nil || !rel.System()
	})
}

// ask notes a call, and the relation that it names, if any.
func (s *sizes) ask(f *pg.FuncCall) {
	if len(f.Args) == 0 || len(f.Args) > 2 {
		return // PostgreSQL says why not
	}
	if column := sizeColumn(f); column != "" && !slices.Contains(s.columns, column) {
		s.columns = append(s.columns, column)
	}
	if len(f.Args) == 2 {
		s.a.out.Exact = true // the fork is part of what shards are sent
	}
	arg := f.Args[0]
	if c := arg.GetTypeCast(); c != nil && lastOf(c.TypeName.GetNames()) == "regclass" {
		arg = c.Arg
	}
	text := arg.GetAConst().GetSval()
	if text == nil || strings.Trim(text.Sval, "0123456789") == "" {
		s.all = true
		return
	}
	s.a.out.Exact = true
	n := catalog.ParseName(text.Sval)
	if n.Schema == "" && s.a.env.Temporary[n.Name] {
		return
	}
	if rel := s.a.find(n.Schema, n.Name); rel != nil {
		s.add(rel)
	}
}

// sizeColumn returns the call as a shard makes it for a relation c, or "" if that cannot be told.
func sizeColumn(f *pg.FuncCall) string {
	call := "pg_catalog." + lastOf(f.Funcname) + "(c.oid"
	if len(f.Args) == 2 {
		fork := f.Args[1].GetAConst().GetSval()
		if fork == nil {
			return ""
		}
		call += ", " + quote.Literal(fork.Sval)
	}
	return call + ")"
}

// everything adds all relations that are spread over shards.
func (s *sizes) everything() {
	for rel := range s.a.env.Schema.Relations() {
		s.add(rel)
	}
}

// add adds a relation, if it is a sharded table or an index of one.
func (s *sizes) add(rel *catalog.Relation) {
	table := rel
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable:
	case catalog.Index, catalog.PartitionedIndex:
		table = s.a.env.Schema.Relation(rel.OwnedBy)
	default:
		return
	}
	if table == nil {
		return
	}
	t := s.a.declared(table)
	if t == nil || t.Reference || slices.Contains(s.relations, rel.Name) && !s.all {
		return
	}
	s.relations = append(s.relations, rel.Name)
	if !slices.ContainsFunc(s.instances, func(in plan.Instance) bool { return in.Table == &t.Table }) {
		s.instances = append(s.instances, plan.Instance{Table: &t.Table, Name: t.Name, Keys: make([][]plan.Set, len(t.keys))})
	}
}

// gather returns the Gather, or nil if a call cannot be replaced where it stands.
func (s *sizes) gather(sel *pg.SelectStmt) *plan.Gather {
	slices.SortFunc(s.relations, func(a, b catalog.Name) int {
		return strings.Compare(a.Schema+"\x00"+a.Name, b.Schema+"\x00"+b.Name)
	})
	s.relations = slices.Compact(s.relations)
	slices.SortFunc(s.instances, func(a, b plan.Instance) int { return strings.Compare(a.Name, b.Name) })
	rest := proto.Clone(sel).(*pg.SelectStmt)
	if !s.replace(rest) {
		return nil
	}
	if rest.WithClause == nil {
		rest.WithClause = &pg.WithClause{Location: -1}
	}
	rest.WithClause.Ctes = append([]*pg.Node{s.sums()}, rest.WithClause.Ctes...)
	g := &plan.Gather{Why: []string{"sizes are what all shards say together"}}
	var err error
	if g.Remainder, err = s.a.gatherer().render(selectNode(rest)); err != nil {
		return nil
	}
	g.Pieces = []plan.Piece{{
		Text: plan.Text{{Kind: plan.SQL, SQL: s.pieceText()}}, Instances: s.instances, Name: "sizes of sharded tables", Always: true,
	}}
	return g
}

// pieceText returns the query for the shards.
func (s *sizes) pieceText() string {
	var b strings.Builder
	b.WriteString("SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name")
	for i, column := range s.columns {
		b.WriteString(", " + column + " AS size" + strconv.Itoa(i+1))
	}
	b.WriteString(" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname, c.relname) IN (")
	for i, n := range s.relations {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + quote.Literal(n.Schema) + ", " + quote.Literal(n.Name) + ")")
	}
	b.WriteString(")")
	return b.String()
}

// sums returns a common table expression with the relations' sizes by their OIDs on the home shard.
func (s *sizes) sums() *pg.Node {
	in := &pg.SelectStmt{FromClause: []*pg.Node{inputNode(0, 1+len(s.columns), nil)}}
	in.TargetList = []*pg.Node{targetNode(builtin("to_regclass", nameNode(inputAlias, inputColumn(0))), sizesRelation)}
	for i := range s.columns {
		sum := cast(builtin("sum", nameNode(inputAlias, inputColumn(i+1))), "int8")
		in.TargetList = append(in.TargetList, targetNode(sum, sizesAlias+strconv.Itoa(i+1)))
	}
	in.GroupClause = []*pg.Node{nameNode(inputAlias, inputColumn(0))}
	return &pg.Node{Node: &pg.Node_CommonTableExpr{CommonTableExpr: &pg.CommonTableExpr{
		Ctename: sizesName, Ctematerialized: pg.CTEMaterialize_CTEMaterializeAlways, Ctequery: selectNode(in), Location: -1,
	}}}
}

// replace replaces calls by sums. It reports false if it cannot.
func (s *sizes) replace(sel *pg.SelectStmt) bool {
	ok := true
	parser.Walk(sel, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeFunction:
			parser.Walk(m, func(m any) bool {
				if f, is := m.(*pg.FuncCall); is && s.isSize(f) {
					ok = false
				}
				return ok
			})
		case *pg.ResTarget:
			// Without a name the column would get another one.
			if f := below(m.Val).GetFuncCall(); m.Name == "" && f != nil && s.isSize(f) {
				m.Name = lastOf(f.Funcname)
			}
		case *pg.Node:
			if f := m.GetFuncCall(); f != nil && s.isSize(f) {
				column := slices.Index(s.columns, sizeColumn(f))
				if column < 0 || f.AggFilter != nil || f.Over != nil || len(f.Args) == 0 {
					ok = false
					return false
				}
				m.Node = s.sum(f, column).Node
				return false
			}
		}
		return ok
	})
	return ok
}

// below returns the node that casts are applied to.
func below(n *pg.Node) *pg.Node {
	for {
		switch {
		case n.GetTypeCast() != nil:
			n = n.GetTypeCast().Arg
		case n.GetCollateClause() != nil:
			n = n.GetCollateClause().Arg
		default:
			return n
		}
	}
}

// isSize reports whether a call may be one of PostgreSQL's size functions.
func (s *sizes) isSize(f *pg.FuncCall) bool {
	names := nameList(f.Funcname)
	return sizeFunctions[names[len(names)-1]] && (len(names) == 1 || names[len(names)-2] == "pg_catalog")
}

// sum returns COALESCE((SELECT size FROM weft_sizes WHERE relation = …), the call).
func (s *sizes) sum(f *pg.FuncCall, column int) *pg.Node {
	from := &pg.Node{Node: &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
		Relname: sizesName, Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: sizesAlias}, Location: -1,
	}}}
	is := pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode("=")},
		cast(nameNode(sizesAlias, sizesRelation), "oid"), cast(cast(proto.Clone(f.Args[0]).(*pg.Node), "regclass"), "oid"), -1)
	sub := &pg.SelectStmt{
		TargetList: []*pg.Node{targetNode(nameNode(sizesAlias, sizesAlias+strconv.Itoa(column+1)), "")}, FromClause: []*pg.Node{from}, WhereClause: is,
	}
	sum := &pg.Node{Node: &pg.Node_SubLink{SubLink: &pg.SubLink{SubLinkType: pg.SubLinkType_EXPR_SUBLINK, Subselect: selectNode(sub), Location: -1}}}
	call := &pg.Node{Node: &pg.Node_FuncCall{FuncCall: f}}
	return &pg.Node{Node: &pg.Node_CoalesceExpr{CoalesceExpr: &pg.CoalesceExpr{Args: []*pg.Node{sum, call}, Location: -1}}}
}
