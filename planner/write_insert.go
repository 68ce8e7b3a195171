package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// An INSERT whose rows belong on several shards:
//
//   - VALUES: each row goes to its shard, as it is written. Where a key is not a
//     constant, the home shard is asked for its value first; so is it for what
//     cannot be evaluated on the row's shard, such as a subquery of other tables.
//     Whatever is evaluated is evaluated once.
//   - SELECT that yields on each shard the rows that belong there: each shard
//     runs the statement.
//   - any other SELECT is gathered, and its rows are sent where they belong.

// inserts plans an INSERT.
func (wr writes) inserts(n *pg.InsertStmt) plan.Route {
	if changesInWith(n.WithClause) {
		return wr.withSteps(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: n}}, func(l *level) { l.modification().insert(n) })
	}
	if to := wr.writable(n.Relation); to != nil && to.table != nil && to.table.Reference {
		wr.notesOfWrite() // tables that the INSERT reads may have to be lent to the home shard
	}
	wr.a.top().modification().insert(n)
	if len(wr.a.copies) > 0 {
		return wr.replicated(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: n}})
	}
	r := wr.a.gatherer().sized(nil, wr.a.decide())
	if len(wr.a.client.tree.Statements) != 1 || wr.a.out.Waits || !wr.a.refused() && r != plan.Keyed {
		return r
	}
	if wr.a.refused() && wr.a.out.Refusal.Code != pgerr.FeatureNotSupported {
		return r
	}
	if wr.a.temporary(n.Relation) {
		return wr.insertsTemporary(n, r)
	}
	to := wr.writable(n.Relation)
	if to != nil && to.table != nil && to.table.Reference || changesInWith(n.WithClause) {
		return r
	}
	b, refusal := wr.afresh().writes().insertion(n, wr.a)
	switch {
	case b == nil && refusal == nil:
	case refusal != nil && !wr.a.refused():
		wr.a.scattered = refusal
	case refusal != nil:
		if b != nil { // b's reason says more than that two kinds of tables are in the statement
			wr.a.out.Refusal = refusal
		}
	case wr.a.refused():
		*wr.a = *b
		return plan.Gathered
	default:
		wr.a.out.Across = b.out.Across
		wr.a.out.Exact = wr.a.out.Exact || b.out.Exact
		_, rows := b.out.Write().Shape.(*plan.Rows)
		if g := wr.a.out.Generate; g != nil && rows && len(wr.a.params.used)+len(g.Values) > maxParams {
			// Values that weft supplies cannot be parameters beside the client's.
			return plan.Gathered
		}
	}
	return r
}

// insertsTemporary plans an INSERT into a temporary table from sharded tables: it runs unchanged on
// the home shard, over rows that are lent to it. r is its route as a statement for one shard.
func (wr writes) insertsTemporary(n *pg.InsertStmt, r plan.Route) plan.Route {
	if !wr.a.refused() {
		return r
	}
	stmt := &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: n}}
	b := wr.afresh()
	b.writes().notesOfWrite()
	b.top().modification().insert(n)
	if b.decide() != plan.Gathered || b.refused() {
		return r
	}
	w, refusal := b.writes().lentInsert(stmt)
	if refusal != nil {
		wr.a.out.Refusal = refusal
		return r
	}
	*wr.a = *b
	wr.a.out.Across = w
	return plan.Gathered
}

// lentInsert plans an INSERT that the home shard runs.
func (wr writes) lentInsert(stmt *pg.Node) (*plan.Write, *pgerr.Error) {
	if refusal := wr.a.gatherer().gatherable(); refusal != nil {
		return nil, refusal
	}
	if !wr.isStatement(stmt) {
		return nil, cannot("Send it as a statement of its own.", "a statement that changes rows on several shards cannot be part of a command")
	}
	n := stmt.GetInsertStmt()
	wr.a.timed = wr.a.clock().tells(stmt)
	s := &steps{a: wr.a, stmt: stmt, returned: map[string]int{}}
	locking, refusal := wr.findLocking(stmt)
	if refusal != nil {
		return nil, refusal
	}
	if s.before, refusal = wr.lockSteps(locking); refusal != nil {
		return nil, refusal
	}
	s.r = wr.a.gatherer().newRemainder()
	s.r.stays = map[*pg.RangeVar]bool{n.Relation: true}
	s.r.tree = s.r.copy(stmt)
	s.r.lend(locking)
	if refusal := s.r.takeOut(stmt); refusal != nil {
		return nil, refusal
	}
	s.before = append(s.before, homeStep(s.r.tree, "INSERT", len(n.ReturningList) > 0))
	return s.finish()
}

// changesInWith reports whether a WITH changes rows.
func changesInWith(w *pg.WithClause) bool {
	for _, n := range w.GetCtes() {
		if n.GetCommonTableExpr().GetCtequery().GetSelectStmt() == nil {
			return true
		}
	}
	return false
}

// afresh returns another analysis of the same text.
func (wr writes) afresh() *analysis {
	return &analysis{
		env: wr.a.env, text: wr.a.client, client: wr.a.client, out: &plan.Plan{Route: plan.Any}, reads: wr.a.reads, held: map[int]bool{}, when: always,
		params: &params{types: wr.a.params.types, used: make([]paramUse, len(wr.a.params.types))},
	}
}

// insertion plans an INSERT for several shards. first is its analysis as a statement for one shard.
// It returns the analysis that the plan belongs to, or nil if first has the better reason why there
// is none.
func (wr writes) insertion(n *pg.InsertStmt, first *analysis) (*analysis, *pgerr.Error) {
	b, refusal := wr.plainInsertion(n, first)
	if refusal == nil || refusal.Code != pgerr.FeatureNotSupported || !asksBeside(n) {
		return b, refusal
	}
	return wr.besideInsertion(n)
}

// plainInsertion is insertion where ON CONFLICT and RETURNING read nothing but what is on the shard
// of each row.
func (wr writes) plainInsertion(n *pg.InsertStmt, first *analysis) (*analysis, *pgerr.Error) {
	if name := withBesideRows(n); name != "" {
		return wr.a, cannot("Write the query of the WITH where it is used.",
			"WITH %q in ON CONFLICT or RETURNING is not supported over several shards", name)
	}
	sel := n.SelectStmt.GetSelectStmt()
	if sel == nil || plainValues(sel) {
		return wr.valuesInsertion(n, first)
	}
	return wr.selectInsertion(n)
}

// withBesideRows returns the name of a CTE that ON CONFLICT or RETURNING names: the
// statements that store rows on shards have no WITH.
func withBesideRows(n *pg.InsertStmt) string {
	if n.WithClause == nil {
		return ""
	}
	beside := &pg.InsertStmt{OnConflictClause: n.OnConflictClause, ReturningList: n.ReturningList}
	named := uses(beside)
	for _, c := range n.WithClause.Ctes {
		if name := c.GetCommonTableExpr().GetCtename(); named[name] > 0 {
			return name
		}
	}
	return ""
}

// valuesInsertion is insertion for VALUES and DEFAULT VALUES.
func (wr writes) valuesInsertion(n *pg.InsertStmt, first *analysis) (*analysis, *pgerr.Error) {
	wr.a.insert.apart = true
	wr.a.top().modification().insert(n)
	w := wr.a.insert.writer
	if w == nil || w.stmt != n {
		return nil, first.out.Refusal
	}
	wr.a.decide()
	switch {
	case wr.a.refused():
		return wr.a, wr.a.out.Refusal
	case len(wr.a.instances) > len(w.stored):
		return wr.a, besideRows(n)
	}
	var stored []plan.Instance
	for _, x := range wr.a.instances {
		in := x.solve(wr.a.gatherer().classesOf(x.scope))
		wr.a.settleInstance(&in)
		stored = append(stored, in)
	}
	rows, refusal := w.cutRows()
	if refusal != nil {
		return wr.a, refusal
	}
	if !first.refused() && len(rows.Rows) == 1 && len(rows.Cells) == 0 && (first.when != timed || first.out.Generate == nil) {
		return nil, first.scattered // the INSERT is on one shard for all values
	}
	rows.Instances = stored
	if len(w.away) > 0 {
		if rows.Query, refusal = w.readAway(); refusal != nil {
			return wr.a, refusal
		}
	}
	wr.a.out.Route, wr.a.out.Across = plan.Gathered, &plan.Write{Verb: "INSERT", Returns: len(n.ReturningList) > 0, Shape: rows}
	return wr.a, nil
}

// besideRows refuses an INSERT that reads or moves other rows than the inserted ones.
func besideRows(n *pg.InsertStmt) *pgerr.Error {
	for _, t := range n.OnConflictClause.GetTargetList() {
		if t.GetResTarget() != nil && len(n.ReturningList) == 0 {
			return cannot("Leave the shard key out of SET.", "ON CONFLICT DO UPDATE that changes a shard key, or reads a sharded table, is not supported over several shards")
		}
	}
	return cannot("Read them in a statement of its own.", "a subquery of a sharded table in ON CONFLICT or RETURNING is not supported over several shards")
}

// readAway plans the query for values that cannot be evaluated where the rows go.
func (w *writer) readAway() (*plan.Query, *pgerr.Error) {
	sel := newSelect()
	for _, row := range w.lists {
		for i, v := range row.GetList().GetItems() {
			if !w.away[v] {
				continue
			}
			if i < len(w.cols) && w.keyIndex(w.cols[i]) >= 0 {
				if typ := typeOf(keyType(w.cols[i])); typ != nil {
					v = castAs(v, typ)
				}
			}
			sel.TargetList = append(sel.TargetList, targetNode(v, ""))
		}
	}
	if len(sel.TargetList) > maxTargets {
		return nil, cannot("Insert fewer rows at a time.", "more than %d subqueries in one INSERT over several shards are not supported", maxTargets)
	}
	sel.WithClause = w.stmt.WithClause
	return w.a.writes().reading(selectNode(sel))
}

// reading plans the query that a write begins with.
func (wr writes) reading(query *pg.Node) (*plan.Query, *pgerr.Error) {
	q := &analysis{
		env: wr.a.env, text: wr.a.client, client: wr.a.client, out: &plan.Plan{Route: plan.Any}, reads: wr.a.reads, held: wr.a.held, when: always,
		params: wr.a.params,
	}
	wr.a.timed = false
	asked, err := wr.a.gatherer().render(query)
	if err != nil {
		return nil, unwritable(err)
	}
	r := q.gatherer().selected(query)
	wr.a.out.Exact = wr.a.out.Exact || q.out.Exact
	out := &plan.Query{Text: asked, Gather: q.out.Gather(), Writes: q.out.Writes}
	switch {
	case q.refused():
		return nil, q.out.Refusal
	case q.out.Gather() != nil:
		return out, nil
	case r == plan.Keyed || r == plan.Gathered:
		if q.scattered == nil {
			q.scattered = cannot("Insert what it yields in a statement of its own.", "this query over several shards is not supported in INSERT")
		}
		return nil, q.scattered
	}
	// One shard has everything.
	wr.a.timed = wr.a.clock().asksTime(query)
	text, err := wr.a.gatherer().render(query)
	if err != nil {
		return nil, unwritable(err)
	}
	rest := newSelect()
	rest.TargetList = []*pg.Node{targetNode(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
	rest.FromClause = []*pg.Node{inputNode(0, -1, nil)}
	out.Gather = &plan.Gather{
		Pieces: []plan.Piece{{Text: text, Where: plan.OnHome, Name: "home", Always: true}},
		Native: &plan.Native{Columns: maxTargets},
		Why:    []string{"one shard has everything that is read"},
	}
	if out.Gather.Remainder, err = wr.a.gatherer().render(selectNode(rest)); err != nil {
		return nil, unwritable(err)
	}
	return out, nil
}

// goesAway reports whether a value cannot be evaluated on the shard of its row, and notes such a
// value.
func (w *writer) goesAway(v *pg.Node) bool {
	if !w.a.insert.apart {
		return false
	}
	switch v.GetNode().(type) {
	case *pg.Node_AConst, *pg.Node_ParamRef, *pg.Node_SetToDefault:
		return false
	}
	// A subquery may name a CTE.
	if !(w.stmt.WithClause != nil && hasSubquery(v)) && !w.a.writes().foreign(v) {
		return false
	}
	if w.away == nil {
		w.away = map[*pg.Node]bool{}
	}
	w.away[v] = true
	return true
}

// defaultAway reports whether a default cannot be evaluated on the shard of the row, and notes such
// a default.
func (w *writer) defaultAway(c *catalog.Column) bool {
	if !w.a.insert.apart || !w.a.writes().foreignDefault(c) {
		return false
	}
	if w.awayDefaults == nil {
		w.awayDefaults = map[*catalog.Column]bool{}
	}
	w.awayDefaults[c] = true
	return true
}

// foreignDefault reports whether a default touches anything that is not on the shard of its row.
func (wr writes) foreignDefault(c *catalog.Column) bool {
	found := false
	wr.withDefault(c, func(n *pg.Node) { found = wr.foreign(n) })
	return found
}

// foreign reports whether an expression touches anything that is not on the shard
// of its row.
func (wr writes) foreign(v *pg.Node) bool {
	in := wr.a.gatherer().probing(wr.a.text)
	(&level{a: in, scope: &scope{}}).expression(v)
	t := &in.touched
	if in.refused() || len(in.instances) > 0 || len(t.home) > 0 || len(t.missing) > 0 || len(t.sequences) > 0 || len(t.homely) > 0 || t.advisory || t.catalog {
		return true
	}
	for _, f := range in.functions {
		if in.reach().beyond(&f.Reach) != "" {
			return true
		}
	}
	return false
}

func hasSubquery(n any) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		if _, ok := m.(*pg.SubLink); ok {
			found = true
		}
		return !found
	})
	return found
}
