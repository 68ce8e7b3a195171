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
// c3 is what weft has drawn. A row is found again by a unique key without NULLs,
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
	f := v.GetFuncCall()
	names := nameList(f.GetFuncname())
	if f == nil || len(f.Args) != 1 || names[len(names)-1] != "nextval" || len(names) == 2 && names[0] != "pg_catalog" {
		return ""
	}
	arg := f.Args[0]
	if c := arg.GetTypeCast(); c != nil {
		arg = c.Arg
	}
	schema, name, ok := regclass(arg.GetAConst().GetSval().GetSval())
	if !ok || name == "" {
		return ""
	}
	wr.a.out.Exact = true
	seq := wr.a.find(schema, name)
	if seq == nil || seq.Kind != catalog.Sequence {
		return ""
	}
	return seq.Name.SQL()
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
		return n.GetResTarget() != nil && wr.drawnFrom(tg.writable(), n.GetResTarget()) != ""
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
	carried, names, drawn, refusal := c.drawnColumns(rel, u)
	if refusal != nil {
		return nil, refusal
	}
	split := &plan.Split{Table: &c.table.Table, Draws: drawn}
	first := len(carried)
	for _, k := range append(slices.Clone(key), keyNames(c.table)...) {
		carried = append(carried, nameNode(c.targetName(), k))
	}
	for i := range c.table.keys {
		split.Columns = append(split.Columns, first+len(key)+i)
	}
	r, refusal := c.asDelete(u, carried, "where values of a sequence are set")
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
	if w.Text, err = r.a.gatherer().render(c.drawnUpdate(rel, names, key, len(carried), len(drawn), split.Input)); err != nil {
		return nil, unwritable(err)
	}
	if len(r.gather.Pieces) > 0 {
		w.Read = r.gather
	}
	return &plan.Write{Verb: "UPDATE", Returns: len(c.returning) > 0, Shape: w}, nil
}

// drawnColumns returns the expressions that are evaluated when the rows are read, and the names of
// the columns that they are for, followed by the columns for which values are drawn.
func (c *changing) drawnColumns(rel *catalog.Relation, u *pg.UpdateStmt) (carried []*pg.Node, names []string, drawn []plan.Value, refusal *pgerr.Error) {
	var last []string
	for _, n := range oneByOne(u.TargetList) {
		t := n.GetResTarget()
		col := findColumn(rel, t.GetName())
		v := t.GetVal()
		switch seq := c.a.writes().drawnFrom(c.through, t); {
		case seq != "":
			value := plan.Value{Type: col.TypeName, Sequence: seq, Identity: col.Identity != 0 && v.GetSetToDefault() != nil}
			if ids := c.table.IDs; ids != nil && ids.Column == col.Name {
				return nil, nil, nil, cannot("Insert the rows anew.", "routed ids of %q cannot be drawn by an UPDATE", c.target.Relname)
			}
			if col.Identity == 'a' {
				return nil, nil, nil, cannot("Insert the rows anew, or ALTER COLUMN … SET GENERATED BY DEFAULT.", "column %q is GENERATED ALWAYS, and a shard takes no value for it in an UPDATE", col.Name)
			}
			drawn, last = append(drawn, value), append(last, col.Name)
		case len(t.Indirection) > 0 || v.GetMultiAssignRef() != nil || v.GetSetToDefault() != nil:
			return nil, nil, nil, cannot("Set the other columns in a statement of its own.", "this form of SET is not supported beside values of a sequence on several shards")
		default:
			if k := v.GetAConst(); col != nil && k != nil && (k.Isnull || k.GetSval() != nil) {
				if typ := inputType(col); typ != nil {
					v = castAs(v, typ)
				}
			}
			carried, names = append(carried, v), append(names, t.Name)
		}
	}
	return carried, append(names, last...), drawn, nil
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

// drawnUpdate returns the UPDATE by the rows of an input. The input's columns are the values to
// set, the key, the shard key, and the drawn values.
func (c *changing) drawnUpdate(rel *catalog.Relation, names, key []string, carried, drawn, input int) *pg.Node {
	u := &pg.UpdateStmt{
		Relation:      &pg.RangeVar{Schemaname: rel.Schema, Relname: rel.Name.Name, Inh: c.target.Inh, Relpersistence: "p", Location: -1, Alias: &pg.Alias{Aliasname: c.targetName()}},
		FromClause:    []*pg.Node{inputNode(input, carried+drawn, nil)},
		ReturningList: c.ownNames(),
	}
	set := len(names) - drawn
	for i, name := range names {
		at := i
		if i >= set {
			at = carried + i - set
		}
		u.TargetList = append(u.TargetList, targetOf(nameNode(inputAlias, inputColumn(at)), name))
	}
	var conds []*pg.Node
	for i, name := range key {
		conds = append(conds, pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("=")},
			nameNode(c.targetName(), name), nameNode(inputAlias, inputColumn(set+i)), -1))
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
