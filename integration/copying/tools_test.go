package copying

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// tool runs one of PostgreSQL's programs against a database.
func tool(t *testing.T, target *harness.Target, database, input, name string, args ...string) string {
	t.Helper()
	out, err := tryTool(t, target, database, input, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}

func tryTool(t *testing.T, target *harness.Target, database, input, name string, args ...string) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(slices.Clone(target.Env()), "PGDATABASE="+database, "PGUSER=postgres")
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if e := (*exec.ExitError)(nil); errors.As(err, &e) {
		err = fmt.Errorf("%w\n%s", err, e.Stderr)
	}
	return string(out), err
}

// dumped is a dump without what differs each time (weft draws values in advance, so
// sequences may be further), and with the rows in order.
func dumped(dump string) string {
	dump = dumpNoise.ReplaceAllString(dump, "")
	lines := strings.Split(dump, "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "COPY ") {
			continue
		}
		end := i + slices.Index(lines[i:], `\.`)
		slices.Sort(lines[i+1 : end])
		i = end
	}
	return strings.Join(lines, "\n")
}

// differing shows where two dumps begin to differ.
func differing(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	show := func(l []string) string { return strings.Join(l[min(i, len(l)):min(i+10, len(l))], "\n") }
	return fmt.Sprintf("line %d\n%s\nshould be\n%s", i+1, show(b), show(a))
}

var dumpNoise = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n|^-- (Started|Completed) on .*\n|^SELECT pg_catalog.setval\(.*\n`)

var shopSetup = []string{
	"create type mood as enum ('sad', 'happy')",
	"create table kinds (id serial primary key, name text)",
	"create table customers (id bigserial primary key, name text, m mood default 'happy', made timestamptz default '2024-01-01')",
	"create table orders (customer_id bigint references customers, id bigint, total numeric(10,2), note text, kind int references kinds, tags text[], primary key (customer_id, id))",
	"create table notes (id int primary key, body text)",
	"create view big as select * from orders where total > 500",
	"create index on orders (total)",
}

var shopDeclare = []string{"select weft.reference_table('kinds')", "select weft.shard_table('customers', 'id')", "select weft.shard_table('orders', 'customer_id')"}

// TestTools uses what people use: psql's \copy and scripts with data, pg_dump and
// pg_restore.
func TestTools(t *testing.T) {
	w := newWorld(t, "tools", shopSetup, shopDeclare...)
	for _, c := range []*harness.Target{harness.Postgres(t), harness.Weft(t)} {
		dir := t.TempDir()
		file := filepath.Join(dir, "customers.csv")
		if err := os.WriteFile(file, []byte("id,name\n"+lines(300, func(i int) string { return fmt.Sprintf("%d,\"n\n\"\"%d\"\n", i+1, i) })), 0o600); err != nil {
			t.Fatal(err)
		}
		script := "copy kinds (name) from stdin;\none\ntwo\\tand a half\n\\.\n\\copy customers (id, name) from '" + file + "' (format csv, header match)\n" +
			"begin;\ncopy orders from stdin;\n" + lines(900, func(i int) string {
			return fmt.Sprintf("%d\t%d\t%d.5\tline\\n%d\t%d\t{a,NULL,\"%d\"}\n", i%300+1, i, i, i, i%2+1, i)
		}) + "\\.\ncommit;\ninsert into notes values (1, 'x');\n"
		tool(t, c, w.database, script, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-")
		out := tool(t, c, w.database, "", "psql", "-X", "-q", "-c", `\copy (select customer_id, count(*) from orders group by 1 order by 1 limit 3) to stdout csv header`)
		if out != "customer_id,count\n1,3\n2,3\n3,3\n" {
			t.Errorf("%s: %q", c.Name, out)
		}
		if _, err := tryTool(t, c, w.database, "1\tdouble\n", "psql", "-X", "-q", "-c", `\copy customers (id, name) from stdin`); err == nil || !strings.Contains(err.Error(), `duplicate key value violates unique constraint "customers_pkey"`) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	w.same(t)
	want := dumped(tool(t, harness.Postgres(t), w.database, "", "pg_dump", "--no-sync"))
	if got := dumped(tool(t, harness.Weft(t), w.database, "", "pg_dump", "--no-sync")); got != want {
		t.Errorf("pg_dump through weft: %s", differing(want, got))
	}
	restore(t, w)
}

// restore brings dumps back through weft, into declared tables and into a database
// without any.
func restore(t *testing.T, w *world) {
	target := harness.Weft(t)
	data := tool(t, target, w.database, "", "pg_dump", "--no-sync", "--data-only")
	for _, mode := range [][]string{{"-f", "-"}, {"-1", "-f", "-"}} {
		must(t, w.weft, "truncate orders, customers, kinds, notes")
		tool(t, target, w.database, data, "psql", append([]string{"-X", "-q", "-v", "ON_ERROR_STOP=1"}, mode...)...)
		w.same(t)
	}
	archive := filepath.Join(t.TempDir(), "archive")
	tool(t, target, w.database, "", "pg_dump", "--no-sync", "-Fd", "-f", archive)
	must(t, w.weft, "truncate orders, customers, kinds, notes")
	tool(t, target, w.database, "", "pg_restore", "--data-only", "-j", "2", "-t", "customers", "-t", "kinds", "-t", "notes", "-d", w.database, archive)
	tool(t, target, w.database, "", "pg_restore", "--data-only", "-j", "2", "-t", "orders", "-d", w.database, archive)
	w.same(t)

	target.CreateDatabase(t, "c_restored")
	tool(t, target, "c_restored", tool(t, target, w.database, "", "pg_dump", "--no-sync"), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-")
	want := dumped(tool(t, target, w.database, "", "pg_dump", "--no-sync"))
	if got := dumped(tool(t, target, "c_restored", "", "pg_dump", "--no-sync")); got != want {
		t.Errorf("restored: %s", differing(want, got))
	}
	conn := connect(t, target, "c_restored")
	for _, sql := range shopDeclare { // rows that are there are distributed
		must(t, conn, sql)
	}
	if got := dumped(tool(t, target, "c_restored", "", "pg_dump", "--no-sync", "--data-only")); got != dumped(data) {
		t.Errorf("restored and declared: %s", differing(dumped(data), got))
	}
	harness.Postgres(t).CreateDatabase(t, "c_restored")
	tool(t, harness.Postgres(t), "c_restored", tool(t, target, "c_restored", "", "pg_dump", "--no-sync"), "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-")
	pair.SameTables(t, "c_restored", nil)
}
