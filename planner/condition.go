package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/datum"
	"weft/plan"
)

// condition adds the conjuncts of a condition to the level's scope, and analyses the functions and
// subqueries in it.
func (pr predicates) condition(n *pg.Node) {
	pr.l.a.notes.offer(pr.l, pr.l, pr.l.scope, n)
	pr.conditions(n)
}

func (pr predicates) conditions(n *pg.Node) {
	if n == nil {
		return
	}
	if b := n.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		for _, arg := range b.Args {
			pr.conditions(arg)
		}
		return
	}
	if s := n.GetSubLink(); s != nil && pr.semijoin(s) {
		return
	}
	pr.l.scope.add(pr.facts(n)...)
	pr.l.expression(n)
}

// facts returns what a condition says about columns when it is true. Most conditions say nothing
// useful.
func (pr predicates) facts(n *pg.Node) []fact {
	if pr.l.a.env.Schema == nil || pr.l.a.env.Schema.CustomEquality {
		return nil
	}
	switch n := n.GetNode().(type) {
	case *pg.Node_BoolExpr:
		switch n.BoolExpr.Boolop {
		case pg.BoolExprType_AND_EXPR:
			var out []fact
			for _, arg := range n.BoolExpr.Args {
				out = append(out, pr.facts(arg)...)
			}
			return out
		case pg.BoolExprType_OR_EXPR:
			return pr.disjunction(n.BoolExpr.Args)
		}
	case *pg.Node_NullTest:
		if n.NullTest.Nulltesttype == pg.NullTestType_IS_NULL {
			if c := pr.l.column(n.NullTest.Arg); c != nil {
				return []fact{{left: c, set: plan.Set{{Kind: plan.Null}}, null: true}}
			}
		}
	case *pg.Node_AExpr:
		return pr.comparison(n.AExpr)
	}
	return nil
}

// disjunction returns the facts of an OR: one of the arms is true, so a column that every arm
// confines has a value that some arm allows.
func (pr predicates) disjunction(arms []*pg.Node) []fact {
	var out []fact
	for i, arm := range arms {
		facts := pr.facts(arm)
		if i == 0 {
			for _, f := range facts {
				if f.right == nil && !f.bound {
					out = append(out, fact{left: f.left, set: append(plan.Set(nil), f.set...), null: f.null})
				}
			}
			continue
		}
		kept := out[:0]
		for _, o := range out {
			for _, f := range facts {
				if f.right == nil && !f.bound && f.left == o.left {
					o.set, o.null = append(o.set, f.set...), o.null || f.null
					kept = append(kept, o)
					break
				}
			}
		}
		out = kept
	}
	return out
}

// isEquality reports whether an operator is the built-in =. Schemas with an = of their own have
// been excluded before.
func isEquality(name []*pg.Node) bool {
	names := nameList(name)
	switch len(names) {
	case 1:
		return names[0] == "="
	case 2:
		return names[0] == "pg_catalog" && names[1] == "="
	}
	return false
}

func (pr predicates) comparison(e *pg.A_Expr) []fact {
	switch e.Kind {
	case pg.A_Expr_Kind_AEXPR_OP:
		if isEquality(e.Name) {
			return pr.equality(e.Lexpr, e.Rexpr)
		}
		return pr.inequality(e)
	case pg.A_Expr_Kind_AEXPR_BETWEEN:
		ends := e.Rexpr.GetList().GetItems()
		if c := pr.l.column(e.Lexpr); c != nil && len(ends) == 2 {
			return append(pr.boundFact(c, ends[0], true), pr.boundFact(c, ends[1], false)...)
		}
	case pg.A_Expr_Kind_AEXPR_IN:
		if names := nameList(e.Name); len(names) == 1 && names[0] == "=" {
			return pr.in(e.Lexpr, e.Rexpr.GetList().GetItems())
		}
	case pg.A_Expr_Kind_AEXPR_OP_ANY:
		if isEquality(e.Name) {
			return pr.any(e.Lexpr, e.Rexpr)
		}
	case pg.A_Expr_Kind_AEXPR_NOT_DISTINCT:
		return pr.notDistinct(e.Lexpr, e.Rexpr)
	}
	return nil
}

// equality returns the facts of an equality of columns, constants, or rows of these.
func (pr predicates) equality(left, right *pg.Node) []fact {
	if a, b := left.GetRowExpr(), right.GetRowExpr(); a != nil && b != nil {
		if len(a.Args) != len(b.Args) {
			return nil
		}
		var out []fact
		for i := range a.Args {
			out = append(out, pr.equality(a.Args[i], b.Args[i])...)
		}
		return out
	}
	a, plainA := pr.operand(left)
	b, plainB := pr.operand(right)
	switch {
	case a != nil && b != nil:
		if a.class() != 0 && a.class() == b.class() {
			return []fact{{left: a, right: b}}
		}
	case a != nil && plainA:
		return pr.constantFact(a, right)
	case b != nil && plainB:
		return pr.constantFact(b, left)
	}
	return nil
}

// operand returns the column that a side of an equality is, also through a cast that keeps its value or fails. same is not set
// if the cast is to another type than the column's.
func (pr predicates) operand(n *pg.Node) (c *column, same bool) {
	cast := n.GetTypeCast()
	if cast == nil {
		return pr.l.column(n), true
	}
	c = pr.l.column(cast.Arg)
	t := pr.typeName(cast.TypeName)
	switch {
	case c == nil || t == 0:
	case c.declared == t && t != datum.Bpchar:
		return c, true
	case class(t) == c.class() && (class(t) == datum.Int8 || class(t) == datum.Text && t != datum.Bpchar && c.typ != datum.Bpchar):
		return c, false
	}
	return nil, false
}

func (pr predicates) constantFact(c *column, n *pg.Node) []fact {
	if c.apart {
		return nil
	}
	src, ok := pr.constant(n)
	if !ok && c.class() == datum.Text && c.typ != datum.Bpchar {
		src, ok = pr.cased(n)
	}
	if !ok {
		return nil
	}
	if src.Kind == plan.Null {
		return []fact{{left: c, set: plan.Set{}}} // nothing equals NULL
	}
	return []fact{{left: c, set: plan.Set{src}}}
}

// inequality returns the facts of a column compared with a constant.
func (pr predicates) inequality(e *pg.A_Expr) []fact {
	names := nameList(e.Name)
	if len(names) != 1 {
		return nil
	}
	low := false
	switch names[0] {
	case "<", "<=":
	case ">", ">=":
		low = true
	default:
		return nil
	}
	if c := pr.l.column(e.Lexpr); c != nil {
		return pr.boundFact(c, e.Rexpr, low)
	}
	if c := pr.l.column(e.Rexpr); c != nil {
		return pr.boundFact(c, e.Lexpr, !low)
	}
	return nil
}

// boundFact returns the fact that a column is on one side of a constant. Texts have none: their
// order depends on the collation.
func (pr predicates) boundFact(c *column, n *pg.Node, low bool) []fact {
	switch c.class() {
	case datum.Int8, datum.Date, datum.Timestamp, datum.Timestamptz, datum.Numeric:
	default:
		return nil
	}
	src, ok := pr.constant(n)
	if !ok || src.Kind == plan.Null {
		return nil
	}
	return []fact{{left: c, set: plan.Set{src}, bound: true, low: low}}
}

// in returns the facts of a column in a list: the union of its equalities.
func (pr predicates) in(left *pg.Node, items []*pg.Node) []fact {
	if row := left.GetRowExpr(); row != nil {
		var out []fact
		for i, item := range items {
			other := item.GetRowExpr()
			if other == nil || len(other.Args) != len(row.Args) {
				return nil
			}
			for j := range row.Args {
				c := pr.l.column(row.Args[j])
				if i == 0 {
					out = append(out, fact{left: c, set: plan.Set{}})
				}
				if out[j].left == nil {
					continue
				}
				f := pr.constantFact(c, other.Args[j])
				if f == nil {
					out[j].left = nil
					continue
				}
				out[j].set = append(out[j].set, f[0].set...)
			}
		}
		return aboutColumns(out)
	}
	c := pr.l.column(left)
	if c == nil {
		return nil
	}
	out := fact{left: c, set: plan.Set{}}
	for _, item := range items {
		f := pr.constantFact(c, item)
		if f == nil {
			return nil
		}
		out.set = append(out.set, f[0].set...)
	}
	return []fact{out}
}

// aboutColumns drops facts that are about no column.
func aboutColumns(facts []fact) []fact {
	kept := facts[:0]
	for _, f := range facts {
		if f.left != nil {
			kept = append(kept, f)
		}
	}
	return kept
}

// any returns the facts of column = ANY (array).
func (pr predicates) any(left, right *pg.Node) []fact {
	c := pr.l.column(left)
	if c == nil || c.apart {
		return nil
	}
	if set, ok := pr.array(right); ok {
		return []fact{{left: c, set: set}}
	}
	return nil
}

// notDistinct returns the facts of IS NOT DISTINCT FROM: those of =, except for NULL. A parameter
// may be NULL, so it says nothing.
func (pr predicates) notDistinct(left, right *pg.Node) []fact {
	c := pr.l.column(left)
	if c == nil {
		if c = pr.l.column(right); c == nil {
			return nil
		}
		right = left
	}
	if c.apart {
		return nil
	}
	src, ok := pr.constant(right)
	switch {
	case !ok || src.Kind == plan.Param || src.Kind == plan.Computed:
		return nil
	case src.Kind == plan.Null:
		return []fact{{left: c, set: plan.Set{src}, null: true}}
	}
	return []fact{{left: c, set: plan.Set{src}}}
}

// semijoin takes EXISTS (…) or x IN (SELECT …) as a conjunct, and reports whether it could. Some
// row of the subquery satisfies the subquery's conditions beside this level's row, so these
// conditions are facts of this level too, if the subquery is no more than a filtered join.
func (pr predicates) semijoin(s *pg.SubLink) bool {
	sel := s.Subselect.GetSelectStmt()
	if !pr.l.plainJoin(sel) {
		return false
	}
	if pr.l.a.probe != nil {
		pr.l.a.probe.semi++
		defer func() { pr.l.a.probe.semi-- }()
	}
	switch s.SubLinkType {
	case pg.SubLinkType_EXISTS_SUBLINK:
		pr.l.inner(pr.l.scope).query(sel)
		return true
	case pg.SubLinkType_ANY_SUBLINK:
		if len(s.OperName) > 0 && !isEquality(s.OperName) {
			return false
		}
		pr.l.expression(s.Testexpr)
		cols, opaque := pr.l.inner(pr.l.scope).query(sel)
		if opaque || pr.l.a.env.Schema.CustomEquality {
			return true
		}
		tests := []*pg.Node{s.Testexpr}
		if row := s.Testexpr.GetRowExpr(); row != nil {
			tests = row.Args
		}
		if len(tests) != len(cols) {
			return true
		}
		for i, t := range tests {
			c := cols[i].column
			if x := pr.l.column(t); x != nil {
				if x.class() != 0 && x.class() == c.class() {
					pr.l.scope.add(fact{left: x, right: c})
				}
			} else if c.class() != 0 {
				pr.l.scope.add(pr.constantFact(c, t)...)
			}
		}
		return true
	}
	return false
}
