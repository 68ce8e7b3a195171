package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

var away = flag.Duration("away", 12*time.Second, "how long etcd is away each time: longer than a lease")

// TestEtcdAwayFrozen: etcd stands still for longer than any lease, and goes on.
func TestEtcdAwayFrozen(t *testing.T) {
	together(t)
	e := harness.StartEtcdProcess(t)
	awayFor(t, e, "frozen", e.Freeze, e.Thaw)
}

// TestEtcdAwayKilled: etcd is dead for longer than any lease, and is started again.
func TestEtcdAwayKilled(t *testing.T) {
	together(t)
	e := harness.StartEtcdProcess(t)
	awayFor(t, e, "killed", e.Kill, func() {
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

// awayFor lets etcd go and come back. Nothing stops meanwhile but what would change the cluster, which is refused with a reason. Clients notice
// nothing, whatever they do: those with a block open for all that time, logins, writes, commits over several shards and sequences. A move that
// was under way goes on by itself when etcd is back, and so does everything else. The log has a few lines about an outage, however long it
// lasts.
func awayFor(t *testing.T, e *harness.Etcd, name string, down, up func()) {
	w := newWorldAt(t, e.Endpoint, "c_away_"+name, nil, nil)
	w.proxy(nil)
	w.shop()
	must(t, w.conn(0), "create table q (id bigserial primary key, v bigint); create table plain (id bigint primary key)")
	declare(t, w.conn(0), "select weft.shard_table('q', 'id')")
	l := w.busyWithout()
	l.atLeast(t, 3)
	// A move that stands still between the fence and the first hold: the process that runs it fences anew as soon as etcd is back.
	w.weft[0].StopAt(t, "move-fenced", false)
	job := value[string](t, w.conn(0), "select weft.move_buckets($1, 'shard-2')", fmt.Sprint(w.unused()))
	within(t, patience, "a move begins", w.weft[0].Stopped)
	blocks := []*pgx.Conn{w.conn(0), w.conn(1)}
	write := func() {
		t.Helper()
		for i, c := range blocks {
			must(t, c, "update s set v = v + 1 where id = any($1)", []int64{w.keyOn(1, 1+i), w.keyOn(2, 1+i)})
		}
	}
	for _, c := range blocks {
		must(t, c, "begin")
	}
	write()
	fences := [2]int{w.fences(1), w.fences(2)}
	before := [2]int64{w.logSize(0), w.logSize(1)}
	down()
	w.refuses(t)
	for end := time.Now().Add(*away); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		l.healthy(t)
	}
	w.refuses(t)
	write()
	l.atLeast(t, 3)
	logged := [2]int{w.lines(0, before[0]), w.lines(1, before[1])}
	up()
	w.weft[0].GoOn()
	w.goesOn(t)
	within(t, patience, "the shards are fenced anew", func() bool { return w.fences(1) > fences[0] && w.fences(2) > fences[1] })
	write()
	for _, c := range blocks {
		must(t, c, "commit")
	}
	must(t, w.conn(0), "select weft.wait_move($1)", job)
	l.atLeast(t, 3)
	n := l.end(t)
	for i, n := range logged {
		if limit := 12; n > limit {
			t.Errorf("proxy %d has logged %d lines", i, n)
		}
	}
	t.Logf("%s for %s: %d rounds of all, %d and %d lines in the logs", name, *away, n, logged[0], logged[1])
}

// goesOn waits until schemas can be changed again.
func (w *world) goesOn(t *testing.T) {
	t.Helper()
	within(t, 30*time.Second, "DDL goes on", func() bool {
		got, err := exec(w.conn(1), patience, "alter table q add column more int")
		if got != "" {
			t.Logf("DDL after the return: %v", err)
		}
		return got == "" || got == "42701"
	})
}

// fences is how often the fence of a shard was set.
func (w *world) fences(shard int) int {
	w.t.Helper()
	return value[int](w.t, w.eye(shard), "select changes::int from weft_gate.fence")
}

// bucketOf is the bucket of a key.
func (w *world) bucketOf(key int64) int {
	w.t.Helper()
	return value[int](w.t, w.eye(0), "select ((hashint8extended($1::bigint, 0) >> 58) & 63)::int", key)
}

// unused returns a bucket of shard 1 without the keys that clients write.
func (w *world) unused() int {
	w.t.Helper()
	used := map[int]bool{}
	for i := 0; ; i++ {
		b := w.bucketOf(w.keyOn(1, i))
		if i > 2 && !used[b] {
			return b
		}
		used[b] = true
	}
}

// refuses tries what changes the cluster: it is refused, with a reason.
func (w *world) refuses(t *testing.T) {
	t.Helper()
	c := w.conn(0)
	for _, sql := range []string{"alter table q add column nothing int", "select weft.move_buckets('1', 'shard-2')", "select weft.reference_table('plain')"} {
		began := time.Now()
		got, err := exec(c, patience, sql)
		if d := time.Since(began); got != "55000" || pgtest.Late(t, d, 10*time.Second) {
			t.Errorf("%s: %q %v after %s", sql, got, err, d.Round(time.Millisecond))
		}
	}
}

func (w *world) logSize(i int) int64 {
	info, err := os.Stat(w.weft[i].LogFile())
	if err != nil {
		w.t.Fatal(err)
	}
	return info.Size()
}

// lines counts what a proxy has logged since its log had a size, but for warnings about load: the clients here write the same few rows all the time.
func (w *world) lines(i int, since int64) int {
	b, err := os.ReadFile(w.weft[i].LogFile())
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(b[since:])) {
		if !strings.Contains(line, `msg="a warning has `) {
			n++
		}
	}
	return n
}

// busy are clients of both proxies that do all that does not change the cluster.
type busy struct {
	stop context.CancelFunc
	wg   sync.WaitGroup
	did  [2]atomic.Int64
	mu   sync.Mutex
	errs []string
}

// breath is how long a client rests between two rounds. The blocks that stay open keep PostgreSQL from removing old versions of the rows that clients
// update, so that each round takes longer than the one before it: in an hour there must be fewer of them.
func breath() time.Duration { return max(20*time.Millisecond, *away/20000) }

// busyWithout starts them.
func (w *world) busyWithout() *busy {
	ctx, stop := context.WithCancel(context.Background())
	b := &busy{stop: stop}
	w.t.Cleanup(func() { stop(); b.wg.Wait() })
	one, other := w.keyOn(1, 0), w.keyOn(2, 0)
	for i := range 2 {
		kept := w.conn(i)
		b.wg.Go(func() {
			for ctx.Err() == nil {
				err := func() error {
					ctx, stop := context.WithTimeout(context.Background(), patience)
					defer stop()
					c, err := pgx.Connect(ctx, w.weft[i].ConnString("postgres", "dbname="+w.db)) // logins too
					if err != nil {
						return fmt.Errorf("login: %w", err)
					}
					defer c.Close(ctx)
					for _, on := range []*pgx.Conn{kept, c} {
						for _, sql := range []string{
							fmt.Sprintf("update s set v = v + 1 where id = %d", one),
							fmt.Sprintf("begin; update s set v = v + 1 where id = %d; update s set v = v - 1 where id = %d; commit", min(one, other), max(one, other)),
							"insert into q (v) values (1)", "select nextval('q_id_seq')", "select sum(v) from s", "select count(*) from r",
						} {
							if _, err := on.Exec(ctx, sql); err != nil {
								return fmt.Errorf("%s: %w", sql, err)
							}
						}
						if _, err := on.Exec(ctx, "update s set v = v + $2 where id = $1", other, 1); err != nil { // prepared
							return fmt.Errorf("prepared: %w", err)
						}
					}
					return nil
				}()
				if err != nil {
					b.mu.Lock()
					b.errs = append(b.errs, err.Error())
					b.mu.Unlock()
				}
				b.did[i].Add(1)
				time.Sleep(breath())
			}
		})
	}
	return b
}

// atLeast waits until each proxy has served some more rounds.
func (b *busy) atLeast(t *testing.T, n int64) {
	t.Helper()
	for i := range b.did {
		goal := b.did[i].Load() + n
		within(t, patience, "clients are served", func() bool { return b.did[i].Load() >= goal })
	}
}

// healthy complains of errors at once.
func (b *busy) healthy(t *testing.T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errs) > 0 {
		t.Fatal(strings.Join(b.errs, "\n"))
	}
}

func (b *busy) end(t *testing.T) int64 {
	b.stop()
	b.wg.Wait()
	b.healthy(t)
	return b.did[0].Load() + b.did[1].Load()
}
