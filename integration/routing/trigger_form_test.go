package routing

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/pair"
)

// triggerForm is a way of writing an audit trigger. args are the arguments of the trigger, refused is what a refusal says.
type triggerForm struct {
	name, declare, body, args, refused string
}

var triggerForms = []triggerForm{
	{name: "coalesce", body: "insert into log (tenant, op, doc) values (coalesce(new.tenant, old.tenant), tg_op, to_jsonb(coalesce(new, old)))"},
	{name: "branches", body: "if tg_op = 'DELETE' then insert into log (tenant, op) values (old.tenant, tg_op); return old; elsif tg_op = 'UPDATE' then insert into log (tenant, op) values (new.tenant, tg_op); else insert into log (tenant, op) values (new.tenant, tg_op); end if"},
	{name: "variable", declare: "t int;", body: "t := coalesce(new.tenant, old.tenant); insert into log (tenant, op) values (t, tg_op)"},
	{name: "variable by branch", declare: "t int;", body: "if tg_op = 'DELETE' then t := old.tenant; else t := new.tenant; end if; insert into log (tenant, op) values (t, tg_op)"},
	{name: "case", body: "insert into log (tenant, op) values (case when tg_op = 'DELETE' then old.tenant else new.tenant end, tg_op)"},
	{name: "case of", body: "insert into log (tenant, op) values (case tg_op when 'DELETE' then old.tenant when 'INSERT' then new.tenant else new.tenant end, tg_op)"},
	{name: "case variable", declare: "t int := case when tg_op = 'DELETE' then old.tenant else new.tenant end;", body: "insert into log (tenant, op) values (t, tg_op)"},
	{name: "record", declare: "r record;", body: "if tg_op = 'DELETE' then r := old; else r := new; end if; insert into log (tenant, op, doc) values (r.tenant, tg_op, to_jsonb(r))"},
	{name: "record coalesce", declare: "r record;", body: "r := coalesce(new, old); insert into log (tenant, op) values (r.tenant, tg_op)"},
	{name: "row type", declare: "r tasks%rowtype;", body: "r := coalesce(new, old); insert into log (tenant, op) values (r.tenant, tg_op)"},
	{name: "row type name", declare: "r tasks := coalesce(new, old);", body: "insert into log (tenant, op) values (r.tenant, tg_op)"},
	{name: "coalesce field", body: "insert into log (tenant, op) values ((coalesce(new, old)).tenant, tg_op)"},
	{name: "new in parentheses", body: "if tg_op <> 'DELETE' then insert into log (tenant, op) values ((new).tenant, tg_op); end if"},
	{name: "of type", declare: "t tasks.tenant%type := coalesce(new.tenant, old.tenant);", body: "insert into log (tenant, op) values (t, tg_op)"},
	{name: "select into", declare: "t int;", body: "select coalesce(new.tenant, old.tenant) into t; insert into log (tenant, op) values (t, tg_op)"},
	{name: "variable of variable", declare: "t int; u int;", body: "t := coalesce(new.tenant, old.tenant); u := t; insert into log (tenant, op) values (u, tg_op)"},
	{name: "inner block", declare: "t int;", body: "t := coalesce(new.tenant, old.tenant); declare w text; begin w := tg_op; insert into log (tenant, op) values (t, w); end"},
	{name: "exception block", declare: "t int;", body: "t := coalesce(new.tenant, old.tenant); begin insert into log (tenant, op) values (t, tg_op); exception when unique_violation then null; end"},
	{name: "cast", body: "insert into log (tenant, op) values (coalesce(new.tenant, old.tenant)::int, tg_op)"},
	{name: "cast wider", declare: "t bigint := coalesce(new.tenant, old.tenant)::bigint;", body: "insert into log (tenant, op) values (t, tg_op)"},
	{name: "changed before", body: "if tg_op = 'UPDATE' and new.v is distinct from old.v then insert into log (tenant, op, doc) select new.tenant, 'changed', jsonb_build_object('old', old.v, 'new', new.v); end if"},
	{name: "upsert", body: "insert into counted (tenant, n) values (coalesce(new.tenant, old.tenant), 1) on conflict (tenant) do update set n = counted.n + 1"},
	{name: "update if found", body: "update counted set n = n + 1 where tenant = coalesce(new.tenant, old.tenant); if not found then insert into counted (tenant, n) values (coalesce(new.tenant, old.tenant), 1); end if"},
	{name: "json key", body: "insert into log (tenant, op, doc) values ((to_jsonb(coalesce(new, old)) ->> 'tenant')::int, tg_op, to_jsonb(coalesce(new, old)))"},
	{name: "json variable", declare: "j jsonb := to_jsonb(coalesce(new, old));", body: "insert into log (tenant, op, doc) values ((j ->> 'tenant')::int, tg_op, j)"},
	{name: "loop of changes", declare: "r record; n jsonb; o jsonb;", body: "if tg_op = 'UPDATE' then n := to_jsonb(new); o := to_jsonb(old); for r in select key, value from jsonb_each(n) loop if o -> r.key is distinct from r.value then insert into log (tenant, op, doc) values (new.tenant, r.key, r.value); end if; end loop; end if"},
	{name: "arguments", args: "'was', 'x'", body: "insert into log (tenant, op, doc) values (coalesce(new.tenant, old.tenant), tg_argv[0], to_jsonb(tg_nargs))"},
	{name: "argument table", args: "'log'", body: "execute format('insert into %I (tenant, op) values ($1, $2)', tg_argv[0]) using coalesce(new.tenant, old.tenant), tg_op"},
	{name: "argument column", args: "'tenant'", body: "insert into log (tenant, op) values ((to_jsonb(coalesce(new, old)) ->> tg_argv[0])::int, tg_op)"},
	{name: "execute constant", body: "execute 'insert into log (tenant, op) values ($1, $2)' using coalesce(new.tenant, old.tenant), tg_op"},
	{name: "execute table name", body: "execute format('insert into %I (tenant, op) values ($1, $2)', tg_table_name || '_log') using coalesce(new.tenant, old.tenant), tg_op"},
	{name: "execute schema", body: "execute 'insert into ' || quote_ident(tg_table_schema) || '.' || quote_ident(tg_table_name || '_log') || ' (tenant, op) values ($1.tenant, $2)' using coalesce(new, old), tg_op"},
	{name: "execute row", body: "execute format('insert into %I.%I select $2, ($1).*', tg_table_schema, tg_relname || '_history') using coalesce(new, old), tg_op"},
	{name: "execute variable", declare: "q text;", body: "q := format('insert into %I (tenant, op) values ($1, $2)', tg_table_name || '_log'); execute q using coalesce(new.tenant, old.tenant), tg_op"},
	{name: "execute literal", body: "execute format('insert into %I (tenant, op) values (%L, %L)', tg_table_name || '_log', coalesce(new.tenant, old.tenant), tg_op)"},
	{name: "serial", body: "insert into numbered (tenant, op) values (coalesce(new.tenant, old.tenant), tg_op)"},
	{name: "identity", body: "insert into always (tenant, op) values (coalesce(new.tenant, old.tenant), tg_op)"},
	{name: "nextval", refused: "numbered", body: "insert into numbered (id, tenant, op) values (nextval('numbered_id_seq'), coalesce(new.tenant, old.tenant), tg_op)"},
	{name: "returning", declare: "i bigint;", body: "insert into numbered (tenant, op) values (coalesce(new.tenant, old.tenant), tg_op) returning id into i; insert into log (tenant, op) values (coalesce(new.tenant, old.tenant), 'numbered')"},
	{name: "perform function", refused: "log", body: "perform note(coalesce(new.tenant, old.tenant), tg_op)"},
	{name: "other key", refused: `"log"`, body: "insert into log (tenant, op) values (coalesce(new.tenant, old.tenant) + 1, tg_op)"},
	{name: "other column", refused: `"log"`, body: "insert into log (tenant, op) values (coalesce(new.id, old.id), tg_op)"},
	{name: "computed text", refused: "cannot be looked into", body: "execute 'insert into log (tenant, op) values (' || coalesce(new.id, old.id) || ', 1)'"},
	{name: "parameter", refused: `"log"`, body: "execute 'insert into log (tenant, op) values ($1, $2)' using coalesce(new.id, old.id), tg_op"},
	{name: "rounded", declare: "x real := coalesce(new.tenant, old.tenant);", refused: `"log"`, body: "insert into log (tenant, op) values (x, tg_op)"},
	{name: "shadowed", declare: "x int := coalesce(new.tenant, old.tenant);", refused: `"log"`, body: "declare x int := 7; begin insert into log (tenant, op) values (x, tg_op); end"},
	{name: "another table", refused: "cannot be looked into", body: "execute format('insert into %I (tenant, op) values ($1, $2)', coalesce(new.v, 'log')) using coalesce(new.tenant, old.tenant), tg_op"},
	{name: "no key", refused: `"loose"`, body: "insert into loose (tenant, op) values (old.tenant, tg_op)"},
	{name: "no key perhaps", declare: "x int;", refused: `"loose"`, body: "if coalesce(new.v, old.v) = 'a' then x := coalesce(new.tenant, old.tenant); end if; insert into loose (tenant, op) values (x, tg_op)"},
	{name: "loose coalesce", body: "insert into loose (tenant, op) values (coalesce(new.tenant, old.tenant), tg_op)"},
	{name: "loose branches", body: "if tg_op = 'DELETE' then insert into loose (tenant, op) values (old.tenant, tg_op); return old; end if; insert into loose (tenant, op) values (new.tenant, tg_op)"},
	{name: "loose variable", declare: "x int;", body: "case tg_op when 'DELETE' then x := old.tenant; else x := new.tenant; end case; insert into loose (tenant, op) values (x, tg_op)"},
}

// TestTriggerForms: audit triggers as people write them do what they do in PostgreSQL, or are refused with the line that is the cause.
// The function is replaced under its trigger, so each statement is judged by the body of the moment.
func TestTriggerForms(t *testing.T) {
	db := database(t, "trigger_forms")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table tasks (tenant int, id int, v text, primary key (tenant, id))",
		"create table log (tenant int not null, op text, doc jsonb)", "create table tasks_log (tenant int not null, op text, doc jsonb)",
		"create table loose (tenant int, op text)", "create table tasks_history (op text, tenant int not null, id int, v text)",
		"create table counted (tenant int primary key, n int)",
		"create table numbered (id bigserial primary key, tenant int not null, op text)",
		"create table always (id bigint generated always as identity primary key, tenant int not null, op text)",
		"create function note(t int, o text) returns void language plpgsql as $$ begin insert into log (tenant, op) values (t, o); end $$",
		"create function tf() returns trigger language plpgsql as $$ begin return new; end $$",
		"create trigger t after insert or update or delete on tasks for each row execute function tf()",
	} {
		p.Both(t, "setup", sql)
	}
	for _, name := range []string{"tasks", "log", "tasks_log", "loose", "tasks_history", "counted", "numbered", "always"} {
		declare(t, p, pair.Statement{SQL: fmt.Sprintf("select weft.shard_table('%s', 'tenant')", name)})
	}
	for _, f := range triggerForms {
		p.Both(t, f.name, "create or replace function tf() returns trigger language plpgsql as $$\ndeclare "+f.declare+"\nbegin\n  "+f.body+";\n  return coalesce(new, old);\nend $$")
		if f.args != "" {
			p.Both(t, f.name, "drop trigger t on tasks")
			p.Both(t, f.name, "create trigger t after insert or update or delete on tasks for each row execute function tf("+f.args+")")
		}
		for i, sql := range []string{
			"insert into tasks select g, 1, 'a' from generate_series(1, 6) g", "update tasks set v = v || 'b' where tenant in (2, 3)", "insert into tasks values (4, 1, 'c'), (9, 9, 'd') on conflict (tenant, id) do update set v = excluded.v",
			"merge into tasks using (values (5, 1), (5, 2)) w (t, i) on tasks.tenant = w.t and tasks.id = w.i when matched then delete when not matched then insert values (5, w.i, 'm')", "delete from tasks",
		} {
			wrong, _, got := p.Run([]pair.Mode{pair.Simple, pair.Prepared}[i%2], sql, nil)
			if wrong != "" || got.Refused() != (f.refused != "") || !strings.Contains(got.Message, f.refused) {
				t.Errorf("%s: %s: %s%s", f.name, sql, wrong, got.Message)
			}
			if f.refused != "" {
				break
			}
		}
	}
	pair.SameTables(t, db, map[string]bool{"id": true})
	pair.Verified(t, p.Weft.Conn)
}

// TestTriggerLine: a refusal names the line of the function, when a trigger is made, when a table is declared and when rows are
// written. A function that is good again is judged again. COPY and blocks set triggers off as well.
func TestTriggerLine(t *testing.T) {
	db := database(t, "trigger_line")
	p := newPair(t, db)
	const good, bad = "insert into log values (coalesce(new.tenant, old.tenant), tg_op);", "insert into log\n  values (new.id, tg_op);"
	function := func(body string) string {
		return "create or replace function tf() returns trigger language plpgsql as $$\nbegin\n  perform 1;\n  " + body + "\n  return null;\nend $$"
	}
	const trigger = "create trigger t after insert or delete on tasks for each row execute function tf()"
	detail := func(sql string) {
		t.Helper()
		var e *pgconn.PgError
		if _, err := p.Weft.Conn.Exec(t.Context(), sql).ReadAll(); !errors.As(err, &e) || e.Code != "0A000" || e.Detail != "Line 4 of the function: insert into log values (new.id, tg_op)" {
			t.Errorf("%s: %v %v", sql, err, e)
		}
	}
	for _, sql := range []string{"create table tasks (tenant int, id int, primary key (tenant, id))", "create table log (tenant int, op text)", function(bad), trigger} {
		p.Both(t, "setup", sql)
	}
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('log', 'tenant')"})
	detail("select weft.shard_table('tasks', 'tenant')")
	p.Both(t, "function", function(good))
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('tasks', 'tenant')"})
	p.Both(t, "rows", "insert into tasks values (1, 1), (2, 1)")
	p.Both(t, "function", function(bad))
	detail("insert into tasks values (3, 1)")
	p.Both(t, "trigger", "drop trigger t on tasks")
	detail(trigger)
	p.Both(t, "function", function(good))
	p.Both(t, "trigger", trigger)
	for _, peer := range []*pair.Peer{p.Plain, p.Weft} {
		if _, err := peer.Conn.CopyFrom(t.Context(), strings.NewReader("7\t1\n8\t1\n9\t1\n"), "copy tasks from stdin"); err != nil {
			t.Error(err)
		}
	}
	for _, sql := range []string{"begin", "insert into tasks values (10, 1), (11, 1)", "savepoint s", "delete from tasks", "rollback to s", "delete from tasks where tenant = 7", "commit"} {
		p.Both(t, "block", sql)
	}
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
}
