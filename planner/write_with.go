package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// A statement whose WITH changes rows is carried out in steps. All of it sees the
// rows as they were before it: so what is read is read first, and a table that it
// writes is never read where it is written. Then come the writes, in the order of
// WITH; the rows that each returns become an input of what follows.
//
//	WITH d AS (DELETE FROM a WHERE … RETURNING *) INSERT INTO b SELECT x, y FROM d
//
//	step 1: DELETE FROM a WHERE … RETURNING *           on the shards of a
//	step 2: SELECT x, y FROM <1> d                      once, on the home shard
//	then:   INSERT INTO b SELECT * FROM <2>             each row on its shard
//
// Two writes of one table are kept from seeing each other, see repeated.
type steps struct {
	a    *analysis
	stmt *pg.Node
	with *pg.WithClause
	r    *remainder
	// returned maps a name of WITH to the number of the step whose rows it means.
	returned map[string]int
	before   []*step
	written  map[*catalog.Relation]bool
	// rewrites are the tables that are written more than once, shows the names of the columns of
	// those steps that return keys behind them.
	rewrites map[*catalog.Relation]*repeated
	shows    map[int][]string
	last     bool             // the statement itself is at hand
	locking  []*pg.SelectStmt // the queries that the first steps answer
	along    map[int32]int    // plan.Local.Along by the position of the target in the text
}

// step is a step whose text has not been written out yet.
type step struct {
	tree  *pg.Node
	write *plan.Write
	// statement is the part of write's shape that gets the text. Nil for a query that locks rows.
	statement *plan.Statement
	// split says how the step's input is split among the shards. Nil if it is not split.
	split *plan.Split
}

// changingStep returns a step that changes these rows of a sharded table, or rows of a home table if
// there are no instances.
func changingStep(tree *pg.Node, verb string, returns bool, rows []plan.Instance, along int) *step {
	if len(rows) == 0 {
		return homeStep(tree, verb, returns)
	}
	w := &plan.Local{Instances: rows, Along: along}
	return &step{tree: tree, write: &plan.Write{Verb: verb, Returns: returns, Shape: w}, statement: &w.Statement}
}

// homeStep returns a step that the home shard runs.
func homeStep(tree *pg.Node, verb string, returns bool) *step {
	w := &plan.AtHome{}
	return &step{tree: tree, write: &plan.Write{Verb: verb, Returns: returns, Shape: w}, statement: &w.Statement}
}

// copiesStep returns a step that writes a reference table.
func copiesStep(tree *pg.Node, verb string, w *plan.Copies) *step {
	return &step{tree: tree, write: &plan.Write{Verb: verb, Returns: true, Shape: w}, statement: &w.Statement}
}

// readingStep returns a step that is a query on the home shard.
func readingStep(tree *pg.Node) *step { return homeStep(tree, "SELECT", true) }

// sharingStep returns a step that sends rows of an earlier step to their shards.
func sharingStep(tree *pg.Node, verb string, returns bool, split *plan.Split) *step {
	w := &plan.Share{Split: split}
	return &step{tree: tree, write: &plan.Write{Verb: verb, Returns: returns, Shape: w}, statement: &w.Statement, split: split}
}

// withWrites plans a statement whose WITH changes rows.
func (wr writes) withWrites(stmt *pg.Node) (*plan.Write, *pgerr.Error) {
	modifying := wr.a.notes.modifying
	wr.a.notes.modifying = false
	refusal := wr.a.gatherer().gatherable()
	wr.a.notes.modifying = modifying
	if refusal != nil {
		return nil, refusal
	}
	if !wr.isStatement(stmt) {
		return nil, cannot("Send it as a statement of its own.", "a statement that changes rows on several shards cannot be part of a command")
	}
	with, _ := withOf(stmt)
	s := &steps{a: wr.a, stmt: stmt, with: with, returned: map[string]int{}, along: map[int32]int{}}
	s.written, s.rewrites, s.shows = map[*catalog.Relation]bool{}, map[*catalog.Relation]*repeated{}, map[int][]string{}
	if refusal := s.check(); refusal != nil {
		return nil, refusal
	}
	wr.a.timed = wr.a.clock().tells(stmt)
	if s.locking, refusal = wr.findLocking(stmt); refusal != nil {
		return nil, refusal
	}
	if refusal := lockedOnly(stmt, s.locking); refusal != nil {
		return nil, refusal
	}
	stays, refusal := s.staying()
	if refusal != nil {
		return nil, refusal
	}
	if s.before, refusal = wr.lockSteps(s.locking); refusal != nil {
		return nil, refusal
	}
	s.r = wr.a.gatherer().newRemainder()
	s.r.stays = stays
	s.r.tree = s.r.copy(stmt)
	s.r.lend(s.locking)
	if refusal := s.r.takeOut(stmt); refusal != nil {
		return nil, refusal
	}
	return s.write()
}

// check finds out which tables are written, and refuses a statement that cannot be done in steps.
func (s *steps) check() *pgerr.Error {
	names := map[string]int{}
	parser.Walk(s.stmt, func(m any) bool {
		if c, ok := m.(*pg.CommonTableExpr); ok {
			names[c.Ctename]++
		}
		return true
	})
	var parts []part
	for _, n := range s.with.GetCtes() {
		c := n.GetCommonTableExpr()
		if c.GetCtequery().GetSelectStmt() != nil {
			continue
		}
		if names[c.Ctename] > 1 {
			return cannot("Give each WITH a name of its own.", "a WITH that changes rows hides another of the same name: %q", c.Ctename)
		}
		parts = append(parts, part{c.Ctequery, c.Ctename})
	}
	parts = append(parts, part{node: s.stmt})
	for _, p := range parts {
		n := p.node
		rv := writtenBy(n)
		if rv == nil {
			continue
		}
		to := s.a.writes().writable(rv)
		switch {
		case to == nil || s.a.temporary(rv):
			return cannot("Use a table that is not temporary.", "%q cannot be written by WITH over several shards", rv.Relname)
		case n.GetMergeStmt() != nil:
			return cannot("Use INSERT … ON CONFLICT, UPDATE or DELETE.", "MERGE is not supported beside other writes over several shards")
		}
	}
	if refusal := s.writtenAgain(parts); refusal != nil {
		return refusal
	}
	if refusal := s.foreignKeysBetween(parts); refusal != nil {
		return refusal
	}
	if s.with.GetRecursive() {
		return cannot("Leave RECURSIVE out.", "WITH RECURSIVE that changes rows is not supported over several shards")
	}
	return nil
}

// writtenBy returns the table that a statement writes, or nil.
func writtenBy(n *pg.Node) *pg.RangeVar {
	switch n := n.GetNode().(type) {
	case *pg.Node_InsertStmt:
		return n.InsertStmt.Relation
	case *pg.Node_UpdateStmt:
		return n.UpdateStmt.Relation
	case *pg.Node_DeleteStmt:
		return n.DeleteStmt.Relation
	case *pg.Node_MergeStmt:
		return n.MergeStmt.Relation
	}
	return nil
}

// staying finds the relations that stay in the texts of UPDATE and DELETE. All others are read at
// home, over rows that have been read before.
func (s *steps) staying() (map[*pg.RangeVar]bool, *pgerr.Error) {
	stays := map[*pg.RangeVar]bool{}
	look := func(n *pg.Node, visible int) *pgerr.Error {
		c := s.a.writes().changing(n)
		if c == nil {
			return nil
		}
		if c.table != nil && c.table.Reference {
			c.table = nil // the home shard alone runs it
		}
		if c.moves() {
			return cannot("Change the key in a statement of its own.", "the shard key of %q cannot be changed beside other writes", c.target.Relname)
		}
		if refusal := c.ownDefaults(); refusal != nil {
			return refusal
		}
		own, _ := withOf(n)
		c.with, c.locking = s.visible(visible), s.locking
		if own != nil && n != s.stmt {
			return cannot("Write one WITH.", "a WITH inside of another that changes rows is not supported over several shards")
		}
		s.along[c.target.Location] = c.along()
		found, refusal := c.staying()
		if len(c.once) > 0 && refusal == nil {
			refusal = cannot("Ask for its rows first.", "a subquery that may yield other rows each time is not supported beside other writes over several shards")
		}
		for rv, ok := range found {
			stays[rv] = ok && (rv == c.target || !s.readsWritten(rv))
		}
		return refusal
	}
	for i, n := range s.with.GetCtes() {
		if refusal := look(n.GetCommonTableExpr().GetCtequery(), i); refusal != nil {
			return nil, refusal
		}
	}
	return stays, look(s.stmt, len(s.with.GetCtes()))
}

// visible returns the first n queries of WITH. A query that changes rows is replaced by one about
// which nothing is known.
func (s *steps) visible(n int) *pg.WithClause {
	out := &pg.WithClause{Location: -1}
	for _, e := range s.with.GetCtes()[:n] {
		c := e.GetCommonTableExpr()
		if c.Ctequery.GetSelectStmt() == nil {
			rows := newSelect()
			rows.TargetList = []*pg.Node{targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
			call := pg.MakeFuncCallNode([]*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode("generate_series")},
				[]*pg.Node{pg.MakeAConstIntNode(1, -1), pg.MakeAConstIntNode(1, -1)}, -1)
			rows.FromClause = []*pg.Node{{Node: &pg.Node_RangeFunction{RangeFunction: &pg.RangeFunction{
				Functions: []*pg.Node{{Node: &pg.Node_List{List: &pg.List{Items: []*pg.Node{call, {}}}}}},
			}}}}
			e = &pg.Node{Node: &pg.Node_CommonTableExpr{CommonTableExpr: &pg.CommonTableExpr{Ctename: c.Ctename, Ctequery: selectOf(rows), Location: -1}}}
		}
		out.Ctes = append(out.Ctes, e)
	}
	if len(out.Ctes) == 0 {
		return nil
	}
	return out
}

// write cuts the statement into steps and writes them out.
func (s *steps) write() (*plan.Write, *pgerr.Error) {
	with, _ := withOf(s.r.tree)
	var plain []*pg.Node
	for _, n := range with.GetCtes() {
		c := n.GetCommonTableExpr()
		if c.Ctequery.GetSelectStmt() != nil {
			plain = append(plain, n)
			continue
		}
		if refusal := s.add(c.Ctequery, plain, c.Aliascolnames); refusal != nil {
			return nil, refusal
		}
		s.returned[c.Ctename] = len(s.before) - 1
	}
	setWith(s.r.tree, nil)
	s.last = true
	if refusal := s.add(s.r.tree, plain, nil); refusal != nil {
		return nil, refusal
	}
	return s.finish()
}

// finish writes the steps out. The last is the statement itself.
func (s *steps) finish() (*plan.Write, *pgerr.Error) {
	pieces := len(s.r.gather.Pieces)
	s.lockAlike()
	for _, b := range s.before {
		if refusal := s.text(b, pieces); refusal != nil {
			return nil, refusal
		}
	}
	last := len(s.before) - 1
	statement := s.before[last].statement
	for _, b := range s.before[:last] {
		statement.Before = append(statement.Before, b.write)
	}
	if pieces > 0 {
		statement.Read = s.r.gather
	}
	return s.before[last].write, nil
}

// text writes out a step, when the number of pieces is known.
func (s *steps) text(b *step, pieces int) *pgerr.Error {
	if b.statement == nil {
		return nil
	}
	if b.split != nil {
		b.split.Input += pieces
	}
	parser.Walk(b.tree, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok {
			if i := slices.Index(s.marks(), rv.Relname); i >= 0 {
				rv.Relname = inputMark(pieces + i)
			}
		}
		return true
	})
	var err error
	if b.statement.Text, err = s.r.a.gatherer().render(b.tree); err != nil {
		return unwritable(err)
	}
	return nil
}

// marks returns the names that stand for the rows of steps until the number of pieces is known.
func (s *steps) marks() []string {
	out := make([]string, len(s.before))
	for i := range out {
		out[i] = stepMark(i)
	}
	return out
}

func stepMark(i int) string { return mark + "step" + inputColumn(i) + mark }

// add adds the step, or the steps, of a statement. plain are the queries of WITH that the statement
// can name.
func (s *steps) add(stmt *pg.Node, plain, names []*pg.Node) *pgerr.Error {
	stmt = proto.Clone(stmt).(*pg.Node)
	if ins := stmt.GetInsertStmt(); ins != nil {
		return s.insert(ins, plain, names)
	}
	s.enclose(stmt, plain)
	b := readingStep(stmt)
	var to *pg.RangeVar
	noted := func() {}
	if stmt.GetSelectStmt() == nil {
		list := returningOf(stmt)
		*list = renamed(*list, names)
		var refusal *pgerr.Error
		if noted, refusal = s.again(stmt); refusal != nil {
			return refusal
		}
	}
	switch n := stmt.GetNode().(type) {
	case *pg.Node_UpdateStmt:
		to = n.UpdateStmt.Relation
		b = changingStep(stmt, "UPDATE", len(n.UpdateStmt.ReturningList) > 0, s.rowsOf(to), s.along[to.Location])
	case *pg.Node_DeleteStmt:
		to = n.DeleteStmt.Relation
		b = changingStep(stmt, "DELETE", len(n.DeleteStmt.ReturningList) > 0, s.rowsOf(to), s.along[to.Location])
	}
	defer func() { noted() }()
	if to != nil {
		if w := s.a.writes().writable(to); w != nil && w.table != nil && w.table.Reference {
			return s.copied(stmt, w.rel)
		}
	}
	s.before = append(s.before, b)
	return nil
}

// renamed gives the returned columns the names that WITH has for them.
func renamed(list, names []*pg.Node) []*pg.Node {
	for i, name := range nameList(names) {
		if i < len(list) && !isStar(list[i].GetResTarget().GetVal()) {
			list[i].GetResTarget().Name = name
		}
	}
	return list
}

// rowsOf returns the instances of the target's rows, none for a home table.
func (s *steps) rowsOf(rv *pg.RangeVar) []plan.Instance {
	for _, x := range s.a.instances {
		// The node is a copy, so the position in the text identifies it.
		if x.rv != nil && !x.stored && x.rv.Location == rv.Location && x.rv.Relname == rv.Relname {
			return []plan.Instance{s.r.solved(x)}
		}
	}
	return nil
}

// enclose gives a statement the queries of WITH that it names; those that change rows are replaced
// by the rows of their steps.
func (s *steps) enclose(stmt *pg.Node, plain []*pg.Node) {
	need := map[string]bool{}
	for name := range uses(stmt) {
		need[name] = true
	}
	for range plain {
		for _, n := range plain {
			if c := n.GetCommonTableExpr(); need[c.Ctename] {
				for name := range uses(c.Ctequery) {
					need[name] = true
				}
			}
		}
	}
	var list []*pg.Node
	for _, n := range plain {
		if need[n.GetCommonTableExpr().Ctename] {
			list = append(list, proto.Clone(n).(*pg.Node))
		}
	}
	own, _ := withOf(stmt)
	if own != nil {
		list = append(list, own.Ctes...)
	}
	if len(list) > 0 {
		setWith(stmt, &pg.WithClause{Ctes: list, Location: -1})
	}
	parser.Walk(stmt, func(m any) bool {
		n, ok := m.(*pg.Node)
		if !ok {
			return true
		}
		rv := n.GetRangeVar()
		if rv == nil || rv.Schemaname != "" {
			return true
		}
		if i, ok := s.returned[rv.Relname]; ok {
			if rv.Alias == nil {
				rv.Alias = &pg.Alias{Aliasname: rv.Relname}
			}
			rv.Relname = stepMark(i)
			if names, ok := s.shows[i]; ok {
				n.Node = s.shown(i, names, rv.Alias).Node
			}
		}
		return false
	})
}

// setWith sets the WITH of a statement.
func setWith(stmt *pg.Node, w *pg.WithClause) {
	switch n := stmt.GetNode().(type) {
	case *pg.Node_SelectStmt:
		n.SelectStmt.WithClause = w
	case *pg.Node_InsertStmt:
		n.InsertStmt.WithClause = w
	case *pg.Node_UpdateStmt:
		n.UpdateStmt.WithClause = w
	case *pg.Node_DeleteStmt:
		n.DeleteStmt.WithClause = w
	case *pg.Node_MergeStmt:
		n.MergeStmt.WithClause = w
	}
}

// withSteps returns the route of a statement whose WITH changes rows, and plans what to do if it
// visits several shards. If the statement could not run on one shard because of the rows it
// inserts, it is analysed once more.
func (wr writes) withSteps(stmt *pg.Node, look func(*level)) plan.Route {
	wr.notesOfWrite()
	look(wr.a.top())
	if len(wr.a.copies) > 0 && len(wr.a.touched.missing) > 0 && !wr.a.refused() {
		wr.a.out.Writes = true
		return plan.Home // the home shard's error is the answer
	}
	r := wr.a.gatherer().sized(nil, wr.a.decide())
	switch {
	case wr.a.refused() && (wr.a.out.Waits || wr.a.out.Refusal.Code != pgerr.FeatureNotSupported), !wr.a.refused() && r != plan.Keyed && r != plan.Gathered:
		return r
	case r == plan.Keyed && wr.a.gatherer().certain():
		return r
	}
	b := wr.afresh()
	b.insert.stepped = true
	b.writes().notesOfWrite()
	look(b.top())
	b.decide()
	if b.refused() {
		return wr.refusedFor(b.out.Refusal, r)
	}
	w, refusal := b.writes().withWrites(stmt)
	if refusal != nil {
		return wr.refusedFor(refusal, r)
	}
	b.gatherer().holds()
	if !wr.a.refused() && r == plan.Keyed {
		wr.a.out.Across = w
		wr.a.out.Exact = wr.a.out.Exact || b.out.Exact
		return r
	}
	b.out.Across, b.out.Writes, b.out.Route = w, true, plan.Gathered
	*wr.a = *b
	return plan.Gathered
}

// refusedFor notes why a statement cannot be carried out on several shards.
func (wr writes) refusedFor(refusal *pgerr.Error, r plan.Route) plan.Route {
	if r == plan.Keyed && !wr.a.refused() {
		wr.a.scattered = refusal
		return r
	}
	wr.a.out.Route, wr.a.out.Refusal = plan.Refused, refusal
	return plan.Refused
}
