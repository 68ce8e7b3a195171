package custom

import (
	"strings"
	"testing"
)

func TestValue(t *testing.T) {
	for _, test := range []struct {
		commands string // separated by bars
		sets     int
		want     string // "-" if the block leaves the parameter alone, "?" if it is unknown
	}{
		{"", 0, "-"},
		{"SET LOCAL app.tenant = '7'", 1, "7"},
		{"set app.tenant to '7';", 1, "7"},
		{"SET SESSION App.Tenant = 7", 1, "7"},
		{"SET app.tenant = -7", 1, "-7"},
		{"/* trace */ set local app.tenant='7' /* x=1 */ ; ", 1, "7"},
		{"set local app.tenant = 'a b'", 1, "a b"},
		{"set local app.tenant = ''", 1, ""},
		{"set local app.tenant = '7'|set local app.tenant = '8'", 2, "8"},
		{"set local app.other = '7'|set local work_mem = '1MB'", 0, "-"},
		{"set local app.tenants = '7'", 0, "-"},
		{"set local app = '7'", 0, "-"},
		{"set transaction isolation level serializable|set time zone 'UTC'|set constraints all deferred", 0, "-"},
		{"select set_config('app.tenant', '7', true)", 1, "7"},
		{"SELECT pg_catalog.set_config('App.Tenant', '7'::text, false) AS x", 1, "7"},
		{"select set_config('app.tenant', ('7'), true)", 1, "7"},
		{"select set_config('app.tenant', (CAST('7' AS pg_catalog.text)), (CAST('true' AS pg_catalog.bool)))", 1, "7"},
		{"select set_config('role', 'x', true), set_config('app.tenant', '7', true);", 1, "7"},
		{"select set_config('app.tenant', '7', true), set_config('app.tenant', '8', true)", 2, "8"},
		{"set local app.tenant = '7'|savepoint s|set local app.tenant = '8'|rollback to s", 2, "7"},
		{"set local app.tenant = '7'|savepoint s|set local app.tenant = '8'|rollback work to savepoint \"s\"", 2, "7"},
		{"savepoint s|set local app.tenant = '8'|ROLLBACK TRANSACTION TO S", 1, "-"},
		{"savepoint s|set local app.tenant = '8'|release savepoint s", 1, "8"},
		{"savepoint s|set local app.tenant = '8'|savepoint t|set local app.tenant = '9'|release t|rollback to s", 2, "-"},
		{"savepoint s|set local app.tenant = '8'|savepoint s|set local app.tenant = '9'|rollback to s|rollback to s", 2, "8"},
		{"savepoint s|set local app.tenant = '8'|savepoint s|set local app.tenant = '9'|release s|rollback to s", 2, "-"},
		{"savepoint savepoint|set local app.tenant = '8'|rollback to savepoint", 1, "-"},
		{strings.Repeat("savepoint s|release s|", 100) + "set local app.tenant = '8'", 1, "8"},
		// What is not read for certain.
		{"set local app.tenant = '7'", 2, "?"},
		{"set local app.tenant = '7'", 0, "?"},
		{"reset app.tenant", 1, "?"},
		{"set local app.tenant = default", 1, "?"},
		{"set local app.tenant to acme", 1, "?"},
		{"set local app.tenant from current", 1, "?"},
		{"set local app.tenant = '7', '8'", 1, "?"},
		{"set local app.tenant = 'it''s'", 1, "?"},
		{`set local app.tenant = 'a\b'`, 1, "?"},
		{"set local app.tenant = E'7'", 1, "?"},
		{"set local app.tenant = '7'\n'8'", 1, "?"},
		{"set local app.tenant = 007", 1, "?"},
		{"set local app.tenant = 7e1", 1, "?"},
		{"set local app.tenant = 1.0", 1, "?"},
		{"set local app.tenant = 12345678901234567890", 1, "?"},
		{"set local app.tenant = $a$7$a$", 1, "?"},
		{`set local "app".tenant = '7'`, 1, "?"},
		{"set local app.tenant = '7' -- comment", 1, "?"},
		{"select set_config('app.tenant', '7', true) where false", 1, "?"},
		{"select set_config('app.tenant', null, true)", 1, "?"},
		{"select set_config('app.tenant', '7' || '8', true)", 1, "?"},
		{"select set_config('app.tenant', '7'::name, true)", 1, "?"},
		{"select f(), set_config('app.tenant', '7', true)", 1, "?"},
		{"select set_config('app.tenant', '7', true) from t", 1, "?"},
		{"select set_config('app.tenant', '7', x)", 1, "?"},
		{"with x as (select set_config('app.tenant', '7', true)) select 1", 1, "?"},
		{"set local app.tenant = '7'|rollback to s", 1, "?"},
		{"savepoint s|set local app.tenant = '7'|release s|rollback to s", 1, "?"},
		{"set local app.tenant = '7'|-- x\nrollback to s", 1, "?"},
		{"set local app.tenant = '7'|(savepoint s)", 1, "?"},
		{"savepoint é|set local app.tenant = '7'", 1, "?"},
		{"savepoint " + strings.Repeat("s", 64) + "|set local app.tenant = '7'", 1, "?"},
		{strings.Repeat("savepoint s|", maxPoints+1) + "set local app.tenant = '7'", 1, "?"},
	} {
		var commands []string
		if test.commands != "" {
			commands = strings.Split(test.commands, "|")
		}
		got, set, known := Value(commands, "app.tenant", test.sets)
		switch {
		case !known:
			got = "?"
		case !set:
			got = "-"
		}
		if got != test.want {
			t.Errorf("%s (%d): %q, want %q", test.commands, test.sets, got, test.want)
		}
	}
}

// TestAllocation: a statement of a block pays for the texts alone.
func TestAllocation(t *testing.T) {
	commands := []string{"SET LOCAL app.tenant_id = '42'", "savepoint s", "select set_config('app.other', (CAST('7' AS pg_catalog.text)), true)", "release s"}
	if n := testing.AllocsPerRun(100, func() {
		if v, _, known := Value(commands, "app.tenant_id", 1); v != "42" || !known {
			t.Fatal(v)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkValue(b *testing.B) {
	commands := []string{"SET LOCAL app.tenant_id = '42'"}
	for b.Loop() {
		Value(commands, "app.tenant_id", 1)
	}
}

func FuzzValue(f *testing.F) {
	f.Add("SET LOCAL app.tenant = '7'")
	f.Add("select set_config('app.tenant', ('7'), true) as x;")
	f.Add("rollback work to savepoint \"s\" /* x */")
	f.Fuzz(func(t *testing.T, text string) {
		Value([]string{"savepoint s", text}, "app.tenant", 1)
	})
}
