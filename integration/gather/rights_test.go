package gather

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestRights: a gather reads nothing that its role may not read.
func TestRights(t *testing.T) {
	w := newWorld(t, "g_rights", nil)
	c := w.conn()
	for _, sql := range []string{
		"create table secret (k bigint primary key, v int, hidden text)",
		"insert into secret select i, i, 'h' || i from generate_series(1, 60) i",
		"select weft.shard_table('secret', 'k')",
		"grant select on oth to alice",
		"create table part (k bigint primary key, open int, closed int)",
		"insert into part select i, i, i from generate_series(1, 60) i",
		"select weft.shard_table('part', 'k')",
		"grant select (k, open) on part to alice",
	} {
		must(t, c, sql)
	}
	for _, set := range []string{"reset all", stageAll, "set weft.native = off"} {
		alice := w.as("alice")
		must(t, alice, set)
		for _, sql := range []string{
			"select * from secret", "select count(*) from secret", "select v from secret order by v", "select 1 from secret limit 1",
			"select o.k from oth o join secret s on o.v = s.v", "select k from oth where exists (select 1 from secret s where s.v = oth.v)",
			"select (select max(hidden) from secret)", "select v from secret where false", "select v from secret where k = null",
			"select * from part", "select closed from part", "select max(closed) from part", "select p.closed from part p join oth o on p.open = o.v",
			"select open from part where closed = 3", "select open from part order by closed", "select count(closed) from part",
			"with x as (select closed from part) select count(*) from x join oth on x.closed = oth.v",
		} {
			if got := fails(alice, sql); got != "42501" {
				t.Errorf("%s: %s: %q, want 42501", set, sql, got)
			}
		}
		for sql, want := range map[string]int{
			"select count(*) from part": 60, "select sum(open) from part": 1830, "select count(*) from part p join oth o on p.open = o.v": 60,
			"select count(*) from (select open from part order by open limit 7) x": 7, "select count(distinct open) from part": 60,
		} {
			if got := value[int](t, alice, sql); got != want {
				t.Errorf("%s: %s: %d, want %d", set, sql, got, want)
			}
		}
		// Another role, for a while.
		must(t, c, set)
		must(t, c, "begin")
		must(t, c, "set local role alice")
		if got := fails(c, "select count(*) from secret s join oth o on s.v = o.v"); got != "42501" {
			t.Errorf("%s: SET LOCAL ROLE: %q", set, got)
		}
		must(t, c, "rollback")
		must(t, c, "set role alice")
		if got := fails(c, "select count(*) from secret s join oth o on s.v = o.v"); got != "42501" {
			t.Errorf("%s: SET ROLE: %q", set, got)
		}
		must(t, c, "reset role")
		if got := value[int](t, c, "select count(*) from secret s join oth o on s.v = o.v"); got != 60 {
			t.Errorf("%s: the owner sees %d rows", set, got)
		}
	}
}

// TestRowSecurity: policies hide rows in each way of gathering.
func TestRowSecurity(t *testing.T) {
	w := newWorld(t, "g_policy", nil)
	c := w.conn()
	for _, sql := range []string{
		"create table doc (k bigint primary key, owner name, v int)",
		"insert into doc select i, case when i % 3 = 0 then 'alice' else 'bob' end, i from generate_series(1, 60) i",
		"select weft.shard_table('doc', 'k')",
		"alter table doc enable row level security",
		"create policy own on doc using (owner = current_user)",
		"grant select on doc, oth to alice, bob",
	} {
		must(t, c, sql)
	}
	rows := map[string]int{"alice": 20, "bob": 40, "postgres": 60}
	for user, want := range rows {
		for _, set := range []string{"reset all", stageAll, "set weft.native = off"} {
			u := w.as(user)
			must(t, u, set)
			for _, sql := range []string{
				"select count(*) from doc", "select count(*) from doc d join oth o on d.v = o.v", "select count(*) from (select distinct v from doc) x",
				"select count(*) from (select v from doc order by v) x", "select sum(n) from (select owner, count(*) n from doc group by owner) x",
				"select count(*) from oth where v in (select v from doc)",
			} {
				if got := value[int](t, u, sql); got != want {
					t.Errorf("%s, %s: %s: %d, want %d", user, set, sql, got, want)
				}
			}
		}
	}
	must(t, c, "set role bob")
	if got := value[int](t, c, "select count(*) from doc d join oth o on d.v = o.v"); got != 40 {
		t.Errorf("SET ROLE: %d", got)
	}
	must(t, c, "set role alice")
	if got := value[int](t, c, "select count(*) from doc d join oth o on d.v = o.v"); got != 20 {
		t.Errorf("another role: %d", got)
	}
}

// TestViews: who may read a view need not be let near its tables.
func TestViews(t *testing.T) {
	w := newWorld(t, "g_views", nil)
	c := w.conn()
	for _, sql := range []string{
		"create table acct (k bigint primary key, owner text, v int)",
		"insert into acct select i, case when i % 2 = 0 then 'a' else 'b' end, i from generate_series(1, 60) i",
		"select weft.shard_table('acct', 'k')",
		"create view simple as select k, v from acct where owner = 'a'",
		"create view summed as select owner, sum(v) as total, count(*) as n from acct group by owner",
		"create view barrier with (security_barrier) as select k, v from acct where owner = 'a'",
		"create view nobody as select k from acct",
		"grant select on simple, summed, barrier, oth to alice",
		`create function leak(int) returns bool language plpgsql cost 0.0000001 as 'begin if $1 % 2 = 1 then raise exception ''leaked %'', $1 using errcode = ''P0042''; end if; return true; end'`,
	} {
		must(t, c, sql)
	}
	const refused = -1 // it would have to be taken apart
	for _, set := range []string{"reset all", stageAll, "set weft.native = off"} {
		alice := w.as("alice")
		must(t, alice, set)
		for _, tc := range []struct {
			sql  string
			want int
		}{
			{"select count(*) from simple", 30},
			{"select count(*) from simple s join oth o on s.v = o.v", 30},
			{"select count(*) from barrier", 30},
			{"select count(*) from barrier b join oth o on b.v = o.v", 30},
			{"select sum(n) from summed", refused},
			{"select n from summed where owner = 'a'", refused},
			{"select count(*) from barrier where leak(v)", 30},
			{"select count(*) from barrier b join oth o on b.v = o.v where leak(b.v)", 30},
		} {
			var got int
			switch err := alice.QueryRow(t.Context(), tc.sql).Scan(&got); {
			case tc.want == refused && code(err) != "0A000":
				t.Errorf("%s: %s: %d %v, want a refusal", set, tc.sql, got, err)
			case tc.want == refused:
			case err != nil:
				t.Errorf("%s: %s: %v", set, tc.sql, err)
			case got != tc.want:
				t.Errorf("%s: %s: %d, want %d", set, tc.sql, got, tc.want)
			}
		}
		for _, sql := range []string{"select * from nobody", "select count(*) from nobody n join oth o on n.k = o.v", "select count(*) from acct", "select count(*) from simple s join acct a on s.v = a.v"} {
			if got := fails(alice, sql); got != "42501" {
				t.Errorf("%s: %s: %q, want 42501", set, sql, got)
			}
		}
	}
	var e *pgconn.PgError
	if _, err := w.as("bob").Exec(t.Context(), "select * from simple"); !errors.As(err, &e) || !strings.Contains(e.Message, "simple") {
		t.Errorf("who may not read the view: %v", fmt.Sprint(err))
	}
}
