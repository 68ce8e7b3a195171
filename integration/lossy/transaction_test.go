package lossy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver"
)

// transfers are transactions that write a row with the same tag on each shard, by clients of all proxies.
type transfers struct {
	stop func()

	mu   sync.Mutex
	told map[int64]time.Time // when COMMIT was answered, by tag
}

func (tr *transfers) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.told)
}

// transfer starts clients that commit on both shards again and again.
func (w *world) transfer(clients int) *transfers {
	tr := &transfers{told: map[int64]time.Time{}}
	ctx, stop := context.WithCancel(w.within())
	var wg sync.WaitGroup
	for i := range clients {
		target := w.proxies[i%len(w.proxies)].ConnString("postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol")
		wg.Go(func() {
			tag := int64(i) * 1_000_000
			for ctx.Err() == nil {
				c, err := pgx.Connect(ctx, target)
				if err != nil {
					continue
				}
				for err == nil {
					tag++
					if err = w.move(ctx, c, tag); err == nil {
						tr.mu.Lock()
						tr.told[tag] = time.Now()
						tr.mu.Unlock()
					}
				}
				_ = c.Close(context.Background())
			}
		})
	}
	tr.stop = sync.OnceFunc(func() { stop(); wg.Wait() })
	w.Cleanup(tr.stop)
	return tr
}

// move commits a row with a tag on each shard.
func (w *world) move(ctx context.Context, c *pgx.Conn, tag int64) error {
	sql := []string{"begin"}
	for _, k := range w.keys {
		sql = append(sql, fmt.Sprintf("insert into moves values (%d, %d)", k, tag))
	}
	for _, s := range append(sql, "commit") {
		if _, err := c.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// tags returns the tags of the rows of a shard.
func (w *world) tags(s *pgserver.Server) map[int64]bool {
	out := map[int64]bool{}
	for _, tag := range value[[]int64](w, s, "select coalesce(array_agg(tag), '{}') from moves") {
		out[tag] = true
	}
	return out
}

// named returns tags of the rows of a shard by the name of the transaction that has written them: a decision or a part has the same xmin.
func (w *world) named(s *pgserver.Server, table, suffix string) map[string]int64 {
	out := map[string]int64{}
	for _, line := range value[[]string](w, s, "select coalesce(array_agg(d.gid || ' ' || m.tag), '{}') from weft."+table+" d join moves m on m.xmin = d.xmin") {
		var gid string
		var tag int64
		if _, err := fmt.Sscan(line, &gid, &tag); err != nil {
			w.Fatal(err)
		}
		out[strings.TrimSuffix(gid, suffix)] = tag
	}
	return out
}

// listed is a row of weft.failover_transactions.
type listed struct {
	GID, State string
	Kept, Lost []string
	Told       *bool
	Committed  *time.Time
}

func (w *world) listed(c *pgx.Conn) []listed {
	w.Helper()
	rows, err := c.Query(w.within(), "select gid, state, kept_by, lost_by, acknowledged, committed_at from weft.failover_transactions")
	if err != nil {
		w.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[listed])
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// TestHarmedTransactions: standbys are cut off for a while and then promoted. The transactions of both shards that are lost, or half, are listed: those,
// and no others.
func TestHarmedTransactions(t *testing.T) {
	for name, shards := range map[string][]int{"participant": {1}, "decider": {0}, "both": {1, 0}, "one after the other": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.connect(0)
			w.must(c, "create table moves (k int, tag bigint, primary key (k, tag))")
			w.must(c, "select weft.shard_table('moves', 'k')")
			tr := w.transfer(4)
			more := func(n int) {
				t.Helper()
				before := tr.count()
				w.await("transfers", func() bool { return tr.count() >= before+n })
			}
			more(30)
			for _, s := range shards {
				w.cut(s)
				more(10)
			}
			time.Sleep(time.Second)
			more(30)
			for i, s := range shards {
				w.failOver(s)
				if name == "one after the other" && i == 0 {
					w.generation(s, 2)
					w.await("halves are listed", func() bool { return len(w.listed(w.connect(1))) >= 10 })
				}
			}
			for _, s := range shards {
				w.generation(s, 2)
			}
			more(20)
			tr.stop()
			now := [2]*pgserver.Server{w.shards[0].a.Server, w.shards[1].a.Server}
			for _, s := range shards {
				now[s] = w.shards[s].b
			}
			w.await("nothing is prepared", func() bool {
				return value[int](w, now[0], "select count(*) from pg_prepared_xacts")+value[int](w, now[1], "select count(*) from pg_prepared_xacts") == 0
			})
			want := w.harmed(tr, now)
			if len(want) == 0 {
				t.Fatal("nothing was lost: the test proves nothing")
			}
			var got []string
			w.await("all harmed transactions are listed", func() bool {
				got = w.describe(w.listed(w.connect(1)), now)
				return len(got) >= len(want)
			})
			time.Sleep(4 * time.Second) // sweeping finds no others
			got = w.describe(w.listed(w.connect(1)), now)
			if !slices.Equal(got, want) {
				t.Errorf("listed and not so: %v\nso and not listed: %v", without(got, want), without(want, got))
			}
			w.inWindow(w.connect(0), shards)
			t.Logf("%d transfers were acknowledged; %d are lost, %d half", len(tr.told), strings.Count(strings.Join(want, " "), "lost"), strings.Count(strings.Join(want, " "), "half"))
			w.elsewhere(want, now)
			if name == "participant" {
				w.accepts(now)
			}
		})
	}
}

// harmed describes the transfers that are lost or half, as the rows tell. Those that are lost have no names.
func (w *world) harmed(tr *transfers, now [2]*pgserver.Server) (out []string) {
	there := [2]map[int64]bool{w.tags(now[0]), w.tags(now[1])}
	for tag := range there[0] {
		if !there[1][tag] {
			out = append(out, fmt.Sprintf("half %d kept by shop-0", tag))
		}
	}
	for tag := range there[1] {
		if !there[0][tag] {
			out = append(out, fmt.Sprintf("half %d kept by shop-1", tag))
		}
	}
	for tag := range tr.told {
		if !there[0][tag] && !there[1][tag] {
			out = append(out, "lost")
		}
	}
	slices.Sort(out)
	return out
}

// describe describes what is listed in the same words.
func (w *world) describe(list []listed, now [2]*pgserver.Server) (out []string) {
	byName := [2]map[string]int64{w.named(now[0], "decision", ""), w.named(now[1], "part", ":shop-1")}
	for _, l := range list {
		switch {
		case l.State == "lost" && l.Told != nil && *l.Told && len(l.Kept) == 0:
			out = append(out, "lost")
		case l.State == "lost" && l.Told != nil && len(l.Kept) == 0: // was half for a while; its client was told nothing
		case l.State == "half" && len(l.Kept) == 1 && len(l.Lost) == 1:
			shard := 0
			if l.Kept[0] == "shop-1" {
				shard = 1
			}
			out = append(out, fmt.Sprintf("half %d kept by %s", byName[shard][l.GID], l.Kept[0]))
		default:
			out = append(out, fmt.Sprintf("%+v", l))
		}
	}
	slices.Sort(out)
	return out
}

// without returns what is in a and not in b.
func without(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// inWindow checks that what is listed was committed in the window of a failover that has lost it.
func (w *world) inWindow(c *pgx.Conn, shards []int) {
	w.Helper()
	var kept, at time.Time
	for _, s := range shards {
		name := fmt.Sprintf("shop-%d", s)
		if err := c.QueryRow(w.within(), "select kept_until, at from weft.failovers where shard = '"+name+"'").Scan(&kept, &at); err != nil {
			w.Fatal(err)
		}
		for _, l := range w.listed(c) {
			if slices.Contains(l.Lost, name) && l.Committed != nil && (l.Committed.Before(kept) || l.Committed.After(at)) {
				w.Errorf("%s lost %s, which was committed at %s, outside of %s to %s", name, l.GID, l.Committed, kept, at)
			}
		}
	}
}

// elsewhere checks that another proxy, started later, lists the same.
func (w *world) elsewhere(want []string, now [2]*pgserver.Server) {
	w.Helper()
	p := harness.StartWeft(w.T, func(c *config.Config) {
		c.Cluster = clusterName
		c.Etcd.Endpoints = []string{w.endpoint}
	})
	w.proxies[0] = p
	if got := w.describe(w.listed(w.connect(0)), now); !slices.Equal(got, want) {
		w.Errorf("another proxy lists %v, and does not list %v", without(got, want), without(want, got))
	}
}

// accepts takes a transaction for settled that is half. The shards forget it, and it stays listed with the time.
func (w *world) accepts(now [2]*pgserver.Server) {
	w.Helper()
	c := w.connect(1)
	list := w.listed(c)
	i := slices.IndexFunc(list, func(l listed) bool { return l.State == "half" })
	gid := list[i].GID
	if n := value[int](w, now[0], "select count(*) from weft.decision where gid = '"+gid+"'"); n != 1 {
		w.Fatalf("%d decisions of %s", n, gid)
	}
	cfg := config.Default()
	cfg.Cluster, cfg.Etcd.Endpoints = clusterName, []string{w.endpoint}
	out, err := harness.RunWith(w.T, cfg, "recover", "--accept", gid)
	if err != nil || !strings.Contains(out, gid+": accepted") {
		w.Fatalf("weft recover --accept: %v\n%s", err, out)
	}
	if n := value[int](w, now[0], "select count(*) from weft.decision where gid = '"+gid+"'"); n != 0 {
		w.Errorf("%d decisions of %s are left", n, gid)
	}
	if again := w.listed(c); len(again) != len(list) {
		w.Errorf("%d listed, %d before", len(again), len(list))
	}
	var accepted int
	if err := c.QueryRow(w.within(), "select count(*) from weft.failover_transactions where accepted_at is not null and gid = $1", gid).Scan(&accepted); err != nil || accepted != 1 {
		w.Errorf("%d accepted, %v", accepted, err)
	}
	if out, err := harness.RunWith(w.T, cfg, "recover", "--accept", "weft:1:2:3:shop-0.1"); err == nil || !strings.Contains(out, "is not in weft.failover_transactions") {
		w.Errorf("a transaction that nobody knows: %v\n%s", err, out)
	}
}
