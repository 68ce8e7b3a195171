package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// TestParsedBefore: a statement, named or not, that a session has parsed before another session declares or changes the
// statement's tables has PostgreSQL's answer when the statement is executed afterwards.
func TestParsedBefore(t *testing.T) {
	if *undeclared {
		t.Skip("declarations are what the test is about")
	}
	db, p := pairs(t, "parsed_before", 4)
	p.Both(t, "", `create table e (id int primary key, b int); insert into e select g, g % 7 from generate_series(1, 50) g;
		create table r (id int primary key, v int); insert into r select g, g from generate_series(1, 5) g;
		create table w (id int primary key, b int); insert into w select g, 0 from generate_series(1, 50) g`)
	ctx := context.Background()
	execute := func(c *pgconn.PgConn, name string, args [][]byte) string {
		r := c.ExecPrepared(ctx, name, args, nil, nil).Read()
		if r.Err != nil {
			return r.Err.Error()
		}
		return fmt.Sprintf("%s %s", r.CommandTag, r.Rows)
	}
	type parsed struct {
		sql         string
		args        string
		plain, weft [2]*pgconn.PgConn // unnamed and named
	}
	list := []*parsed{
		{sql: "select b from e where id = $1", args: "9"},
		{sql: "select sum(b) from e where id > $1", args: "0"},
		{sql: "select v from r where id = $1", args: "3"},
		{sql: "select count(*) from e join r on r.id = e.b"},
		{sql: "update w set b = b + 1 where id = $1 returning b", args: "1"},
		{sql: "update w set b = b + 1 where b < $1", args: "5"},
		{sql: "insert into w values ($1, 7) on conflict (id) do update set b = w.b + 10 returning b", args: "100"},
		{sql: "select 1"},
	}
	names := [2]string{"", "s"}
	for _, s := range list {
		for i, name := range names {
			for _, side := range []struct {
				target *harness.Target
				conn   *[2]*pgconn.PgConn
			}{{harness.Postgres(t), &s.plain}, {harness.Weft(t), &s.weft}} {
				c := side.target.Connect(t, "postgres", "dbname="+db).PgConn()
				if _, err := c.Prepare(ctx, name, s.sql, nil); err != nil {
					t.Fatalf("%s: %v", s.sql, err)
				}
				side.conn[i] = c
			}
		}
	}
	for _, change := range []string{
		"select weft.shard_table('e', 'id')", "select weft.reference_table('r')", "select weft.shard_table('w', 'id')",
		"create index on e (b)", "alter table r add x int", "select weft.unshard_table('e')",
	} {
		if p.Weft.Must(t, change); !strings.Contains(change, "weft.") {
			p.Plain.Must(t, change)
		}
		for _, s := range list {
			var args [][]byte
			if s.args != "" {
				args = [][]byte{[]byte(s.args)}
			}
			for i, name := range names {
				if want, got := execute(s.plain[i], name, args), execute(s.weft[i], name, args); got != want {
					t.Errorf("after %s: %q %s: %s, want %s", change, name, s.sql, got, want)
				}
			}
		}
	}
}
