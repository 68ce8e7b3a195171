package integration

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
)

// TestPgbench runs pgbench's own transaction in its three modes, with four
// times as many clients as server connections, and then does the books.
func TestPgbench(t *testing.T) {
	bench := func(t *testing.T, target *harness.Target) {
		target.Reset(t)
		must(t, target, "", "pgbench", "-i", "-q", "-s", "1")
		total := 0
		for _, mode := range []string{"simple", "extended", "prepared"} {
			const clients, each = 16, 15
			// A thread per client: pgbench prepares in a blocking call, so a thread
			// with two clients can wait for a connection that its other client holds.
			out := program(t, target, "", "pgbench", "-n", "-M", mode, "-c", fmt.Sprint(clients), "-j", fmt.Sprint(clients), "-t", fmt.Sprint(each))
			if out.err != nil {
				t.Fatalf("pgbench -M %s: %v\n%s%s", mode, out.err, out.stdout, out.stderr)
			}
			want := fmt.Sprintf("%d/%d", clients*each, clients*each)
			if !strings.Contains(out.stdout, "actually processed: "+want) || failed.MatchString(out.stdout) {
				t.Errorf("pgbench -M %s did not process %s:\n%s%s", mode, want, out.stdout, out.stderr)
			}
			total += clients * each
		}
		// A new connection for every transaction.
		must(t, target, "", "pgbench", "-n", "-C", "-S", "-c", "4", "-j", "2", "-t", "10")
		got := must(t, target, "", "psql", "-X", "-At", "-c", `select
			(select count(*) from pgbench_history),
			(select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),
			(select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history),
			(select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)`)
		if want := fmt.Sprintf("%d|t|t|t\n", total); got != want {
			t.Errorf("books: %s, want %s", got, want)
		}
	}
	t.Run("postgres", func(t *testing.T) { bench(t, harness.Postgres(t)) })
	t.Run("weft", func(t *testing.T) {
		bench(t, harness.StartWeft(t, func(c *config.Config) {
			c.Pool.MaxPerShard = 4
			c.Pool.QueueTimeout = 8 * time.Second
		}))
	})
}

var failed = regexp.MustCompile(`failed transactions: [1-9]`)

// TestPgbenchPipeline uses the pipeline commands of pgbench scripts.
func TestPgbenchPipeline(t *testing.T) {
	const script = `\set id random(1, 100)
\startpipeline
select :id;
insert into p values (:id) on conflict do nothing;
select count(*) from p where i = :id;
\endpipeline
begin;
\startpipeline
select :id;
select pg_sleep(0);
\endpipeline
end;
`
	both(t, func(t *testing.T, target *harness.Target) {
		must(t, target, "", "psql", "-X", "-q", "-c", "create table p (i int primary key)")
		for _, mode := range []string{"extended", "prepared"} {
			out := program(t, target, script, "pgbench", "-n", "-M", mode, "-c", "8", "-j", "2", "-t", "10", "-f", "/dev/stdin")
			if out.err != nil || failed.MatchString(out.stdout) {
				t.Errorf("pgbench -M %s: %v\n%s%s", mode, out.err, out.stdout, out.stderr)
			}
		}
	})
}
