package parser

import (
	"slices"
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

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		text string
		opt  Options
		want []string
	}{
		{"select 1; ;/* a; */ select ';ü'\n;select $$;$$ -- b;", Options{}, []string{"select 1", "/* a; */ select ';ü'\n", "select $$;$$ -- b;"}},
		{"begin;commit;", Options{}, []string{"begin", "commit"}},
		{`select '\';'; select 2`, Options{NonStandardStrings: true}, []string{`select '\';'`, " select 2"}},
		{"create rule r as on insert to t do (select 1; select 2); select 3", Options{}, []string{"create rule r as on insert to t do (select 1; select 2)", " select 3"}},
	} {
		tree, err := ParseTree(test.text, test.opt)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, part := range tree.Split(len(test.text)) {
			got = append(got, test.text[part.Start:part.End])
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: %q", test.text, got)
		}
	}
}
