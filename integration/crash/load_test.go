package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
)

// TestLoad is mixed traffic of clients that err, cancel and go away without a
// word, on a proxy in this process, so that the race detector sees it. After it
// nothing is left of them: no backend, no goroutine, no memory.
func TestLoad(t *testing.T) {
	endpoint, _ := harness.StartEtcd(t)
	target := harness.StartWeft(t, func(c *config.Config) {
		c.Etcd.Endpoints = []string{endpoint}
		c.Pool.MaxPerShard = 12
	})
	const db = "c_load"
	target.CreateDatabase(t, db)
	setup := target.Connect(t, "postgres", "dbname="+db)
	// Clients have a role of their own: what weft keeps for itself is not counted.
	must(t, setup, "create role c_load_client superuser login")
	must(t, setup, "create table s (id bigint primary key, v bigint not null default 0, note text); create table o (id bigserial primary key, sid bigint references s (id), v int); create table home (id int)")
	must(t, setup, "insert into s select i, 0, 'n' from generate_series(1, 400) i")
	must(t, setup, "create table r (id bigint primary key, name text); insert into r select i, 'r' from generate_series(1, 20) i")
	for _, sql := range []string{"select weft.shard_table('s', 'id')", "select weft.reference_table('r')", "select weft.shard_table('o', 'sid')"} {
		declare(t, setup, sql)
	}
	part := func(d time.Duration, clients int) {
		ctx, stop := context.WithTimeout(context.Background(), d)
		defer stop()
		var wg sync.WaitGroup
		var n atomic.Int64
		for i := range clients {
			wg.Go(func() { n.Add(traffic(ctx, t, target, db, i)) })
		}
		wg.Wait()
		t.Logf("%d clients in %s: %d statements", clients, d, n.Load())
		if n.Load() == 0 {
			t.Error("nothing was done")
		}
	}
	idle := func() (goroutines int, memory uint64) {
		// Sessions of clients that went without a word end when weft reads.
		time.Sleep(1500 * time.Millisecond)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	part(*long/4, 24)
	g0, m0 := idle()
	part(*long*3/4, 24)
	g1, m1 := idle()
	t.Logf("goroutines %d, then %d; heap %d KiB, then %d KiB", g0, g1, m0>>10, m1>>10)
	if g1 > g0+10 {
		buf := make([]byte, 1<<20)
		t.Errorf("goroutines grew from %d to %d\n%s", g0, g1, buf[:runtime.Stack(buf, true)])
	}
	if m1 > m0+m0/2+32<<20 {
		t.Errorf("the heap grew from %d to %d bytes", m0, m1)
	}
	for shard, s := range target.Shards() {
		c, err := pgx.Connect(context.Background(), s.ConnString(db))
		if err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, fmt.Sprintf("shard %d is quiet", shard), func() bool {
			return value[int](t, c, "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'") == 0
		})
		// One transaction that all others wait for may have a connection above the limit.
		if n := value[int](t, c, "select count(*) from pg_stat_activity where datname = current_database() and usename = 'c_load_client'"); n > 13 {
			t.Errorf("shard %d has %d connections", shard, n)
		}
		if n := value[int](t, c, "select count(*) from o where v < 0"); n != 0 {
			t.Errorf("shard %d has %d rows of transactions that were rolled back", shard, n)
		}
		_ = c.Close(context.Background())
	}
}

// expected are the SQLSTATEs that the traffic provokes.
var expected = []string{"", "22012", "23503", "23505", "25P02", "57014", "0A000", "42P01"}

// traffic is one client after the other, until ctx ends.
func traffic(ctx context.Context, t *testing.T, target *harness.Target, db string, id int) (n int64) {
	r := newRand(uint64(id))
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeCacheStatement,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe,
	}
	for ctx.Err() == nil {
		cfg, err := pgx.ParseConfig(target.ConnString("c_load_client", "dbname="+db))
		if err != nil {
			t.Error(err)
			return n
		}
		cfg.DefaultQueryExecMode = modes[r.IntN(len(modes))]
		conn, err := pgx.ConnectConfig(context.Background(), cfg)
		if err != nil {
			t.Errorf("connect: %v", err)
			return n
		}
		for range 10 + r.IntN(200) {
			if ctx.Err() != nil || conn.IsClosed() {
				break
			}
			if got, err := act(conn, r); !slices.Contains(expected, got) {
				t.Errorf("client %d: %v", id, err)
			}
			n++
		}
		if r.IntN(3) == 0 {
			_ = conn.PgConn().Conn().Close() // without a word, inside whatever it is
		} else {
			_ = conn.Close(context.Background())
		}
	}
	return n
}

// act does one thing.
func act(conn *pgx.Conn, r *rand.Rand) (string, error) {
	key, other := int64(r.IntN(400)+1), int64(r.IntN(400)+1)
	do := func(sql string, args ...any) (string, error) { return exec(conn, patience, sql, args...) }
	switch r.IntN(14) {
	case 0, 1:
		return do("update s set v = v + 1 where id = $1", key)
	case 2:
		return do("select s.v, o.v from s left join o on o.sid = s.id where s.id = $1 limit 10", key)
	case 3:
		return do("insert into o (sid, v) values ($1, 1) returning id", key)
	case 4:
		return do("select count(*) from r")
	case 5:
		return do("insert into home values ($1)", int32(key))
	case 6:
		return do("select 1 / (v - v) from s where id = $1", key)
	case 7:
		return do("insert into s (id) values ($1)", key) // there already
	case 8:
		return do("select * from s where id > $1", key) // many shards: refused
	case 9: // a transaction that is rolled back
		_, _ = do("begin")
		_, _ = do("select v from s where id = $1", other)
		got, err := do("insert into o (sid, v) values ($1, -1)", key)
		if _, rerr := do("rollback"); rerr != nil {
			return code(rerr), rerr
		}
		return got, err
	case 10:
		_, _ = do("begin")
		got, err := do("update s set v = v + 1 where id = $1", key)
		_, _ = do("savepoint a")
		_, _ = do("select 1 / 0")
		_, _ = do("rollback to a")
		if _, cerr := do("commit"); cerr != nil {
			return code(cerr), cerr
		}
		return got, err
	case 11: // cancelled: by pgx, which closes the connection
		got, err := exec(conn, time.Duration(r.IntN(5))*time.Millisecond, "select pg_sleep(0.05), v from s where id = $1", key)
		if got == "?" {
			return "", nil
		}
		return got, err
	case 12: // cancelled: by a request
		timer := time.AfterFunc(time.Duration(r.IntN(20))*time.Millisecond, func() { _ = conn.PgConn().CancelRequest(context.Background()) })
		defer timer.Stop()
		return do("select pg_sleep(0.02), v from s where id = $1", key)
	}
	var batch pgx.Batch
	for range 5 {
		batch.Queue("select v from s where id = $1", key)
		batch.Queue("update s set v = v + 1 where id = $1", key)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	err := conn.SendBatch(ctx, &batch).Close()
	return code(err), err
}
