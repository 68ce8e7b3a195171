package parser_test

import (
	"testing"

	"weft/parser"
)

func TestExecute(t *testing.T) {
	types := []string{"pg_catalog.int4", "pg_catalog.text"}
	for _, c := range []struct{ execute, body, want string }{
		{"EXECUTE p(1, 'a')", "SELECT $1 + 0, '$2', $2 /* $1 */", `SELECT (CAST(1 AS pg_catalog.int4)) + 0, '$2', (CAST('a' AS pg_catalog.text)) AS "?column?" /* $1 */`},
		{`execute "P" (-5, NULL)`, "UPDATE t SET a = $2 WHERE b=$1", "UPDATE t SET a = (CAST(NULL AS pg_catalog.text)) WHERE b=(CAST(-5 AS pg_catalog.int4))"},
		{"EXECUTE p(2, E'a\\'\\n')", "SELECT $1 AS x, $2::text", "SELECT (CAST(2 AS pg_catalog.int4)) AS x, (CAST('a''\n' AS pg_catalog.text))::text"},
		{"EXECUTE p('1'::int, 'ä')", "SELECT 'ä', f($2) LIMIT $1", "SELECT 'ä', f((CAST('ä' AS pg_catalog.text))) LIMIT (CAST('1'::int AS pg_catalog.int4))"},
		{"EXECUTE p(1 + 1, 'a')", "SELECT $1", ""},
		{"EXECUTE p((SELECT 1), 'a')", "SELECT $1", ""},
		{"EXPLAIN (VERBOSE) EXECUTE p(1, 'a')", "SELECT $1 + 1", "SELECT (CAST(1 AS pg_catalog.int4)) + 1"},
		{"CREATE TABLE t AS EXECUTE p(1, 'a')", "SELECT $1", `SELECT (CAST(1 AS pg_catalog.int4)) AS "?column?"`},
		{"EXECUTE p(1, 'a'); SELECT 1", "SELECT $1", ""},
		{"EXECUTE p(1, 'a')", "SELECT $3", ""},
		{"EXECUTE p(1)", "SELECT $1", ""},
		{"EXECUTE p(1, 'a')", `SELECT $2 COLLATE "C"`, ""},
	} {
		e, ok := parser.ReadExecute(c.execute, parser.Options{})
		got := ""
		if ok && e.Constant {
			if got, ok = parser.WithArguments(c.body, parser.Options{}, e.Arguments, types); !ok {
				got = ""
			}
		}
		if got != c.want {
			t.Errorf("%s of %s:\n%s\nwant\n%s", c.execute, c.body, got, c.want)
		}
	}
}
