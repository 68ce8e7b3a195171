package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/integration/pair"
)

// tenants are two sessions, one of weft and one of PostgreSQL, over tables whose policies compare the
// shard key with a parameter of the session.
type tenants struct {
	t *testing.T
	*pair.Pair
	doing string
}

// newTenants makes the tables docs and items, with rows of tenants 0 to 9, and roles.
func newTenants(t *testing.T, name, keyType string) *tenants {
	tn := &tenants{t: t, Pair: newPair(t, database(t, name))}
	key := map[string]string{"bigint": "g % 10", "text": "'t' || g % 10", "uuid": "('00000000-0000-0000-0000-00000000000' || g % 10)::uuid"}[keyType]
	tn.both(
		"create table docs (tenant "+keyType+", id int, n int default 0, primary key (tenant, id))", "create table items (tenant "+keyType+", id int, doc int, primary key (tenant, id))",
		"create table kinds (id int primary key, name text)", "insert into kinds values (0, 'even'), (1, 'odd')",
		"insert into docs select "+key+", g, g % 4 from generate_series(1, 80) g", "insert into items select "+key+", g, g from generate_series(1, 50) g",
		"create view theirs as select * from docs", "create view ours with (security_invoker) as select * from docs",
	)
	for _, role := range []string{"app", "member", "keeper", "boss"} {
		tn.both("drop role if exists tenant_"+role, "create role tenant_"+role)
	}
	tn.both("alter role tenant_boss bypassrls", "grant tenant_app to tenant_member", "grant all on docs, items, kinds, theirs, ours to tenant_app, tenant_boss, tenant_keeper",
		"alter table docs owner to tenant_keeper", "alter table items owner to tenant_keeper")
	for _, sql := range []string{"select weft.shard_table('docs', 'tenant')", "select weft.shard_table('items', 'tenant')", "select weft.reference_table('kinds')"} {
		declare(t, tn.Pair, pair.Statement{SQL: sql})
	}
	tn.both("alter table docs enable row level security", "alter table items enable row level security")
	t.Cleanup(func() {
		tn.both("reset role", "drop owned by tenant_app, tenant_boss, tenant_member", "alter table docs owner to postgres", "alter table items owner to postgres",
			"drop owned by tenant_keeper", "drop role tenant_app, tenant_member, tenant_keeper, tenant_boss")
	})
	return tn
}

// both runs commands that both servers must answer alike.
func (tn *tenants) both(list ...string) {
	tn.t.Helper()
	for _, sql := range list {
		if wrong, want, got := tn.Run(pair.Simple, sql, nil); wrong != "" || got.Code != "" {
			tn.t.Errorf("%s: %s: %s\nPostgreSQL: %+v\nweft: %+v", tn.doing, sql, wrong, want, got)
		}
	}
}

// one asks what row security leads to one shard, several what it does not. The answers are PostgreSQL's.
func (tn *tenants) one(list ...string)     { tn.t.Helper(); tn.ask(true, list) }
func (tn *tenants) several(list ...string) { tn.t.Helper(); tn.ask(false, list) }

func (tn *tenants) ask(one bool, list []string) {
	tn.t.Helper()
	for _, sql := range list {
		said := tn.Weft.Ask(pair.Simple, "explain "+sql, nil, nil)
		if len(said.Results) != 1 || len(said.Results[0].Rows) == 0 {
			tn.t.Errorf("%s: explain %s: %+v", tn.doing, sql, said)
			continue
		}
		if gathered := strings.HasPrefix(said.Results[0].Rows[0], "Weft "); gathered == one {
			tn.t.Errorf("%s: %s: to one shard: %v\n%s", tn.doing, sql, !gathered, strings.Join(said.Results[0].Rows, "\n"))
		}
		tn.same(pair.Simple, sql)
	}
}

// same asks both servers, whatever the way.
func (tn *tenants) same(m pair.Mode, sql string, set ...pair.Param) {
	tn.t.Helper()
	if wrong, want, got := tn.Run(m, sql, set); wrong != "" || got.Refused() {
		tn.t.Errorf("%s: %s (%s): %s\nPostgreSQL: %+v\nweft: %+v", tn.doing, sql, m, wrong, want, got)
	}
}

// within runs a test in a block that is rolled back.
func (tn *tenants) within(doing string, test func()) {
	tn.t.Helper()
	tn.doing = doing
	tn.both("begin")
	test()
	tn.both("rollback")
}

const docsPolicy, itemsPolicy = "create policy p on docs using (tenant = current_setting('app.tenant')::bigint)", "create policy p on items using (tenant = current_setting('app.tenant', true)::bigint)"

// reads are statements without a condition on the key.
var tenantReads = []string{
	"select count(*), sum(n) from docs", "select id from docs order by id", "select n, count(*) from docs group by n order by n", "select d.id, i.id from docs d join items i on i.doc = d.id order by 1, 2",
	"select count(*) from docs d left join items i on i.doc = d.n", "select count(*) from ours", "select k.name, count(*) from docs d join kinds k on k.id = d.n % 2 group by 1 order by 1",
	"with x as (select * from docs) select count(*) from x", "select id from docs d where exists (select 1 from items where doc = d.id) order by 1", "select id from docs where n = 1 order by id for update",
	"select count(*) from docs where tenant in (1, 2, 3)", "select max(id) from (select id from docs union all select id from items) u", "select * from docs order by id limit 1",
}

// TestTenants: a statement without a condition on the shard key goes to one shard if row security says which, and
// its answer is PostgreSQL's.
func TestTenants(t *testing.T) {
	tn := newTenants(t, "tenants", "bigint")
	tn.both(docsPolicy, itemsPolicy)
	tn.roles()
	tn.both("set role tenant_app")
	tn.blocks()
	tn.ways()
	tn.functions()
	tn.unknown()
}

// roles: what policies do not concern a role, do not lead its statements.
func (tn *tenants) roles() {
	for tenant := range 3 {
		tn.doing = fmt.Sprintf("tenant %d", tenant)
		tn.both(fmt.Sprintf("set app.tenant = '%d'", tenant), "reset role")
		tn.several("select count(*) from docs", "select count(*) from ours")
		for _, role := range []string{"tenant_app", "tenant_member"} {
			tn.both("set role " + role)
			tn.one(tenantReads...)
			tn.several("select count(*) from theirs") // postgres made the view, and no policy concerns postgres
			tn.within("writes of "+role, func() {
				tn.one("update docs set n = n + 1", "update docs d set n = i.id from items i where i.doc = d.id", "delete from items where doc > 20", "delete from items i using docs d where d.id = i.doc and d.n = 2")
				tn.both("insert into docs values ("+fmt.Sprint(tenant)+", 1000)", "update docs set n = 7 where id = 1000 returning tenant, id")
				tn.one(tenantReads...)
			})
		}
		for _, role := range []string{"tenant_boss", "tenant_keeper"} {
			tn.both("set role " + role)
			tn.several("select count(*) from docs", "select count(*) from ours", "update docs set n = n")
		}
		tn.both("reset role", "alter table docs force row level security", "set role tenant_keeper")
		tn.one("select count(*) from docs", "select count(*) from ours")
		tn.several("select count(*) from items")
		tn.both("reset role", "alter table docs no force row level security", "set role tenant_keeper")
		tn.several("select count(*) from docs")
		tn.both("reset role", "alter role tenant_app bypassrls", "set role tenant_app")
		tn.several("select count(*) from docs")
		tn.both("reset role", "alter role tenant_app nobypassrls", "grant tenant_keeper to tenant_app", "set role tenant_app")
		tn.several("select count(*) from docs")
		tn.both("reset role", "revoke tenant_keeper from tenant_app", "alter table docs disable row level security", "set role tenant_app")
		tn.several("select count(*) from docs")
		tn.both("reset role", "alter table docs enable row level security")
	}
	tn.both("set row_security = off", "set role tenant_app")
	tn.same(pair.Simple, "select count(*) from docs")
	tn.both("reset row_security")
	for key := range 10 { // whichever shard joins the block first
		tn.within("role in a block", func() {
			tn.both(fmt.Sprintf("set local app.tenant = '%d'", key), "select count(*) from docs")
			tn.both("reset role", "set local role tenant_boss")
			tn.several("select count(*) from docs")
			tn.both("set local role tenant_app")
			tn.one("select count(*) from docs")
			tn.both("select set_config('role', 'tenant_boss', true)")
			tn.several("select count(*) from docs")
		})
	}
}

// blocks: the value is that which the parameter has in the block at the moment.
func (tn *tenants) blocks() {
	tn.both("set app.tenant = '1'")
	count := "select count(*), min(id) from docs"
	tn.within("set local", func() {
		tn.both("set local app.tenant = '2'")
		tn.one(count)
		tn.both("set local app.tenant to 3")
		tn.one(count, "update docs set n = 5")
		tn.both("savepoint a", "select set_config('app.tenant', '4', true)")
		tn.one(count)
		tn.both("savepoint b", "set app.tenant = '5'")
		tn.one(count)
		tn.both("rollback to b")
		tn.one(count)
		tn.both("release savepoint b", "rollback to savepoint a")
		tn.one(count)
		tn.both("release a", "reset app.tenant")
		tn.same(pair.Simple, "select count(*) from items")
	})
	tn.doing = "after a rollback"
	tn.one(count)
	tn.both("begin", "set local app.tenant = '6'", "commit")
	tn.one(count)
	tn.both("begin", "set app.tenant = '7'")
	tn.one(count)
	tn.both("commit and chain", "commit")
	tn.one(count)
	tn.both("begin", "set local app.tenant = '8'", "savepoint a")
	tn.same(pair.Simple, "select 1 / 0")
	tn.both("rollback to a")
	tn.one(count)
	tn.same(pair.Simple, "set local app.tenant = '9', '8'") // an error
	tn.both("rollback to a")
	tn.same(pair.Simple, count)
	tn.both("commit")
	tn.one(count)
	tn.both("begin", "set local app.tenant = '2'")
	for range 40 {
		tn.both("savepoint s", "release s")
	}
	tn.one(count)
	tn.both("savepoint \"S\"", "set local app.tenant = '3'", "savepoint S", "set local app.tenant = '4'", "rollback to \"S\"")
	tn.one(count)
	tn.both("commit")
	tn.doing = "several at once"
	tn.same(pair.Simple, "set local app.tenant = '3'; select count(*) from docs")
	tn.same(pair.Simple, "begin; set local app.tenant = '3'; select count(*) from docs; commit")
	tn.same(pair.Simple, "begin; select set_config('app.tenant', '3', true), set_config('app.other', 'x', true)")
	tn.one(count)
	tn.both("rollback")
}

// ways: statements that were prepared under one tenant are executed under others.
func (tn *tenants) ways() {
	text := func(s string) pair.Param { return pair.Param{Type: "text", Text: &s} }
	for _, m := range pair.Ways {
		tn.doing = "by " + string(m)
		for _, tenant := range []string{"3", "4", "9", "3"} {
			tn.both("set app.tenant = '" + tenant + "'")
			tn.same(m, "select count(*), min(id) from docs")
			tn.same(m, "select id from docs where n = $1 order by id", pair.Param{Type: "int4", Text: ptr("2")})
			tn.both("begin", "set local app.tenant = '5'")
			tn.same(m, "select count(*), min(id) from docs")
			tn.same(m, "update docs set n = $1 where id < 40 returning id", pair.Param{Type: "int4", Text: ptr("2")})
			if m != pair.BySQL && m != pair.Several {
				tn.same(m, "select set_config('app.tenant', $1, true)", text(tenant))
				tn.one("select count(*), min(id) from docs")
				tn.same(m, "select count(*), min(id) from docs")
			}
			tn.both("rollback")
			if m != pair.BySQL {
				tn.same(m, "select set_config('app.tenant', $1, false)", text("8"))
				tn.one("select count(*), min(id) from docs")
			}
		}
	}
	tn.doing = "piped"
	for _, list := range [][]pair.Query{
		{{SQL: "begin"}, {SQL: "select set_config('app.tenant', $1, true)", Set: []pair.Param{text("6")}}, {SQL: "select min(id) from docs"}, {SQL: "select set_config('app.tenant', $1, true)", Set: []pair.Param{text("7")}}, {SQL: "select min(id) from docs"}, {SQL: "commit"}},
		{{SQL: "select set_config('app.tenant', $1, true)", Set: []pair.Param{text("6")}}, {SQL: "select min(id) from docs"}, {SQL: "update docs set n = 3 where id = 6"}},
		{{SQL: "set app.tenant = '4'"}, {SQL: "select min(id) from docs"}, {SQL: "set app.tenant = '5'"}, {SQL: "select min(id) from docs"}},
		{{SQL: "begin"}, {SQL: "set local app.tenant = '4'"}, {SQL: "savepoint s"}, {SQL: "set local app.tenant = '5'"}, {SQL: "select min(id) from docs"}, {SQL: "rollback to s"}, {SQL: "select min(id) from docs"}, {SQL: "commit"}, {SQL: "select min(id) from docs"}},
		{{SQL: "set app.tenant = '4'"}, {SQL: "rollback"}, {SQL: "select min(id) from docs"}, {SQL: "select count(*) from docs where tenant in (1, 4)"}},
		{{SQL: "set local app.tenant = '4'"}, {SQL: "commit"}, {SQL: "select count(*) from docs where tenant in (1, 4)"}, {SQL: "begin"}, {SQL: "select count(*) from docs where tenant in (1, 4)"}, {SQL: "commit"}},
		{{SQL: "set app.tenant = '4'"}, {SQL: "update docs set n = 3 where id = 4"}, {SQL: "rollback"}, {SQL: "update docs set n = 5 where id = 1"}, {SQL: "select count(*) from docs where tenant in (1, 4)"}},
		{{SQL: "begin"}, {SQL: "set local app.tenant = '4', '5'"}, {SQL: "select min(id) from docs"}},
	} {
		got, want := tn.Weft.Pipeline(list, nil), tn.Plain.Pipeline(list, nil)
		if len(got) != len(want) {
			tn.t.Errorf("%v: %+v\nPostgreSQL: %+v", list, got, want)
			continue
		}
		for i := range got {
			if wrong := pair.Diff(want[i], got[i], true); wrong != "" {
				tn.t.Errorf("%v: %d: %s\nPostgreSQL: %+v\nweft: %+v", list, i, wrong, want[i], got[i])
			}
		}
		tn.both("rollback", "set app.tenant = '1'")
	}
	tn.doing = "piped behind set_config that no other shard can repeat"
	for _, sql := range []string{"select set_config('app.tenant', '2', true), count(*) from docs where tenant = 1", "select set_config('app.tenant', '2', true) from docs where tenant = 1"} {
		got := tn.Weft.Pipeline([]pair.Query{{SQL: sql}, {SQL: "select count(*) from docs where tenant in (1, 2, 3)"}}, nil)
		if len(got) != 2 || got[0].Code != "" || !got[1].Refused() {
			tn.t.Errorf("%s: %s: %+v", tn.doing, sql, got)
		}
		tn.one("select count(*), min(id) from docs")
	}
	tn.within("cursors", func() {
		tn.both("set local app.tenant = '4'", "declare c cursor for select id from docs order by id", "fetch 2 from c", "declare d cursor for select n from docs order by id", "set local app.tenant = '5'", "fetch all from c")
		tn.one("select min(id) from docs")
		tn.both("close c")
	})
}

// functions: what a function has set, weft does not know.
func (tn *tenants) functions() {
	tn.both("reset role", "create function becomes(t text) returns text language sql as $$ select set_config('app.tenant', t, true) $$",
		"create function turns(t text) returns text language plpgsql as $$ begin execute 'select set_config(''app.tenant'', ''' || t || ''', false)'; return t; end $$",
		"create function plainly() returns text language sql stable as $$ select current_setting('app.tenant') $$", "grant create on schema public to tenant_app", "set role tenant_app")
	count := "select count(*), min(id) from docs"
	tn.within("a function", func() {
		tn.both("set local app.tenant = '3'", "select becomes('4')")
		tn.several(count)
		tn.both("set local app.tenant = '5'")
		tn.same(pair.Simple, count)
		tn.both("select turns('6')")
		tn.same(pair.Simple, count)
	})
	tn.doing = "functions outside"
	tn.both("set app.tenant = '2'", "select becomes('4')")
	tn.one(count)
	tn.both("select turns('6')")
	tn.one(count)
	tn.one("select count(*), plainly() from docs")
	tn.same(pair.Simple, "select count(becomes('7')), min(id) from docs")
	tn.doing = "set_config for each row"
	for _, sql := range []string{
		"select set_config('app.tenant', '7', true) from docs", "select count(set_config('app.tenant', '7', true)) from docs", "select id from docs where set_config('app.tenant', '7', true) = '7' order by id",
		"select id, (select set_config('app.tenant', '7', true)) from docs where tenant between 1 and 7 order by id",
	} {
		for _, m := range pair.Modes {
			if wrong, want, got := tn.Run(m, sql, nil); !got.Refused() {
				tn.t.Errorf("%s: %s (%s) is not refused: %s\nPostgreSQL: %+v\nweft: %+v", tn.doing, sql, m, wrong, want, got)
			}
		}
	}
	tn.same(pair.Simple, "select set_config('app.tenant', '7', true), id from docs where tenant = 7")
	tn.one(count)
	tn.within("do", func() {
		tn.both("do $$ begin perform set_config('app.tenant', '7', true); end $$")
		tn.same(pair.Simple, count)
	})
	tn.within("do over sharded tables", func() {
		tn.both("do $$ declare m int; begin perform set_config('app.tenant', '7', true); select min(id) into m from docs; update docs set n = m; set local app.tenant = '8'; update docs set n = 3; end $$")
		tn.same(pair.Simple, count)
		tn.both("reset role")
		tn.same(pair.Simple, "select tenant, sum(n) from docs group by 1 order by 1")
	})
	tn.both("reset role", "drop function becomes", "drop function turns", "set role tenant_app", "discard all", "set role tenant_app")
}

// unknown: without a value that is one of the key, statements go where they would go without policies, and the
// errors are PostgreSQL's.
func (tn *tenants) unknown() {
	tn.doing = "unknown"
	tn.same(pair.Simple, "select count(*) from docs")
	tn.same(pair.Simple, "select count(*) from items")
	for _, bad := range []string{"", "x", "99999999999999999999", "1.5", " 3 ", "3\u00a0", "NULL", "0x3", "-1"} {
		tn.doing = "app.tenant is " + bad
		tn.both("set app.tenant = '" + bad + "'")
		tn.same(pair.Simple, "select count(*) from docs")
		tn.same(pair.Simple, "select count(*) from items")
		tn.same(pair.Simple, "update docs set n = 1")
		tn.both("begin", "set local app.tenant = '3'")
		tn.one("select count(*) from docs")
		tn.both("rollback")
	}
	tn.both("reset app.tenant")
	tn.same(pair.Simple, "select count(*) from items")
	tn.both("reset role", "set app.tenant = '3'", "discard all", "set role tenant_app")
	tn.same(pair.Simple, "select count(*) from docs")
}

// TestTenantPolicies: which policies lead to one shard, and for which commands.
func TestTenantPolicies(t *testing.T) {
	for _, key := range []string{"bigint", "uuid", "text"} {
		t.Run(key, func(t *testing.T) {
			tn := newTenants(t, "tenant_"+key, key)
			value := map[string]string{"bigint": "%d", "uuid": "00000000-0000-0000-0000-00000000000%d", "text": "t%d"}[key]
			cast := map[string]string{"bigint": "::bigint", "uuid": "::uuid", "text": ""}[key]
			for _, test := range []struct {
				policies     string // separated by semicolons; $ is the cast
				read, change bool
			}{
				{"using (tenant = current_setting('app.tenant')$)", true, true},
				{"using (current_setting('App.Tenant', true)$ = tenant)", true, true},
				{"using (tenant = (select current_setting('app.tenant')$))", true, true},
				{"using (tenant = (select current_setting('app.tenant'))$)", true, true},
				{"using (tenant = nullif(current_setting('app.tenant', true), '')$)", true, true},
				{"using (tenant = cast(current_setting('app.tenant') as " + key + ") and n >= 0)", true, true},
				{"for select using (tenant = current_setting('app.tenant')$);for update using (true);for delete using (true)", true, false},
				{"for select using (true);for update using (tenant = current_setting('app.tenant')$);for delete using (tenant = current_setting('app.tenant')$)", false, true},
				{"using (tenant = current_setting('app.tenant')$) with check (true)", true, true},
				{"to tenant_app using (tenant = current_setting('app.tenant')$)", true, true},
				{"to tenant_app using (tenant = current_setting('app.tenant')$);using (n >= 0)", false, false},
				{"to tenant_boss using (true);using (tenant = current_setting('app.tenant')$)", true, true},
				{"to tenant_boss using (tenant = current_setting('app.tenant')$);using (n > 1)", false, false},
				{"using (tenant = current_setting('app.tenant')$);using (tenant = current_setting('app.other')$)", false, false},
				{"using (tenant = current_setting('app.tenant')$);using (tenant = (select current_setting('app.tenant')$) and n > 2)", true, true},
				{"using (true);as restrictive using (tenant = current_setting('app.tenant')$)", true, true},
				{"using (true);as restrictive to tenant_boss using (tenant = current_setting('app.tenant')$)", false, false},
				{"using (true);as restrictive for select using (tenant = current_setting('app.tenant')$)", true, false},
				{"as restrictive using (tenant = current_setting('app.tenant')$)", true, true},
				{"using (tenant = current_setting('app.tenant')$ or n = 1)", false, false},
				{"using (not tenant = current_setting('app.tenant')$)", false, false},
				{"using (tenant >= current_setting('app.tenant')$)", false, false},
				{"using (tenant = coalesce(current_setting('app.tenant'), '')$)", false, false},
				{"using (tenant::text = current_setting('app.tenant'))", key == "text", key == "text"},
				{"using (id = current_setting('app.id')::int)", false, false},
				{"for insert with check (tenant = current_setting('app.tenant')$);using (true)", false, false},
			} {
				tn.doing = key + ": " + test.policies
				for i, p := range strings.Split(strings.ReplaceAll(test.policies, "$", cast), ";") {
					tn.both(fmt.Sprintf("create policy p%d on docs %s", i, p))
				}
				tn.both("set role tenant_app", "set app.other = '"+fmt.Sprintf(value, 4)+"'", "set app.id = '12'")
				for tenant := range 3 {
					tn.both("set app.tenant = '" + fmt.Sprintf(value, tenant) + "'")
					tn.ask(test.read, []string{"select count(*), min(id) from docs", "select count(*) from ours", "select d.id from docs d join kinds k on k.id = d.n order by 1"})
					tn.both("begin")
					tn.ask(test.change, []string{"update docs set n = n where id > 10", "delete from docs where id > 70"})
					tn.both("rollback")
				}
				tn.both("reset role")
				for i := range strings.Split(test.policies, ";") {
					tn.both(fmt.Sprintf("drop policy p%d on docs", i))
				}
			}
		})
	}
}

// TestTenantElsewhere: what another proxy does to policies counts at once, and EXPLAIN says what a policy leads to.
func TestTenantElsewhere(t *testing.T) {
	tn := newTenants(t, "tenant_two", "bigint")
	two := second(t, "r_tenant_two")
	tn.both(docsPolicy, "set app.tenant = '3'", "set role tenant_app")
	both := func(sql string) { // by the other proxy
		t.Helper()
		two.Must(t, sql)
		if a := tn.Plain.Ask(pair.Simple, "reset role", nil, nil); a.Code != "" {
			t.Fatal(a.Message)
		}
		if a := tn.Plain.Ask(pair.Simple, sql+"; set role tenant_app", nil, nil); a.Code != "" {
			t.Fatalf("%s: %s", sql, a.Message)
		}
		tn.doing = "after " + sql
	}
	count := "select count(*), min(id) from docs"
	asks := func(one bool) {
		t.Helper()
		tn.ask(one, []string{count})
		tn.same(pair.Prepared, count)
	}
	asks(true)
	for _, change := range []string{"alter policy p on docs using (tenant = current_setting('app.tenant')::bigint or n = 2)", "drop policy p on docs", "create policy q on docs using (true)"} {
		both(change)
		asks(false)
	}
	both("create policy r on docs as restrictive using (tenant = current_setting('app.tenant')::bigint)")
	asks(true)
	both("alter table docs disable row level security")
	asks(false)
	both("alter table docs enable row level security")
	asks(true)
	both("alter role tenant_app bypassrls")
	tn.several(count) // PostgreSQL keeps the plan of a prepared statement
	both("alter role tenant_app nobypassrls")
	tn.one(count)
	saysSo(t, "r_tenant_two")
}

// saysSo: EXPLAIN tells the policy and the shard.
func saysSo(t *testing.T, db string) {
	config, err := pgx.ParseConfig(harness.Weft(t).ConnString("postgres", "dbname="+db))
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { told = append(told, n.Message) }
	c, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, sql := range []string{"set role tenant_app", "set app.tenant = '3'", "select count(*) from docs", "explain select count(*) from docs"} {
		if _, err := c.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], `in docs tenant = app.tenant, by policy "r"`) || !strings.Contains(told[0], `row security leads to shard "`) {
		t.Errorf("EXPLAIN says %q", told)
	}
}
