package identity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// A lost etcd is rebuilt from the shards, and every answer is as before, of proxies that
// run and of new ones.
func TestRebuild(t *testing.T) {
	w := newWorld(t, "rebuild")
	c := w.Connect(t, "postgres", "dbname="+w.database)
	for _, sql := range []string{
		"create table a (tenant text, n int)", "select weft.shard_table('a', 'tenant', vindex => 'lookup_unique', name => 'rebuild_tenants')",
		"select weft.pin('rebuild_tenants', 'acme', 'shard-2')",
		"insert into a select 'x' || g, g from generate_series(1, 20) g", "insert into a values ('acme', 0)",
	} {
		w.must(c, sql)
	}
	questions := []string{
		"select count(*), sum(v) from t", "select v from t where k = 7", "select v from t where k = 8", "select * from r", "select count(*) from h",
		"select n from a where tenant = 'acme'", "select n from a where tenant = 'x3'", "select count(*) from a",
	}
	ask := func(target *harness.Target) string {
		t.Helper()
		c := target.Connect(t, "postgres", "dbname="+w.database)
		defer c.Close(t.Context())
		var b strings.Builder
		for _, q := range questions {
			rows, err := c.Query(t.Context(), q)
			if err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				t.Fatalf("%s: %v", q, err)
			}
			fmt.Fprintln(&b, got)
		}
		return b.String()
	}
	before := ask(w.Target)
	weft, cluster := w.files("test", "", w.Shards()...)
	out, err := harness.Command(t, "recover", "-c", weft, "--directory", "-f", cluster)
	if err == nil || !strings.Contains(out, "the directory is not empty") {
		t.Errorf("over a directory: %v\n%s", err, out)
	}
	export, err := harness.Command(t, "status", "-c", weft, "-o", "yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, export)
	}
	settled(t, func() (string, bool) { // the pin is in all copies
		for _, s := range w.Shards() {
			if got := w.direct(s, "select content from weft.directory"); !strings.Contains(got, `"pinned"`) {
				return got, false
			}
		}
		return "", true
	})

	wipe(t, w.endpoint)
	out, err = harness.Command(t, "apply", "-c", weft, "-f", cluster)
	if err == nil || !strings.Contains(out, "weft recover --directory") {
		t.Errorf("a new cluster over the servers of the lost one: %v\n%s", err, out)
	}
	out, err = harness.Command(t, "recover", "-c", weft, "--directory", "-f", cluster)
	if err != nil || !strings.Contains(out, "nothing is written") || !strings.Contains(out, "+ table rebuild.public.t") && !strings.Contains(out, "public.t") {
		t.Errorf("a dry run: %v\n%s", err, out)
	}
	if _, err := w.store.Load(t.Context()); err == nil {
		t.Error("a dry run has written")
	}
	out, err = harness.Command(t, "recover", "-c", weft, "--directory", "-f", cluster, "--yes")
	if err != nil || !strings.Contains(out, "rebuilt: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	second := w.proxy()
	for _, target := range []*harness.Target{w.Target, second} {
		if got := ask(target); got != before {
			t.Errorf("after:\n%s\nbefore:\n%s", got, before)
		}
	}
	// What is declared afterwards is in the copies, though versions began anew.
	c2 := second.Connect(t, "postgres", "dbname="+w.database)
	w.must(c2, "create table later (k int)")
	w.must(c2, "select weft.shard_table('later', 'k')")
	if got := w.direct(w.Shards()[1], "select content from weft.directory"); !strings.Contains(got, `"later"`) {
		t.Errorf("the copy has no table declared after the rebuilding: %s", got)
	}
	w.must(c2, "drop table later")

	// An export makes the same cluster, too.
	wipe(t, w.endpoint)
	out, err = harness.Command(t, "apply", "-c", weft, "-f", w.write("export.yaml", export))
	if err != nil || !strings.Contains(out, "applied: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := ask(w.proxy()); got != before {
		t.Errorf("after:\n%s\nbefore:\n%s", got, before)
	}
}

// settled waits for something.
func settled(t *testing.T, ok func() (string, bool)) {
	t.Helper()
	got, done := ok()
	for end := time.Now().Add(pgtest.Patience); !done; got, done = ok() {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s", got)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Clients log in while the home shard is down, and reach the rows of others.
func TestHomeDown(t *testing.T) {
	w := newWorld(t, "homeless")
	home := w.Shards()[0]
	var elsewhere []int
	for k := 1; k <= 30; k++ {
		if w.direct(home, fmt.Sprintf("select count(*)::text from t where k = %d", k)) == "0" {
			elsewhere = append(elsewhere, k)
		}
	}
	read := func(k int) error {
		c, err := pgx.Connect(t.Context(), w.ConnString("postgres", "dbname="+w.database, "default_query_exec_mode=simple_protocol"))
		if err != nil {
			return fmt.Errorf("login: %w", err)
		}
		defer c.Close(t.Context())
		var v int
		return c.QueryRow(t.Context(), fmt.Sprintf("select v from t where k = %d", k)).Scan(&v)
	}
	strict := w.proxy(func(c *config.Config) { c.HTTP.ReadyShards = 1 })
	for _, k := range elsewhere[:2] {
		if err := read(k); err != nil {
			t.Fatal(err)
		}
	}
	home.Kill()
	started := false
	start := func() {
		if !started {
			started = true
			if err := home.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer start()
	for range 3 {
		for _, k := range elsewhere {
			if err := read(k); err != nil {
				t.Fatalf("k = %d: %v", k, err)
			}
		}
	}
	ready(t, w.Target, 200, "shard-0 (home): ")
	ready(t, strict, 503, "2 of 3 shards answer")
	start()
	w.all(w.Target)
	ready(t, w.Target, 200, "ok\n")
}
