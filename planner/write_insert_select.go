package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// selectInsertion is insertion for SELECT.
func (wr writes) selectInsertion(n *pg.InsertStmt) (*analysis, *pgerr.Error) {
	wr.a.insert.aside = true
	wr.a.top().modification().insert(n)
	wr.a.decide()
	switch {
	case wr.a.refused():
		return wr.a, wr.a.out.Refusal
	case len(wr.a.instances) > 0:
		return wr.a, besideRows(n)
	}
	to := wr.writable(n.Relation)
	if to == nil {
		return nil, cannot("Name the table, not what stands for it.", "the table is not known")
	}
	s := &selectInsert{a: wr.a, stmt: n, rel: to.rel, shown: to.shown, table: to.table}
	if refusal := s.look(); refusal != nil {
		return wr.a, refusal
	}
	w := &plan.Write{Verb: "INSERT", Returns: len(n.ReturningList) > 0}
	if local := s.pushed(); local != nil {
		w.Shape = local
	} else {
		stream, refusal := s.streamed()
		if refusal != nil {
			return wr.a, refusal
		}
		w.Shape = stream
	}
	wr.a.out.Route, wr.a.out.Across = plan.Gathered, w
	return wr.a, nil
}

// selectInsert is an INSERT … SELECT that becomes a Write.
type selectInsert struct {
	a     *analysis
	stmt  *pg.InsertStmt
	rel   *catalog.Relation
	shown *catalog.Relation // see writable
	table *table            // nil for a home table

	query *pg.SelectStmt // including the WITH of the INSERT
	count int            // how many columns the query yields
	// opaque is set if only PostgreSQL knows how many columns there are.
	opaque bool
	cols   []*catalog.Column // the columns of the table that the query's columns are for
	// input is the name that stands for the query's rows where these are stored.
	input string
}

// look finds out which columns are inserted.
func (s *selectInsert) look() *pgerr.Error {
	s.query = proto.Clone(s.stmt.SelectStmt.GetSelectStmt()).(*pg.SelectStmt)
	if w := s.stmt.WithClause; w != nil {
		if !joinWith(s.query, w) {
			return cannot("Write one WITH.", "a WITH inside and one outside of a query with the same names are not supported in INSERT over several shards")
		}
	}
	in := s.a.gatherer().probing(s.a.client)
	cols, opaque := in.top().query(s.query)
	s.count, s.opaque = len(cols), opaque
	if s.count == 0 && !opaque {
		return cannot("Give a column: INSERT INTO … (column) SELECT NULL …", "INSERT of a query without columns is not supported over several shards")
	}
	var names []string
	for _, c := range s.stmt.Cols {
		t := c.GetResTarget()
		names = append(names, t.GetName())
		if len(t.GetIndirection()) > 0 {
			names[len(names)-1] = "" // a part of a column
		}
	}
	s.cols = insertColumns(s.shown, names)
	if !opaque && s.count < len(s.cols) {
		s.cols = s.cols[:s.count]
	}
	s.constants()
	return nil
}

// joinWith gives a query the WITH of the statement around it.
func joinWith(sel *pg.SelectStmt, w *pg.WithClause) bool {
	if sel.WithClause == nil {
		sel.WithClause = w
		return true
	}
	for _, inner := range sel.WithClause.Ctes {
		for _, outer := range w.Ctes {
			if inner.GetCommonTableExpr().GetCtename() == outer.GetCommonTableExpr().GetCtename() {
				return false
			}
		}
	}
	if w.Recursive != sel.WithClause.Recursive {
		return false
	}
	sel.WithClause.Ctes = append(slices.Clone(w.Ctes), sel.WithClause.Ctes...)
	return true
}

// constants gives strings and NULLs in the SELECT list the types of their target columns, which
// they have in an INSERT; in a query by itself they would be text.
func (s *selectInsert) constants() {
	q := s.query
	if q.Op != pg.SetOperation_SETOP_NONE || len(q.ValuesLists) > 0 {
		return
	}
	for i, n := range q.TargetList {
		t := n.GetResTarget()
		c := t.GetVal().GetAConst()
		if ref := t.GetVal().GetColumnRef(); ref != nil && isStar(t.Val) || i >= len(s.cols) || s.cols[i] == nil {
			return // the items after a * are for later columns
		}
		if c == nil || !c.Isnull && c.GetSval() == nil {
			continue
		}
		name := t.Name
		if name == "" {
			name = "?column?"
		}
		if typ := inputType(s.cols[i]); typ != nil {
			q.TargetList[i] = targetNode(castAs(t.Val, typ), name)
		}
	}
}

// inputType returns the type as which a string for a column is read: the modifier comes later, with
// the assignment.
func inputType(c *catalog.Column) *pg.TypeName {
	name := c.TypeName
	if c.Type == c.Base {
		switch datum.Type(c.Base) {
		case datum.Varchar, datum.Text:
			name = "pg_catalog.text"
		case datum.Bpchar:
			name = "pg_catalog.bpchar"
		}
	}
	return typeOf(name)
}

// typeOf parses the name of a type. It returns nil for a text that is not such a name.
func typeOf(name string) *pg.TypeName {
	tree, err := parser.ParseTree("SELECT NULL::"+name, parser.Options{})
	if err != nil {
		return nil
	}
	cast := placeless(tree.Statements[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().Val)
	return cast.GetTypeCast().GetTypeName()
}

// given returns the position of a column among the query's columns, or -1.
func (s *selectInsert) given(name string) int {
	return slices.IndexFunc(s.cols, func(c *catalog.Column) bool { return c != nil && c.Name == name })
}

// told lists the omitted columns whose defaults use the time.
func (s *selectInsert) told() []*catalog.Column {
	var out []*catalog.Column
	for i := range s.rel.Columns {
		c := &s.rel.Columns[i]
		if s.given(c.Name) >= 0 || c.Default == "" || c.Generated {
			continue
		}
		s.a.writes().withDefault(c, func(n *pg.Node) {
			if s.a.clock().asksTime(n) {
				out = append(out, c)
			}
		})
	}
	return out
}

// pushed returns how each shard inserts the rows that it selects itself, or nil if these are not
// all rows that belong there.
func (s *selectInsert) pushed() *plan.Local {
	if s.table == nil || s.opaque || s.stmt.Override == pg.OverridingKind_OVERRIDING_USER_VALUE ||
		len(s.stmt.ReturningList) > 0 && len(s.query.SortClause) > 0 {
		return nil
	}
	for i := range s.rel.Columns {
		if c := &s.rel.Columns[i]; s.given(c.Name) < 0 && (drawsFrom(c) || s.a.writes().foreignDefault(c)) {
			return nil
		}
	}
	b, _ := s.a.gatherer().local(s.query)
	if b == nil || b.table == nil || !colocated(b.table, s.table) || len(b.key) != len(s.table.keys) {
		return nil
	}
	for i, k := range s.table.keys {
		at := s.given(k.Name)
		if at < 0 || !slices.Contains(b.key[i], at) || at >= len(b.cols) || !keeps(b.cols[at].column, s.cols[at]) {
			return nil
		}
	}
	stmt := s.clone()
	told := s.told()
	if len(told) > 0 {
		if s.query.Op != pg.SetOperation_SETOP_NONE || slices.ContainsFunc(told, hidden) {
			return nil
		}
		s.name(stmt, told)
		sel := stmt.SelectStmt.GetSelectStmt()
		for _, c := range told {
			sel.TargetList = append(sel.TargetList, targetNode(s.defaultNode(c), ""))
		}
	}
	s.a.timed = s.a.clock().asksTime(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: stmt}})
	text, err := s.a.gatherer().render(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: stmt}})
	if err != nil {
		return nil
	}
	s.a.gatherer().holds()
	return &plan.Local{Statement: plan.Statement{Text: text}, Instances: b.instances}
}

// keeps reports whether a value of one column is the same in another.
func keeps(from *column, to *catalog.Column) bool {
	if from == nil || class(from.typ) == 0 || class(from.typ) != class(datum.Type(to.Base)) {
		return false
	}
	return to.Mod == -1 || from.stored != nil && from.stored.Base == to.Base && from.stored.Mod == to.Mod
}

// name writes out the columns of a statement, followed by more.
func (s *selectInsert) name(stmt *pg.InsertStmt, more []*catalog.Column) {
	if len(stmt.Cols) == 0 {
		for _, c := range s.cols {
			stmt.Cols = append(stmt.Cols, columnTarget(c.Name))
		}
	}
	for _, c := range more {
		stmt.Cols = append(stmt.Cols, columnTarget(c.Name))
	}
}

func columnTarget(name string) *pg.Node {
	return &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Name: name, Location: -1}}}
}

// defaultNode returns a column's default, with the time of the transaction as a hole.
func (s *selectInsert) defaultNode(c *catalog.Column) *pg.Node {
	var out *pg.Node
	s.a.writes().withDefault(c, func(n *pg.Node) {
		out = placeless(n)
		s.a.clock().times(out)
	})
	return out
}

// streamed returns how the rows of the query are sent where they belong.
func (s *selectInsert) streamed() (*plan.Stream, *pgerr.Error) {
	s.input = inputMark(0)
	stmt, split, query, refusal := s.sent()
	if refusal != nil {
		return nil, refusal
	}
	s.a.timed = s.a.clock().asksTime(stmt)
	text, err := s.a.gatherer().render(stmt)
	if err != nil {
		return nil, unwritable(err)
	}
	q, refusal := s.a.writes().reading(query)
	if refusal != nil {
		return nil, refusal
	}
	return &plan.Stream{Query: *q, Split: split, Text: text}, nil
}

// sent returns the statement that stores the rows, where each row belongs, and the query that yields
// the rows.
func (s *selectInsert) sent() (node *pg.Node, split *plan.Split, query *pg.Node, refusal *pgerr.Error) {
	split = &plan.Split{Whole: s.whole(), Skips: s.stmt.OnConflictClause != nil || len(s.rel.Triggers) > 0}
	stmt := s.clone()
	stmt.WithClause = nil
	sel := newSelect()
	var added []*catalog.Column // after the query's columns, and evaluated with them
	var drawn []*catalog.Column
	if s.table != nil {
		if added, drawn, refusal = s.leftOut(split); refusal != nil {
			return nil, nil, nil, refusal
		}
	}
	told := s.told()
	for _, c := range slices.Concat(added, drawn, told) {
		if hidden(c) {
			return nil, nil, nil, cannotSee(c, s.rel.Name.Name)
		}
	}
	if s.opaque && len(added)+len(drawn)+len(told) > 0 {
		return nil, nil, nil, cannot("Name the columns in the query.", "weft cannot tell how many columns this query has, and has to add some")
	}
	if s.opaque {
		sel.TargetList = []*pg.Node{targetNode(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
		sel.FromClause = []*pg.Node{s.inputNode(-1)}
	} else {
		s.fill(stmt, sel, added, drawn, told)
	}
	stmt.SelectStmt = selectNode(sel)
	if slices.ContainsFunc(drawn, func(c *catalog.Column) bool { return c.Identity == 'a' }) ||
		len(drawn) > 0 && stmt.Override == pg.OverridingKind_OVERRIDING_USER_VALUE {
		// Values that weft supplies must count.
		stmt.Override = pg.OverridingKind_OVERRIDING_SYSTEM_VALUE
	}
	query = selectNode(s.query)
	if len(added) > 0 {
		query = s.withDefaults(added)
	}
	return &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: stmt}}, split, query, nil
}

// clone copies the statement, with the defaults written out that tell the time in ON CONFLICT.
func (s *selectInsert) clone() *pg.InsertStmt {
	out := proto.Clone(s.stmt).(*pg.InsertStmt)
	if to := s.a.writes().writable(s.stmt.Relation); to != nil {
		s.a.clock().fillSets(out.OnConflictClause.GetTargetList(), to)
	}
	return out
}

// inputNode returns the query's rows as an item of FROM.
func (s *selectInsert) inputNode(columns int) *pg.Node {
	n := inputNode(0, columns, nil)
	n.GetRangeVar().Relname = s.input
	return n
}

// whole reports whether rows may depend on each other.
func (s *selectInsert) whole() bool {
	for _, fk := range s.rel.ForeignKeys {
		if fk.References == s.rel.Name {
			return true
		}
	}
	return len(s.rel.Triggers) > 0 || s.stmt.OnConflictClause.GetAction() == pg.OnConflictAction_ONCONFLICT_UPDATE
}

// ignored reports whether the value given for a column does not count.
func (s *selectInsert) ignored(c *catalog.Column) bool {
	return c != nil && c.Identity != 0 && s.stmt.Override == pg.OverridingKind_OVERRIDING_USER_VALUE && s.table != nil
}

// leftOut finds the columns whose values the query lacks: those that are evaluated with it, and
// those that weft supplies.
func (s *selectInsert) leftOut(split *plan.Split) (added, drawn []*catalog.Column, refusal *pgerr.Error) {
	split.Table = &s.table.Table
	var keys []*catalog.Column
	for _, k := range s.table.keys {
		keys = append(keys, findColumn(s.rel, k.Name))
		split.Columns = append(split.Columns, -1)
		split.Fixed = append(split.Fixed, plan.Source{})
	}
	for i := range s.rel.Columns {
		c := &s.rel.Columns[i]
		at, key := s.given(c.Name), slices.Index(keys, c)
		switch {
		case at >= 0 && !s.ignored(c):
			if key >= 0 {
				split.Columns[key] = at
			}
			continue
		case drawsFrom(c), key >= 0 && randomUUID(c) && datum.Type(c.Base) == datum.UUID:
			v := plan.Value{Type: c.TypeName}
			if drawsFrom(c) {
				v.Sequence, v.Identity = c.Sequence.SQL(), c.Identity != 0
			}
			if ids := s.table.IDs; ids != nil && ids.Column == c.Name && datum.Type(c.Base) == datum.Int8 {
				v.Routed = ids
			}
			drawn, split.Draws = append(drawn, c), append(split.Draws, v)
		case key < 0 && s.a.writes().foreignDefault(c):
			added = append(added, c) // evaluated with the query
		case key < 0:
		default:
			if k := s.a.writes().defaultKey(c); k.known {
				split.Fixed[key] = k.set[0]
				continue
			}
			added = append(added, c)
		}
	}
	for k, c := range keys {
		if i := slices.Index(added, c); i >= 0 {
			split.Columns[k] = s.count + i
		}
		if i := slices.Index(drawn, c); i >= 0 {
			split.Columns[k] = s.count + len(added) + i
		}
	}
	return added, drawn, nil
}

// fill writes out what is inserted from the input.
func (s *selectInsert) fill(stmt *pg.InsertStmt, sel *pg.SelectStmt, added, drawn, told []*catalog.Column) {
	if len(stmt.Cols) == 0 {
		for _, c := range s.cols {
			stmt.Cols = append(stmt.Cols, columnTarget(c.Name))
		}
	}
	cols := stmt.Cols
	stmt.Cols = nil
	total := s.count + len(added) + len(drawn)
	for i := range total {
		if i < s.count && i < len(s.cols) && s.ignored(s.cols[i]) {
			continue
		}
		switch {
		case i < s.count && i < len(cols):
			stmt.Cols = append(stmt.Cols, cols[i])
		case i < s.count:
		case i < s.count+len(added):
			stmt.Cols = append(stmt.Cols, columnTarget(added[i-s.count].Name))
		default:
			stmt.Cols = append(stmt.Cols, columnTarget(drawn[i-s.count-len(added)].Name))
		}
		sel.TargetList = append(sel.TargetList, targetNode(nameNode(inputAlias, inputColumn(i)), ""))
	}
	for _, c := range told {
		if slices.Contains(added, c) {
			continue
		}
		stmt.Cols = append(stmt.Cols, columnTarget(c.Name))
		sel.TargetList = append(sel.TargetList, targetNode(s.defaultNode(c), ""))
	}
	sel.FromClause = []*pg.Node{s.inputNode(total)}
}

// withDefaults returns the query with the defaults of columns after its own.
func (s *selectInsert) withDefaults(added []*catalog.Column) *pg.Node {
	sel := newSelect()
	alias := &pg.Alias{Aliasname: inputAlias}
	for i := range s.count {
		alias.Colnames = append(alias.Colnames, pg.MakeStrNode(inputColumn(i)))
		sel.TargetList = append(sel.TargetList, targetNode(nameNode(inputAlias, inputColumn(i)), ""))
	}
	for _, c := range added {
		s.a.writes().withDefault(c, func(n *pg.Node) { sel.TargetList = append(sel.TargetList, targetNode(placeless(n), "")) })
	}
	sel.FromClause = []*pg.Node{{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(s.query), Alias: alias}}}}
	return selectNode(sel)
}
