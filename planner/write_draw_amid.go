package planner

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/pgerr"
	"weft/plan"
)

// drawing is an item of SET in whose value weft puts values of sequences:
//
//	SET code = 'A-' || nextval('s')
//	SET code = DEFAULT, where that is the default
//
// Every call must be evaluated for every row, since weft draws before it knows what becomes of a value.
type drawing struct {
	value     *pg.Node   // the expression, in a tree of its own
	calls     []*pg.Node // the calls of nextval in it
	sequences []string   // their sequences
	// always is set if PostgreSQL evaluates each of the calls.
	always bool
}

// judged returns the expression with constants in the place of the calls.
func (d *drawing) judged() *pg.Node {
	whole := make([]*pg.Node, len(d.calls))
	for i, call := range d.calls {
		whole[i] = &pg.Node{Node: call.Node}
		call.Node = cast(pg.MakeAConstIntNode(1, -1), "int8").Node
	}
	out := proto.Clone(d.value).(*pg.Node)
	for i, call := range d.calls {
		call.Node = whole[i].Node
	}
	return out
}

// drawnIn returns what an item of SET draws in a larger expression, or nil if it is not of that form.
func (wr writes) drawnIn(to *writable, t *pg.ResTarget) *drawing {
	if d := wr.drawnAmid(to, t); d != nil && d.always {
		return d
	}
	return nil
}

// drawnAmid is drawnIn, also for an expression that does not evaluate all of its calls.
func (wr writes) drawnAmid(to *writable, t *pg.ResTarget) *drawing {
	col := to.updated(t.GetName())
	if col == nil || len(t.Indirection) > 0 || wr.drawnFrom(to, t) != "" {
		return nil
	}
	v := t.GetVal()
	if m := v.GetMultiAssignRef(); m != nil {
		row := m.Source.GetRowExpr()
		if row == nil || int(m.Colno) > len(row.Args) {
			return nil
		}
		v = row.Args[m.Colno-1]
	}
	if v.GetSetToDefault() == nil {
		if !namesNextval(v) {
			return nil
		}
		d := wr.drawingOf(proto.Clone(v).(*pg.Node))
		wr.a.out.Exact = wr.a.out.Exact || d != nil // the names of sequences are in the plan
		return d
	}
	if !strings.Contains(col.Default, "nextval") {
		return nil
	}
	var d *drawing
	wr.withDefault(col, func(n *pg.Node) { d = wr.drawingOf(placeless(n)) })
	if d != nil && wr.foreign(d.judged()) {
		return nil
	}
	return d
}

// drawingOf finds the calls of nextval in an expression, which it keeps. It returns nil if there is none of
// a known sequence.
func (wr writes) drawingOf(v *pg.Node) *drawing {
	d := &drawing{value: v, always: true}
	walkNodes(v, func(n *pg.Node) bool {
		switch {
		case n.GetFuncCall() != nil:
			if lastName(n.GetFuncCall().Funcname) != "nextval" {
				return true
			}
			d.calls = append(d.calls, n)
			if seq := wr.sequenceOf(n.GetFuncCall()); seq != "" {
				d.sequences = append(d.sequences, seq)
			}
			return false
		case mayLeaveOut(n):
			d.always = d.always && n.GetSubLink() == nil && !namesNextval(n)
		case isNull(n):
			d.always = false // a strict function of NULL is not called
		}
		return true
	})
	if len(d.calls) == 0 || len(d.sequences) < len(d.calls) {
		return nil
	}
	return d
}

// mayLeaveOut reports whether an expression may not evaluate everything in it.
func mayLeaveOut(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_AExpr:
		switch v.AExpr.Kind {
		case pg.A_Expr_Kind_AEXPR_OP, pg.A_Expr_Kind_AEXPR_DISTINCT, pg.A_Expr_Kind_AEXPR_NOT_DISTINCT, pg.A_Expr_Kind_AEXPR_NULLIF:
			return false
		}
		return true
	case *pg.Node_SubLink, *pg.Node_CaseExpr, *pg.Node_CoalesceExpr, *pg.Node_BoolExpr:
		return true
	}
	return false
}

// namesNextval reports whether an expression calls a function of that name.
func namesNextval(v *pg.Node) bool {
	found := false
	walkNodes(v, func(n *pg.Node) bool {
		found = found || lastName(n.GetFuncCall().GetFuncname()) == "nextval"
		return !found
	})
	return found
}

// drawsSometimes refuses an UPDATE that draws values for some of its rows.
func (mo modification) drawsSometimes(tg *target, n *pg.UpdateStmt) {
	a := mo.l.a
	if tg.table == nil || tg.table.Reference || tg.rel == nil || a.text.stored {
		return
	}
	for _, n := range n.TargetList {
		t := n.GetResTarget()
		if t == nil {
			continue
		}
		if d := a.writes().drawnAmid(tg.writable(), t); d != nil && !d.always {
			a.unsupported("Put the condition into WHERE, as in: UPDATE … SET code = 'A-' || nextval('s') WHERE code IS NULL.",
				"nextval inside of CASE, COALESCE, AND, OR or IN, or beside a subquery or NULL, is not supported in SET of sharded table %q", tg.name)
		}
	}
}

// drawsAmid notes the values that an expression draws, and what must be carried for it. Columns of the row
// itself are there when the row is updated.
func (c *changing) drawsAmid(set *drawnSet, d *drawing) *pgerr.Error {
	set.judged = append(set.judged, d.judged())
	for i, call := range d.calls {
		set.draws = append(set.draws, plan.Value{Type: "bigint", Sequence: d.sequences[i]})
		set.holes = append(set.holes, call)
		call.Node = nil
	}
	var refusal *pgerr.Error
	walkNodes(d.value, func(n *pg.Node) bool {
		ref := n.GetColumnRef()
		if ref == nil {
			return true
		}
		names := nameList(ref.Fields)
		alone, qualified := len(names) == 1, len(names) == 2 && names[0] == c.targetName()
		own := findColumn(c.through.rel, lastName(ref.Fields)) != nil
		switch {
		case len(names) < len(ref.Fields), alone && names[0] == c.targetName() && !own:
			refusal = cannot("Name the columns.", "a whole row beside nextval in SET is not supported on several shards")
		case qualified && own:
		case alone && own && len(c.from) == 0:
			n.Node = nameNode(c.targetName(), names[0]).Node
		default:
			n.Node = set.carry(&pg.Node{Node: n.Node}).Node
		}
		return false
	})
	return refusal
}

// atDraws ends the messages of refusals.
const atDraws = "where values of a sequence are set"

// judge refuses expressions that cannot be evaluated where the rows are.
func (c *changing) judge(u *pg.UpdateStmt, values []*pg.Node) *pgerr.Error {
	if len(values) == 0 {
		return nil
	}
	_, refusal := c.asDelete(u, values, atDraws)
	return refusal
}

// sequenceOf returns the sequence that a call of nextval names, or "".
func (wr writes) sequenceOf(f *pg.FuncCall) string {
	if f == nil || len(f.Args) != 1 || !callsOwn(f, "nextval") {
		return ""
	}
	return sequenceNamed(wr.a, f.Args[0])
}

// callsOwn reports whether a call is that of one of PostgreSQL's own functions, as far as its name says.
func callsOwn(f *pg.FuncCall, name string) bool {
	names := nameList(f.Funcname)
	return names[len(names)-1] == name && (len(names) == 1 || len(names) == 2 && names[0] == "pg_catalog")
}

// sequenceNamed returns the qualified, quoted name of the sequence that a constant argument names, or nothing.
func sequenceNamed(a *analysis, arg *pg.Node) string {
	if c := arg.GetTypeCast(); c != nil {
		arg = c.Arg
	}
	schema, name, ok := regclass(arg.GetAConst().GetSval().GetSval())
	if !ok || name == "" {
		return ""
	}
	a.out.Exact = true
	seq := a.find(schema, name)
	if seq == nil || seq.Kind != catalog.Sequence {
		return ""
	}
	return seq.Name.SQL()
}

// beforeDraw returns what is to be analysed of a value that is assigned: nothing of a plain draw.
func (wr writes) beforeDraw(tg *target, t *pg.ResTarget, v *pg.Node) *pg.Node {
	switch d := wr.drawnIn(tg.writable(), t); {
	case wr.drawnFrom(tg.writable(), t) != "":
		return nil
	case d != nil && v.GetSetToDefault() == nil:
		return d.judged()
	}
	return v
}
