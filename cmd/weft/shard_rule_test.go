package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weft/pgserver/pgtest"
)

// The primary of a shard is accepted, and its timeline forgotten, while a proxy serves it.
func TestShardRulings(t *testing.T) {
	c := newCluster(t)
	p := c.start(t, 60*time.Second, "--shards", "2", "--bucket-count", "16")
	file := filepath.Join(c.dir, "weft.yaml")
	refused := func(want string, words ...string) {
		t.Helper()
		code, out, errs := weft(t, append(words, "-c", file)...)
		if code != 1 || !strings.Contains(errs, want) || !strings.Contains(errs, "HINT: ") {
			t.Errorf("weft %s: exit code %d, stdout %q, stderr %q, want %q", strings.Join(words, " "), code, out, errs, want)
		}
	}
	var hosts []string
	for _, sql := range []string{"select hosts[1] from weft.shards where name = 'shard-0'", "select hosts[1] from weft.shards where name = 'shard-1'"} {
		hosts = append(hosts, mustAsk(t, c.listen, sql))
	}
	refused(hosts[1]+" is not one of the servers of shard shard-0", "shard", "accept", "shard-0", hosts[1])
	refused("not done: proxies would forget that shard-1 has been on timeline 1", "shard", "reset", "shard-1")
	if code, _, errs := weft(t, "shard", "accept", "shard-0", "-c", file); code != 1 || !strings.Contains(errs, "which server is right?") {
		t.Errorf("no server: %d, %s", code, errs)
	}
	for _, sql := range []string{"create table item (id bigint primary key)", "select weft.shard_table('item', 'id')"} {
		mustAsk(t, c.listen, sql)
	}
	code, out, errs := 1, "", "does not know which system"
	for end := time.Now().Add(pgtest.Patience); strings.Contains(errs, "does not know which system") && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		code, out, errs = weft(t, "shard", "accept", "shard-1", hosts[1], "-c", file)
	}
	if code != 0 {
		t.Fatalf("%d, %s", code, errs)
	}
	printed(t, out, hosts[1]+` is the primary of shard-1, on timeline 1: .*`)
	mustAsk(t, c.listen, "insert into item select generate_series(101, 200)")
	printed(t, succeed(t, "shard", "reset", "shard-1", "--yes", "-c", file), `forgotten: that shard-1 has been on timeline 1 with `+hosts[1]+` as its primary`)
	mustAsk(t, c.listen, "insert into item select generate_series(1, 100)")
	p.stop(syscall.SIGTERM)
}
