package flow

import (
	"strings"
	"testing"

	"weft/parser"
)

// read returns the INSERTs of a function, with the key as $1, or what cannot be read. strict leaves keys that may be NULL.
func read(t *testing.T, declare, body string, tr Trigger, strict bool) string {
	t.Helper()
	tr.Schema, tr.Table, tr.Columns, tr.Keys = "public", "tasks", []string{"tenant", "id", "v"}, []Key{{"tenant", "integer"}}
	if tr.Events == 0 {
		tr.Events = Insert | Update | Delete
	}
	b, err := Read("\ndeclare "+declare+"\nbegin\n"+body+";\nreturn new;\nend", &tr)
	if err != nil {
		return err.Error()
	}
	var out []string
	if b.Unread > 0 {
		out = append(out, "unread")
	}
	for i := range b.Statements {
		tree, ok := b.Statements[i].Tree(strict)
		if !ok {
			out = append(out, "not ok")
			continue
		}
		sql, err := parser.Deparse(tree)
		if err != nil {
			t.Fatal(err)
		}
		if s, found := strings.CutPrefix(sql, "INSERT INTO log VALUES "); found {
			out = append(out, s)
		} else if strings.HasPrefix(sql, "INSERT") {
			out = append(out, sql)
		}
	}
	return strings.Join(out, " ")
}

// TestKey: what is the key of the row is $1, and nothing else is.
func TestKey(t *testing.T) {
	insert := func(what string) string { return "insert into log values (" + what + ")" }
	for _, test := range []struct{ declare, body, want string }{
		{"", insert("new.tenant, old.tenant, (new).tenant, (coalesce(old, new)).tenant"), "($1, $1, $1, $1)"},
		{"", insert("coalesce(new.tenant, old.tenant, null)"), "($1)"},
		{"", insert("coalesce(new.tenant, old.id)"), "(COALESCE($1, old.id))"},
		{"", insert("case tg_op when 'DELETE' then old.tenant else new.tenant end"), "($1)"},
		{"", insert("case when old.id = 1 then old.tenant end"), "($1)"},
		{"", insert("new.id, new.tenant + 1"), "(new.id, $1 + 1)"},
		{"", insert("tg_op, new.*"), "(tg_op, $1, NULL, NULL)"},
		{"r record;", "r := new; " + insert("r.tenant, r.id, r.*"), "($1, r.id, $1, NULL, NULL)"},
		{"r record;", "r := new; r.tenant := 5; " + insert("r.tenant"), "(r.tenant)"},
		{"r record;", "r := new; r.v := 5; " + insert("r.tenant"), "($1)"},
		{"r tasks;", "r := new; " + insert("r.tenant"), "($1)"},
		{"r others%rowtype;", "r := new; " + insert("r.tenant"), "(r.tenant)"},
		{"r record;", "for r in select * from tasks loop " + insert("r.tenant") + "; end loop", "(r.tenant)"},
		{"x int; y bigint;", "x := new.tenant; y := x; " + insert("y"), "($1)"},
		{"x int := new.tenant; y alias for x;", insert("y"), "($1)"},
		{"x int := new.tenant; y alias for x;", "y := 7; " + insert("x"), "(x)"},
		{"x real := new.tenant;", insert("x"), "(x)"},
		{"x numeric(2, 0) := new.tenant;", insert("x"), "(x)"},
		{"x int := new.tenant;", "declare x int := 5; begin " + insert("x") + "; end", "(x)"},
		{"x int := 5;", "declare x int := new.tenant; begin " + insert("x") + "; end", "($1)"},
		{"x int := new.tenant;", "call p(x); " + insert("x"), "(x)"},
		{"x int := new.tenant;", "select 5 into x; " + insert("x"), "(x)"},
		{"x int;", "select old.tenant into x; " + insert("x"), "($1)"},
		{"r tasks;", "select new into r; " + insert("r.tenant"), "(r.tenant)"},
		{"x int := new.tenant;", "get diagnostics x = row_count; " + insert("x"), "(x)"},
		{"", "new.tenant := 5; " + insert("new.tenant"), "(new.tenant)"},
		{"", "new := row(5, 1, 'x'); " + insert("new.tenant"), "(new.tenant)"},
		{"j jsonb := to_jsonb(new);", insert("(j ->> 'tenant')::int, j ->> 'tenant', (j ->> 'id')::int"), "($1, j ->> 'tenant', (j ->> 'id')::int)"},
	} {
		if got := read(t, test.declare, test.body, Trigger{}, false); got != test.want {
			t.Errorf("%s %s: %s, not %s", test.declare, test.body, got, test.want)
		}
	}
}

// TestNull: a value that may be NULL, though the row has a key, is not the key where a row without a key would be stored.
func TestNull(t *testing.T) {
	insert := func(what string) string { return "insert into log values (" + what + ")" }
	for _, test := range []struct {
		declare, body string
		on            Events
		want          string
	}{
		{"", insert("new.tenant"), 0, "(new.tenant)"},
		{"", insert("new.tenant"), Insert | Update, "($1)"},
		{"", insert("old.tenant"), Delete, "($1)"},
		{"", insert("old.tenant"), Insert, "(old.tenant)"},
		{"", insert("coalesce(new.tenant, old.tenant)"), 0, "($1)"},
		{"", insert("case when tg_op = 'DELETE' then old.tenant else new.tenant end"), 0, "($1)"},
		{"", insert("case when tg_op = 'INSERT' then old.tenant else new.tenant end"), Insert, "(CASE WHEN tg_op = 'INSERT' THEN old.tenant ELSE $1 END)"},
		{"", insert("case when tg_op in ('INSERT', 'UPDATE') then new.tenant end"), 0, "(CASE WHEN tg_op IN ('INSERT', 'UPDATE') THEN new.tenant END)"},
		{"", "if tg_op = 'DELETE' then " + insert("old.tenant") + "; else " + insert("new.tenant") + "; end if", 0, "($1) ($1)"},
		{"", "if tg_op <> 'DELETE' then " + insert("old.tenant") + "; end if", 0, "(old.tenant)"},
		{"", "if not (tg_op = 'DELETE' or tg_op = 'INSERT') and new.v = '' then " + insert("old.tenant, new.tenant") + "; end if", 0, "($1, $1)"},
		{"", "if tg_op = 'DELETE' then " + insert("old.tenant") + "; return old; end if; " + insert("new.tenant"), 0, "($1) ($1)"},
		{"", "case tg_op when 'DELETE' then " + insert("old.tenant") + "; else " + insert("new.tenant") + "; end case", 0, "($1) ($1)"},
		{"", "if tg_op = 'DELETE' then " + insert("5") + "; end if", Insert, ""},
		{"x int;", "if tg_op = 'DELETE' then x := old.tenant; else x := new.tenant; end if; " + insert("x"), 0, "($1)"},
		{"x int;", "if new.v = '' then x := new.tenant; end if; " + insert("x"), Insert, "(x)"},
		{"x int;", "begin x := new.tenant; exception when others then null; end; " + insert("x"), Insert, "(x)"},
		{"x int := new.tenant;", "begin perform 1; exception when others then null; end; " + insert("x"), Insert, "($1)"},
		{"x int := new.tenant;", "while true loop " + insert("x") + "; x := null; end loop", Insert, "(x)"},
		{"x int;", "<<b>> begin exit b when new.v = ''; x := new.tenant; end; " + insert("x"), Insert, "(x)"},
		{"", "new := null; " + insert("new.tenant"), Insert, "(new.tenant)"},
		{"r record;", "r := coalesce(new, old); " + insert("r.tenant"), 0, "($1)"},
		{"r record;", "r := coalesce(new, old); r.tenant := null; " + insert("r.tenant"), 0, "(r.tenant)"},
	} {
		if got := read(t, test.declare, test.body, Trigger{Events: test.on}, true); got != test.want {
			t.Errorf("%s %s: %s, not %s", test.declare, test.body, got, test.want)
		}
	}
	if got := read(t, "", insert("new.tenant"), Trigger{Events: Insert, Statement: true}, true); got != "(new.tenant)" {
		t.Errorf("a trigger for a statement: %s", got)
	}
}

// TestExecute: a text that depends on the trigger alone is read, with the values of its parameters.
func TestExecute(t *testing.T) {
	for _, test := range []struct{ declare, body, want string }{
		{"", "execute 'insert into log values ($1, $2)' using new.tenant, new.id", "($1, $3)"},
		{"", "execute 'insert into log values ($1, $2)' using new.id, new.tenant", "($2, $1)"},
		{"", "execute 'insert into log values ($1.tenant, ($1).tenant)' using coalesce(new, old)", "($1, $1)"},
		{"", "execute 'insert into log values ($3)' using 1", "not ok"},
		{"", "execute format('insert into %I values ($1)', tg_table_name || '_log') using new.tenant", "INSERT INTO tasks_log VALUES ($1)"},
		{"", "execute 'insert into ' || quote_ident(tg_argv[1]) || ' values ($1)' using new.tenant", "($1)"},
		{"", "execute 'insert into ' || tg_argv[7] || ' values ($1)' using new.tenant", "unread"},
		{"q text;", "q := 'insert into log values ($1)'; execute q using new.tenant", "($1)"},
		{"q text;", "q := new.v; execute q using new.tenant", "unread"},
		{"", "execute format('insert into log values (%L, %L)', new.tenant, tg_op)", "($1, $2)"},
		{"", "execute format('insert into log values (%L)', new.id)", "($2)"},
		{"", "execute format('insert into log values (%s)', new.tenant)", "unread"},
		{"", "execute format('insert into log values (nextval(%L))', new.v)", "unread"},
		{"", "execute format('insert into log values (%L)', 'x' || new.tenant)", "($2)"},
		{"", "execute 'drop table log'", "unread"},
		// NULL is nothing for format and concat.
		{"q text := 'select 1';", "q := format('insert into log values (1)%s', null); execute q", "(1)"},
		{"q text := 'select 1';", "q := concat('insert into log values (1)', null, ''); execute q", "(1)"},
		{"s text;", "if tg_op = 'UPDATE' then s := '_u'; end if; execute format('insert into log%s values ($1)', s) using new.tenant", "INSERT INTO log_u VALUES ($1) ($1)"},
		{"s text; q text;", "q := concat('insert into log', s, ' values (1)'); s := '_u'; execute q", "(1)"},
		{"s text := '_u'; q text;", "q := concat('insert into log', s, ' values (1)'); execute q", "INSERT INTO log_u VALUES (1)"},
		{"s text := '_u'; q text;", "q := concat('insert into log', s, ' values (1)'); s := nullif(s, '_u'); execute q", "unread"},
		{"s text := '_u'; q text;", "q := concat('insert into log', s, ' values (1)'); s := case when tg_op = 'UPDATE' then '_u' end; execute q", "INSERT INTO log_u VALUES (1) (1)"},
		{"s text;", "execute format('insert into log values (%L)', 'x' || s)", "(NULL)"},
		{"", "execute 'insert into log values (' || quote_nullable(null) || ')'", "(NULL)"},
		{"", "execute coalesce(f(null), 'select 1')", "unread"},
		{"", "execute coalesce(array_to_string('{x}'::text[] || null, ''), 'select 1')", "unread"},
		{"", "execute 'select 1; select 2'", "unread not ok"},
	} {
		got := read(t, test.declare, test.body, Trigger{Args: []string{"a", "log"}}, false)
		if test.want == "unread" && strings.HasPrefix(got, "unread") {
			continue
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s %s: %s, not %s", test.declare, test.body, got, test.want)
		}
	}
}

// TestColumns: where a name means a column before a variable, nothing is known of names.
func TestColumns(t *testing.T) {
	if _, err := Read("#variable_conflict use_column\nbegin return new; end", &Trigger{Events: Insert}); err == nil {
		t.Error("read")
	}
}

// TestLine: lines count as in the messages of PostgreSQL.
func TestLine(t *testing.T) {
	b, err := Read("\nbegin\n  insert into log\n  values (1);\n  return new;\nend", &Trigger{Events: Insert})
	if err != nil || len(b.Statements) != 2 || b.Statements[0].Line != 3 || b.Statements[1].Line != 5 {
		t.Errorf("%v %v", b, err)
	}
}

// TestOthers: FOUND and SQLERRM are not the key, whatever else a variable is given.
func TestOthers(t *testing.T) {
	insert := func(what string) string { return "insert into log values (" + what + ")" }
	for _, body := range []string{"x := new.tenant; x := found", "x := new.tenant; begin null; exception when others then x := sqlerrm; end", "begin x := new.tenant; exception when others then x := sqlstate; end"} {
		if got := read(t, "x text;", body+"; "+insert("x"), Trigger{}, false); got != "(x)" {
			t.Errorf("%s: %s", body, got)
		}
	}
}
