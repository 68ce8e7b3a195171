package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// A row whose shard key changes may have to go to another shard. It is deleted
// where it is, and what it becomes is inserted where it belongs:
//
//	UPDATE t SET k = x, a = y FROM f WHERE c RETURNING r
//
//	step: DELETE FROM t USING f WHERE c RETURNING x AS c1, y AS c2, t.b AS c3
//	then: INSERT INTO t (k, a, b) SELECT c1, c2, c3 FROM <rows> RETURNING r
//
// That is the same if no difference can be seen: no foreign key references the row, which
// would be violated, or act, when it goes; no trigger is to see an UPDATE; no
// policy allows one and not the other.

// moves reports whether the statement changes a shard key.
func (c *changing) moves() bool {
	return slices.ContainsFunc(c.a.instances, func(x *instance) bool { return x.stored && x.rv == c.target })
}

// move plans an UPDATE that changes shard keys.
func (c *changing) move() (*plan.Write, *pgerr.Error) {
	u := c.stmt.GetUpdateStmt()
	if u == nil || c.through == nil {
		return nil, cannot("Delete the rows and insert them anew.", "the shard key of %q cannot be changed here", c.target.Relname)
	}
	rel := c.through.rel
	if i := slices.IndexFunc(rel.Columns, func(col catalog.Column) bool { return hidden(&col) && !col.Generated }); i >= 0 {
		return nil, cannot("Write to the table itself.", "the shard key of %q cannot be changed where its shard may change: view %q does not show column %q",
			c.through.base.Name.Name, c.target.Relname, shownName(&rel.Columns[i]))
	}
	if refusal := c.immovable(rel); refusal != nil {
		return nil, refusal
	}
	if refusal := c.returnsOwn(rel); refusal != nil {
		return nil, refusal
	}
	cols, values, refusal := c.newRow(rel, u)
	if refusal != nil {
		return nil, refusal
	}
	moves, old := c.uniqueMoves(rel, cols)
	r, refusal := c.asDelete(u, slices.Concat(values, old), "where a shard key is changed over several shards")
	if refusal != nil {
		return nil, refusal
	}
	step := &plan.Local{Instances: []plan.Instance{r.solved(c.targetRows())}}
	var err error
	if step.Text, err = r.a.gatherer().render(r.tree); err != nil {
		return nil, unwritable(err)
	}
	w := &plan.Share{Moves: moves, Split: &plan.Split{Table: &c.table.Table, Input: len(r.gather.Pieces)}}
	w.Before = []*plan.Write{{Verb: "DELETE", Returns: true, Shape: step}}
	for _, k := range c.table.keys {
		w.Split.Columns = append(w.Split.Columns, slices.IndexFunc(cols, func(c *catalog.Column) bool { return c.Name == k.Name }))
	}
	if slices.Contains(w.Split.Columns, -1) {
		return nil, cannot("Give the value.", "the shard key of %q cannot be changed to its default over several shards", c.target.Relname)
	}
	if w.Text, err = r.a.gatherer().render(c.insertion(rel, cols, w.Split.Input, len(values)+len(old))); err != nil {
		return nil, unwritable(err)
	}
	if len(r.gather.Pieces) > 0 {
		w.Read = r.gather
	}
	return &plan.Write{Verb: "UPDATE", Returns: len(c.returning) > 0, Shape: w}, nil
}

// immovable refuses tables whose rows cannot move.
func (c *changing) immovable(rel *catalog.Relation) *pgerr.Error {
	hint := "Delete the rows and insert them anew."
	switch {
	case len(rel.Referenced) > 0:
		return cannot(hint, "the shard key of %q cannot be changed where its shard may change: %q references the table", rel.Name.Name, rel.Referenced[0].Table.Name)
	case len(rel.Triggers) > 0:
		return cannot(hint, "the shard key of %q cannot be changed where its shard may change: trigger %q would see a DELETE and an INSERT", rel.Name.Name, rel.Triggers[0].Name)
	case rel.RowSecurity:
		return cannot(hint, "the shard key of %q cannot be changed where its shard may change: the table has row-level security", rel.Name.Name)
	case len(rel.Children) > 0 && rel.Kind != catalog.PartitionedTable:
		return cannot(hint, "the shard key of %q cannot be changed where its shard may change: other tables inherit from it", rel.Name.Name)
	}
	return nil
}

// returnsOwn refuses a RETURNING that names more than the row.
func (c *changing) returnsOwn(rel *catalog.Relation) *pgerr.Error {
	own := func(names []string) bool {
		switch {
		case len(names) == 0:
			return len(c.from) == 0
		case len(names) == 1:
			return findColumn(rel, names[0]) != nil || names[0] == c.targetName()
		}
		return names[len(names)-2] == c.targetName()
	}
	ok := true
	for _, n := range c.returning {
		parser.Walk(n, func(m any) bool {
			switch m := m.(type) {
			case *pg.SubLink:
				ok = false
			case *pg.ColumnRef:
				names := nameList(m.Fields)
				if star := len(names) < len(m.Fields); star && len(names) > 0 {
					ok = ok && names[len(names)-1] == c.targetName()
				} else {
					ok = ok && own(names)
				}
			}
			return ok
		})
	}
	if !ok {
		return cannot("Return columns of the table itself.", "RETURNING can tell only of %q itself where its shard key is changed over several shards", rel.Name.Name)
	}
	return nil
}

// targetName returns the name that the statement gives the target.
func (c *changing) targetName() string {
	if c.target.Alias != nil {
		return c.target.Alias.Aliasname
	}
	return c.target.Relname
}

// newRow returns the new row: its columns, and an expression over the deleted row for each.
func (c *changing) newRow(rel *catalog.Relation, u *pg.UpdateStmt) (cols []*catalog.Column, values []*pg.Node, refusal *pgerr.Error) {
	set := map[string]*pg.Node{}
	for _, n := range u.TargetList {
		t := n.GetResTarget()
		v := t.GetVal()
		if m := v.GetMultiAssignRef(); m != nil {
			row := m.Source.GetRowExpr()
			if row == nil || int(m.Colno) > len(row.Args) {
				return nil, nil, cannot("Write one assignment for each column.", "SET (…) = (SELECT …) is not supported where the shard key is changed over several shards")
			}
			v = row.Args[m.Colno-1]
		}
		if len(t.Indirection) > 0 {
			return nil, nil, cannot("Assign the whole value.", "a part of column %q cannot be set where the shard key is changed over several shards", t.Name)
		}
		set[t.Name] = v
	}
	for i := range rel.Columns {
		col := &rel.Columns[i]
		v, given := set[col.Name]
		switch {
		case col.Generated:
			continue
		case !given:
			v = nameNode(c.targetName(), col.Name)
		case v.GetSetToDefault() != nil && (drawsFrom(col) || len(c.through.views) > 0):
			return nil, nil, cannot("Give the value.", "column %q cannot be set to its default where the shard key is changed over several shards", col.Name)
		case v.GetSetToDefault() != nil:
			continue // the INSERT computes it
		case v.GetAConst() != nil && (v.GetAConst().Isnull || v.GetAConst().GetSval() != nil):
			if typ := inputType(col); typ != nil {
				v = castAs(v, typ)
			}
		}
		cols, values = append(cols, col), append(values, v)
	}
	return cols, values, nil
}

// insertion returns the INSERT of the rows of an input.
func (c *changing) insertion(rel *catalog.Relation, cols []*catalog.Column, input, width int) *pg.Node {
	sel := newSelect()
	sel.FromClause = []*pg.Node{inputNode(input, width, nil)}
	ins := &pg.InsertStmt{
		Relation:      &pg.RangeVar{Schemaname: rel.Schema, Relname: rel.Name.Name, Inh: true, Relpersistence: "p", Location: -1, Alias: &pg.Alias{Aliasname: c.targetName()}},
		ReturningList: c.returning, Override: pg.OverridingKind_OVERRIDING_NOT_SET,
	}
	for i, col := range cols {
		ins.Cols = append(ins.Cols, &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Name: col.Name, Location: -1}}})
		sel.TargetList = append(sel.TargetList, targetOf(nameNode(inputAlias, inputColumn(i)), "c"+strconv.Itoa(i+1)))
		if col.Identity == 'a' {
			ins.Override = pg.OverridingKind_OVERRIDING_SYSTEM_VALUE
		}
	}
	ins.SelectStmt = selectOf(sel)
	return &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: ins}}
}

// uniqueMoves returns the unique keys of the table, and the expressions of their old values, which
// come after those of the new row.
func (c *changing) uniqueMoves(rel *catalog.Relation, cols []*catalog.Column) (moves []plan.Move, old []*pg.Node) {
	at := map[string]int{}
	for _, u := range rel.Unique {
		if u.Deferrable {
			continue
		}
		var m plan.Move
		for _, name := range u.Columns {
			becomes := slices.IndexFunc(cols, func(c *catalog.Column) bool { return c.Name == name })
			if becomes < 0 {
				break // generated, or a default: the value is not known here
			}
			if _, there := at[name]; !there {
				at[name] = len(cols) + len(old)
				old = append(old, nameNode(c.targetName(), name))
			}
			m.Old, m.New = append(m.Old, at[name]), append(m.New, becomes)
		}
		if len(m.New) == len(u.Columns) && len(m.New) > 0 {
			moves = append(moves, m)
		}
	}
	return moves, old
}

// asDelete makes a DELETE of the rows that an UPDATE changes, which returns the carried
// expressions. where names the clause that cannot use rows that differ each time.
func (c *changing) asDelete(u *pg.UpdateStmt, carried []*pg.Node, where string) (*remainder, *pgerr.Error) {
	del := &pg.DeleteStmt{Relation: u.Relation, UsingClause: u.FromClause, WhereClause: u.WhereClause, WithClause: u.WithClause}
	for i, v := range carried {
		del.ReturningList = append(del.ReturningList, targetOf(v, inputColumn(i)))
	}
	d := c.a.writes().changing(&pg.Node{Node: &pg.Node_DeleteStmt{DeleteStmt: del}})
	stays, refusal := d.staying()
	switch {
	case refusal != nil:
		return nil, refusal
	case len(d.once) > 0:
		return nil, cannot("Ask for its rows first.", "a subquery that may yield other rows each time is not supported %s", where)
	}
	return d.a.writes().takeOut(d.stmt, stays)
}
