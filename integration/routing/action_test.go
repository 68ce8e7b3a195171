package routing

import (
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestKeyActions: a foreign key whose action would change a shard key is refused,
// whichever side comes first; others act on every shard as in PostgreSQL.
func TestKeyActions(t *testing.T) {
	db := database(t, "key_actions")
	p := pair.New(t, harness.Postgres(t), harness.Weft(t), db)
	p.Both(t, "setup", `create table ga (k int primary key, v int); create table ctry (code text primary key, v int);
create table c0 (k int, n int); create table c1 (k int, id int, n int, primary key (k, id)); create table c2 (code text, n int);
create table kept (k int, id int, n int, foreign key (k) references ga on delete cascade on update cascade);
create table part (k int, id int, n int, primary key (k, n), foreign key (k, id) references c1 on delete set null (id));
create table users (k int primary key, email text unique, c text references ctry on delete cascade on update cascade, d text unique references ctry on delete set null on update cascade);
create table d0 (k int references ga on delete set null, n int); create table d1 (code text references ctry on update cascade);
create table d2 (k int default 7 references ga on delete set default); create table d3 (code text references ctry on update set null)`)
	for _, sql := range []string{
		"select weft.shard_table('ga', 'k')", "select weft.reference_table('ctry')", "select weft.shard_table('c0', 'k')", "select weft.shard_table('c1', 'k')",
		"select weft.shard_table('c2', 'code')", "select weft.shard_table('kept', 'k')", "select weft.shard_table('part', 'k')", "select weft.shard_table('users', 'k')",
	} {
		p.Weft.Must(t, sql)
	}
	for _, sql := range []string{
		"select weft.shard_table('d0', 'k')", "select weft.shard_table('d1', 'code')", "select weft.shard_table('d2', 'k')", "select weft.shard_table('d3', 'code')",
		"alter table c0 add foreign key (k) references ga on delete set null", "alter table c0 add foreign key (k) references ga on update set default",
		"alter table c2 add foreign key (code) references ctry on update cascade", "alter table c2 add constraint x foreign key (code) references ctry on delete set default not valid",
		"alter table c1 add foreign key (k, id) references c1 on delete set null", "alter table c1 add foreign key (k, id) references c1 on delete set null (id, k)",
	} {
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" || !strings.Contains(a.Message, "would change its shard key") {
			t.Errorf("%s: %q %s", sql, a.Code, a.Message)
		}
	}
	for _, sql := range []string{
		"drop table d0, d1, d2, d3",
		"alter table c0 add foreign key (k) references ga on delete cascade on update cascade",
		"insert into ga select g, g from generate_series(1, 20) g", "insert into ctry select 'c' || g, g from generate_series(1, 8) g",
		"insert into c1 select g, 1, g from generate_series(1, 20) g", "insert into c0 select g, g from generate_series(1, 20) g",
		"insert into kept select g, 1, g from generate_series(1, 20) g", "insert into part select g, 1, g from generate_series(1, 20) g",
		"insert into users select g, 'e' || g, 'c' || 1 + g % 4, case when g > 8 then null else 'c' || g end from generate_series(1, 20) g",
		"delete from ga where k <= 6", "delete from c1 where k between 4 and 9",
		// Lookups of a sharded table follow what becomes of a reference table.
		"delete from ctry where code = 'c1'", "update ctry set code = 'x' || v where v in (2, 5)", "update ctry set code = 'y5' where v = 5", "delete from ctry where v > 6",
		"begin", "delete from ctry where code = 'x2'", "insert into users values (100, 'e100', 'c3', 'c4')", "rollback",
		"begin", "update ctry set code = 'z3' where code = 'c3'", "insert into users values (101, 'e1', 'z3', null)", "commit",
		"insert into users values (102, 'e2', null, 'z3')",
	} {
		if wrong, _, _ := p.Run(pair.Simple, sql, nil); wrong != "" {
			t.Errorf("%s: %s", sql, wrong)
		}
	}
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
}

// TestCopiesOfActions: what views hide and what foreign keys do leaves the copies of
// reference tables alike, or is refused.
func TestCopiesOfActions(t *testing.T) {
	db := database(t, "copies_actions")
	p := pair.New(t, harness.Postgres(t), harness.Weft(t), db)
	p.Both(t, "setup", `create table r5 (id int primary key, v text, ts timestamptz default '2020-01-01'); create view r5w as select id, v from r5; create view r5ww as select id as i from r5w;
create function clock() returns trigger language plpgsql as 'begin new.ts := now(); return new; end';
create function words() returns trigger language plpgsql as 'begin new.ts := ''now''; return new; end';
create trigger t before insert or update on r5 for each row execute function clock();
create table s5 (id int primary key, v text, u text); create view s5w as select id, v from s5;
create function loud() returns trigger language plpgsql as 'begin new.u := upper(coalesce(new.v, ''none'')); return new; end';
create trigger t before insert or update on s5 for each row execute function loud();
create table r3 (id int primary key, v int); create table r4 (id int primary key, r int references r3 on delete set null on update cascade, l text);
create function r4f() returns trigger language plpgsql as 'begin new.l := clock_timestamp()::text; return new; end'; create trigger t before update on r4 for each row execute function r4f();
create table a1 (id int primary key); create table a2 (id int primary key references a1 on delete cascade on update cascade, v text); create table a3 (id int primary key, r int default 7 references a2 on delete set default, u text, v text);
create trigger t before update on a3 for each row execute function loud();
create table b1 (id int primary key); create table b2 (id int, r int default (random() * 100)::int references b1 on delete set default)`)
	for _, name := range []string{"r5", "s5", "r3", "r4", "a1", "a2", "a3", "b1", "b2"} {
		p.Weft.Must(t, "select weft.reference_table('"+name+"')")
	}
	refused := func(list ...string) {
		t.Helper()
		for _, sql := range list {
			if a := p.Weft.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" {
				t.Errorf("%s: %q %s", sql, a.Code, a.Message)
			}
		}
	}
	same := func(list ...string) {
		t.Helper()
		for _, sql := range list {
			if wrong, _, got := p.Run(pair.Simple, sql, nil); wrong != "" || got.Refused() {
				t.Errorf("%s: %s %s", sql, wrong, got.Message)
			}
		}
	}
	refused("insert into r5w values (3, 'a')", "insert into r5w (id) values (3) returning v", "insert into r5ww values (3)", "insert into r5w values (3, 'a') on conflict (id) do update set v = 'b'")
	p.Weft.Must(t, "create or replace function clock() returns trigger language plpgsql as 'begin new.ts := ''now''; return new; end'")
	refused("insert into r5w values (3, 'a')", "update r5w set v = 'b'")
	same("insert into s5w values (1, 'a'), (2, null)", "update s5w set v = 'b' where id = 2", "insert into s5w values (1, 'c') on conflict (id) do update set v = excluded.v")
	same("insert into r3 values (1, 1), (2, 2), (3, 3)", "insert into r4 values (1, 1, 'a'), (2, 2, 'b')", "insert into b1 values (1)", "update r3 set v = 7", "insert into r3 values (1, 1) on conflict (id) do update set v = 8")
	refused("delete from r3 where id = 1", "update r3 set id = 20 where id = 2", "insert into r3 values (1, 1) on conflict (id) do update set id = 9",
		"merge into r3 using (values (1)) s (i) on r3.id = s.i when matched then delete", "merge into r3 using (values (1)) s (i) on r3.id = s.i when matched then update set id = 30", "delete from b1")
	same("insert into a1 values (1), (2), (7)", "insert into a2 values (1, 'a'), (2, 'b'), (7, 'c')", "insert into a3 values (1, 1, null, 'x'), (2, 2, null, 'y')",
		"delete from a1 where id = 1", "update a1 set id = 30 where id = 7")
	p.Weft.Must(t, "create or replace function loud() returns trigger language plpgsql as 'begin new.u := pg_backend_pid()::text; return new; end'")
	refused("delete from a1 where id = 2", "delete from a2 where id = 2", "insert into s5w values (9, 'z')")
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
}

// TestTriggeredLookups: a unique column that a trigger changes stays unique over all
// shards, whatever brings the rows.
func TestTriggeredLookups(t *testing.T) {
	db := database(t, "triggered_lookups")
	p := pair.New(t, harness.Postgres(t), harness.Weft(t), db)
	p.Both(t, "setup", `create table uqt (k int primary key, e text unique, n int);
create function lowers() returns trigger language plpgsql as 'begin new.e := lower(coalesce(new.e, ''none'')); return new; end';
create trigger t before insert or update on uqt for each row execute function lowers()`)
	p.Weft.Must(t, "select weft.shard_table('uqt', 'k')")
	p.Both(t, "rows", "insert into uqt values (1, 'abc', 0), (2, 'Def', 0), (3, 'ghi', 0)")
	for sql, code := range map[string]string{
		"insert into uqt values (4, 'X', 1), (5, 'x', 1) on conflict (e) do nothing": "0A000", "insert into uqt values (4, 'X', 1), (5, 'x', 1) on conflict do nothing": "0A000",
		"insert into uqt values (6, 'ABC', 1) on conflict (e) do nothing": "0A000", "insert into uqt values (6, 'ABC', 1) on conflict do nothing": "0A000",
		"insert into uqt values (7, 'Free', 1) on conflict (e) do nothing": "0A000", "insert into uqt values (7, null, 1) on conflict (e) do nothing": "0A000",
		"insert into uqt values (6, 'ABC', 1) on conflict (e) do update set n = 5": "0A000",
		"insert into uqt values (8, 'ABC', 1)":                                     "23505", "insert into uqt values (8, 'Y', 1), (9, 'y', 1)": "23505", "insert into uqt select g, 'Z', 1 from generate_series(20, 30) g": "23505",
		"update uqt set e = 'GHI' where k = 1": "23505", "update uqt set e = 'Same'": "23505",
		"merge into uqt using (values (40, 'ABC')) s (a, b) on uqt.k = s.a when not matched then insert (k, e) values (s.a, s.b)": "23505",
	} {
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); a.Code != code {
			t.Errorf("%s: %q %s", sql, a.Code, a.Message)
		}
	}
	if _, err := p.Weft.Conn.CopyFrom(t.Context(), strings.NewReader("50\tDEF\t1\n51\tnew\t1\n"), "copy uqt from stdin"); err == nil || !strings.Contains(err.Error(), "23505") {
		t.Errorf("COPY: %v", err)
	}
	for _, sql := range []string{
		"insert into uqt values (60, 'abc', 1), (61, 'new', 1), (62, 'new', 2) on conflict (e) do nothing", "insert into uqt values (63, 'def', 1) on conflict (e) do update set n = 9",
		"insert into uqt values (64, 'free', 1), (65, 'ghi', 1) on conflict do nothing", "insert into uqt values (66, 'Other', 1), (67, 'Another', 1)", "update uqt set e = 'Third' where k = 3",
	} {
		if wrong, _, got := p.Run(pair.Simple, sql, nil); wrong != "" || got.Refused() {
			t.Errorf("%s: %s %s", sql, wrong, got.Message)
		}
	}
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
}
