package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// emptyServer is a server that can become a shard.
func emptyServer(t *testing.T) string {
	t.Helper()
	return pgtest.Start(t, pgserver.Config{Settings: map[string]string{"max_prepared_transactions": "100", "wal_level": "logical"}}).Addr()
}

// printed fails unless a text has lines that match, in this order.
func printed(t *testing.T, text string, lines ...string) {
	t.Helper()
	if !regexp.MustCompile(`(?ms)^` + strings.Join(lines, `$.*^`) + `$`).MatchString(text) {
		t.Errorf("printed\n%s\nwant\n%s", text, strings.Join(lines, "\n"))
	}
}

// One cluster grows, is evened out and shrinks by commands.
func TestShardCommands(t *testing.T) {
	c := newCluster(t)
	p := c.start(t, 60*time.Second, "--shards", "2", "--bucket-count", "64")
	at := []string{"--proxy", "postgres://postgres@" + c.listen + "/app?sslmode=disable"}
	run := func(words ...string) string {
		t.Helper()
		return succeed(t, append(words, at...)...)
	}
	refused := func(want string, words ...string) {
		t.Helper()
		if code, out, errs := weft(t, append(words, at...)...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("weft %s: exit code %d, stdout %q, stderr %q, want %q", strings.Join(words, " "), code, out, errs, want)
		}
	}
	for _, sql := range []string{
		"create table item (id bigint primary key, body text)", "insert into item select i, repeat('x', 500) from generate_series(1, 2000) i", "select weft.shard_table('item', 'id')",
	} {
		mustAsk(t, c.listen, sql)
	}
	count := func() {
		t.Helper()
		if n := mustAsk(t, c.listen, "select count(*) from item"); n != "2000" {
			t.Errorf("%s of 2000 rows", n)
		}
	}
	third := emptyServer(t)

	printed(t, run("shard", "list"), `SHARD +STATE +WEIGHT +BUCKETS +ROWS +BYTES +HOSTS`, `shard-0 +active, home +1 +32 +\d+ +\d+ kB +\S+`, `shard-1 +active +1 +32 +\d+ +\d+ kB +\S+`)
	printed(t, run("rebalance", "--strategy", "buckets"), "every shard is close enough to its share: there is nothing to move")
	refused("too little is known of the work", "rebalance", "--strategy", "load")

	refused("host:port", "shard", "add", "shard-2", "nowhere")
	refused(`shard "shard-1" already exists`, "shard", "add", "shard-1", third)
	refused("HINT: Take them away first", "shard", "remove", "shard-1")
	refused(`shard "shard-7" does not exist`, "shard", "drain", "shard-7")

	printed(t, run("shard", "add", "shard-2", third, "--weight", "2", "--no-rebalance", "--wait"), `job \w+ has begun: shard-2 joins`, `preparing: the server of shard-2 is made ready`, `shard-2 has joined and holds 0 buckets`)
	printed(t, run("rebalance", "--strategy", "buckets"), `FROM +TO +BUCKETS +ROWS +BYTES +TIME +FROM HAS +TO HAS +REASON`,
		`shard-0 +shard-2 +\d+ +\d+ +\d+ k?B +\d+s +2.00 → 1.\d\d +0.00 → 0.9\d +shard-\d has .*`, `shard-1 +shard-2 +\d+ +\d+ +\d+ k?B +\d+s +.*`, `not started: .*`)
	printed(t, run("rebalance", "--strategy", "buckets", "--threshold", "0.01", "--max-moves", "10", "--apply", "--wait"), `job \w+ has begun`, `done: 10 of 10 buckets, \d+ rows, .*`)
	printed(t, run("shard", "list"), `shard-2 +active +2 +10 +\d+ +\d+ k?B +`+third)
	count()

	printed(t, run("shard", "drain", "shard-2", "--wait"), `job \w+ has begun`, `done: 10 of 10 buckets, \d+ rows, .*`, `shard-2 is empty: weft shard remove shard-2 .*`)
	printed(t, run("shard", "drain", "shard-2"), `shard-2 is empty: .*`)
	printed(t, run("shard", "list"), `shard-2 +empty +2 +0 +0 +0 B +`+third)
	printed(t, run("shard", "remove", "shard-2"), `shard-2 is not one of the shards any more: .*`)
	if out := run("shard", "list"); strings.Contains(out, "shard-2") {
		t.Errorf("shard-2 is still there:\n%s", out)
	}
	refused("A shard begins empty", "shard", "add", "shard-2", third)
	count()
	printed(t, run("shard", "add", "shard-2", emptyServer(t), "--wait"), `job \w+ has begun: shard-2 joins`, `shard-2 has joined and holds 21 buckets`)
	printed(t, run("move", "--buckets", "0-63", "--to", "shard-2", "--wait"), `job \w+ has begun`, `done: 43 of 43 buckets, .*`)
	count()

	refused("the cluster has 64 buckets, which cannot become 96", "grow-buckets", "96")
	printed(t, run("grow-buckets", "128", "--dry-run"), `each of 64 buckets would become 2, on the same shard; no row would move`, `not started: .*`)
	printed(t, run("shard", "list"), `shard-2 +active +1 +64 .*`)
	printed(t, run("grow-buckets", "128"), `the cluster has 128 buckets: .*`)
	printed(t, run("shard", "list"), `shard-2 +active +1 +128 .*`)
	count()
	p.stop(syscall.SIGTERM)
}
