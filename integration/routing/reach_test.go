package routing

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"weft/integration/pair"
)

var allWays = flag.Bool("all", false, "TestReach tries every function in every way, not the share of them that -seed picks")

// reachShare: of so many pairs of a function and a way TestReach tries one.
const reachShare = 8

// reachBodies are what a function f(int) returns int may do.
var reachBodies = []struct{ name, body string }{
	{"pure", `begin return x + 1; end`},
	{"home", `begin return (select count(*) from lo) + x * 0; end`},
	{"reference", `begin return (select count(*) from r) + x * 0; end`},
	{"sharded", `begin return (select count(*) from t) + x * 0; end`},
	{"home_then_execute", `declare n int; begin perform 1 from lo; execute 'select count(*) from t' into n; return n; end`},
	{"home_then_computed", `declare n int; q text := 'select count(*)'; begin perform 1 from lo; execute q || ' from t' into n; return n; end`},
	{"opaque", `declare n int; q text := 'select count(*) from t'; begin execute q into n; return n; end`},
	{"writes_sharded", `begin insert into t values (x + 1000, 1, 1) on conflict do nothing; return x; end`},
	{"writes_reference", `begin perform 1 from lo; insert into r values (x + 1000, 'y') on conflict do nothing; return x; end`},
}

// reachWays are the ways in which a statement runs a function without, or with, naming
// it. FN is the function, ID a name of the way's own, TB that of a table which all
// functions of the way share: once makes it, makes the rest.
var reachWays = []struct {
	name  string
	once  []string
	makes []string
	asks  []string
	ends  []string
}{
	{
		name: "call",
		asks: []string{"select FN(1)", "select FN(k), k from t where k < 5", "select FN(id) from lo where id < 3", "select * from FN(1)", "select id from r where FN(id) > 3", "do $$ begin perform FN(1); end $$"},
	},
	{
		name:  "procedure",
		makes: []string{"create procedure ID(x int) language plpgsql as $$ begin perform FN(x); end $$"},
		asks:  []string{"call ID(1)"},
	},
	{
		name:  "nested",
		makes: []string{"create function ID(x int) returns int language sql as $$ select FN(x) from lo limit 1 $$"},
		asks:  []string{"select ID(1)", "select k from t where k = 3 and ID(k) > 0"},
	},
	{
		name: "operator",
		makes: []string{
			"create function ID(x int, y int) returns bool language sql as $$ select FN(x) > y $$",
			"create operator OP (procedure = ID, leftarg = int, rightarg = int)",
		},
		asks: []string{
			"select count(*) from generate_series(1, 40) g where g OP 11", "select count(*) from t where k OP 11", "select count(*) from lo where id OP 11",
			"select k OP 11 from t where k = 5", "select id OP 11 from r where id < 3", "update lo set val = 1 where id OP 5",
		},
		ends: []string{"drop operator OP (int, int)"},
	},
	{
		name:  "domain",
		makes: []string{"create domain ID as int check (FN(value) > 2)", "create table ID_h (a ID)", "create table ID_a (a ID[])"},
		asks:  []string{"select 5::ID", "insert into ID_h values (1), (2)", "insert into ID_a values ('{1,2}')", "insert into ID_h select id from lo", "select k::ID from t where k = 3", "update ID_h set a = 7"},
	},
	{
		name:  "default_home",
		makes: []string{"create table ID (a int, b int default FN(1))"},
		asks:  []string{"insert into ID (a) values (1) returning b", "insert into ID values (1, 2) returning b", "insert into ID values (3, default)", "update ID set b = default", "insert into ID (a) select id from lo where id < 4"},
	},
	{
		name:  "default_sharded",
		once:  []string{"create table TB (a int primary key, b int)", "select weft.shard_table('TB', 'a')"},
		makes: []string{"alter table TB alter b set default FN(1)"},
		asks: []string{
			"insert into TB (a) values (1) returning b", "insert into TB values (2, 2) returning b", "insert into TB (a) values (3), (4), (5), (6)",
			"insert into TB values (13, default)", "update TB set b = default where a = 2", "update TB set b = default", "insert into TB (a) select g from generate_series(20, 30) g",
		},
		ends: []string{"alter table TB alter b drop default", "delete from TB"},
	},
	{
		name:  "default_reference",
		once:  []string{"create table TB (a int primary key, b int)", "select weft.reference_table('TB')"},
		makes: []string{"alter table TB alter b set default FN(1)"},
		asks:  []string{"insert into TB (a) values (1) returning b", "insert into TB values (2, 2), (3, default)"},
		ends:  []string{"alter table TB alter b drop default", "delete from TB"},
	},
	{
		name:  "check_home",
		makes: []string{"create table ID (a int check (FN(a) > 2))"},
		asks:  []string{"insert into ID select g from generate_series(1, 40) g", "update ID set a = a", "delete from ID where a = 1"},
	},
	{
		name:  "check_sharded",
		once:  []string{"create table TB (a int primary key)", "select weft.shard_table('TB', 'a')"},
		makes: []string{"alter table TB add constraint c check (FN(a) > 2)"},
		asks:  []string{"insert into TB values (1)", "insert into TB select g from generate_series(2, 20) g", "update TB set a = a where a = 3"},
		ends:  []string{"alter table TB drop constraint c", "delete from TB"},
	},
	{
		name:  "generated",
		once:  []string{"create table TB (a int primary key)", "select weft.shard_table('TB', 'a')"},
		makes: []string{"create table ID (a int primary key, b int generated always as (FN(a)) stored)", "alter table TB add b int generated always as (FN(a)) stored"},
		asks:  []string{"insert into ID values (1) returning b", "insert into TB values (1) returning b", "insert into TB values (2), (3), (4), (5)"},
		ends:  []string{"alter table TB drop column b", "delete from TB"},
	},
	{
		name:  "index",
		once:  []string{"create table TB (a int primary key)", "select weft.shard_table('TB', 'a')"},
		makes: []string{"create table ID (a int)", "create index on ID (FN(a))", "create index TB_i on TB (a) where FN(a) > 2"},
		asks:  []string{"insert into ID values (1)", "insert into TB values (1)"},
		ends:  []string{"drop index TB_i", "delete from TB"},
	},
	{
		name: "trigger_home",
		makes: []string{
			"create table ID (a int)", "create function ID_f() returns trigger language plpgsql as $$ begin new.a := FN(new.a); return new; end $$",
			"create trigger tr before insert on ID for each row execute function ID_f()", "create table ID_w (a int)",
			"create trigger tr before insert on ID_w for each row when (FN(new.a) > 3) execute function suppress_redundant_updates_trigger()",
		},
		asks: []string{"insert into ID values (1) returning a", "insert into ID select id from lo"},
	},
	{
		name: "trigger_sharded",
		once: []string{"create table TB (a int primary key, b int)", "select weft.shard_table('TB', 'a')"},
		makes: []string{
			"create function ID_f() returns trigger language plpgsql as $$ begin new.b := FN(new.a); return new; end $$",
			"create trigger tr before insert on TB for each row execute function ID_f()",
		},
		asks: []string{"insert into TB values (1) returning b", "insert into TB values (2), (3), (4), (5)"},
		ends: []string{"drop trigger tr on TB", "delete from TB"},
	},
	{
		name:  "rule",
		makes: []string{"create table ID (a int)", "create table ID_t (a int)", "create rule ru as on insert to ID do also insert into ID_t values (FN(new.a))"},
		asks:  []string{"insert into ID values (1)"},
	},
	{
		name:  "view",
		makes: []string{"create view ID as select FN(id) as n, id from lo"},
		asks:  []string{"select sum(n) from ID", "select * from ID where id = 1", "select count(*) from ID v join t on t.k = v.id"},
	},
	{
		name: "aggregate",
		makes: []string{
			"create function ID_a(s int, x int) returns int language sql as $$ select coalesce(s, 0) + FN(x) $$",
			"create aggregate ID (int) (sfunc = ID_a, stype = int)",
		},
		asks: []string{"select ID(id) from lo", "select ID(k) from t", "select ID(id) from r"},
	},
	{
		name:  "cascade",
		makes: []string{"create table ID (a int primary key)", "create table ID_c (a int references ID on delete cascade)", "create function ID_f() returns trigger language plpgsql as $$ begin perform FN(1); return old; end $$", "create trigger tr after delete on ID_c for each row execute function ID_f()"},
		asks:  []string{"insert into ID values (1), (2)", "insert into ID_c values (1)", "delete from ID"},
	},
	{
		name:  "policy_home",
		makes: []string{"create table ID (a int)", "insert into ID select g from generate_series(1, 40) g", "grant all on ID to reach_reader", "create policy p on ID using (FN(a) > 20)", "alter table ID enable row level security"},
		asks:  []string{"set role reach_reader", "select count(*) from ID", "update ID set a = a", "insert into ID values (50)", "reset role", "select count(*) from ID"},
	},
	{
		name:  "policy_sharded",
		once:  []string{"create table TB (a int primary key, b int)", "select weft.shard_table('TB', 'a')", "insert into TB select g from generate_series(1, 40) g", "grant all on TB to reach_reader", "alter table TB enable row level security"},
		makes: []string{"create policy p on TB using (FN(a) > 20)"},
		asks: []string{
			"set role reach_reader", "select count(*) from TB", "select a from TB where a = 30", "update TB set b = a", "insert into TB values (50)", "delete from TB where a = 7",
			"insert into TB values (61), (62), (63) returning a", "reset role", "select count(*) from TB",
		},
		ends: []string{"drop policy p on TB", "delete from TB where a > 40"},
	},
	{
		name:  "cast",
		makes: []string{"create type ID as (a int)", "create function ID_c(int) returns ID language sql as $$ select row(FN($1))::ID $$", "create cast (int as ID) with function ID_c(int)"},
		asks:  []string{"select 5::ID", "select count(*) from t where k < 5", "select 1"},
		ends:  []string{"drop type ID cascade"},
	},
}

// TestReach runs functions that do all sorts of things in all sorts of ways: each
// statement gets PostgreSQL's answer, or is refused.
func TestReach(t *testing.T) {
	db := database(t, "reach")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table t (k int primary key, v int, w bigint)", "create table lo (id int, val int)", "create table r (id int primary key, x text)",
		"insert into t select g, g, g from generate_series(1, 40) g", "insert into lo select g, g from generate_series(1, 11) g", "insert into r select g, 'x' from generate_series(1, 5) g",
		"drop role if exists reach_reader", "create role reach_reader", "grant all on t, lo, r to reach_reader",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('t', 'k')", "select weft.reference_table('r')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	modes := []pair.Mode{pair.Modes[0]}
	if *allModes {
		modes = pair.Modes
	}
	for j, w := range reachWays {
		words := strings.NewReplacer("TB", fmt.Sprintf("tb%d", j))
		for _, sql := range w.once {
			if sql = words.Replace(sql); strings.HasPrefix(sql, "select weft.") {
				declare(t, p, pair.Statement{SQL: sql})
			} else {
				p.Both(t, w.name, sql)
			}
		}
	}
	refused, asked, tried := 0, 0, 0
	for i, b := range reachBodies {
		fn := "fn_" + b.name
		p.Both(t, b.name, fmt.Sprintf("create function %s(x int) returns int language plpgsql as $fn$ %s $fn$", fn, b.body))
		for j, w := range reachWays {
			if !*allWays && (uint64(i*len(reachWays)+j)+*seedFlag)%reachShare != 0 {
				continue
			}
			tried++
			of := fn
			if w.name == "generated" || w.name == "index" { // PostgreSQL wants them immutable, and believes it
				of += "_i"
				if a, _ := tryBoth(p, fmt.Sprintf("create function %s(x int) returns int immutable language plpgsql as $fn$ %s $fn$", of, b.body)); a.Code != "" && a.Code != "42723" {
					t.Fatalf("%s: %s %s", of, a.Code, a.Message)
				}
			}
			words := strings.NewReplacer("FN", of, "TB", fmt.Sprintf("tb%d", j), "ID", fmt.Sprintf("w%d_%d", i, j), "OP", strings.Repeat("=", i+1)+"~"+strings.Repeat("=", j+1))
			made := true
			for _, sql := range w.makes {
				sql = words.Replace(sql)
				if a, b := tryBoth(p, sql); a.Code != b.Code {
					t.Errorf("%s: weft says %q %s, PostgreSQL %q", sql, a.Code, a.Message, b.Code)
				} else if made = made && a.Code == ""; !made {
					break
				}
			}
			for _, sql := range w.asks {
				if !made {
					break
				}
				for _, m := range modes {
					asked++
					wrong, want, got := p.Run(m, words.Replace(sql), nil)
					if wrong != "" {
						t.Errorf("%s, %s: %s: %s\nPostgreSQL: %+v\nweft: %+v", b.name, w.name, words.Replace(sql), wrong, want, got)
					}
					if got.Refused() {
						refused++
					}
				}
			}
			p.Both(t, "end", "reset role")
			for _, sql := range w.ends {
				tryBoth(p, words.Replace(sql))
			}
		}
	}
	t.Logf("seed %d: %d of %d pairs of a function and a way (-all: all), %d statements, %d refused", *seedFlag, tried, len(reachBodies)*len(reachWays), asked, refused)
	pair.SameTables(t, db, nil)
	for _, a := range []pair.Answer{p.Weft.Ask(pair.Simple, "select * from weft.verify_reference('r')", nil, nil)} {
		if a.Code != "" {
			t.Errorf("%s %s", a.Code, a.Message)
		}
		t.Logf("%+v", a)
	}
	p.Both(t, "end", "drop owned by reach_reader")
	p.Both(t, "end", "drop role reach_reader")
}

// TestNamesElsewhere: operators and types in schemas that a text cannot mean do not concern it.
func TestNamesElsewhere(t *testing.T) {
	db := database(t, "elsewhere")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table t (k int primary key, v int)", "insert into t select g, g from generate_series(1, 40) g",
		"create schema mine", "create schema other", "create domain word as text",
		"create function mine.spy(int, int) returns bool language plpgsql as $$ declare n int; begin select count(*) into n from public.t; return n > $1; end $$",
		"create operator mine.= (procedure = mine.spy, leftarg = int, rightarg = int)",
		"create operator mine.=== (procedure = mine.spy, leftarg = int, rightarg = int)",
		"create domain mine.word as text check (mine.spy(length(value), 1))",
		"create view of_mine as select 20 operator(mine.===) 1 as yes, case 1 when 1 then 2 end as c",
	} {
		p.Both(t, "schema", sql)
	}
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	run := func(sql string, refused bool) {
		t.Helper()
		wrong, want, got := p.Run(pair.Simple, sql, nil)
		if wrong != "" || got.Refused() != refused {
			t.Errorf("%s: %s\nPostgreSQL: %+v\nweft: %+v", sql, wrong, want, got)
		}
	}
	for _, sql := range []string{
		"select v from t where k = 7", "select count(*) from t where v = 7 or v in (8, 9)", "select case v when 1 then 2 end from t where k = 1", "update t set v = v where k = 3",
		"select count(*) from t a join t b using (k)", "select 'a'::word", "select 'a'::public.word", "select 1 operator(pg_catalog.=) 1", "select 20 === 1",
	} {
		run(sql, false)
	}
	elsewhere := []string{"select 20 operator(mine.===) 1", "select 'a'::mine.word", "select yes from of_mine", "select k from t where k operator(mine.=) 3"}
	for _, sql := range elsewhere {
		run(sql, true)
	}
	p.Both(t, "path", "set search_path = public, other")
	run("select v from t where k = 7", false)
	p.Both(t, "path", "set search_path = mine, public")
	for _, sql := range append(elsewhere, "select 20 === 1", "select 'a'::word", "select count(*) from t where v = 7") {
		run(sql, true)
	}
	p.Both(t, "path", "set search_path = public")
	for _, way := range [][]string{
		{"begin", "set local search_path = mine, public"}, {"begin", "select set_config('search_path', 'mine, public', true)"},
	} {
		for _, sql := range way {
			p.Both(t, "path", sql)
		}
		run("select 20 === 1", true)
		p.Both(t, "path", "rollback")
		run("select count(*) from t where v = 7", false)
	}
}

// tryBoth runs a statement on weft, and on PostgreSQL if weft has run it. An error of
// weft's counts for both: nothing was made.
func tryBoth(p *pair.Pair, sql string) (weft, plain pair.Answer) {
	weft = p.Weft.Ask(pair.Simple, sql, nil, nil)
	if weft.Code != "" {
		return weft, weft
	}
	return weft, p.Plain.Ask(pair.Simple, sql, nil, nil)
}
