package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/datum"
	"weft/pgerr"
	"weft/plan"
)

// MERGE looks at each row of its source once. If it inserts nothing, the source can be lent to all
// shards: only matching rows do anything. If it inserts, each row of the source must go to one
// shard, that of the key it is joined by, and the inserted row must have that key.

// merge analyses MERGE.
func (mo modification) merge(n *pg.MergeStmt) {
	if rel, _ := mo.l.a.relation(n.Relation); rel != nil && rel.Kind == catalog.View && !mo.l.a.temporary(n.Relation) {
		mo.l.a.out.Writes = true
		if r := mo.l.a.commands().viewReads(rel); mo.l.a.env.Schema.Server >= 17 && (r.sharded != "" || r.reference != "") {
			mo.l.a.unsupported("Merge into the table itself.", "MERGE into view %q of a declared table is not supported", rel.Name.Name)
		}
		mo.l.a.touched.home = append(mo.l.a.touched.home, rel.Name.Name) // before version 17 PostgreSQL refuses MERGE into views
		return
	}
	mo.l.withClause(n.WithClause, n)
	c := &changes{all: true}
	for _, w := range n.MergeWhenClauses {
		if m := w.GetMergeWhenClause(); m.GetCommandType() == pg.CmdType_CMD_UPDATE {
			c.columns = append(c.columns, setting(m.TargetList).columns...)
		}
	}
	tg := mo.target(n.Relation, c)
	for _, w := range n.MergeWhenClauses {
		switch w.GetMergeWhenClause().GetCommandType() {
		case pg.CmdType_CMD_INSERT:
			mo.firing(tg, catalog.OnInsert, nil)
		case pg.CmdType_CMD_UPDATE:
			mo.firing(tg, catalog.OnUpdate, c)
		case pg.CmdType_CMD_DELETE:
			mo.firing(tg, catalog.OnDelete, nil)
		}
	}
	mo.l.a.reach().defaulting(tg.rel, func(string) bool { return false })
	sharded := tg.table != nil && !tg.table.Reference
	if tg.table != nil && mo.l.a.env.Schema.Server >= 17 {
		mo.sinceSeventeen(n, sharded)
	}
	around := mo.l.scope
	if sharded && inserts(n) {
		mo.l.scope = around.child(true) // rows of the source exist without a match
	}
	matched := mo.l.scope
	mo.l.sources = append(mo.l.sources, mo.targetSource(tg, n.Relation))
	mo.l.scope = around
	mo.l.fromClause().from([]*pg.Node{n.SourceRelation})
	on := &level{a: mo.l.a, parent: mo.l.parent, with: mo.l.with, sources: mo.l.sources, scope: mo.l.fromClause().outside()}
	matched.add(on.predicates().facts(n.JoinCondition)...)
	mo.l.expression(n.JoinCondition)
	for _, c := range n.MergeWhenClauses {
		w := c.GetMergeWhenClause()
		mo.l.expression(w.GetCondition())
		switch {
		case !sharded:
			mo.l.expressions(w.GetTargetList())
			mo.l.expressions(w.GetValues())
		case w.GetCommandType() == pg.CmdType_CMD_UPDATE:
			mo.assignments(tg, w.TargetList, called(n.Relation), nil)
		case w.GetCommandType() == pg.CmdType_CMD_INSERT:
			mo.mergeInsert(tg, w, called(n.Relation))
		}
	}
	mo.l.expressions(n.ReturningList)
}

// sinceSeventeen refuses what MERGE can do since PostgreSQL 17: older servers report a syntax
// error.
func (mo modification) sinceSeventeen(n *pg.MergeStmt, sharded bool) {
	if len(n.ReturningList) > 0 {
		mo.l.a.unsupported("Read the rows in a statement of its own.", "MERGE … RETURNING is not supported for declared tables")
	}
	for _, c := range n.MergeWhenClauses {
		if sharded && c.GetMergeWhenClause().GetMatchKind() == pg.MergeMatchKind_MERGE_WHEN_NOT_MATCHED_BY_SOURCE {
			mo.l.a.unsupported("Change these rows in a statement of its own.", "MERGE … WHEN NOT MATCHED BY SOURCE is not supported for sharded tables")
		}
	}
}

// inserts reports whether a MERGE may insert.
func inserts(n *pg.MergeStmt) bool {
	return slices.ContainsFunc(n.MergeWhenClauses, func(c *pg.Node) bool {
		return c.GetMergeWhenClause().GetCommandType() == pg.CmdType_CMD_INSERT
	})
}

// mergeInsert analyses a row that is inserted.
func (mo modification) mergeInsert(tg *target, w *pg.MergeWhenClause, name string) {
	mo.l.expressions(w.Values)
	x := mo.l.a.appear(tg.table, name, mo.l.scope)
	x.stored = true
	x.keys = make([]storedKey, len(tg.table.keys))
	for i := range tg.rel.Columns {
		c := &tg.rel.Columns[i]
		v := mergeValue(tg, w, c.Name)
		if v == nil || v.GetSetToDefault() != nil || ignoresValue(w, c) {
			if drawsFrom(c) {
				mo.l.a.drawn = true
			} else {
				mo.calledBy(c)
			}
		} else {
			mo.l.a.params.infer(v, datum.Type(c.Base))
		}
		for k := range tg.table.keys {
			switch {
			case tg.table.keys[k].Name != c.Name:
			case v == nil:
				x.keys[k] = mo.l.a.writes().defaultKey(c)
			default:
				x.keys[k] = mo.stored(v, c)
			}
		}
	}
}

// mergeValue returns the value that is inserted into a column, or nil if none is given.
func mergeValue(tg *target, w *pg.MergeWhenClause, name string) *pg.Node {
	at := -1
	for i := range tg.rel.Columns {
		if len(w.TargetList) == 0 && tg.rel.Columns[i].Name == name {
			at = i
		}
	}
	for i, t := range w.TargetList {
		if t.GetResTarget().GetName() == name && len(t.GetResTarget().GetIndirection()) == 0 {
			at = i
		}
	}
	if at < 0 || at >= len(w.Values) {
		return nil
	}
	return w.Values[at]
}

// mergeSplit plans a MERGE that inserts: the source is read once, on the home
// shard, and each row goes to the shard of its key.
func (c *changing) mergeSplit() (*plan.Write, *pgerr.Error) {
	m := c.stmt.GetMergeStmt()
	alias := sourceName(m.SourceRelation)
	if alias == "" {
		return nil, cannot("Write it as a subquery with a name.", "the source of this MERGE has no name")
	}
	for _, n := range append(slices.Clone(m.MergeWhenClauses), m.JoinCondition) {
		if hasSublink(n) {
			return nil, cannot("Put it into the source.", "a subquery in the conditions or actions of MERGE is not supported over several shards")
		}
	}
	if refusal := c.unfitMerge(); refusal != nil {
		return nil, refusal
	}
	c.qualify(m, alias)
	keys, refusal := c.mergeKeys(m, alias)
	if refusal != nil {
		return nil, refusal
	}
	sel := newSelect()
	sel.WithClause, sel.FromClause = m.WithClause, []*pg.Node{m.SourceRelation}
	split := &plan.Split{Table: &c.table.Table, Exact: true}
	for i, k := range keys {
		sel.TargetList = append(sel.TargetList, targetOf(k, "weft_key_"+strconv.Itoa(i+1)))
		split.Columns = append(split.Columns, i)
	}
	sel.TargetList = append(sel.TargetList, targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeStrNode(alias), pg.MakeAStarNode()}, -1), ""))
	s := &steps{a: c.a, stmt: c.stmt, returned: map[string]int{}}
	if s.r, refusal = c.a.writes().takeOut(selectNode(sel), nil); refusal != nil {
		return nil, refusal
	}
	s.before = append(s.before, readingStep(s.r.tree))
	main := proto.Clone(m).(*pg.MergeStmt)
	main.WithClause = nil
	split.Draws = c.mergeDraws(main, alias)
	main.SourceRelation = rangeNode(&pg.RangeVar{
		Relname: stepMark(0), Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: alias}, Location: -1,
	})
	node := &pg.Node{Node: &pg.Node_MergeStmt{MergeStmt: main}}
	s.r.pinTargets(node)
	s.before = append(s.before, sharingStep(node, "MERGE", false, split))
	return s.finish()
}

// mergeDraws makes a MERGE insert values of sequences that come with the rows of its source, where
// the MERGE gives no value. One value is drawn for each row of the source, whether the row is
// inserted or not.
func (c *changing) mergeDraws(m *pg.MergeStmt, alias string) (drawn []plan.Value) {
	rel, _ := c.a.relation(c.target)
	for i := range rel.Columns {
		col := &rel.Columns[i]
		if !drawsFrom(col) {
			continue
		}
		value := nameNode(alias, plan.DrawnName(len(drawn)))
		used := false
		for _, n := range m.MergeWhenClauses {
			if w := n.GetMergeWhenClause(); w.CommandType == pg.CmdType_CMD_INSERT {
				used = insertDrawn(rel, w, col, value) || used
			}
		}
		if !used {
			continue
		}
		v := plan.Value{Type: col.TypeName, Sequence: col.Sequence.SQL(), Identity: col.Identity != 0}
		if ids := c.table.IDs; ids != nil && ids.Column == col.Name && datum.Type(col.Base) == datum.Int8 {
			v.Routed = ids
		}
		drawn = append(drawn, v)
	}
	return drawn
}

// insertDrawn gives an inserted row the drawn value where it would take one of a sequence, and
// reports whether it would.
func insertDrawn(rel *catalog.Relation, w *pg.MergeWhenClause, col *catalog.Column, value *pg.Node) bool {
	given := mergeValue(&target{rel: rel}, w, col.Name)
	if given != nil && given.GetSetToDefault() == nil && !ignoresValue(w, col) {
		return false
	}
	if len(w.TargetList) == 0 {
		for i := range w.Values {
			w.TargetList = append(w.TargetList, columnTarget(rel.Columns[i].Name))
		}
	}
	at := slices.IndexFunc(w.TargetList, func(n *pg.Node) bool { return n.GetResTarget().GetName() == col.Name })
	if at < 0 {
		w.TargetList, w.Values = append(w.TargetList, columnTarget(col.Name)), append(w.Values, value)
	} else {
		w.Values[at] = value
	}
	if col.Identity != 0 {
		w.Override = pg.OverridingKind_OVERRIDING_SYSTEM_VALUE
	}
	return true
}

// ignoresValue reports whether the value given for a column does not count.
func ignoresValue(w *pg.MergeWhenClause, c *catalog.Column) bool {
	return c.Identity != 0 && w.Override == pg.OverridingKind_OVERRIDING_USER_VALUE
}

// unfitMerge refuses a MERGE that the shards cannot run independently.
func (c *changing) unfitMerge() *pgerr.Error {
	in := c.a.gatherer().probing(c.a.text)
	in.top().query(c.rows())
	c.findOnce()
	refusal := c.unfit(in)
	if refusal == nil && in.out.Locks {
		refusal = cannot("Lock the rows in a statement of its own.", "a subquery that locks rows is not supported in a MERGE that inserts on several shards")
	}
	c.once = nil
	return refusal
}

// qualify puts the name of its table before each unqualified column in the join condition and in
// inserted values. In a value the column can only be the source's; in the condition PostgreSQL
// accepts no name that both tables have. The tree is changed in place: what the analysis knows of
// its nodes stays known.
func (c *changing) qualify(m *pg.MergeStmt, alias string) {
	rel, _ := c.a.relation(c.target)
	name := func(n *pg.Node, owner func(column string) string) {
		walkNodes(n, func(n *pg.Node) bool {
			ref := n.GetColumnRef()
			if names := nameList(ref.GetFields()); ref != nil && len(ref.Fields) == 1 && len(names) == 1 && names[0] != alias && names[0] != c.targetName() {
				ref.Fields = append([]*pg.Node{pg.MakeStrNode(owner(names[0]))}, ref.Fields...)
			}
			return true
		})
	}
	name(m.JoinCondition, func(column string) string {
		if slices.ContainsFunc(rel.Columns, func(col catalog.Column) bool { return col.Name == column }) {
			return c.targetName()
		}
		return alias
	})
	for _, n := range m.MergeWhenClauses {
		if w := n.GetMergeWhenClause(); w.CommandType == pg.CmdType_CMD_INSERT {
			for _, v := range w.Values {
				name(v, func(string) string { return alias })
			}
		}
	}
}

// sourceName returns the name that a MERGE gives its source.
func sourceName(n *pg.Node) string {
	switch v := n.GetNode().(type) {
	case *pg.Node_RangeVar:
		if v.RangeVar.Alias != nil {
			return v.RangeVar.Alias.Aliasname
		}
		return v.RangeVar.Relname
	case *pg.Node_RangeSubselect:
		return v.RangeSubselect.GetAlias().GetAliasname()
	case *pg.Node_RangeFunction:
		return v.RangeFunction.GetAlias().GetAliasname()
	}
	return ""
}

// mergeKeys finds the expressions of the source that the key is joined with, and checks that these
// are inserted.
func (c *changing) mergeKeys(m *pg.MergeStmt, alias string) ([]*pg.Node, *pgerr.Error) {
	var keys []*pg.Node
	rel, _ := c.a.relation(c.target)
	for _, k := range c.table.keys {
		var found *pg.Node
		for _, n := range conjuncts(m.JoinCondition) {
			e := n.GetAExpr()
			if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || !isEquality(e.Name) || c.a.env.Schema.CustomEquality {
				continue
			}
			for _, sides := range [][2]*pg.Node{{e.Lexpr, e.Rexpr}, {e.Rexpr, e.Lexpr}} {
				if c.ofTarget(sides[0], k.Name, alias) && ofSource(sides[1], alias) {
					found = sides[1]
				}
			}
		}
		if found == nil {
			return nil, cannot("Join by it: ON "+c.targetName()+"."+k.Name+" = "+alias+"…, each column with the name of its table.",
				"a MERGE that inserts into %q must be joined by its shard key %q", c.target.Relname, k.Name)
		}
		keys = append(keys, found)
	}
	for _, n := range m.MergeWhenClauses {
		w := n.GetMergeWhenClause()
		if w.CommandType != pg.CmdType_CMD_INSERT {
			continue
		}
		for i, k := range c.table.keys {
			if v := mergeValue(&target{rel: rel, table: c.table}, w, k.Name); v == nil || !c.a.gatherer().sameNode(v, keys[i]) {
				return nil, cannot("Insert what the tables are joined by.", "a MERGE into %q must insert the shard key %q that it is joined by", c.target.Relname, k.Name)
			}
		}
	}
	return keys, nil
}

// conjuncts returns the parts of a condition that must all be true.
func conjuncts(n *pg.Node) []*pg.Node {
	b := n.GetBoolExpr()
	if b == nil || b.Boolop != pg.BoolExprType_AND_EXPR {
		return []*pg.Node{n}
	}
	var out []*pg.Node
	for _, arg := range b.Args {
		out = append(out, conjuncts(arg)...)
	}
	return out
}

// ofTarget reports whether a node is the target's column of this name.
func (c *changing) ofTarget(n *pg.Node, column, source string) bool {
	names := nameList(n.GetColumnRef().GetFields())
	return len(names) > 1 && names[len(names)-1] == column && names[len(names)-2] == c.targetName() && c.targetName() != source
}

// ofSource reports whether a node is a column of the source.
func ofSource(n *pg.Node, alias string) bool {
	names := nameList(n.GetColumnRef().GetFields())
	return len(names) == 2 && names[0] == alias
}
