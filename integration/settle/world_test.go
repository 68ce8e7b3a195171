package settle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/directory"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/twopc"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 1 // its servers are not used
	os.Exit(harness.Main(m))
}

const (
	clusterName = "settle"
	decider     = 0 // the home shard decides
	follower    = 1
)

// world is a cluster of two shards, each a primary with an asynchronous standby. Two proxies serve it.
type world struct {
	*testing.T
	cluster   string
	primaries [2]*pgserver.Temp
	standbys  [2]*pgserver.Server
	proxies   [2]*harness.Target
	stops     [2]*stop
	keys      [2]int // a row of each shard
}

// stop lets a proxy stand still at a point of a commit.
type stop struct {
	mu      sync.Mutex
	point   twopc.Point
	reached chan struct{}
	goOn    chan struct{}
}

// at has the next commit that comes to a point wait there. It returns a channel that is closed when one has come, and a function that lets it go on.
func (s *stop) at(p twopc.Point) (reached <-chan struct{}, goOn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.point, s.reached, s.goOn = p, make(chan struct{}), make(chan struct{})
	return s.reached, sync.OnceFunc(func() { close(s.goOn) })
}

func (s *stop) come(p twopc.Point) {
	s.mu.Lock()
	if s.point != p {
		s.mu.Unlock()
		return
	}
	s.point = ""
	close(s.reached)
	goOn := s.goOn
	s.mu.Unlock()
	<-goOn
}

func newWorld(t *testing.T, change ...func(*config.Config)) *world {
	t.Helper()
	w := &world{T: t}
	endpoint, _ := harness.StartEtcd(t)
	plain := map[string]string{"sslmode": "disable"}
	var shards []directory.Shard
	for i := range w.primaries {
		w.primaries[i] = pgtest.Start(t, pgserver.Config{Settings: pgserver.ReplicationSettings()})
		w.standbys[i] = pgtest.Standby(t, w.primaries[i].Server)
		shards = append(shards, directory.Shard{Name: fmt.Sprintf("shop-%d", i), Hosts: []string{w.primaries[i].Addr(), w.standbys[i].Addr()}, Options: plain, Weight: 1})
	}
	snap, err := harness.Store(t, endpoint, clusterName).Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) {
		return directory.New(16, "shop-0", shards), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.cluster = snap.Cluster
	for i := range w.proxies {
		w.stops[i] = &stop{}
		w.proxies[i] = harness.StartWeftWith(t, func(c *config.Config) {
			c.Cluster = clusterName
			c.Etcd.Endpoints = []string{endpoint}
			c.Failover.Wait = pgtest.Patience
			c.Failover.ProbeInterval = 50 * time.Millisecond
			for _, f := range change {
				f(c)
			}
		}, w.stops[i].come)
	}
	c := w.connect(0)
	w.must(c, "create table t (k int primary key, v int)")
	w.must(c, "select weft.shard_table('t', 'k')")
	w.must(c, "insert into t select g, 0 from generate_series(1, 40) g")
	for i, s := range w.primaries {
		w.keys[i] = w.ask(s.Server, "select min(k) from t")
	}
	w.await("nothing is left of the preparations", func() bool { return w.left(w.primaries[decider].Server) == 0 })
	for i := range w.standbys {
		w.caughtUp(i)
	}
	return w
}

func (w *world) connect(proxy int) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, "postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol")
}

func (w *world) within() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	w.Cleanup(stop)
	return ctx
}

func (w *world) must(c *pgx.Conn, sql string) {
	w.Helper()
	if _, err := c.Exec(w.within(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// direct connects to a server.
func (w *world) direct(s *pgserver.Server) *pgx.Conn {
	w.Helper()
	c, err := pgx.Connect(w.within(), s.ConnString("postgres"))
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// ask returns a number that a server gives.
func (w *world) ask(s *pgserver.Server, sql string) (n int) {
	w.Helper()
	c := w.direct(s)
	defer c.Close(context.Background())
	if err := c.QueryRow(w.within(), sql).Scan(&n); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return n
}

// v is the row of a shard, as a server has it.
func (w *world) v(shard int, s *pgserver.Server) int {
	w.Helper()
	return w.ask(s, fmt.Sprintf("select v from t where k = %d", w.keys[shard]))
}

// prepared counts the prepared transactions of a server.
func (w *world) prepared(s *pgserver.Server) int {
	w.Helper()
	return w.ask(s, "select count(*) from pg_prepared_xacts")
}

// left counts the decisions of a server.
func (w *world) left(s *pgserver.Server) int {
	w.Helper()
	return w.ask(s, "select count(*) from weft.decision")
}

// caughtUp waits until the standby of a shard has replayed all.
func (w *world) caughtUp(shard int) {
	w.Helper()
	w.await("the standby has caught up", func() bool {
		return w.ask(w.primaries[shard].Server, "select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()") == 1
	})
}

// transfer adds one to a row of each shard, in one transaction, and returns what COMMIT returns.
func (w *world) transfer(c *pgx.Conn) <-chan error {
	w.Helper()
	w.must(c, "begin")
	for _, k := range w.keys {
		w.must(c, fmt.Sprintf("update t set v = v + 1 where k = %d", k))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(w.within(), "commit")
		ended <- err
	}()
	return ended
}

func (w *world) await(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(pgtest.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

// come waits until a channel is closed.
func (w *world) come(what string, c <-chan struct{}) {
	w.Helper()
	select {
	case <-c:
	case <-time.After(pgtest.Patience):
		w.Fatalf("waited in vain for %s", what)
	}
}

// promote makes the standby of a shard its primary.
func (w *world) promote(shard int) {
	w.Helper()
	if err := w.standbys[shard].Promote(w.within()); err != nil {
		w.Fatal(err)
	}
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}
