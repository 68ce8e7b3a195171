package flow

import (
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/program"
)

// TestRoutine: what is the argument k is $1, and nothing else is.
func TestRoutine(t *testing.T) {
	insert := func(what string) string { return "insert into log values (" + what + ")" }
	for _, test := range []struct{ declare, body, want string }{
		{"", insert("k, j, f.k, $1"), "not ok"},
		{"", insert("k, j, f.k"), "($1, j, $1)"},
		{"", insert("k + 1, coalesce(k, null), k::bigint, k::real"), "($1 + 1, $1, $1, $1::real)"},
		{"x int := k;", insert("x"), "($1)"},
		{"x int;", "x := k; " + insert("x"), "($1)"},
		{"x int;", insert("x") + "; x := k", "(x)"},
		{"x int;", "if j > 1 then x := k; end if; " + insert("x"), "(x)"},
		{"x int;", "x := k; x := j; " + insert("x"), "(x)"},
		{"x smallint := k;", insert("x"), "($1)"},
		{"x real := k;", insert("x"), "(x)"},
		{"x int; y int;", "x := k; y := x; " + insert("y"), "($1)"},
		{"x int;", "select k into x; " + insert("x"), "($1)"},
		{"x int;", "select k from log into x; " + insert("x"), "(x)"},
		{"", "k := k; " + insert("k"), "(k)"},
		{"", "declare k int := 5; begin " + insert("k, f.k") + "; end", "(k, $1)"},
		{"x int;", "for x in 1..2 loop x := k; end loop; " + insert("x"), "(x)"},
		{"x text;", "x := k; " + insert("x, x::int"), "(x, $1)"},
		{"", "execute 'select 1'", "more"},
		{"", "commit", "more"},
		{"", "call p(k)", "more"},
		{"c refcursor;", "open c for select 1", "more"},
		{"c cursor for select 1;", "null", "more"},
		{"r record;", "for r in execute 'select 1' loop null; end loop", "more"},
		{"", "if true then begin null; exception when others then commit; end; end if", "more"},
		{"", "return query execute 'select 1'", "more"},
		{"", "insert into log select k as x, t.c from t where t.k = k", "line"},
	} {
		src := program.Source{Name: "f", Set: true, Returns: "int", Body: "\ndeclare " + test.declare + "\nbegin\n" + test.body + ";\nend"}
		src.Args = []program.Arg{{Name: "k", Mode: program.In, Type: "integer"}, {Name: "j", Mode: program.In, Type: "integer"}}
		b, err := ReadRoutine(&Routine{Source: src, Keys: []Key{{"k", "integer"}, {}}, Columns: func(tree *pg.Node) map[string]bool {
			return map[string]bool{"k": strings.Contains(test.body, "t.k")}
		}})
		got := ""
		if err != nil {
			got = err.Error()
		}
		for i := 0; err == nil && i < len(b.Statements); i++ {
			tree, ok := b.Statements[i].Tree(true)
			if !ok {
				got += " not ok"
				continue
			}
			sql, err := parser.Deparse(tree)
			if err != nil {
				t.Fatal(err)
			}
			if s, found := strings.CutPrefix(sql, "INSERT INTO log VALUES "); found {
				got += " " + s
			}
		}
		if got = strings.TrimSpace(got); got != test.want && !strings.HasPrefix(got, test.want+" ") && !strings.Contains(got, test.want+":") {
			t.Errorf("%s %s: %s, not %s", test.declare, test.body, got, test.want)
		}
	}
}
