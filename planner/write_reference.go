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

// A statement that writes a reference table runs on the home shard as the client
// wrote it, and the resulting rows are written on all other shards as data. So
// the functions of the statement (nextval(), now(), random()) are called once, and
// it may read tables that only the home shard has.
//
// Rows that are changed or deleted are found on the other shards by their primary
// key, or by another unique key without NULLs. If there is no such key, or the
// statement changes it, every shard runs the statement itself, and weft compares the
// resulting rows of the shards. weft also compares them if triggers may have changed
// the rows.

// referenceTarget notes that a reference table is written.
func (mo modification) referenceTarget(rel *catalog.Relation, t *table, c *changes) {
	mo.l.a.touch(t, rel.Name.Name)
	mo.l.a.copies = append(mo.l.a.copies, rel)
	for _, r := range mo.l.a.reach().followers(rel, c) {
		if own := mo.l.a.declared(r); own != nil {
			mo.l.a.reach().storing(r, own, c.of(r == rel))
		}
	}
	mo.policed(rel, t, true)
	if rel.Rules {
		mo.l.a.unsupported("Drop its rules.", "reference table %q has rewrite rules", rel.Name.Name)
	}
	for _, tr := range rel.Triggers {
		for _, f := range mo.l.a.reach().userFunctions(tr.Function.Schema, tr.Function.Name) {
			if f.Opaque || len(f.Mentions) > 0 {
				mo.l.a.unsupported("A trigger runs on every copy by itself, and weft cannot tell whether all of them do the same to other tables.",
					"trigger %q of reference table %q may touch other tables", tr.Name, rel.Name.Name)
			}
		}
	}
}

// replicated plans a statement that writes a reference table.
func (wr writes) replicated(stmt *pg.Node) plan.Route {
	wr.a.out.Writes = true
	if wr.a.refused() {
		return plan.Refused
	}
	t := &wr.a.touched
	if len(t.waits) > 0 {
		wr.a.commands().wait()
		return plan.Refused
	}
	rel := wr.a.copies[0]
	top := wr.statementTarget(stmt)
	switch {
	case len(t.missing) > 0:
		return plan.Home // the home shard's error is the answer
	case len(wr.a.client.tree.Statements) != 1:
		wr.a.unsupported("Send the statements one by one.", "a statement that writes reference table %q cannot be sent together with others", rel.Name.Name)
	case len(wr.a.copies) > 1 || top != rel:
		wr.a.unsupported("Write it in a statement of its own.", "reference table %q cannot be written inside another statement", rel.Name.Name)
	case likeMark(wr.a.client.sql):
		wr.a.unsupported("Take the control character out of the names.", "names with control characters are not supported in a statement over several shards")
	}
	if wr.a.refused() {
		return plan.Refused
	}
	if wr.a.reach().called(); wr.a.refused() {
		return plan.Refused
	}
	c := &copier{a: wr.a, rel: rel}
	if c.hiddenFromCopies(); wr.a.refused() {
		return plan.Refused
	}
	if w := c.plan(stmt); w != nil && !wr.a.refused() {
		wr.a.out.Across = w
		wr.a.why("%s is written on every shard, on the home shard first", rel.Name.Name)
		wr.a.gatherer().holds()
		return plan.Gathered
	}
	wr.a.unsupported("Use INSERT, UPDATE, DELETE or MERGE in a statement of its own.", "this form of writing reference table %q is not supported", rel.Name.Name)
	return plan.Refused
}

// statementTarget returns the table that a statement itself writes.
func (wr writes) statementTarget(stmt *pg.Node) *catalog.Relation {
	var rv *pg.RangeVar
	switch n := stmt.GetNode().(type) {
	case *pg.Node_InsertStmt:
		rv = n.InsertStmt.Relation
	case *pg.Node_UpdateStmt:
		rv = n.UpdateStmt.Relation
	case *pg.Node_DeleteStmt:
		rv = n.DeleteStmt.Relation
	case *pg.Node_MergeStmt:
		rv = n.MergeStmt.Relation
	}
	if rv == nil || wr.a.temporary(rv) {
		return nil
	}
	if w := wr.writable(rv); w != nil {
		return w.rel
	}
	return nil
}

// copier plans how the other shards follow the home shard.
type copier struct {
	a   *analysis
	rel *catalog.Relation
	as  string // the statement's name for the table

	// inStep says that the statement is a step of another one; tree is then what the home shard
	// runs.
	inStep bool
	tree   *pg.Node
}

func (c *copier) plan(stmt *pg.Node) *plan.Write {
	switch n := stmt.GetNode().(type) {
	case *pg.Node_InsertStmt:
		c.as = refName(n.InsertStmt.Relation)
		if c.inStep {
			return c.insert(n.InsertStmt)
		}
		if len(c.a.touched.sharded) > 0 {
			// The analysis knows the tables of the statement by the nodes of this tree.
			c.a.clock().fillDefaults(n.InsertStmt)
			return c.insert(n.InsertStmt)
		}
		ins := proto.Clone(n.InsertStmt).(*pg.InsertStmt)
		if len(c.a.touched.sharded) > 0 || !c.a.clock().fillDefaults(ins) {
			// The analysis knows the tables by the nodes of this tree. The time that is stored by
			// default is the home shard's own.
			ins = n.InsertStmt
		}
		return c.insert(ins)
	case *pg.Node_UpdateStmt:
		c.as = refName(n.UpdateStmt.Relation)
		return c.update(n.UpdateStmt)
	case *pg.Node_DeleteStmt:
		c.as = refName(n.DeleteStmt.Relation)
		return c.remove(n.DeleteStmt)
	case *pg.Node_MergeStmt:
		return c.merge(stmt, n.MergeStmt)
	}
	return nil
}

// refName returns the qualifier of a written table's columns.
func refName(rv *pg.RangeVar) string {
	if rv.Alias != nil {
		return rv.Alias.Aliasname
	}
	return rv.Relname
}

// write returns the write of a statement that returns the carried columns after the client's. then
// is what the other shards run with them; if it is nil, they run the same statement.
func (c *copier) write(verb string, stmt *pg.Node, carried []string, then plan.Text) *plan.Write {
	w := &plan.Copies{Locks: c.locks(), Carried: len(carried), Then: then, Compare: len(c.rel.Triggers) > 0 || then == nil}
	if c.inStep {
		if then == nil {
			c.a.unsupported("Write it in a statement of its own.",
				"reference table %q has no primary key, or the statement changes it: every copy would have to run the statement, which is not supported beside other writes", c.rel.Name.Name)
			return nil
		}
		c.tree = stmt
		return &plan.Write{Verb: verb, Returns: true, Shape: w}
	}
	c.a.timed = c.a.clock().asksTime(stmt)
	t := &c.a.touched
	apart := then == nil && stmt.GetInsertStmt() == nil && (len(t.home) > 0 || asks(stmt))
	if len(t.sharded) > 0 || apart {
		return c.reading(verb, w, stmt)
	}
	if then == nil && !c.sure(stmt, len(t.home) > 0) {
		return nil
	}
	var err error
	if w.Text, err = c.a.gatherer().render(stmt); err != nil {
		return nil
	}
	return &plan.Write{Verb: verb, Returns: true, Shape: w}
}

// insert plans an INSERT: the other shards get whole rows.
func (c *copier) insert(n *pg.InsertStmt) *plan.Write {
	carried := c.stored()
	for i := range c.rel.Columns {
		if col := &c.rel.Columns[i]; hidden(col) && c.variable(col) {
			c.a.writes().unseen(col, c.rel.Name.Name)
			return nil
		}
	}
	s := &pg.InsertStmt{
		Relation: n.Relation, Cols: n.Cols, SelectStmt: n.SelectStmt, OnConflictClause: n.OnConflictClause,
		ReturningList: c.returning(n.ReturningList, carried), WithClause: n.WithClause, Override: n.Override,
	}
	stmt := &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: s}}
	text := "INSERT INTO " + c.rel.Name.SQL() + " (" + idents("", carried) + ") OVERRIDING SYSTEM VALUE SELECT " + idents("i.", carried) + " FROM "
	tail := " i"
	if conflict := n.OnConflictClause; conflict != nil && conflict.Action == pg.OnConflictAction_ONCONFLICT_UPDATE {
		key := c.identity(setting(conflict.TargetList))
		if key == nil {
			return c.write("INSERT", stmt, carried, nil)
		}
		var sets []string
		for _, name := range carried {
			if findColumn(c.rel, name).Identity != 'a' {
				sets = append(sets, quote.Ident(name)+" = excluded."+quote.Ident(name))
			}
		}
		if len(sets) == 0 {
			return nil
		}
		tail += " ON CONFLICT (" + idents("", key) + ") DO UPDATE SET " + strings.Join(sets, ", ")
	}
	return c.write("INSERT", stmt, carried, overRows(text, tail+c.compared("", carried)))
}

// update plans an UPDATE: the other shards get keys and new values.
func (c *copier) update(n *pg.UpdateStmt) *plan.Write {
	changes := setting(n.TargetList)
	key := c.identity(changes)
	carried := c.stored()
	if key != nil && len(c.rel.Triggers) == 0 {
		carried = slices.Clone(key)
		for _, name := range changes.columns {
			if col := findColumn(c.rel, name); col != nil && !col.Generated && !slices.Contains(carried, name) {
				carried = append(carried, name)
			}
		}
	}
	s := &pg.UpdateStmt{
		Relation: n.Relation, TargetList: oneByOne(n.TargetList), WhereClause: n.WhereClause, FromClause: n.FromClause,
		ReturningList: c.returning(n.ReturningList, carried), WithClause: n.WithClause,
	}
	stmt := &pg.Node{Node: &pg.Node_UpdateStmt{UpdateStmt: s}}
	var sets []string
	for _, name := range carried {
		if !slices.Contains(key, name) && findColumn(c.rel, name).Identity != 'a' {
			sets = append(sets, quote.Ident(name)+" = i."+quote.Ident(name))
		}
	}
	if key == nil || len(sets) == 0 {
		return c.write("UPDATE", stmt, carried, nil)
	}
	return c.write("UPDATE", stmt, carried, overRows(
		"UPDATE "+c.rel.Name.SQL()+" t SET "+strings.Join(sets, ", ")+" FROM ", " i WHERE "+same(key)+c.compared("t.", carried)))
}

// oneByOne writes SET (a, b) = (1, 2) as SET a = 1, b = 2.
func oneByOne(list []*pg.Node) []*pg.Node {
	out := slices.Clone(list)
	for i, n := range out {
		t := n.GetResTarget()
		m := t.GetVal().GetMultiAssignRef()
		row := m.GetSource().GetRowExpr()
		if row == nil || int(m.Colno) > len(row.Args) {
			continue
		}
		out[i] = &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{
			Name: t.Name, Indirection: t.Indirection, Val: row.Args[m.Colno-1], Location: -1,
		}}}
	}
	return out
}

// remove plans a DELETE: the other shards get keys.
func (c *copier) remove(n *pg.DeleteStmt) *plan.Write {
	key := c.identity(&changes{})
	carried := key
	if key == nil {
		carried = c.stored()
	}
	s := &pg.DeleteStmt{
		Relation: n.Relation, UsingClause: n.UsingClause, WhereClause: n.WhereClause,
		ReturningList: c.returning(n.ReturningList, carried), WithClause: n.WithClause,
	}
	stmt := &pg.Node{Node: &pg.Node_DeleteStmt{DeleteStmt: s}}
	if key == nil {
		return c.write("DELETE", stmt, carried, nil)
	}
	return c.write("DELETE", stmt, carried, overRows("DELETE FROM "+c.rel.Name.SQL()+" t USING ", " i WHERE "+same(key)+c.compared("t.", carried)))
}

// stored returns the columns that hold data.
func (c *copier) stored() []string {
	var out []string
	for i := range c.rel.Columns {
		if col := &c.rel.Columns[i]; !col.Generated && !hidden(col) {
			out = append(out, c.rel.Columns[i].Name)
		}
	}
	return out
}

// identity returns the columns by which a row is found on every copy: unique, never NULL, and not
// changed. Nil if there are none.
func (c *copier) identity(changed *changes) []string {
	for _, u := range c.rel.Unique {
		if u.Partial || u.Exclusion || len(u.Columns) == 0 || changed.any(u.Columns) {
			continue
		}
		if !slices.ContainsFunc(u.Columns, func(name string) bool {
			col := findColumn(c.rel, name)
			return col == nil || !col.NotNull || col.Generated
		}) {
			return u.Columns
		}
	}
	return nil
}

// returning adds columns of the table to what a statement returns.
func (c *copier) returning(list []*pg.Node, columns []string) []*pg.Node {
	out := slices.Clone(list)
	for _, name := range columns {
		out = append(out, &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Val: nameNode(c.as, name), Location: -1}}})
	}
	return out
}

// compared makes the other shards return what they have stored.
func (c *copier) compared(prefix string, columns []string) string {
	if len(c.rel.Triggers) == 0 {
		return ""
	}
	return " RETURNING " + idents(prefix, columns)
}

// locks returns the tables that are locked first: the written table, and the reference tables whose
// rows follow its rows.
func (c *copier) locks() []string {
	var out []string
	seen := map[*catalog.Relation]bool{}
	var add func(rel *catalog.Relation)
	add = func(rel *catalog.Relation) {
		if seen[rel] {
			return
		}
		seen[rel] = true
		out = append(out, rel.Name.SQL())
		for _, fk := range rel.Referenced {
			if !strings.Contains(fk.Definition, " ON DELETE ") && !strings.Contains(fk.Definition, " ON UPDATE ") {
				continue
			}
			from := c.a.env.Schema.Relation(fk.Table)
			if t := c.a.declared(from); t != nil && t.Reference {
				add(from)
			}
		}
	}
	add(c.rel)
	slices.Sort(out) // all sessions lock in this order
	return out
}

// unsure names something that may differ between shards, or returns "".
func (c *copier) unsure(stmt *pg.Node) string {
	if n := stmt.GetInsertStmt(); n != nil && c.draws(n.Cols) {
		return "a default"
	}
	out := ""
	parser.Walk(stmt, func(m any) bool {
		switch m := m.(type) {
		case *pg.Node:
			if c.a.clock().nowCall(m) != nil {
				return false
			}
		case *pg.SubLink, *pg.RangeSubselect, *pg.CommonTableExpr, *pg.RangeFunction:
			// The rows of all shards are compared, except those of MERGE.
			if stmt.GetInsertStmt() != nil || limited(m, stmt.GetMergeStmt() != nil) {
				out = "the result of a subquery"
			}
		case *pg.SetToDefault:
			out = "a default"
		case *pg.SQLValueFunction:
			out = "what the session tells of itself"
		case *pg.FuncCall:
			names := nameList(m.Funcname)
			name := names[len(names)-1]
			if users := c.a.reach().userFunctions("", name); len(users) > 0 {
				if slices.ContainsFunc(users, func(f *catalog.Function) bool { return f.Volatility != 'i' }) {
					out = "function " + name
				}
			} else if c.a.reach().volatility(name) != 'i' {
				out = "function " + name
			}
		}
		return out == ""
	})
	return out
}

// limited reports whether a subquery may yield one set of rows or another. With strictly, a subquery
// is also limited if that takes more than a look to rule out.
func limited(m any, strictly bool) bool {
	found := false
	parser.Walk(m, func(m any) bool {
		if sel, ok := m.(*pg.SelectStmt); ok {
			found = found || sel.LimitCount != nil || sel.LimitOffset != nil || len(sel.DistinctClause) > 0 && sel.DistinctClause[0].GetNode() != nil ||
				strictly && (len(sel.DistinctClause) > 0 || len(sel.ValuesLists) == 0 && len(sel.FromClause) != 1)
		}
		return !found
	})
	return found
}

// draws reports whether an INSERT of these columns takes a default that may differ between shards.
func (c *copier) draws(targets []*pg.Node) bool {
	given := setting(targets).columns
	for i := range c.rel.Columns {
		col := &c.rel.Columns[i]
		if len(given) > 0 && slices.Contains(given, col.Name) || col.Generated {
			continue
		}
		if c.variable(col) {
			return true
		}
	}
	return false
}

// variable reports whether a column's default may differ between shards.
func (c *copier) variable(col *catalog.Column) bool {
	return !col.Generated && (drawsFrom(col) || col.Default != "" && strings.Contains(col.Default, "("))
}

// overRows returns a text over the rows that the home shard has returned.
func overRows(before, after string) plan.Text {
	return plan.Text{{Kind: plan.SQL, SQL: before}, {Kind: plan.Input}, {Kind: plan.SQL, SQL: after}}
}

// same returns the condition that t and i have the same key.
func same(key []string) string {
	var out []string
	for _, name := range key {
		out = append(out, "t."+quote.Ident(name)+" = i."+quote.Ident(name))
	}
	return strings.Join(out, " AND ")
}

func idents(prefix string, names []string) string {
	var out []string
	for _, name := range names {
		out = append(out, prefix+quote.Ident(name))
	}
	return strings.Join(out, ", ")
}
