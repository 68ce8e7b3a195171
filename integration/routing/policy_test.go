package routing

import (
	"strings"
	"testing"
	"time"

	"weft/integration/pair"
)

// TestPolicies: row-security policies that read other tables let the same rows pass as in
// PostgreSQL, or are refused when they are made.
func TestPolicies(t *testing.T) {
	db := database(t, "policies")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table docs (tenant int, id int, owner int, n int default 0, primary key (tenant, id))", "create table members (tenant int, uid int, primary key (tenant, uid))",
		"create table plans (id int primary key)", "create table lo (id int primary key)", "create table notes (id int primary key, owner int)",
		"insert into docs select g % 7, g, g % 5 from generate_series(1, 60) g", "insert into members select t, u from generate_series(0, 6) t, generate_series(0, 4) u where (t + u) % 3 = 0",
		"insert into plans values (1), (3)", "insert into lo values (1), (2)", "insert into notes select g, g % 5 from generate_series(1, 20) g",
		"create function cur() returns int language plpgsql as $$ begin return current_setting('app.uid')::int; end $$",
		"create function late(x int) returns bool language sql as $$ select x > 2 $$",
		"drop role if exists policy_reader", "drop role if exists policy_boss", "create role policy_reader", "create role policy_boss bypassrls",
		"grant all on docs, members, plans, lo, notes to policy_reader, policy_boss",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('docs', 'tenant')", "select weft.shard_table('members', 'tenant')", "select weft.reference_table('plans')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	for _, sql := range []string{
		"create view theirs as select * from docs", "create view ours with (security_invoker) as select * from docs", "create view circle as select * from members", "grant all on theirs, ours, circle to policy_reader, policy_boss",
		"alter table docs enable row level security", "alter table notes enable row level security", "set app.uid = '3'",
	} {
		p.Both(t, "setup", sql)
	}
	asks := []string{
		"select count(*) from docs", "select id from docs where tenant = 3 order by id", "select tenant, count(*) from docs group by tenant order by 1", "select sum(owner) from docs d join lo on lo.id = d.owner",
		"select count(*) from theirs", "select count(*) from ours", "select count(*) from ours o join members m on m.tenant = o.tenant and m.uid = o.owner",
		"update docs set n = n + 1 where tenant = 3", "update docs set n = n + 1", "insert into docs values (3, 1000, 0), (4, 1001, 2) returning n", "insert into docs (tenant, id, owner) values (1, 1002, 3)",
		"insert into docs select tenant, id + 2000, owner from docs where owner = 2", "delete from docs where owner = 1 returning tenant", "select id from docs where tenant = 2 order by id for update",
		"merge into docs d using (values (3, 1000)) s(t, i) on d.tenant = s.t and d.id = s.i when matched then update set n = 5",
		"select (select count(*) from docs d where d.tenant = m.tenant) from members m order by m.tenant, m.uid", "with x as (select * from docs) select count(*) from x", "select exists (select 1 from docs where owner = 4)",
	}
	for _, test := range []struct {
		policy  string
		refused bool
	}{
		{"on docs using (exists (select 1 from members m where m.tenant = docs.tenant and m.uid = docs.owner))", false},
		{"on docs using (not exists (select 1 from members m where m.tenant = docs.tenant and m.uid = docs.owner))", false},
		{"on docs using (owner in (select m.uid from members m where m.tenant = docs.tenant))", false},
		{"on docs using (owner not in (select m.uid from members m where tenant = docs.tenant)) with check (true)", false},
		{"on docs using (exists (select 1 from circle c where c.tenant = docs.tenant and c.uid = docs.owner))", false},
		{"on docs using (exists (select 1 from plans where plans.id = docs.owner))", false},
		{"on docs using (owner = cur())", false},
		{"on docs using (exists (select 1 from members m where m.tenant = docs.tenant and m.uid = cur()))", false},
		{"on docs for select using (tenant = 3)", false},
		{"on docs using (exists (select 1 from members m where m.uid = docs.owner))", true},
		{"on docs using (not exists (select 1 from members m where m.uid = docs.owner))", true},
		{"on docs using (exists (select 1 from members m where m.tenant = docs.owner))", true},
		{"on docs using (exists (select 1 from members m where m.tenant = docs.tenant or m.uid = docs.owner))", true},
		{"on docs using (tenant > 2 or owner < (select max(uid) from members))", true},
		{"on docs using (true) with check (exists (select 1 from members where uid = owner))", true},
		{"on docs using (exists (select 1 from lo where lo.id = docs.owner))", true},
		{"on docs using (exists (select 1 from circle c where c.uid = docs.owner))", true},
		{"on notes using (exists (select 1 from docs d where d.owner = notes.owner))", true},
		{"on notes using (exists (select 1 from lo where lo.id = notes.owner))", false},
		{"on plans using (exists (select 1 from docs where owner = plans.id))", true},
	} {
		sql := "create policy p " + test.policy
		made, _ := tryBoth(p, sql)
		if made.Refused() != test.refused || made.Code != "" && !made.Refused() {
			t.Errorf("%s: %q %s", sql, made.Code, made.Message)
		}
		if made.Code != "" {
			continue
		}
		for _, role := range []string{"policy_reader", "policy_boss"} {
			p.Both(t, "role", "set role "+role)
			for _, ask := range append(asks, "select count(*) from notes") {
				p.Both(t, "begin", "begin")
				if wrong, want, got := p.Run(pair.Simple, ask, nil); wrong != "" {
					t.Errorf("%s, as %s: %s: %s\nPostgreSQL: %+v\nweft: %+v", sql, role, ask, wrong, want, got)
				} else if got.Refused() && strings.Contains(got.Message, "policy") {
					t.Errorf("%s, as %s: %s: %s", sql, role, ask, got.Message)
				}
				p.Weft.Ask(pair.Simple, "rollback", nil, nil)
				p.Plain.Ask(pair.Simple, "rollback", nil, nil)
			}
			p.Both(t, "role", "reset role")
		}
		p.Both(t, "drop", "drop policy p "+strings.Join(strings.Fields(test.policy)[:2], " "))
	}
	lateFunction(t, p)
	for _, sql := range []string{"drop owned by policy_reader, policy_boss", "drop role policy_reader", "drop role policy_boss"} {
		p.Both(t, "end", sql)
	}
}

// lateFunction: a policy calls a function that comes to read sharded tables afterwards.
// Whom it concerns is refused, others are not.
func lateFunction(t *testing.T, p *pair.Pair) {
	for _, sql := range []string{
		"create policy p on docs using (late(owner))", "create policy p on notes using (late(owner))",
		"create or replace function late(x int) returns bool language sql as $$ select exists (select 1 from members where uid = x) $$",
	} {
		p.Both(t, "late", sql)
	}
	for _, test := range []struct {
		role, sql string
		refused   bool
	}{
		{"policy_reader", "select count(*) from docs", true},
		{"policy_reader", "select count(*) from docs where tenant = 3", true},
		{"policy_reader", "select count(*) from ours", true},
		{"policy_reader", "select count(*) from theirs", false},
		{"policy_reader", "update docs set n = 1", true},
		{"policy_reader", "copy docs to stdout", true},
		{"policy_reader", "explain select * from docs", true},
		{"policy_reader", "select count(*) from notes", true},
		{"policy_reader", "select count(*) from members", false},
		{"policy_boss", "select count(*) from docs", false},
		{"policy_boss", "select count(*) from notes", false},
		{"none", "select count(*) from docs", false},
	} {
		p.Both(t, "role", "set role "+test.role)
		wrong, _, got := p.Run(pair.Simple, test.sql, nil)
		if wrong != "" || got.Refused() != test.refused {
			t.Errorf("as %s: %s: %s %q %s", test.role, test.sql, wrong, got.Code, got.Message)
		}
		p.Both(t, "role", "reset role")
	}
	roleElsewhere(t, p)
}

// roleElsewhere: what a role may do is changed from another database, and counts a second
// later.
func roleElsewhere(t *testing.T, p *pair.Pair) {
	p.Both(t, "role", "set role policy_boss")
	p.Both(t, "role", "prepare counted as select count(*) from docs")
	p.Both(t, "role", "execute counted")
	elsewhere := newPair(t, "postgres")
	elsewhere.Both(t, "elsewhere", "alter role policy_boss nobypassrls")
	time.Sleep(1200 * time.Millisecond)
	for _, sql := range []string{"select count(*) from docs", "select count(*) from docs where tenant = 3", "execute counted"} {
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); !a.Refused() {
			t.Errorf("%s: %q %s", sql, a.Code, a.Message)
		}
	}
	elsewhere.Both(t, "elsewhere", "alter role policy_boss bypassrls")
	time.Sleep(1200 * time.Millisecond)
	p.Both(t, "role", "execute counted")
	p.Both(t, "role", "reset role")
}
