package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/datum"
	"weft/parser"
)

// offer looks at a condition whose conjuncts all hold in scope s, and notes the
// conjuncts that can be checked where a table is read. l is the level whose names the
// conjuncts use, of the level whose rows they restrict.
//
// A conjunct whose table is on no nullable side of an outer join below s need not be
// checked again. Other noted conjuncts also stay where they are: noting them only
// reduces how many rows are carried.
//
// A conjunct on one table alone may be checked there if the table's rows are in
// s, or below s by steps that scope allows. On the nullable side of an outer join a
// row that is taken away may leave a row of NULLs in its place. So a conjunct there
// must not be true of NULLs; the row of NULLs goes when the conjunct is checked again
// above.
//
// A conjunct must not raise an error where PostgreSQL would not, so only conjuncts
// that never do are noted. Nor must a conjunct be checked before another that may
// raise an error, because PostgreSQL would have raised it.
func (n *notes) offer(of, l *level, s *scope, cond *pg.Node) {
	if n == nil || s == nil || cond == nil {
		return
	}
	if b := cond.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		for _, arg := range b.Args {
			n.offer(of, l, s, arg)
		}
		return
	}
	l.correlated(cond)
	n.joins(of, l, s, cond)
	c := conjunct{level: l}
	safe := c.safe(cond)
	switch {
	case !safe:
		c.block(cond)
		return
	case c.of == nil || c.of.blocked:
		return
	}
	nullable, below := s.above(c.of.scope)
	if !below || nullable && !c.rejects(cond) {
		return
	}
	switch {
	case c.of.level != of:
		c.of.through = append(c.of.through, len(c.of.conditions))
	case !nullable:
		n.checked[cond] = true
	}
	c.of.conditions = append(c.of.conditions, c.written(cond))
}

// correlated notes a column that equals a column of an outer level.
func (l *level) correlated(cond *pg.Node) {
	e := cond.GetAExpr()
	if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || !isEquality(e.Name) {
		return
	}
	for _, sides := range [][2]*pg.Node{{e.Lexpr, e.Rexpr}, {e.Rexpr, e.Lexpr}} {
		ref := sides[1].GetColumnRef()
		if ref == nil {
			continue
		}
		x := l.column(sides[0])
		if x == nil || x.of == nil || x.of.level != l || l.column(sides[1]) == nil {
			continue
		}
		if _, here := l.lookup(nameList(ref.Fields)); !here && !slices.Contains(x.of.lookups, x.base) {
			x.of.lookups = append(x.of.lookups, x.base)
		}
	}
}

// above reports whether o is s or below it, and whether rows of o may be missing where rows of s
// are there.
func (s *scope) above(o *scope) (nullable, below bool) {
	for ; o != nil; o = o.parent {
		if o == s {
			return nullable, true
		}
		nullable = nullable || o.nullable
	}
	return false, false
}

// conjunct is a condition under examination.
type conjunct struct {
	level *level
	of    *appearance // the one table that the condition is about
}

// column reports whether a node is a column of the one table.
func (c *conjunct) column(n *pg.Node) (*column, bool) {
	x := c.level.column(n)
	if x == nil || x.of == nil || c.of != nil && c.of != x.of {
		return nil, false
	}
	c.of = x.of
	return x, true
}

// block keeps later conditions from being checked before an unsafe one. PostgreSQL checks a
// condition on several tables, or with a subquery, after those on one table.
func (c *conjunct) block(cond *pg.Node) {
	c.of = nil
	one, columns := true, false
	parser.Walk(cond, func(m any) bool {
		switch m := m.(type) {
		case *pg.SubLink:
			one = false
		case *pg.ColumnRef:
			columns = true
			if _, ok := c.column(&pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: m}}); !ok {
				one = false
			}
		}
		return one
	})
	switch {
	case !one:
	case c.of != nil:
		c.of.blocked = true
	case !columns:
		for _, s := range c.level.sources {
			for _, it := range s.items {
				if it.of != nil {
					it.of.blocked = true
				}
			}
		}
	}
}

// safe reports whether a condition is about columns of one table and constants,
// and cannot fail.
func (c *conjunct) safe(n *pg.Node) bool {
	switch n := n.GetNode().(type) {
	case *pg.Node_BoolExpr:
		for _, arg := range n.BoolExpr.Args {
			if !c.safe(arg) {
				return false
			}
		}
		return true
	case *pg.Node_ColumnRef:
		x, ok := c.column(&pg.Node{Node: n})
		return ok && x.typ == boolType
	case *pg.Node_NullTest:
		_, ok := c.column(n.NullTest.Arg)
		return ok
	case *pg.Node_BooleanTest:
		return c.safe(n.BooleanTest.Arg)
	case *pg.Node_AExpr:
		return c.comparison(n.AExpr)
	}
	return false
}

const (
	boolType = datum.Type(16)
	// firstUserType is the first OID of a type that a user made.
	firstUserType = datum.Type(10000)
)

// comparison reports whether a condition compares a column with a constant safely.
func (c *conjunct) comparison(e *pg.A_Expr) bool {
	names := nameList(e.Name)
	op := names[len(names)-1]
	if len(names) == 2 && names[0] != "pg_catalog" || c.level.a.env.Schema.CustomEquality {
		return false
	}
	switch e.Kind {
	case pg.A_Expr_Kind_AEXPR_OP, pg.A_Expr_Kind_AEXPR_DISTINCT, pg.A_Expr_Kind_AEXPR_NOT_DISTINCT:
		if !comparisons[op] {
			return false
		}
		if c.operand(e.Lexpr) {
			return c.constant(e.Rexpr) || c.pair(e)
		}
		return c.constant(e.Lexpr) && c.operand(e.Rexpr)
	case pg.A_Expr_Kind_AEXPR_IN, pg.A_Expr_Kind_AEXPR_BETWEEN, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN,
		pg.A_Expr_Kind_AEXPR_BETWEEN_SYM, pg.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		if !c.operand(e.Lexpr) {
			return false
		}
		for _, item := range e.Rexpr.GetList().GetItems() {
			if !c.constant(item) {
				return false
			}
		}
		return true
	case pg.A_Expr_Kind_AEXPR_LIKE, pg.A_Expr_Kind_AEXPR_ILIKE:
		x, ok := c.column(e.Lexpr)
		return ok && !x.apart && class(x.typ) == datum.Text && c.constant(e.Rexpr)
	case pg.A_Expr_Kind_AEXPR_OP_ANY, pg.A_Expr_Kind_AEXPR_OP_ALL:
		return comparisons[op] && c.operand(e.Lexpr) && c.array(e.Rexpr)
	}
	return false
}

var comparisons = set("=", "<>", "<", ">", "<=", ">=")

// operand reports whether a node is a column whose comparisons are PostgreSQL's own.
func (c *conjunct) operand(n *pg.Node) bool {
	x, ok := c.column(n)
	return ok && x.typ != 0 && (x.typ < firstUserType || x.apart)
}

// pair reports whether a condition compares two columns of one type.
func (c *conjunct) pair(e *pg.A_Expr) bool {
	a, ok := c.column(e.Lexpr)
	if !ok {
		return false
	}
	b, ok := c.column(e.Rexpr)
	return ok && a.typ == b.typ && a.declared == b.declared && a.typ < firstUserType
}

func (c *conjunct) array(n *pg.Node) bool {
	if a := n.GetAArrayExpr(); a != nil {
		for _, e := range a.Elements {
			if !c.constant(e) {
				return false
			}
		}
		return true
	}
	return c.constant(n)
}

// constant reports whether a value is known before the statement runs: PostgreSQL computes it while
// planning, and fails then if it fails.
func (c *conjunct) constant(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_AConst:
		return true
	case *pg.Node_ParamRef:
		return !c.level.a.text.stored
	case *pg.Node_TypeCast:
		t := v.TypeCast.TypeName
		names := nameList(t.GetNames())
		if len(names) == 0 || isCatalogType(names[len(names)-1]) || t.Setof || t.PctType {
			return false
		}
		if len(names) == 2 && names[0] == "pg_catalog" || c.level.builtinType(names) {
			return c.constant(v.TypeCast.Arg) || len(t.ArrayBounds) > 0 && c.array(v.TypeCast.Arg)
		}
	case *pg.Node_AExpr:
		if v.AExpr.Kind != pg.A_Expr_Kind_AEXPR_OP || v.AExpr.Lexpr == nil {
			return false
		}
		switch names := nameList(v.AExpr.Name); names[len(names)-1] {
		case "+", "-", "*":
			return c.constant(v.AExpr.Lexpr) && c.constant(v.AExpr.Rexpr)
		}
	case *pg.Node_SqlvalueFunction, *pg.Node_FuncCall:
		return c.level.a.clock().nowCall(n) != nil
	}
	return false
}

// builtinType reports whether a name is that of a built-in type whose input function depends on
// nothing else.
func (l *level) builtinType(names []string) bool {
	if len(names) != 1 || len(l.a.text.path) == 0 || l.a.text.path[0] != "pg_catalog" {
		return false
	}
	return typeNames[names[0]] != 0 || names[0] == "interval" || names[0] == "bool" || names[0] == "jsonb"
}

// rejects reports whether a safe condition is not true for a row of NULLs.
func (c *conjunct) rejects(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_BoolExpr:
		switch v.BoolExpr.Boolop {
		case pg.BoolExprType_AND_EXPR:
			for _, arg := range v.BoolExpr.Args {
				if c.rejects(arg) {
					return true
				}
			}
			return false
		case pg.BoolExprType_OR_EXPR:
			for _, arg := range v.BoolExpr.Args {
				if !c.rejects(arg) {
					return false
				}
			}
			return true
		}
		return strict(v.BoolExpr.Args[0])
	case *pg.Node_NullTest:
		return v.NullTest.Nulltesttype == pg.NullTestType_IS_NOT_NULL
	case *pg.Node_BooleanTest:
		switch v.BooleanTest.Booltesttype {
		case pg.BoolTestType_IS_TRUE, pg.BoolTestType_IS_FALSE, pg.BoolTestType_IS_NOT_UNKNOWN:
			return strict(v.BooleanTest.Arg)
		}
		return false
	}
	return strict(n)
}

// strict reports whether a safe condition is NULL for a row of NULLs.
func strict(n *pg.Node) bool {
	switch v := n.GetNode().(type) {
	case *pg.Node_ColumnRef:
		return true
	case *pg.Node_BoolExpr:
		for _, arg := range v.BoolExpr.Args {
			if !strict(arg) {
				return false
			}
		}
		return true
	case *pg.Node_AExpr:
		switch v.AExpr.Kind {
		case pg.A_Expr_Kind_AEXPR_DISTINCT, pg.A_Expr_Kind_AEXPR_NOT_DISTINCT, pg.A_Expr_Kind_AEXPR_OP_ANY, pg.A_Expr_Kind_AEXPR_OP_ALL:
			return false // for an empty array ANY is false and ALL is true
		}
		return true
	}
	return false
}

// written returns the condition with the table's own column names.
func (c *conjunct) written(n *pg.Node) *pg.Node {
	n = proto.Clone(n).(*pg.Node)
	parser.Walk(n, func(m any) bool {
		node, ok := m.(*pg.Node)
		if !ok {
			return true
		}
		if now := c.level.a.clock().nowCall(node); now != nil {
			node.Node = now.Node
			return false
		}
		if node.GetColumnRef() != nil {
			if x := c.level.column(node); x != nil {
				node.Node = nameNode(x.base).Node
			}
			return false
		}
		return true
	})
	return n
}
