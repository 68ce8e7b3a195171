package routing

import (
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestAuditTriggers: the ways in which audit triggers name the key of their row.
func TestAuditTriggers(t *testing.T) {
	db := database(t, "audit")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table tasks (tenant int, id int, n int default 0, primary key (tenant, id))", "create table log (tenant int not null, id uuid default gen_random_uuid(), op text)",
		"create table numbered (tenant int not null, id bigserial, op text)", "create table other (id int primary key, n int)", "create table lo (id int)",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('tasks', 'tenant')", "select weft.shard_table('log', 'tenant')", "select weft.shard_table('numbered', 'tenant')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	for name, test := range map[string]struct{ body, refused string }{
		"coalesced":   {"begin insert into log (tenant, op) values (coalesce(new.tenant, old.tenant), tg_op); return null; end", ""},
		"turned":      {"begin insert into log (tenant, op) select coalesce(old.tenant, new.tenant), tg_op; return null; end", ""},
		"declared":    {"declare x int := coalesce(new.tenant, old.tenant); begin insert into log (tenant, op) values (x, tg_op); return null; end", ""},
		"assigned":    {"declare x int; begin x := coalesce(new.tenant, old.tenant); insert into log (tenant, op) values (x, tg_op); return null; end", ""},
		"branched":    {"declare x int; begin if tg_op = 'DELETE' then x := old.tenant; else x := new.tenant; end if; insert into log (tenant, op) values (x, tg_op); return null; end", ""},
		"counted":     {"declare x int := coalesce(new.tenant, old.tenant); begin update log set op = op || '.' where log.tenant = x; return null; end", ""},
		"wrong":       {"declare x int := coalesce(new.id, old.id); begin insert into log (tenant, op) values (x, tg_op); return null; end", "other shards"},
		"mixed":       {"begin insert into log (tenant, op) values (coalesce(new.tenant, old.id), tg_op); return null; end", "other shards"},
		"overwritten": {"declare x int := new.tenant; begin x := x + 1; insert into log (tenant, op) values (x, tg_op); return null; end", "other shards"},
		"selected":    {"declare x int := new.tenant; begin select 7 into x; insert into log (tenant, op) values (x, tg_op); return null; end", "other shards"},
		"draws":       {"begin insert into numbered (tenant, op) values (coalesce(new.tenant, old.tenant), tg_op); return null; end", ""},
	} {
		p.Both(t, name, "create function "+name+"() returns trigger language plpgsql as $$ "+test.body+" $$")
		a, _ := tryBoth(p, "create trigger tr after insert or update or delete on tasks for each row execute function "+name+"()")
		if a.Refused() != (test.refused != "") || !strings.Contains(a.Message, test.refused) {
			t.Errorf("%s: %q %s, want %q", name, a.Code, a.Message, test.refused)
		}
		if a.Code != "" {
			continue
		}
		for _, sql := range []string{
			"insert into tasks select g % 5, g from generate_series(1, 20) g", "insert into tasks values (7, 1), (8, 1)", "update tasks set n = n + 1 where tenant = 3", "update tasks set n = n + 1",
			"select tenant, op, count(*) from log group by 1, 2 order by 1, 2", "select count(*) from log where tenant = 3", "delete from tasks where tenant = 2", "delete from tasks",
			"select tenant, op, count(*) from log group by 1, 2 order by 1, 2", "select count(*) from log where tenant = 2",
		} {
			if wrong, want, got := p.Run(pair.Simple, sql, nil); wrong != "" || got.Code != "" {
				t.Errorf("%s: %s: %s\nPostgreSQL: %+v\nweft: %+v", name, sql, wrong, want, got)
			}
		}
		p.Both(t, name, "drop trigger tr on tasks")
	}
	declareRefused(t, p)
}

// declareRefused: a table is not declared if afterwards its statements would be refused, and
// all reasons are told at once.
func declareRefused(t *testing.T, p *pair.Pair) {
	for _, sql := range []string{
		"create function touches() returns trigger language plpgsql as $$ begin insert into numbered (tenant, op) values (new.n, 'x'); return new; end $$",
		"create function computed() returns trigger language plpgsql as $$ declare q text := 'select'; begin execute q || ' 1'; return new; end $$",
		"create function sees(x int) returns bool language sql as $$ select exists (select 1 from tasks where n = x) $$",
		"create trigger a after insert on other for each row execute function touches()",
		"create trigger b before insert on other for each row execute function computed()",
		"alter table other add constraint c check (n is null or sees(n))",
		"create policy p on other using (exists (select 1 from tasks where tasks.n = other.n))", "alter table other enable row level security",
	} {
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); a.Code != "" {
			t.Logf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	for _, sql := range []string{"select weft.shard_table('other', 'id')", "select weft.reference_table('other')"} {
		a := p.Weft.Ask(pair.Simple, sql, nil, nil)
		if !a.Refused() || !strings.Contains(a.Message, "more obstacles") {
			t.Errorf("%s: %q %s", sql, a.Code, a.Message)
		}
	}
}
