package selects

import (
	"reflect"
	"slices"
	"testing"
	"time"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/integration/pair"
	"weft/parser"
)

// shrinker makes a statement smaller as long as it stays bad. It works on
// PostgreSQL's own parse tree, so it takes any statement, whoever wrote it: what
// it makes may be nonsense, which both servers then refuse alike.
type shrinker struct {
	bad      func(sql string) bool
	deadline time.Time
}

// shrink returns a smaller statement of which judge says the same.
func (w *world) shrink(q question, first judgment, within time.Duration) question {
	s := &shrinker{deadline: time.Now().Add(within)}
	s.bad = func(sql string) bool {
		q := q
		q.sql = sql
		j := w.judge(q)
		return j.verdict == first.verdict && j.got.Code == first.got.Code && (j.want.Code == "") == (first.want.Code == "")
	}
	for _, one := range []question{
		{mode: pair.Simple, sql: pair.Inline(q.sql, q.set)},
		{mode: q.mode, sql: q.sql, set: q.set},
		{mode: pair.Simple, sql: pair.Inline(q.sql, q.set), block: q.block},
	} {
		if j := w.judge(one); j.verdict == first.verdict && j.got.Code == first.got.Code {
			q = one
			break
		}
	}
	q.sql = s.shrink(q.sql)
	return q
}

func (s *shrinker) shrink(sql string) string {
	tree, err := parser.ParseTree(sql, parser.Options{})
	if err != nil {
		return sql
	}
	best := sql
	// try is called after a change of the tree. If it says no, the change is undone.
	try := func() bool {
		text, err := deparse(tree.Statements)
		if err != nil || text == best || len(text) > len(best)+2 {
			return false
		}
		if _, err := parser.ParseTree(text, parser.Options{}); err != nil || !s.bad(text) {
			return false
		}
		best = text
		return true
	}
	for smaller := true; smaller && time.Now().Before(s.deadline); {
		smaller = false
		for _, stmt := range tree.Statements {
			smaller = s.walk(reflect.ValueOf(stmt), "", try) || smaller
		}
	}
	return best
}

// mayBeNil are the fields that pg_query can write a statement without.
var mayBeNil = []string{
	"WhereClause", "HavingClause", "LimitCount", "LimitOffset", "WithClause", "AggFilter", "Defresult", "Quals", "Over",
}

// lists are those whose elements may be left out. pg_query crashes on trees that
// no text has, so nothing else is touched.
var lists = []string{
	"TargetList", "FromClause", "Args", "SortClause", "GroupClause", "DistinctClause", "WindowClause", "AggOrder", "PartitionClause",
	"OrderClause", "Ctes", "ValuesLists", "Elements", "UsingClause", "Items", "Content",
}

// mayBeEmpty are the lists of which that is so.
var mayBeEmpty = []string{
	"SortClause", "GroupClause", "FromClause", "DistinctClause", "WindowClause", "AggOrder", "PartitionClause", "OrderClause",
}

var (
	nodeType   = reflect.TypeOf((*pg_query.Node)(nil))
	selectType = reflect.TypeOf((*pg_query.SelectStmt)(nil))
)

// walk tries every change in the tree below v, which is a field of that name.
func (s *shrinker) walk(v reflect.Value, name string, try func() bool) (smaller bool) {
	if time.Now().After(s.deadline) {
		return false
	}
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return false
		}
		return s.walk(v.Elem(), name, try)
	case reflect.Pointer:
		if v.IsNil() {
			return false
		}
		if v.CanSet() && s.replace(v, name, try) {
			return true
		}
		return s.walk(v.Elem(), name, try)
	case reflect.Slice:
		return s.list(v, name, try)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "TypeName" {
				smaller = s.walk(v.Field(i), f.Name, try) || smaller
			}
		}
	}
	return smaller
}

// replace tries to leave a node out, or to put one of those below in its place.
func (s *shrinker) replace(v reflect.Value, name string, try func() bool) bool {
	old := v.Interface()
	if slices.Contains(mayBeNil, name) {
		v.SetZero()
		if try() {
			return true
		}
		v.Set(reflect.ValueOf(old))
	}
	var below []reflect.Value
	switch {
	case v.Type() == nodeType:
		sort := sortOf(old.(*pg_query.Node))
		if sort == other {
			return false
		}
		children(v.Elem(), &below)
		if sort == expression {
			for _, c := range constants {
				below = append(below, reflect.ValueOf(c))
			}
		}
		below = slices.DeleteFunc(below, func(b reflect.Value) bool { return sortOf(b.Interface().(*pg_query.Node)) != sort })
	case v.Type() == selectType:
		if q := old.(*pg_query.SelectStmt); q.Larg != nil {
			below = append(below, reflect.ValueOf(q.Larg), reflect.ValueOf(q.Rarg))
		}
	}
	for _, b := range below {
		undo := keepWith(old, b)
		v.Set(b)
		if try() {
			return true
		}
		v.Set(reflect.ValueOf(old))
		undo()
	}
	return false
}

// keepWith gives the WITH of a set operation to its arm that is to replace it.
func keepWith(old any, arm reflect.Value) (undo func()) {
	whole, ok := old.(*pg_query.SelectStmt)
	if n, isNode := old.(*pg_query.Node); isNode {
		whole = n.GetSelectStmt()
		ok = whole != nil
	}
	part, isSelect := arm.Interface().(*pg_query.SelectStmt)
	if n, isNode := arm.Interface().(*pg_query.Node); isNode {
		part = n.GetSelectStmt()
		isSelect = part != nil
	}
	if !ok || !isSelect || part.WithClause != nil {
		return func() {}
	}
	part.WithClause = whole.WithClause
	return func() { part.WithClause = nil }
}

// sort says what a node can stand for.
type sort int

const (
	other sort = iota
	expression
	item // of FROM
	query
)

func sortOf(n *pg_query.Node) sort {
	switch n.GetNode().(type) {
	case *pg_query.Node_AExpr, *pg_query.Node_BoolExpr, *pg_query.Node_FuncCall, *pg_query.Node_CaseExpr, *pg_query.Node_SubLink,
		*pg_query.Node_CoalesceExpr, *pg_query.Node_MinMaxExpr, *pg_query.Node_NullTest, *pg_query.Node_BooleanTest, *pg_query.Node_TypeCast,
		*pg_query.Node_ColumnRef, *pg_query.Node_AConst, *pg_query.Node_ParamRef, *pg_query.Node_AArrayExpr, *pg_query.Node_RowExpr,
		*pg_query.Node_CollateClause, *pg_query.Node_AIndirection:
		return expression
	case *pg_query.Node_RangeVar, *pg_query.Node_JoinExpr, *pg_query.Node_RangeSubselect, *pg_query.Node_RangeFunction:
		return item
	case *pg_query.Node_SelectStmt:
		return query
	}
	return other
}

var constants = []*pg_query.Node{
	pg_query.MakeAConstIntNode(1, -1),
	{Node: &pg_query.Node_AConst{AConst: &pg_query.A_Const{Val: &pg_query.A_Const_Boolval{Boolval: &pg_query.Boolean{Boolval: true}}}}},
}

// children collects the nearest nodes below v.
func children(v reflect.Value, out *[]reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		if v.Type() == nodeType {
			if v.Interface().(*pg_query.Node).GetList() == nil {
				*out = append(*out, v)
				return
			}
		}
		if v.Type() == selectType && v.Interface().(*pg_query.SelectStmt).Op != pg_query.SetOperation_SETOP_NONE {
			q := v.Interface().(*pg_query.SelectStmt)
			for _, arm := range []*pg_query.SelectStmt{q.Larg, q.Rarg} {
				*out = append(*out, reflect.ValueOf(&pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: arm}}))
			}
		}
		children(v.Elem(), out)
	case reflect.Slice:
		for i := range v.Len() {
			children(v.Index(i), out)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				children(v.Field(i), out)
			}
		}
	}
}

// list tries to drop elements, then goes into those that stay.
func (s *shrinker) list(v reflect.Value, name string, try func() bool) (smaller bool) {
	if v.Type().Elem() != nodeType || !slices.Contains(lists, name) {
		return false
	}
	least := 1
	if slices.Contains(mayBeEmpty, name) {
		least = 0
	}
	for i := 0; i < v.Len(); {
		if v.Len() <= least {
			break
		}
		old := v.Interface().([]*pg_query.Node)
		v.Set(reflect.ValueOf(slices.Delete(slices.Clone(old), i, i+1)))
		if try() {
			smaller = true
			continue
		}
		v.Set(reflect.ValueOf(old))
		i++
	}
	for i := range v.Len() {
		smaller = s.walk(v.Index(i), "", try) || smaller
	}
	return smaller
}

// TestShrink: what does not matter goes, what does stays.
func TestShrink(t *testing.T) {
	s := &shrinker{deadline: time.Now().Add(10 * time.Second), bad: func(sql string) bool {
		tree, err := parser.ParseTree(sql, parser.Options{})
		if err != nil {
			return false
		}
		// Bad is any statement with a full join and sum somewhere.
		return mentions(tree.Statements[0], func(n *pg_query.Node) bool { return n.GetJoinExpr().GetJointype() == pg_query.JoinType_JOIN_FULL }) &&
			mentions(tree.Statements[0], func(n *pg_query.Node) bool {
				f := n.GetFuncCall().GetFuncname()
				return len(f) == 1 && f[0].GetString_().GetSval() == "sum"
			})
	}}
	for from, to := range map[string]string{
		"select a, b, sum(c + d) filter (where e) from x left join (select * from y full join z using (k) where q = 7) s on s.k = x.k where a in (select 1 union select 2) group by 1, 2 having count(*) > 3 order by 1, 2 limit 5": "SELECT sum(1) FROM (SELECT 1 FROM y FULL JOIN z ON 1) s",
		"with c as (select sum(n) from a full join b on a.k = b.k and a.n > b.n group by a.k) select * from c union all select 1 except select 2":                                                                                   "WITH c AS (SELECT sum(1) FROM a FULL JOIN b ON 1) SELECT 1",
	} {
		if got := s.shrink(from); len(got) > len(to)+10 {
			t.Errorf("%s\n  became %s\n  wanted %s or so", from, got, to)
		}
	}
}

func mentions(stmt *pg_query.RawStmt, is func(*pg_query.Node) bool) bool {
	var visit func(v reflect.Value) bool
	visit = func(v reflect.Value) bool {
		var below []reflect.Value
		children(v, &below)
		return slices.ContainsFunc(below, func(c reflect.Value) bool {
			return is(c.Interface().(*pg_query.Node)) || visit(c.Elem())
		})
	}
	return visit(reflect.ValueOf(stmt).Elem())
}
