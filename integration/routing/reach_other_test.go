package routing

import (
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestReachedOtherwise: what runs by defaults of views and of arguments, by policies of
// temporary tables and by types of tables is right or refused.
func TestReachedOtherwise(t *testing.T) {
	db := database(t, "reach_other")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table t (k int primary key, v int)", "create table r (id int primary key, x text)", "create table lo (id int primary key, val int)",
		"insert into t select g, g from generate_series(1, 40) g", "insert into r select g, 'x' from generate_series(1, 8) g", "insert into lo select g, g from generate_series(1, 12) g",
		"create function of_t() returns int stable language sql as 'select count(*)::int from t'", "create function of_r() returns int stable language sql as 'select count(*)::int from r'",
		"create function kept() returns int stable language sql as 'select 1'",
		"create type row_type as (k int, n text)", "create table typed of row_type (primary key (k))",
		"create sequence sq", "drop role if exists other_reader", "create role other_reader",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('t', 'k')", "select weft.reference_table('r')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	if a := p.Weft.Ask(pair.Simple, "select weft.shard_table('typed', 'k')", nil, nil); !a.Refused() || !strings.Contains(a.Message, "NOT OF") {
		t.Errorf("a table of a type: %q %s", a.Code, a.Message)
	}
	for _, test := range []struct {
		sql     string
		refused bool
	}{
		{"create view vt as select k, v from t", false},
		{"create view vvt as select k as a, v as b from vt", false},
		{"alter view vt alter v set default of_r()", false},
		{"insert into vt (k) values (100) returning v", false},
		{"insert into vt (k) values (101), (102), (103) returning v", false},
		{"alter view vt alter v set default of_t()", false},
		{"insert into vt (k) values (104) returning v", true},
		{"insert into vt (k, v) values (104, default) returning v", true},
		{"insert into vvt (a) values (105)", true},
		{"insert into vt (k) values (106), (107)", true},
		{"update vt set v = 3 where k = 100", false},
		{"create function ax(a int, b xml default query_to_xml('select count(*) from t', true, true, '')) returns text language sql as 'select b::text'", false},
		{"select ax(1)", true},
		{"select ax(k) from t where k = 3", true},
		{"create function al(a int, b bool default pg_try_advisory_xact_lock(7)) returns bool language plpgsql as 'begin return b; end'", false},
		{"select al(1)", false},
		{"update t set v = al(k)::int where k = 3", true},
		{"create function an(a int, b bigint default nextval('sq')) returns bigint language sql as 'select b'", true},
		{"create domain dn as bigint default nextval('sq')", true},
		{"create function of_lo() returns int stable language sql as 'select count(*)::int from lo'", false},
		{"alter table t alter v set default of_lo()", true},
		{"alter table t alter v set default kept()", false},
		{"create or replace function kept() returns int stable language sql as 'select count(*)::int from lo'", true},
		{"insert into t (k) values (110) returning v", false},
		{"create temp table tmp (a int)", false},
		{"insert into tmp values (1), (20)", false},
		{"alter table tmp enable row level security", false},
		{"grant select on tmp to other_reader", false},
		{"create policy p on tmp using (a in (select k from t))", true},
		{"create policy p on pg_temp.tmp using (of_t() > a)", true},
		{"create policy p on tmp using (a in (select id from r))", false},
		{"set role other_reader", false},
		{"select count(*) from tmp", false},
		{"reset role", false},
	} {
		wrong, _, got := p.Run(pair.Simple, test.sql, nil)
		if wrong != "" || got.Refused() != test.refused {
			t.Errorf("%s: %s%s", test.sql, wrong, got.Message)
		}
	}
	pair.SameTables(t, db, nil)
	p.Both(t, "end", "drop owned by other_reader")
	p.Both(t, "end", "drop role other_reader")
}
