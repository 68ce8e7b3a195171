package routing

import (
	"context"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestGuardedKeys: whatever words a trigger changes the shard key in, no row is stored
// where nobody looks for it; triggers that leave the key alone run as in PostgreSQL.
func TestGuardedKeys(t *testing.T) {
	db := database(t, "guarded_keys")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	plain := pair.Connect(t, harness.Postgres(t), db, "postgres")
	setup := `create table tg (k int, n int); create unique index on tg (k, n); create table late (k int, b text, n int) partition by range (n);
create table late1 partition of late for values from (0) to (1000); create table late2 partition of late default;
create function kept() returns trigger language plpgsql as 'begin new.n := new.n + 1; return new; end';
create function tf() returns trigger language plpgsql as 'begin return new; end';
create trigger t before insert or update on tg for each row execute function tf()`
	p.Must(t, setup)
	plain.Must(t, setup)
	p.Must(t, "select weft.shard_table('tg', 'k')")
	p.Must(t, "select weft.shard_table('late', 'k, b')")
	both := func(sql string) {
		t.Helper()
		want, got := plain.Ask(pair.Simple, sql, nil, nil), p.Ask(pair.Simple, sql, nil, nil)
		if want.Code != got.Code || len(want.Results) != len(got.Results) {
			t.Errorf("%s: PostgreSQL %s %s, weft %s %s", sql, want.Code, want.Message, got.Code, got.Message)
		}
	}
	rows := "insert into tg select g, 0 from generate_series(101, 108) g"
	both(rows)
	writes := []string{
		"insert into tg values (201, 1)",
		"insert into tg values (201, 1), (202, 1), (203, 1), (204, 1)",
		"insert into tg select g, 3 from generate_series(301, 308) g",
		"insert into tg values (101, 0) on conflict (k, n) do update set n = 9",
		"insert into tg values (401, 4), (402, 4), (403, 4) on conflict do nothing",
		"update tg set n = 7",
		"update tg set n = 7 where k = 101",
		"merge into tg using (values (102, 1), (502, 1)) s (a, b) on tg.k = s.a when matched then update set n = 8 when not matched then insert (k, n) values (s.a, s.b)",
		"with i as (insert into tg values (601, 6) returning k) select * from i",
	}
	for _, body := range []string{
		"select 5 into new.k; return new", "select 5, new.n into new; return new", "new := row(5, 6); return new",
		`new := jsonb_populate_record(new, '{"k": 5}'); return new`, `new."k" := 5; return new`, "execute 'select 5' into new.k; return new",
		"return row(5, new.n)", "r := new; r.k := 5; return r", "a.k := 5; return a", "select 5 as k, 6 as n into r; return r", "new.k := 5; return new",
		"new.k := null; return new", "get diagnostics new.k = row_count; return new",
		"select k - 1000 into strict new.k from (select new.k) q (k); return new",
		"if new.n <> 77 then insert into tg values (new.k, 77); select 5 into new.k; end if; return new",
	} {
		declare := "declare r record; a alias for new; begin "
		p.Must(t, "create or replace function tf() returns trigger language plpgsql as $$ "+declare+body+"; end $$")
		for _, sql := range writes {
			if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" {
				t.Errorf("%s: %s: %q %s", body, sql, a.Code, a.Message)
			}
		}
		if _, err := p.Conn.CopyFrom(context.Background(), strings.NewReader("701\t1\n702\t1\n703\t1\n"), "copy tg from stdin"); err == nil || !strings.Contains(err.Error(), "0A000") {
			t.Errorf("%s: COPY: %v", body, err)
		}
	}
	// The same table with a trigger that leaves the key alone, or keeps rows away.
	for _, body := range []string{
		"new.n := new.n + 1; return new", "if new.k % 2 = 0 then return null; end if; return new", "select new.k, new.n + 10 into new; return new",
	} {
		replace := "create or replace function tf() returns trigger language plpgsql as $$ begin " + body + "; end $$"
		p.Must(t, replace)
		plain.Must(t, replace)
		both("truncate tg")
		both(rows)
		for _, sql := range writes {
			both(sql)
		}
		pair.SameTables(t, db, nil)
	}
	guardedLater(t, db, p, both)
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Conn)
}

// guardedLater: the guard comes with the first trigger, of a partition too, cannot be
// passed by, and goes with the last.
func guardedLater(t *testing.T, db string, p *pair.Peer, both func(string)) {
	count := func() string {
		return cells(t, p.Must(t, "select count(*) from pg_trigger where tgname like '%weft guard' and tgrelid::regclass::text like 'late%'"))[0]
	}
	if n := count(); n != "0" {
		t.Errorf("%s guards without triggers", n)
	}
	both("create trigger a before insert or update on late1 for each row execute function kept()")
	if n := count(); n != "6" {
		t.Errorf("%s guards", n)
	}
	both("insert into late select g, 'b' || g, g * 100 from generate_series(1, 20) g")
	both("update late set n = n + 1")
	both("alter table late rename b to c")
	p.Must(t, "create or replace function kept() returns trigger language plpgsql as 'begin select ''x'' into new.c; return new; end'")
	refused := func(sql string) {
		t.Helper()
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" {
			t.Errorf("%s: %q %s", sql, a.Code, a.Message)
		}
	}
	refused("insert into late values (1, 'a', 1)")
	refused("insert into late1 values (1, null, 1)")
	refused("update late set n = 5 where k = 1 and c = 'b1'")
	refused(`create trigger "ä" before insert on late for each row execute function kept()`)
	refused(`alter trigger a on late1 rename to "  "`)
	p.Must(t, "alter table late disable trigger all")
	p.Must(t, "alter table late1 enable always trigger a")
	p.Must(t, "set session_replication_role = replica")
	refused("insert into late values (1, 'a', 1)")
	p.Must(t, "reset session_replication_role")
	both("drop trigger a on late1")
	if n := count(); n != "0" {
		t.Errorf("%s guards are left", n)
	}
	p.Must(t, "select weft.unshard_table('tg')")
	if n := cells(t, p.Must(t, "select count(*) from pg_trigger where tgname like '%weft guard'"))[0]; n != "0" {
		t.Errorf("%s guards of a home table", n)
	}
	p.Must(t, "select weft.shard_table('tg', 'k')")
}
