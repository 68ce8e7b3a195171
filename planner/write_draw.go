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

// An UPDATE that gives each row a value of a sequence. Sequences are the home
// shard's, so the rows are locked and read first, each is given its value, and then
// they are updated:
//
//	UPDATE t SET n = nextval('s'), a = x FROM f WHERE c RETURNING r
//
//	step: SELECT x AS c1, t.id AS c2 FROM t, f WHERE c FOR UPDATE OF t
//	then: UPDATE t SET a = w.c1, n = w.c3 FROM <rows> w WHERE t.id = w.c2 RETURNING r
//
// c3 is what weft has drawn. Of a larger expression ('A-' || nextval('s')) only the call is replaced. A row is found again by a unique key without NULLs,
// and is locked meanwhile. As in PostgreSQL a row may be joined with
// several of f, and one of them counts.

// drawnFrom returns the sequence of which an item of SET takes a value for each row: that of the
// column's default, or the one that nextval names. "" if there is none.
func (wr writes) drawnFrom(to *writable, t *pg.ResTarget) string {
	v := t.GetVal()
	if m := v.GetMultiAssignRef(); m != nil {
		row := m.Source.GetRowExpr()
		if row == nil || int(m.Colno) > len(row.Args) {
			return ""
		}
		v = row.Args[m.Colno-1]
	}
	col := to.updated(t.GetName())
	if col == nil || len(t.Indirection) > 0 {
		return ""
	}
	if v.GetSetToDefault() != nil {
		if !drawsFrom(col) {
			return ""
		}
		return col.Sequence.SQL()
	}
	return wr.sequenceOf(v.GetFuncCall())
}

// writable returns the target as drawnFrom takes it.
func (t *target) writable() *writable {
	if t.through != nil {
		return t.through
	}
	return &writable{rel: t.rel}
}

// draws reports whether a statement is an UPDATE of a sharded table that gives its
// rows values of sequences.
func (wr writes) draws(tg *target, n *pg.UpdateStmt) bool {
	if tg.table == nil || tg.table.Reference || tg.rel == nil || wr.a.text.stored || len(wr.a.client.tree.Statements) != 1 {
		return false
	}
	if !wr.isStatement(&pg.Node{Node: &pg.Node_UpdateStmt{UpdateStmt: n}}) {
		return false
	}
	return slices.ContainsFunc(n.TargetList, func(n *pg.Node) bool {
		t := n.GetResTarget()
		return t != nil && (wr.drawnFrom(tg.writable(), t) != "" || wr.drawnIn(tg.writable(), t) != nil)
	})
}

// drawnUpdateOf plans an UPDATE that gives rows values of sequences.
func (c *changing) drawnUpdateOf() (*plan.Write, *pgerr.Error) {
	u, rel := c.stmt.GetUpdateStmt(), c.through.rel
	const hint = "Draw the values first, and give them in the UPDATE."
	if c.moves() {
		return nil, cannot(hint, "values of a sequence are not supported where a shard key is changed")
	}
	key := (&copier{a: c.a, rel: rel}).identity(&changes{})
	if key == nil {
		return nil, cannot(hint, "values of a sequence are not supported in an UPDATE of %q: it has no primary key", c.target.Relname)
	}
	if refusal := c.returnsOwn(rel); refusal != nil {
		return nil, refusal
	}
	set, refusal := c.drawnColumns(rel, u)
	if refusal != nil {
		return nil, refusal
	}
	split := &plan.Split{Table: &c.table.Table, Draws: set.draws}
	carried, first := set.carried, len(set.carried)
	for _, k := range append(slices.Clone(key), keyNames(c.table)...) {
		carried = append(carried, nameNode(c.targetName(), k))
	}
	for i := range c.table.keys {
		split.Columns = append(split.Columns, first+len(key)+i)
	}
	set.place(len(carried))
	if refusal := c.judge(u, set.judged); refusal != nil {
		return nil, refusal
	}
	r, refusal := c.asDelete(u, carried, atDraws)
	if refusal != nil {
		return nil, refusal
	}
	step := &plan.Local{Instances: []plan.Instance{r.solved(c.targetRows())}}
	var err error
	if step.Text, err = r.a.gatherer().render(c.lockTarget(r.tree.GetDeleteStmt())); err != nil {
		return nil, unwritable(err)
	}
	split.Input = len(r.gather.Pieces)
	w := &plan.Share{Split: split}
	w.Before = []*plan.Write{{Verb: "SELECT", Returns: true, Shape: step}}
	if w.Text, err = r.a.gatherer().render(c.drawnUpdate(rel, set.items(), key, first, len(carried)+len(set.draws), split.Input)); err != nil {
		return nil, unwritable(err)
	}
	if len(r.gather.Pieces) > 0 {
		w.Read = r.gather
	}
	return &plan.Write{Verb: "UPDATE", Returns: len(c.returning) > 0, Shape: w}, nil
}

// drawnSet is what an UPDATE sets that gives rows values of sequences.
type drawnSet struct {
	carried []*pg.Node   // expressions that are evaluated when the rows are read
	plain   []*pg.Node   // the assignments of these
	last    []*pg.Node   // the assignments that need values of sequences
	draws   []plan.Value // the values
	holes   []*pg.Node   // where each of the values belongs
	judged  []*pg.Node   // the expressions of last, without their values
}

// items returns the assignments.
func (d *drawnSet) items() []*pg.Node { return slices.Concat(d.plain, d.last) }

// place puts the drawn values into their holes: they are the columns of the input behind the given ones.
func (d *drawnSet) place(given int) {
	for i, hole := range d.holes {
		hole.Node = nameNode(inputAlias, inputColumn(given+i)).Node
	}
}

// carry adds an expression that is evaluated when the rows are read, and returns what it is then.
func (d *drawnSet) carry(v *pg.Node) *pg.Node {
	d.carried = append(d.carried, v)
	return nameNode(inputAlias, inputColumn(len(d.carried)-1))
}

// drawnColumns returns what the statement sets.
func (c *changing) drawnColumns(rel *catalog.Relation, u *pg.UpdateStmt) (*drawnSet, *pgerr.Error) {
	set := &drawnSet{}
	for _, n := range oneByOne(u.TargetList) {
		t := n.GetResTarget()
		col := findColumn(rel, t.GetName())
		v := t.GetVal()
		seq, in := c.a.writes().drawnFrom(c.through, t), c.a.writes().drawnIn(c.through, t)
		if seq != "" || in != nil {
			if ids := c.table.IDs; ids != nil && ids.Column == col.Name {
				return nil, cannot("Insert the rows anew.", "routed ids of %q cannot be drawn by an UPDATE", c.target.Relname)
			}
			if col.Identity == 'a' {
				return nil, cannot("Insert the rows anew, or ALTER COLUMN … SET GENERATED BY DEFAULT.",
					"column %q is GENERATED ALWAYS, and a shard takes no value for it in an UPDATE", col.Name)
			}
		}
		switch {
		case seq != "":
			hole := &pg.Node{}
			set.draws = append(set.draws, plan.Value{Type: col.TypeName, Sequence: seq, Identity: col.Identity != 0 && v.GetSetToDefault() != nil})
			set.holes, set.last = append(set.holes, hole), append(set.last, targetOf(hole, col.Name))
		case in != nil:
			if refusal := c.drawsAmid(set, in); refusal != nil {
				return nil, refusal
			}
			set.last = append(set.last, targetOf(in.value, t.Name))
		case len(t.Indirection) > 0 || v.GetMultiAssignRef() != nil || v.GetSetToDefault() != nil:
			return nil, cannot("Set the other columns in a statement of its own.", "this form of SET is not supported beside values of a sequence on several shards")
		default:
			if k := v.GetAConst(); col != nil && k != nil && (k.Isnull || k.GetSval() != nil) {
				if typ := inputType(col); typ != nil {
					v = castAs(v, typ)
				}
			}
			set.plain = append(set.plain, targetOf(set.carry(v), t.Name))
		}
	}
	return set, nil
}

// lockTarget makes a DELETE into a query that locks the rows it would delete.
func (c *changing) lockTarget(d *pg.DeleteStmt) *pg.Node {
	sel := newSelect()
	sel.WithClause, sel.WhereClause, sel.TargetList = d.WithClause, d.WhereClause, d.ReturningList
	sel.FromClause = append([]*pg.Node{rangeNode(d.Relation)}, d.UsingClause...)
	sel.LockingClause = []*pg.Node{{Node: &pg.Node_LockingClause{LockingClause: &pg.LockingClause{
		LockedRels: []*pg.Node{rangeNode(&pg.RangeVar{Relname: c.targetName(), Inh: true, Relpersistence: "p", Location: -1})},
		Strength:   pg.LockClauseStrength_LCS_FORUPDATE, WaitPolicy: pg.LockWaitPolicy_LockWaitBlock,
	}}}}
	return selectNode(sel)
}

// drawnUpdate returns the UPDATE by the rows of an input. The input's columns are what was carried, the key from
// column number first on, the shard key, and the drawn values.
func (c *changing) drawnUpdate(rel *catalog.Relation, set []*pg.Node, key []string, first, columns, input int) *pg.Node {
	u := &pg.UpdateStmt{
		Relation:      &pg.RangeVar{Schemaname: rel.Schema, Relname: rel.Name.Name, Inh: c.target.Inh, Relpersistence: "p", Location: -1, Alias: &pg.Alias{Aliasname: c.targetName()}},
		FromClause:    []*pg.Node{inputNode(input, columns, nil)},
		TargetList:    set,
		ReturningList: c.ownNames(),
	}
	var conds []*pg.Node
	for i, name := range key {
		conds = append(conds, pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("=")},
			nameNode(c.targetName(), name), nameNode(inputAlias, inputColumn(first+i)), -1))
	}
	u.WhereClause = conjunction(conds)
	return &pg.Node{Node: &pg.Node_UpdateStmt{UpdateStmt: u}}
}

// ownNames returns RETURNING with every name qualified: the input has columns too.
func (c *changing) ownNames() []*pg.Node {
	var out []*pg.Node
	for _, n := range c.returning {
		n = proto.Clone(n).(*pg.Node)
		if t := n.GetResTarget(); t.Name == "" && !isStar(t.Val) {
			if name := figureName(t.Val); name != "?column?" {
				t.Name = name
			}
		}
		parser.Walk(n, func(m any) bool {
			ref, ok := m.(*pg.ColumnRef)
			if !ok || len(ref.Fields) != 1 {
				return true
			}
			if name := ref.Fields[0].GetString_().GetSval(); name != c.targetName() || findColumn(c.through.rel, name) != nil {
				ref.Fields = append([]*pg.Node{pg.MakeStrNode(c.targetName())}, ref.Fields...)
			}
			return true
		})
		out = append(out, n)
	}
	return out
}

func keyNames(t *table) []string {
	var out []string
	for _, k := range t.keys {
		out = append(out, k.Name)
	}
	return out
}
