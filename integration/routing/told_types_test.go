package routing

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// TestToldTypes: the types of a prepared statement's parameters are found out once, when it is
// parsed. A driver encodes values for the types it was told, in binary, so a statement that
// is parsed again after another client has altered a column must not have them inferred anew.
func TestToldTypes(t *testing.T) {
	db := database(t, "told_types")
	servers := map[string]string{"PostgreSQL": harness.Postgres(t).Home.ConnString(db), "weft": harness.Weft(t).ConnString("postgres", "dbname="+db)}
	answers := map[string]map[string]string{}
	for name, dsn := range servers {
		answers[name] = map[string]string{}
		toldTypes(t, dsn, name == "weft" && !*undeclared, answers[name])
	}
	for what, want := range answers["PostgreSQL"] {
		if got := answers["weft"][what]; got != want {
			t.Errorf("%s:\n PostgreSQL %s\n weft       %s", what, want, got)
		}
	}
}

// toldTypes alters columns under statements that are prepared on several connections, and
// notes what they answer afterwards.
func toldTypes(t *testing.T, dsn string, declare bool, answers map[string]string) {
	t.Helper()
	ctx := t.Context()
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(ctx, dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	admin := connect()
	must := func(sql string) {
		t.Helper()
		if _, err := admin.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	changes := []struct {
		from, to, using string
		value           any
	}{
		{"bigint", "double precision", "", int64(100)},
		{"int", "bigint", "", int32(7)},
		{"bigint", "numeric", "", int64(100)},
		{"bigint", "timestamp", "timestamp '2020-01-01'", int64(100)},
		{"text", "bytea", "'x'::bytea", "abc"},
	}
	clients := []*pgx.Conn{connect(), connect()}
	for i, c := range changes {
		for _, kind := range []string{"home", "sharded", "reference"} {
			table := fmt.Sprintf("%s%d", kind, i)
			must(fmt.Sprintf("create table %s (k int primary key, v %s)", table, c.from))
			if declare && kind == "sharded" {
				must("select weft.shard_table('" + table + "', 'k')")
			} else if declare && kind == "reference" {
				must("select weft.reference_table('" + table + "')")
			}
			statements := []struct {
				sql  string
				args func(n int) []any
			}{
				{"insert into " + table + " (k, v) values ($1, $2)", func(n int) []any { return []any{n, c.value} }},
				{"update " + table + " set v = $2 where k = $1", func(n int) []any { return []any{n, c.value} }},
				{"update " + table + " set v = $1", func(int) []any { return []any{c.value} }},
				{"select k from " + table + " where v = $1 order by k", func(int) []any { return []any{c.value} }},
				{"select v::text from " + table + " where k = $1 and v = $2", func(n int) []any { return []any{n, c.value} }},
			}
			run := func(round int) {
				for _, s := range statements {
					for n, client := range clients {
						what := fmt.Sprintf("%s to %s, %s, %s, round %d, client %d", c.from, c.to, kind, s.sql, round, n)
						answers[what] = told(ctx, client, s.sql, s.args(100*round+10*n+1)...)
					}
				}
			}
			run(0)
			alter := fmt.Sprintf("alter table %s alter v type %s", table, c.to)
			if c.using != "" {
				alter += " using " + c.using
			}
			must(alter)
			run(1)
			answers[fmt.Sprintf("%s to %s, %s", c.from, c.to, kind)] = told(ctx, admin, "select string_agg(k || ':' || v, ',' order by k) from "+table, pgx.QueryExecModeSimpleProtocol)
		}
	}
}

// told runs a statement and returns its rows or error as text.
func told(ctx context.Context, c *pgx.Conn, sql string, args ...any) string {
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		return sqlstate(err)
	}
	defer rows.Close()
	out := ""
	for rows.Next() {
		out += fmt.Sprintf("%x;", rows.RawValues())
	}
	if err := rows.Err(); err != nil {
		return sqlstate(err)
	}
	return out + rows.CommandTag().String()
}

func sqlstate(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return err.Error()
}
