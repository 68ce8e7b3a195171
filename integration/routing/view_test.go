package routing

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestViewRights: who writes through a view needs rights on the view, and its owner
// those on the table; so it is on every shard.
func TestViewRights(t *testing.T) {
	db := database(t, "view_rights")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table t (id int primary key, v text, secret text default 's')",
		"create view tv as select id, v from t where id < 1000 with check option",
		"create view closed as select id from t",
		"create table r (id int primary key, v text)",
		"create view rv as select id, v from r",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('t', 'id')", "select weft.reference_table('r')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	for _, sql := range []string{
		"drop role if exists view_writer", "create role view_writer", "grant select, insert, update, delete on tv, rv to view_writer", "set role view_writer",
	} {
		p.Both(t, "roles", sql)
	}
	for _, test := range []struct{ sql, code string }{
		{"insert into tv select g, 'v' from generate_series(1, 20) g", ""},
		{"insert into tv values (21, 'a'), (22, 'b'), (23, 'c'), (24, 'd')", ""},
		{"update tv set v = v || '!' where id > 10", ""},
		{"update tv set v = 'one' where id = 1", ""},
		{"delete from tv where v like '%!' returning id", ""},
		{"insert into rv values (1, 'a'), (2, 'b')", ""},
		{"update rv set v = 'x' where id = 1 returning *", ""},
		{"delete from rv where id = 2", ""},
		{"insert into t values (100, 'no')", "42501"},
		{"update t set v = 'no'", "42501"},
		{"delete from closed", "42501"},
		{"insert into closed values (1), (2), (3), (4)", "42501"},
		{"update r set v = 'no'", "42501"},
		{"insert into tv values (1001, 'x'), (1002, 'y'), (5000, 'z')", "44000"},
	} {
		wrong, want, got := p.Run(pair.Simple, test.sql, nil)
		if wrong != "" || want.Code != test.code || got.Code != test.code {
			t.Errorf("%s: %s: %q and %q %s, want %q", test.sql, wrong, want.Code, got.Code, got.Message, test.code)
		}
	}
	for _, sql := range []string{"reset role", "drop owned by view_writer", "drop role view_writer"} {
		p.Both(t, "roles", sql)
	}
	pair.SameTables(t, db, nil)
}

// TestViewRefused: what would reach other shards behind weft's back is refused, and
// changes nothing.
func TestViewRefused(t *testing.T) {
	db := database(t, "view_refused")
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	conn, err := pgx.Connect(ctx, harness.Weft(t).ConnString("postgres", "dbname="+db+" default_query_exec_mode=simple_protocol"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		"create table t (id int primary key, v text, at timestamptz default now(), n serial)", "create table u (id int primary key, t int)",
		"create table h (id int primary key, v text)", "create table hr (id int primary key)", "create table ref (id int primary key, n serial, v text)",
		"create function into_t() returns trigger language plpgsql as $$ begin insert into t (id, v) values (new.id, new.v); return new; end $$",
		"create rule r as on insert to hr do also insert into t (id) values (new.id)",
		"create view homely as select id, v from t where exists (select 1 from h where h.id = t.id)",
		"create view mixed as select id, v from h where exists (select 1 from t where t.id = h.id)",
		"select weft.shard_table('t', 'id')", "select weft.shard_table('u', 'id')", "select weft.reference_table('ref')",
		"create trigger tr after insert on h for each row execute function into_t()",
		"create view plain as select id, v, n from t", "create view numberless as select id, v from t", "create view ruled as select id, v, n from t",
		"create rule r as on delete to ruled do instead nothing",
		"create view twice as select id, id as again, v from t", "create view beside as select id, v from t where exists (select 1 from u where u.t = t.id)",
		"create view refs as select id, v from ref",
		"insert into t (id, v) values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for sql, why := range map[string]string{
		"insert into h values (1, 'x')":                                 "touches sharded table",
		"insert into hr values (1)":                                     "touches sharded table",
		"create rule r2 as on update to h do also delete from t":        "a rule cannot touch",
		"delete from ruled":                                             "triggers or rules",
		"delete from ruled where id = 1":                                "triggers or rules",
		"update twice set again = 5 where id = 1":                       "twice",
		"update beside set v = 'x'":                                     "other shards",
		"insert into beside values (9, 'x')":                            "beside its rows",
		"update homely set v = 'x' where id = 1":                        "home shard alone",
		"update mixed set v = 'x'":                                      "another table",
		"insert into numberless values (9, 'x')":                        "does not show",
		"insert into plain (id, v) values (8, 'x'), (9, 'x'), (10, '')": "does not show",
		"insert into plain select id + 50, v from t":                    "does not show",
		"update numberless set id = id + 100":                           "does not show",
		"insert into refs values (1, 'x')":                              "does not show",
	} {
		if _, err := conn.Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), "0A000") || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", sql, err, why)
		}
	}
	var n int
	if err := conn.QueryRow(ctx, "select count(*) from t where v in ('a', 'b', 'c', 'd') and id < 5").Scan(&n); err != nil || n != 4 {
		t.Errorf("%d rows, %v", n, err)
	}
}
