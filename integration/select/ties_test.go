package selects

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/integration/pair"
	"weft/parser"
)

// onlyTies reports whether an answer whose rows are right is also in an order
// that ORDER BY allows: it asks PostgreSQL for the sort keys beside the rows, and
// rows with equal keys may come in any order.
func (w *world) onlyTies(q question, got pair.Answer) bool {
	if len(got.Results) != 1 {
		return false
	}
	columns := len(got.Results[0].Fields)
	sql, keys, ok := withSortKeys(q.sql, got.Results[0].Fields)
	if !ok {
		return false
	}
	q.sql = sql
	a := q.ask(w.Plain)
	if a.Code != "" || len(a.Results) != 1 || len(a.Results[0].Rows) != len(got.Results[0].Rows) {
		return false
	}
	rows := a.Results[0].Cells
	for from := 0; from < len(rows); {
		to := from + 1
		for to < len(rows) && equalKeys(rows[to], rows[from], keys) {
			to++
		}
		if !sameBag(rows[from:to], got.Results[0].Cells[from:to], columns) {
			return false
		}
		from = to
	}
	return true
}

func equalKeys(a, b []string, keys []int) bool {
	return !slices.ContainsFunc(keys, func(k int) bool { return a[k] != b[k] })
}

// sameBag compares the first columns of rows in any order.
func sameBag(want, got [][]string, columns int) bool {
	flat := func(rows [][]string) []string {
		var out []string
		for _, r := range rows {
			out = append(out, strings.Join(r[:columns], " | "))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(flat(want), flat(got))
}

// withSortKeys adds the statement's sort keys to its result, unless they are in
// it, and says which columns they are. The fields are those of its result.
func withSortKeys(sql string, fields []string) (string, []int, bool) {
	tree, err := parser.ParseTree(sql, parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		return "", nil, false
	}
	s := tree.Statements[0].Stmt.GetSelectStmt()
	if s == nil {
		return "", nil, false
	}
	mayAdd := s.Op == pg_query.SetOperation_SETOP_NONE && len(s.DistinctClause) == 0
	var keys []int
	added := 0
	for _, item := range s.SortClause {
		by := item.GetSortBy().GetNode()
		if n := by.GetAConst().GetIval(); n != nil {
			keys = append(keys, int(n.Ival)-1)
			continue
		}
		if i := outputNamed(by, fields); i >= 0 {
			keys = append(keys, i)
			continue
		}
		if !mayAdd {
			break // what is known so far is a prefix: still true, if less strict
		}
		name := fmt.Sprintf("sort_key_%d", added)
		s.TargetList = append(s.TargetList, pg_query.MakeResTargetNodeWithNameAndVal(name, by, -1))
		keys = append(keys, len(fields)+added)
		added++
	}
	for _, k := range keys {
		if k < 0 || k >= len(fields)+added {
			return "", nil, false
		}
	}
	if added == 0 {
		return sql, keys, true // as it is: pg_query may write brackets wrongly
	}
	out, err := deparse(tree.Statements)
	return out, keys, err == nil
}

// grammar is the version that a tree must name to be written as text.
var grammar = sync.OnceValue(func() int32 {
	tree, err := pg_query.Parse("select 1")
	if err != nil {
		panic(err)
	}
	return tree.Version
})

func deparse(stmts []*pg_query.RawStmt) (string, error) {
	return pg_query.Deparse(&pg_query.ParseResult{Version: grammar(), Stmts: stmts})
}

// cutsTies reports whether LIMIT or OFFSET could cut between rows that tie, so that
// it is open which of them come.
func (w *world) cutsTies(q question) bool {
	tree, err := parser.ParseTree(q.sql, parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		return false
	}
	s := tree.Statements[0].Stmt.GetSelectStmt()
	if s == nil || s.LimitCount == nil && s.LimitOffset == nil {
		return false
	}
	s.LimitCount, s.LimitOffset, s.LimitOption = nil, nil, pg_query.LimitOption_LIMIT_OPTION_DEFAULT
	all, err := deparse(tree.Statements)
	if err != nil {
		return false
	}
	q.sql = all
	a := q.ask(w.Plain)
	if len(a.Results) != 1 {
		return false
	}
	sql, keys, ok := withSortKeys(all, a.Results[0].Fields)
	if !ok {
		return false
	}
	columns := len(a.Results[0].Fields)
	q.sql = sql
	if a = q.ask(w.Plain); len(a.Results) != 1 {
		return false
	}
	rows := a.Results[0].Cells
	for i := 1; i < len(rows); i++ {
		if equalKeys(rows[i-1], rows[i], keys) && !slices.Equal(rows[i-1][:columns], rows[i][:columns]) {
			return true
		}
	}
	return false
}

// outputNamed is the result's column that a bare name in ORDER BY means.
func outputNamed(n *pg_query.Node, fields []string) int {
	ref := n.GetColumnRef()
	if ref == nil || len(ref.Fields) != 1 {
		return -1
	}
	name := ref.Fields[0].GetString_().GetSval()
	return slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, name+" ") })
}
