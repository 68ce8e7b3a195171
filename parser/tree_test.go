package parser

import (
	"strings"
	"testing"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

func TestParse(t *testing.T) {
	tree, err := Parse("SELECT a.b FROM a; SELECT f(c) FROM d")
	if err != nil || len(tree.Stmts) != 2 {
		t.Fatalf("%v, %v", tree, err)
	}
	var names []string
	Walk(tree, func(m any) bool {
		if r, ok := m.(*pg_query.RangeVar); ok {
			names = append(names, r.Relname)
		}
		return true
	})
	if strings.Join(names, " ") != "a d" {
		t.Errorf("%q", names)
	}
	for _, bad := range []string{"SELECT 1" + strings.Repeat("+1", 60000), "SELECT '\x00'", "SELECT FROM FROM"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("no error for %.20q", bad)
		}
	}
}
