package planner_test

import (
	"context"
	"testing"

	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/planner"
)

// TestColumnNames compares the names of columns with those a server gives.
func TestColumnNames(t *testing.T) {
	c := connect(t, pgtest.Start(t, pgserver.Config{}), "postgres")
	if _, err := c.Exec(context.Background(), "CREATE TYPE pair AS (a int, b int); CREATE TABLE t (p pair, x int, a int[])"); err != nil {
		t.Fatal(err)
	}
	for _, expr := range []string{
		"x", "t.x", "(p).a", "a[1]", "(p::pair).b", "lower('a')", "pg_catalog.upper('a')", "1", "'a'", "x + 1", "-x", "x::text", "1::int", "'1'::int::text",
		"lower('a')::varchar(3)", "x::int8::int4", "CASE WHEN true THEN 1 ELSE x END", "CASE WHEN true THEN 1 ELSE 2 END", "CASE WHEN true THEN 1 END::int8",
		"CASE WHEN true THEN 1 ELSE 2::int8 END", "nullif(x, 1)", "coalesce(x, 1)", "greatest(x, 1)", "least(x, 1)", "ARRAY[1]", "ARRAY(SELECT 1)",
		"ROW(1, 2)", "(1, 2)", "EXISTS (SELECT 1)", "x IN (SELECT 1)", "(SELECT x)", "(SELECT 1)", "(SELECT 1 AS y)", "(VALUES (1))",
		"(SELECT x UNION SELECT 1)", "current_date", "current_timestamp", "current_timestamp(3)", "localtime(2)", "current_user", "user", "session_user",
		"current_role", "current_catalog", "current_schema", "x IS NULL", "true", "true IS TRUE", "NOT true", "x BETWEEN 1 AND 2", "'a' LIKE 'b'",
		"'a' COLLATE \"C\"", "lower('a') COLLATE \"C\"", "extract(year FROM now())", "substring('abc' FROM 1 FOR 2)", "trim('a')", "position('a' IN 'b')",
		"overlay('abc' PLACING 'x' FROM 1)", "now() AT TIME ZONE 'utc'", "interval '1 day'", "date '2000-01-01'", "xmlelement(name a)", "xmlconcat('<a/>'::xml)",
		"xmlserialize(CONTENT '<a/>'::xml AS text)", "'<a/>'::xml IS DOCUMENT", "count(*)", "count(*) + 1", "count(*) FILTER (WHERE true)",
		"sum(x) OVER ()", "max(x)::text", "1.5::numeric(3,1)", "'a'::char(3)", "'{1}'::int[]", "x = ANY (ARRAY[1])", "normalize('a')",
	} {
		rows, err := c.Query(context.Background(), "SELECT "+expr+" FROM t")
		var want string
		if err == nil {
			want = rows.FieldDescriptions()[0].Name
			rows.Close()
		}
		if err != nil || rows.Err() != nil {
			// A mix of columns and aggregates has its names all the same.
			rows, err = c.Query(context.Background(), "SELECT "+expr+" FROM t GROUP BY t.x, t.a, t.p")
			if err != nil {
				t.Fatalf("%s: %v", expr, err)
			}
			want = rows.FieldDescriptions()[0].Name
			rows.Close()
		}
		if got := planner.ColumnName(t, "SELECT "+expr+" FROM t"); got != want {
			t.Errorf("%s is called %q, not %q", expr, want, got)
		}
	}
}
