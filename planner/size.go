package planner

import (
	"fmt"
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

// The size of a sharded table is the sum of its sizes on all shards, and so are a database's, the
// estimates that pg_class has of a table, and the counts of statistics views. A query that asks for
// them is gathered: its pieces have the numbers of each shard by name, and its remainder is the query
// itself, on the home shard, with each call and each column replaced by the sum for the relation that
// is asked for. The numbers of other relations are those of the home shard.

// sizeFunctions are the built-in functions of one relation, or of a database, whose results add up.
var sizeFunctions = set("pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size", databaseSize,
	"pg_stat_get_live_tuples", "pg_stat_get_dead_tuples", "pg_stat_get_mod_since_analyze", "pg_stat_get_ins_since_vacuum",
	"pg_stat_get_numscans", "pg_stat_get_tuples_returned", "pg_stat_get_tuples_fetched", "pg_stat_get_tuples_inserted",
	"pg_stat_get_tuples_updated", "pg_stat_get_tuples_deleted", "pg_stat_get_tuples_hot_updated", "pg_stat_get_blocks_fetched", "pg_stat_get_blocks_hit")

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
	// databases are the names of the databases whose sizes are asked for.
	databases    []string
	anyDatabase  bool // only the query knows which
	pieces       []plan.Piece
	sums         []*pg.Node // common table expressions, each over one piece
	relationSums []string   // how the values of each column are added up
}

// asksSizes reports whether the statement asks for anything that is added up over shards.
func (t *touched) asksSizes() bool {
	return len(t.sizes) > 0 || len(t.estimates) > 0 || len(t.statistics) > 0
}

// sized returns the route of a statement that calls size functions; r is its route without them.
func (ga gatherer) sized(sel *pg.SelectStmt, r plan.Route) plan.Route {
	if !ga.a.touched.asksSizes() || ga.a.env.Tables.Empty() || ga.a.refused() {
		return r
	}
	s := &sizes{a: ga.a}
	name := s.asked()
	for _, f := range ga.a.touched.sizes {
		s.ask(f)
	}
	s.askEstimates()
	if s.all || s.askedDatabases() || len(ga.a.touched.statistics) > 0 {
		s.everything()
	}
	switch {
	case len(s.relations) == 0:
		return r
	case len(s.relations) > maxSizes && len(ga.a.touched.sizes) == 0:
		return r // estimates, and those of one shard are better than none
	case sel == nil || ga.a.touched.sizesInView || ga.a.touched.writesHome:
		ga.a.unsupported("Ask for it in a SELECT of its own.", "%s adds up all shards, and can only be asked for by a query itself", name)
	case len(ga.a.touched.sharded) > 0:
		ga.a.unsupported("Ask for it in a statement of its own.", "%s adds up all shards, and cannot be asked for where sharded table %q is read", name, ga.a.touched.sharded[0])
	case len(ga.a.touched.sequences) > 0 || ga.a.touched.advisory:
		ga.a.unsupported("Ask for it in a statement of its own.", "%s adds up all shards, and cannot be asked for beside sequences and advisory locks", name)
	case len(s.relations) > maxSizes || len(s.relations) > inlineSizes && ga.readsHome():
		ga.a.unsupported("Name the table: pg_table_size('…').", "%s cannot add up %d relations of all shards", name, len(s.relations))
	}
	if ga.a.refused() {
		return plan.Refused
	}
	g := s.gather(sel)
	if g == nil {
		ga.a.unsupported("Ask for it as an item of a SELECT.", "%s adds up all shards, and cannot be asked for like this", name)
		return plan.Refused
	}
	ga.a.out.Across = g
	return plan.Gathered
}

// asked returns the name of the first thing that is added up.
func (s *sizes) asked() string {
	t := &s.a.touched
	switch {
	case len(t.sizes) > 0:
		return lastOf(t.sizes[0].Funcname)
	case len(t.statistics) > 0:
		return t.statistics[0].Relname
	}
	return t.estimates[0].column
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
	if lastOf(f.Funcname) == databaseSize {
		s.askDatabase(f)
		return
	}
	if column := sizeColumn(f); column != "" {
		s.column(column, "pg_catalog.sum(%s)::pg_catalog.int8")
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

// column adds a column to the piece about relations, and returns its place. sum is how its values
// are added up.
func (s *sizes) column(call, sum string) int {
	if i := slices.Index(s.columns, call); i >= 0 {
		return i
	}
	s.columns, s.relationSums = append(s.columns, call), append(s.relationSums, sum)
	return len(s.columns) - 1
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
	if len(s.columns) > 0 {
		sums := s.relationTotals()
		s.piece("sizes of sharded tables", s.pieceText(), func(int) *pg.Node { return sums })
	}
	if s.askedDatabases() {
		s.piece("sizes of databases", s.databaseText(), databaseTotals)
	}
	if !s.readTotals(rest) || !s.replace(rest) {
		return nil
	}
	if rest.WithClause == nil {
		rest.WithClause = &pg.WithClause{Location: -1}
	}
	rest.WithClause.Ctes = append(s.sums, rest.WithClause.Ctes...)
	g := &plan.Gather{Why: []string{"sizes are what all shards say together"}, Pieces: s.pieces}
	var err error
	if g.Remainder, err = s.a.gatherer().render(selectNode(rest)); err != nil {
		return nil
	}
	return g
}

// piece adds a query for the shards, and the common table expression that adds up its rows.
func (s *sizes) piece(name, sql string, sums func(piece int) *pg.Node) {
	s.sums = append(s.sums, sums(len(s.pieces)))
	s.pieces = append(s.pieces, plan.Piece{Text: plan.Text{{Kind: plan.SQL, SQL: sql}}, Instances: s.instances, Name: name, Always: true})
}

// pieceText returns the query for the shards.
func (s *sizes) pieceText() string {
	var b strings.Builder
	b.WriteString("SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name")
	for i, column := range s.columns {
		b.WriteString(", " + column + " AS size" + strconv.Itoa(i+1))
	}
	b.WriteString(" FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname, c.relname) IN ")
	b.WriteString(s.names())
	return b.String()
}

// names returns the list of the relations that are asked for.
func (s *sizes) names() string {
	var b strings.Builder
	for i, n := range s.relations {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("(" + quote.Literal(n.Schema) + ", " + quote.Literal(n.Name) + ")")
	}
	return "(" + b.String() + ")"
}

// relationTotals returns a common table expression with the relations' sizes by their OIDs on the home
// shard.
func (s *sizes) relationTotals() *pg.Node {
	in := &pg.SelectStmt{FromClause: []*pg.Node{inputNode(0, 1+len(s.columns), nil)}}
	in.TargetList = []*pg.Node{targetNode(builtin("to_regclass", nameNode(inputAlias, inputColumn(0))), sizesRelation)}
	for i := range s.columns {
		sum := sqlMark(fmt.Sprintf(s.relationSums[i], inputAlias+"."+inputColumn(i+1)))
		in.TargetList = append(in.TargetList, targetNode(sum, sizesAlias+strconv.Itoa(i+1)))
	}
	in.GroupClause = []*pg.Node{nameNode(inputAlias, inputColumn(0))}
	return totals(sizesName, in)
}

// totals returns a common table expression that is computed once.
func totals(name string, sel *pg.SelectStmt) *pg.Node {
	return &pg.Node{Node: &pg.Node_CommonTableExpr{CommonTableExpr: &pg.CommonTableExpr{
		Ctename: name, Ctematerialized: pg.CTEMaterialize_CTEMaterializeAlways, Ctequery: selectNode(sel), Location: -1,
	}}}
}

// replace replaces calls and columns by sums. It reports false if it cannot.
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
			v := below(m.Val)
			if f := v.GetFuncCall(); m.Name == "" && f != nil && s.isSize(f) {
				m.Name = lastOf(f.Funcname)
			}
			if e := s.estimateAt(v.GetColumnRef()); m.Name == "" && e != nil {
				m.Name = e.column
			}
		case *pg.Node:
			if sub := s.called(m.GetRangeFunction()); sub != nil {
				m.Node = sub
			}
			if e := s.estimateAt(m.GetColumnRef()); e != nil {
				m.Node = s.estimated(e, m).Node
				return false
			}
			if f := m.GetFuncCall(); f != nil && s.isSize(f) {
				n := s.summed(f)
				if n == nil {
					ok = false
					return false
				}
				m.Node = n.Node
				return false
			}
		}
		return ok
	})
	return ok
}

// summed returns what stands for a call, or nil if nothing can.
func (s *sizes) summed(f *pg.FuncCall) *pg.Node {
	if f.AggFilter != nil || f.Over != nil || len(f.Args) == 0 {
		return nil
	}
	if lastOf(f.Funcname) == databaseSize {
		return databaseSum(f)
	}
	if column := slices.Index(s.columns, sizeColumn(f)); column >= 0 {
		return s.sum(f.Args[0], column, &pg.Node{Node: &pg.Node_FuncCall{FuncCall: f}})
	}
	return nil
}

// called returns a subquery for a call that stands in FROM by itself, or nil.
func (s *sizes) called(rf *pg.RangeFunction) *pg.Node_RangeSubselect {
	if rf == nil || rf.Ordinality || rf.IsRowsfrom || len(rf.Functions) != 1 || len(rf.Coldeflist) > 0 {
		return nil
	}
	items := rf.Functions[0].GetList().GetItems()
	if len(items) == 0 {
		return nil
	}
	f := items[0].GetFuncCall()
	if f == nil || !s.isSize(f) {
		return nil
	}
	alias := rf.Alias
	if alias == nil {
		alias = &pg.Alias{Aliasname: lastOf(f.Funcname)}
	}
	in := newSelect()
	in.TargetList = []*pg.Node{targetNode(items[0], alias.Aliasname)}
	return &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Lateral: true, Subquery: selectNode(in), Alias: alias}}
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

// sum returns COALESCE((SELECT size FROM weft_sizes WHERE relation = …), otherwise).
func (s *sizes) sum(relation *pg.Node, column int, otherwise *pg.Node) *pg.Node {
	from := &pg.Node{Node: &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
		Relname: sizesName, Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: sizesAlias}, Location: -1,
	}}}
	is := pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode("=")},
		cast(nameNode(sizesAlias, sizesRelation), "oid"), cast(cast(proto.Clone(relation).(*pg.Node), "regclass"), "oid"), -1)
	sub := &pg.SelectStmt{
		TargetList: []*pg.Node{targetNode(nameNode(sizesAlias, sizesAlias+strconv.Itoa(column+1)), "")}, FromClause: []*pg.Node{from}, WhereClause: is,
	}
	return orElse(sub, otherwise)
}

// orElse returns COALESCE((the query), otherwise).
func orElse(sub *pg.SelectStmt, otherwise *pg.Node) *pg.Node {
	sum := &pg.Node{Node: &pg.Node_SubLink{SubLink: &pg.SubLink{SubLinkType: pg.SubLinkType_EXPR_SUBLINK, Subselect: selectNode(sub), Location: -1}}}
	return &pg.Node{Node: &pg.Node_CoalesceExpr{CoalesceExpr: &pg.CoalesceExpr{Args: []*pg.Node{sum, otherwise}, Location: -1}}}
}
