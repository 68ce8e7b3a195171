package routing

import (
	"context"
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestImplicitCasts: with the casts to text that PostgreSQL had before 8.3, and that
// databases brought over from there have, texts of weft's own mean what they meant.
func TestImplicitCasts(t *testing.T) {
	db := database(t, "implicit_casts")
	p := newPair(t, db)
	for _, from := range []string{"int2", "int4", "int8", "oid", "float8", "numeric", "date", "timestamptz"} {
		p.Both(t, "casts", "create cast ("+from+" as text) with inout as implicit")
	}
	for _, sql := range []string{
		"create table users (k int primary key, mail text unique, n int unique)", "create table r (id int primary key, x text)", "create table s (id bigserial primary key, c int)",
		"insert into users select g, 'm' || g::text, g from generate_series(1, 20) g",
		"create function tf() returns trigger language plpgsql as 'begin new.mail := lower(new.mail); return new; end'",
		"create aggregate total (int) (sfunc = int4pl, stype = int, sspace = 16)",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('users', 'k')", "select weft.reference_table('r')", "select weft.shard_table('s', 'c', ids => 'routed')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	for _, sql := range []string{
		"create trigger a before insert on users for each row execute function tf()", "insert into users values (101, 'N1', 101)", "insert into users values (102, 'N2', 102), (103, 'N3', 103)",
		"insert into users values (104, 'n2', 104)", "update users set mail = 'z' where n = 2", "update users set k = 200 where mail = 'm3'", "delete from users where mail = 'm4'", "select k from users where mail = 'z'",
		"create unique index on users (mail, n)", "select total(k) from users", "insert into r values (1, 'a'), (2, 'b')", "update r set x = 'c'",
		"begin", "select pg_advisory_xact_lock(5)", "insert into users values (105, 'p', 105), (106, 'q', 106)", "commit", "select count(*) from users u join users v on v.n = u.k",
	} {
		if wrong, _, got := p.Run(pair.Simple, sql, nil); wrong != "" || got.Refused() && !strings.Contains(got.Message, "shard key") {
			t.Errorf("%s: %s%s", sql, wrong, got.Message)
		}
	}
	for _, peer := range []*pair.Peer{p.Weft, p.Plain} {
		if _, err := peer.Conn.CopyFrom(context.Background(), strings.NewReader("301\ta1\t301\n302\ta2\t302\n"), "copy users from stdin"); err != nil {
			t.Error(err)
		}
	}
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
	if a := p.Weft.Must(t, "select * from weft.schema_diff()"); len(a.Results[0].Rows) > 0 {
		t.Errorf("%v", a.Results[0].Rows)
	}
	p.Weft.Must(t, "select * from weft.transactions")
	p.Weft.Must(t, "insert into s (c) values (1), (2), (3)")
	p.Weft.Must(t, "select weft.unshard_table('users')")
}
