package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
)

// The key of a trigger's row can be written as new.k, old.k, coalesce(new.k, old.k), or as a
// variable that is assigned only these.

// keyVariables returns the variables of a trigger function that hold the key of its row, with the
// position of the key column. A variable before its assignment is NULL.
func keyVariables(t *table, f *catalog.Function) map[string]int {
	out := map[string]int{}
	if strings.Contains(strings.ToLower(f.Body), "variable_conflict") || strings.Count(strings.ToLower(f.Body), "declare") > 1 {
		return out
	}
	no := map[string]bool{}
	for _, s := range f.Assignments {
		i := -1
		if tree, err := parser.Parse(s.SQL); err == nil && len(tree.Stmts) == 1 {
			if sel := tree.Stmts[0].Stmt.GetSelectStmt(); sel != nil && len(sel.TargetList) == 1 && len(sel.FromClause) == 0 && sel.WhereClause == nil {
				i = keyColumn(t, sel.TargetList[0].GetResTarget().GetVal(), nil)
			}
		}
		if was, again := out[s.Target]; i < 0 || again && was != i || slices.Contains(f.Set, s.Target) {
			no[s.Target] = true
		}
		out[s.Target] = i
	}
	for name := range no {
		delete(out, name)
	}
	return out
}

// rewrites reports whether a trigger function may change the key of its row before it uses it.
func rewrites(t *table, f *catalog.Function) bool {
	for _, row := range []string{"new", "old"} {
		if slices.Contains(f.Set, row) || slices.Contains(f.Assigns, row) {
			return true
		}
		for _, k := range t.keys {
			if slices.Contains(f.Set, row+"."+k.Name) || slices.Contains(f.Assigns, row+"."+k.Name) {
				return true
			}
		}
	}
	return false
}

// keyColumn returns the position of the key column whose value in the trigger's row an expression
// is, or -1.
func keyColumn(t *table, n *pg.Node, variables map[string]int) int {
	if c := n.GetCoalesceExpr(); c != nil {
		at := -1
		for i, arg := range c.Args {
			if k := keyColumn(t, arg, variables); k < 0 || i > 0 && k != at {
				return -1
			} else {
				at = k
			}
		}
		return at
	}
	names := nameList(n.GetColumnRef().GetFields())
	switch {
	case len(names) == 1:
		if i, ok := variables[names[0]]; ok {
			return i
		}
	case len(names) == 2 && (names[0] == "new" || names[0] == "old"):
		for i, k := range t.keys {
			if k.Name == names[1] {
				return i
			}
		}
	}
	return -1
}

// nullable reports whether a statement inserts into a table whose key may be NULL.
func (re reach) nullable(stmt *pg.Node) bool {
	rv := stmt.GetInsertStmt().GetRelation()
	if rv == nil {
		return false
	}
	rel, t := re.a.relation(rv)
	for _, k := range keysOf(t) {
		if c := rel.Column(k.Name); c == nil || !c.NotNull {
			return true
		}
	}
	return false
}

// drawnBy returns a column that draws from a sequence, with its table, if a statement inserts into
// the table without a value for the column.
func (re reach) drawnBy(stmt *pg.Node) (rel *catalog.Relation, column *catalog.Column) {
	ins := stmt.GetInsertStmt()
	if ins == nil {
		return nil, nil
	}
	rel, t := re.a.relation(ins.Relation)
	if t == nil {
		return nil, nil
	}
	given, values := setting(ins.Cols).columns, 0
	if lists := ins.SelectStmt.GetSelectStmt().GetValuesLists(); len(lists) > 0 {
		values = len(lists[0].GetList().GetItems())
	}
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if drawsFrom(c) && !slices.Contains(given, c.Name) && (len(given) > 0 || i >= values) {
			return rel, c
		}
	}
	return nil, nil
}
