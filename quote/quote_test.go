package quote_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/quote"
)

var words = []string{
	"", "plain", "it's", `a"b`, `""`, `'`, `''`, `\`, `\'`, `\\`, `a\b`, `$d$`, `$1`, `@rows@`, `%s`, `%[1]d`, "line\nbreak", "\t\r", "--", "/*", "*/", ";", `E'`, `U&'\0041'`,
	"ä€😀", strings.Repeat("n", 63), strings.Repeat("é", 31), "\x01", "null", "select",
}

// TestPostgreSQLReadsItBack: what PostgreSQL makes of a quoted name or value is the name or
// value, under either setting of standard_conforming_strings.
func TestPostgreSQLReadsItBack(t *testing.T) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, pgtest.Start(t, pgserver.Config{}).ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	run := func(sql string) (*pgconn.Result, error) {
		results, err := c.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil {
			return nil, err
		}
		return results[len(results)-1], nil
	}
	for _, conforming := range []string{"on", "off"} {
		if _, err := run("SET standard_conforming_strings = " + conforming); err != nil {
			t.Fatal(err)
		}
		for _, w := range words {
			for _, then := range words {
				w := w + then
				r, err := run("SELECT" + quote.Literal(w) + ", (" + quote.Array([]string{"x", w}) + ")[2]")
				if err != nil || string(r.Rows[0][0]) != w || string(r.Rows[0][1]) != w {
					t.Errorf("%s: literal %q: %v, %v", conforming, w, r, err)
				}
				if w == "" || len(w) > 63 {
					continue
				}
				r, err = run("SELECT 1 AS" + quote.Ident(w))
				if err != nil || r.FieldDescriptions[0].Name != w {
					t.Errorf("%s: name %q: %v, %v", conforming, w, r, err)
				}
			}
		}
		for _, sql := range []string{"SELECT " + quote.Literal("a\x00b"), "SELECT 1 AS " + quote.Ident("a\x00b")} {
			if r, err := run(sql); err == nil {
				t.Errorf("%s: %s: %v", conforming, sql, r)
			}
		}
	}
}
