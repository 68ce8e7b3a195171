package failover

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/dev/patroni"
)

var (
	rounds      = flag.Int("rounds", 2, "how often TestKills takes a primary away")
	withPatroni = flag.Bool("patroni", false, "let Patroni run the servers of TestKills")
	freeze      = flag.Bool("freeze", false, "freeze the primary and its Patroni instead of killing the primary, and let them go on when there is another one; needs -patroni")
	think       = flag.Duration("think", 0, "how long a client of TestKills waits between two things")
	logs        = flag.String("logs", "", "a directory to which TestKills copies Patroni's logs if it fails")
)

// The longest pause of 99 rounds in 100, and how long after a promotion the first answer may come.
const (
	barSupervisor = 2 * time.Second
	barPatroni    = 8 * time.Second
	barFrozen     = 30 * time.Second // ttl is 20 s
	barFirst      = 200 * time.Millisecond
)

// TestKills kills or freezes primaries with synchronous standbys, one after the other, under two proxies and clients of many kinds. Nothing
// acknowledged is lost, nothing is half there, no id is given twice. No read fails and no login; of writes that were under way when
// the primary was lost, at most one per client does.
func TestKills(t *testing.T) {
	bar, more := barSupervisor, []string(nil)
	if *withPatroni {
		if _, err := patroni.Find(); err != nil {
			t.Skip("Patroni is a package of its own: ", err)
		}
		bar, more = barPatroni, []string{"--patroni"}
	}
	lose := (*cluster).kill
	if *freeze {
		if !*withPatroni {
			t.Fatal("-freeze needs -patroni: the supervisor of weft dev does not promote a standby of a primary that is frozen")
		}
		bar, lose = barFrozen, (*cluster).freezeOut
	}
	c := newCluster(t, more...)
	t.Cleanup(c.keepLogs) // before the directory is removed
	c.survive(t, *rounds, func(int) int { return rand.IntN(shards) }, lose, bar)
}

// survive loses the primary of a shard in each round, under two proxies and clients of many kinds, and fails if any client meets more than it may, or anything
// acknowledged is lost.
func (c *cluster) survive(t *testing.T, rounds int, choose func(round int) (shard int), lose func(c *cluster, shard int) time.Time, bar time.Duration) {
	t.Helper()
	proxies := []string{c.listen, c.secondProxy()}
	c.openBank()
	c.mustAsk("create table u (id bigserial primary key, who bigint)")
	c.mustAsk("select weft.shard_table('u', 'id')")
	c.mustAsk("create table journal (account bigint, number bigint)")
	c.mustAsk("select weft.shard_table('journal', 'account')")
	customers := newCustomers(c.accountsByShard(), proxies...)
	stop := serveAll(t.Context(), customers)
	defer stop()
	s := newScore(t)
	others, end := watchThief()
	defer end()
	for round := range rounds {
		shard := choose(round)
		c.awaitStandby(shard)
		for _, u := range customers {
			u.take()
		}
		time.Sleep(500 * time.Millisecond)
		promoted := c.watchPromotion(shard)
		lost := lose(c, shard)
		time.Sleep(time.Second)
		if s.round(round, shard, lost, promoted(), others.share, customers); t.Failed() {
			break
		}
	}
	stop()
	s.audit(c, customers)
	s.report(bar)
}

// accountsByShard returns on which shard each account is.
func (c *cluster) accountsByShard() map[int64]int {
	c.t.Helper()
	shardOf := map[int64]int{}
	for shard := range shards {
		text, err := ask(c.t.Context(), c.primary(shard).Address, "select coalesce(string_agg(id::text, ','), '') from account")
		if err != nil {
			c.t.Fatal(err)
		}
		for id := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				c.t.Fatalf("shard-%d has account %q", shard, id)
			}
			shardOf[n] = shard
		}
	}
	return shardOf
}

// watchPromotion asks the standby of a shard again and again whether it is one still. The function that it returns says when it was one for the last
// time, and nothing if it still is: the shard has got its primary back.
func (c *cluster) watchPromotion(shard int) (promoted func() time.Time) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	var conn *pgx.Conn
	for _, s := range c.servers(shard) {
		if s.Role == "standby" {
			var err error
			if conn, err = pgx.Connect(ctx, "postgres://postgres@"+s.Address+"/app?sslmode=disable"); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if conn == nil {
		c.t.Fatalf("shard-%d has no standby", shard)
	}
	found := make(chan time.Time, 1)
	go func() {
		defer conn.Close(context.WithoutCancel(ctx))
		last := time.Now()
		for standby := true; standby; time.Sleep(time.Millisecond) {
			asked := time.Now()
			if err := conn.QueryRow(ctx, "select pg_is_in_recovery()").Scan(&standby); err != nil {
				found <- time.Time{}
				return
			}
			if standby {
				last = asked
			}
		}
		found <- last
	}()
	return func() time.Time {
		defer cancel()
		select {
		case at := <-found:
			return at
		case <-time.After(time.Second):
			return time.Time{}
		}
	}
}

// kill kills a primary's postmaster, and waits until there is another one, or the same one again if no standby had caught up.
func (c *cluster) kill(shard int) (killed time.Time) {
	c.t.Helper()
	old := c.primary(shard)
	if err := syscall.Kill(old.PID, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	killed = time.Now()
	await(c.t, "another primary", func() bool { return c.primary(shard).PID != old.PID })
	return killed
}

// freezeOut freezes a primary with its Patroni, waits for another one, and lets the server go on, without its Patroni at first: clients do not write to it. A Patroni
// that would take the leader key back is ended instead, as a watchdog does.
func (c *cluster) freezeOut(shard int) (frozen time.Time) {
	c.t.Helper()
	old := c.primary(shard)
	c.order("freeze", shard)
	frozen = time.Now()
	await(c.t, "another primary", func() bool { return c.primary(shard).Address != old.Address })
	c.thawServer(old)
	time.Sleep(time.Second)
	c.nothingElse(old, shard)
	if c.thawsSafely(shard) {
		c.order("thaw", shard)
		return frozen
	}
	pid, err := strconv.Atoi(strings.TrimSpace(read(filepath.Join(c.dir, "patroni", filepath.Base(old.Dir)+".yml.pid"))))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL) // weft dev starts it again
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return frozen
}

// thawServer lets the processes of a server go on.
func (c *cluster) thawServer(s server) {
	c.t.Helper()
	for _, pid := range c.processes(s) {
		_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended
	}
}

// processes returns the processes of a server: they run in its data directory.
func (c *cluster) processes(s server) (pids []int) {
	c.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, link := range all {
		if dir, err := os.Readlink(link); err != nil || dir != s.Dir {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		c.t.Fatalf("no process of %s", s.Dir)
	}
	return pids
}

// nothingElse finds no row on an old primary that the present one lacks.
func (c *cluster) nothingElse(old server, shard int) {
	c.t.Helper()
	now := c.primary(shard)
	for table, column := range map[string]string{"t": "id", "u": "id", "journal": "number"} {
		const all = "select coalesce(string_agg(%::text, ','), '') from $"
		text := strings.NewReplacer("%", column, "$", table).Replace(all)
		stale, err := ask(c.t.Context(), old.Address, text)
		if err != nil {
			c.t.Fatalf("the old primary: %v", err)
		}
		got, err := ask(c.t.Context(), now.Address, text)
		if err != nil {
			c.t.Fatalf("the new primary: %v", err)
		}
		there := map[string]bool{}
		for id := range strings.SplitSeq(got, ",") {
			there[id] = true
		}
		for id := range strings.SplitSeq(stale, ",") {
			if id != "" && !there[id] {
				c.t.Errorf("%s has row %s of %s, and %s has not", old.Address, id, table, now.Address)
			}
		}
	}
}

// keepLogs copies Patroni's logs if the test has failed.
func (c *cluster) keepLogs() {
	if !c.t.Failed() || *logs == "" {
		return
	}
	all, _ := filepath.Glob(filepath.Join(c.dir, "patroni", "*.log"))
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(*logs, filepath.Base(path)), text, 0o644)
		}
		if err != nil {
			c.t.Log(err)
		}
	}
}
