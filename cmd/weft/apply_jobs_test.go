package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A cluster with rows grows, changes its weights and shrinks by its file. An apply may be repeated,
// and be killed.
func TestApplyJobs(t *testing.T) {
	c := newCluster(t)
	p := c.start(t, 60*time.Second, "--shards", "2", "--bucket-count", "64")
	for _, sql := range []string{
		"create table item (id bigint primary key, body text)", "insert into item select i, repeat('x', 500) from generate_series(1, 2000) i", "select weft.shard_table('item', 'id')",
	} {
		mustAsk(t, c.listen, sql)
	}
	third := emptyServer(t)
	file := func(shards ...string) string {
		text := "shards:\n"
		for i, s := range shards {
			if s != "" {
				text += fmt.Sprintf("- {name: shard-%d, options: {sslmode: disable}, hosts: [%s}\n", i, s)
			}
		}
		return write(t, "cluster.yaml", text)
	}
	args := func(file string, more ...string) []string {
		return append([]string{"apply", "-c", filepath.Join(c.dir, "weft.yaml"), "-f", file}, more...)
	}
	apply := func(file string, more ...string) string {
		t.Helper()
		code, out, errs := weft(t, args(file, more...)...)
		if code != 0 {
			t.Fatalf("apply: exit code %d, stdout %q, stderr %q", code, out, errs)
		}
		return out
	}
	settled := func(what string, shards int) {
		t.Helper()
		eventually(t, what, func() bool {
			n, err := ask(t, c.listen, "select (select count(*) from weft.shards) || ' ' || (select count(*) from weft.moves where ended is null)")
			return err == nil && n == fmt.Sprintf("%d 0", shards)
		})
		if n := mustAsk(t, c.listen, "select count(*) from item"); n != "2000" {
			t.Errorf("%s: %s of 2000 rows", what, n)
		}
	}
	first, second := "'"+c.shard(0)+"']", "'"+c.shard(1)+"']"
	printed(t, apply(file(first, second)), "nothing to change")

	// A server that is not there: the job waits for it, and goes on when the file has another one.
	out := apply(file(first, second, "'127.0.0.1:1']"))
	printed(t, out, `\+ shard shard-2 127.0.0.1:1 sslmode=disable, which joins by a job`, `~ database app: 21 of 64 buckets will move`, `applied: .*`, `job \w+: shard shard-2 joins`, `the proxies run the jobs: .*`)
	eventually(t, "the job waits", func() bool {
		waits, err := ask(t, c.listen, "select blocked_by from weft.moves where kind = 'join'")
		return err == nil && strings.Contains(waits, `could not connect to shard "shard-2"`)
	})
	if code, _, errs := weft(t, args(file(first, second))...); code != 1 || !strings.Contains(errs, "weft.cancel_move") {
		t.Errorf("a file without the shard that joins: %d %q", code, errs)
	}
	larger := file(first, second, "'"+third+"']")
	printed(t, apply(larger, "--dry-run"), `~ job \w+, which waits, goes on with another server: shard shard-2 .* joins`, `not applied: this was a dry run`)
	dying := startWeft(t, args(larger)...)
	time.Sleep(30 * time.Millisecond)
	_ = dying.cmd.Process.Kill() // ended already, perhaps
	<-dying.done
	apply(larger)
	if out := apply(larger); !strings.HasSuffix(out, "nothing to change\n") {
		t.Errorf("again: %s", out)
	}
	settled("the third shard joins", 3)
	eventually(t, "the third shard has 21 buckets", func() bool { // the proxy may not know of the job yet
		n, err := ask(t, c.listen, "select buckets from weft.shards where name = 'shard-2'")
		return err == nil && n == "21"
	})

	// Another weight.
	printed(t, apply(file(first, second+", weight: 3", "'"+third+"']")), `~ shard shard-1 .* weight=3`, `~ database app: \d+ of 64 buckets move by a job`, `applied: .*`, `job \w+: it moves rows of database app`)
	settled("rows move by the new weights", 3)
	eventually(t, "the heavy shard has 38 buckets", func() bool { // the proxy may not know of the job yet
		n, err := ask(t, c.listen, "select buckets from weft.shards where name = 'shard-1'")
		return err == nil && n == "38"
	})

	// Two shards leave.
	smaller := file(first)
	if code, _, errs := weft(t, args(smaller)...); code != 1 || !strings.Contains(errs, "--prune") {
		t.Errorf("without --prune: %d %q", code, errs)
	}
	printed(t, apply(smaller, "--prune"), `- shard shard-1, which is drained and leaves by a job`, `- shard shard-2, which is drained and leaves by a job`, `applied: .*`, `job \w+: shard shard-1 leaves`, `job \w+: shard shard-2 leaves`)
	if out := apply(smaller); !strings.HasSuffix(out, "nothing to change\n") {
		t.Errorf("again: %s", out)
	}
	settled("two shards leave", 1)
	printed(t, apply(smaller), "nothing to change")
	p.stop(syscall.SIGTERM)
}
