package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/directory"
	"weft/directory/etcd"
	"weft/integration/consistency"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/vindex"
)

var (
	rounds = flag.Int("rounds", 1, "how many rounds of random deaths")
	long   = flag.Duration("for", 4*time.Second, "how long the load lasts")
	seed   = flag.Uint64("seed", 1, "of the random deaths")
)

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = flag.Set("test.parallel", "4") // they wait more than they work
	}
	os.Exit(harness.Main(m))
}

// together lets tests run at the same time that leave the shards alone.
func together(t *testing.T) {
	if *rounds == 1 {
		t.Parallel()
	}
}

// patience is how long something may take that must happen.
const patience = pgtest.Patience

// world is one cluster.
type world struct {
	t     *testing.T
	db    string
	etcd  string // its endpoint
	store *etcd.Store
	weft  []*harness.Program
	wire  []*cable // to etcd, of each proxy
	any   *harness.Target
	more  []*pgserver.Temp // servers of shards that have joined, after those of any

	// busy is held by whoever writes; quiesce keeps them from it.
	busy sync.RWMutex
	mu   sync.Mutex // guards weft and wire when proxies are replaced, and passed
	// passed are the clients that have got an answer since it was emptied.
	passed map[int]bool

	history []consistency.Transaction // of all rounds: see TestHistory

	eyes map[int]*pgx.Conn // by shard: see eye
	keys [][]int64         // by shard, in order: see keyOn
}

// quiesce runs f while no client has a statement under way.
func (w *world) quiesce(f func()) {
	w.busy.Lock()
	defer w.busy.Unlock()
	f()
}

func newWorld(t *testing.T, db string, configure func(*config.Config)) *world {
	t.Helper()
	return newWiredWorld(t, db, nil, configure)
}

// newWiredWorld is newWorld with other ways to the shards.
func newWiredWorld(t *testing.T, db string, wired func(*directory.Snapshot), configure func(*config.Config)) *world {
	t.Helper()
	endpoint, _ := harness.StartEtcd(t)
	return newWorldAt(t, endpoint, db, wired, configure)
}

// newWorldAt is newWiredWorld with an etcd.
func newWorldAt(t *testing.T, endpoint, db string, wired func(*directory.Snapshot), configure func(*config.Config)) *world {
	t.Helper()
	w := &world{t: t, db: db, etcd: endpoint}
	store, err := etcd.Open(etcd.Config{Endpoints: []string{w.etcd}, Prefix: etcd.Prefix("test"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w.store = store
	if wired != nil {
		w.change(wired)
	}
	w.proxy(configure)
	w.any = w.weft[0].Target
	w.any.CreatePrepared(t, db)
	return w
}

// proxy starts one more proxy.
func (w *world) proxy(configure func(*config.Config)) *harness.Program {
	w.t.Helper()
	c := newCable(w.t, strings.TrimPrefix(w.etcd, "http://"))
	p := harness.StartProgram(w.t, func(cfg *config.Config) {
		cfg.Etcd.Endpoints = []string{"http://" + c.addr()}
		cfg.Etcd.Timeout = pgtest.Stretch(time.Second)
		if configure != nil {
			configure(cfg)
		}
	})
	w.weft, w.wire = append(w.weft, p), append(w.wire, c)
	return p
}

// replace starts a proxy in the place of one that is dead.
func (w *world) replace(i int, configure func(*config.Config)) {
	w.t.Helper()
	n := len(w.weft)
	p := w.proxy(configure)
	w.weft[i], w.wire[i] = p, w.wire[n]
	w.weft, w.wire = w.weft[:n], w.wire[:n]
}

// snapshot is the cluster as etcd has it now.
func (w *world) snapshot() *directory.Snapshot {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	s, err := w.store.Load(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// change changes the cluster.
func (w *world) change(f func(*directory.Snapshot)) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if _, err := w.store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		f(next)
		return next, nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) conn(i int) *pgx.Conn {
	w.t.Helper()
	return w.weft[i].Connect(w.t, "postgres", "dbname="+w.db)
}

// server returns the server of a shard.
func (w *world) server(shard int) *pgserver.Temp {
	if n := len(w.any.Shards()); shard >= n {
		return w.more[shard-n]
	}
	return w.any.Shards()[shard]
}

// direct connects to a shard itself.
func (w *world) direct(shard int) *pgx.Conn {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, w.server(shard).ConnString(w.db))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// eye is the world's own connection to a shard, for those who look again and
// again. It is opened anew after its server was away.
func (w *world) eye(shard int) *pgx.Conn {
	w.t.Helper()
	c := w.eyes[shard]
	if c != nil {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if c.Ping(ctx) == nil {
			return c
		}
		_ = c.Close(ctx)
	}
	if w.eyes == nil {
		w.eyes = map[int]*pgx.Conn{}
	}
	w.eyes[shard] = w.direct(shard)
	return w.eyes[shard]
}

// keyOn returns the n-th key from 1 that lives on the shard.
func (w *world) keyOn(shard, n int) int64 {
	w.t.Helper()
	for len(w.keys) == 0 || len(w.keys[shard]) <= n {
		w.moreKeys()
	}
	return w.keys[shard][n]
}

// moreKeys finds out where the next keys live.
func (w *world) moreKeys() {
	w.t.Helper()
	snap := w.snapshot()
	if len(w.keys) == 0 {
		w.keys = make([][]int64, len(w.any.Shards()))
	}
	from := int64(1)
	for _, keys := range w.keys {
		if len(keys) > 0 {
			from = max(from, keys[len(keys)-1]+1)
		}
	}
	rows, err := w.eye(0).Query(context.Background(), "select k, ((hashint8extended(k, 0) >> 58) & 63)::int from generate_series($1::bigint, $1 + 199) k", from)
	if err != nil || snap.BucketCount != 64 {
		w.t.Fatal(err, snap.BucketCount)
	}
	var key int64
	var bucket int
	if _, err := pgx.ForEachRow(rows, []any{&key, &bucket}, func() error {
		shard := snap.Placement[bucket]
		w.keys[shard] = append(w.keys[shard], key)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func must(t testing.TB, c *pgx.Conn, sql string, args ...any) pgconn.CommandTag {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	tag, err := c.Exec(ctx, sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag
}

// declare makes a declaration that a test begins with. A machine may be so busy that etcd or a shard does not answer in
// time, which is not what the test is about: then the declaration is made again.
func declare(t testing.TB, c *pgx.Conn, sql string) {
	t.Helper()
	for began, again := time.Now(), false; ; again = true {
		got, err := exec(c, patience, sql)
		if got == "" || again && got == "42710" { // the first one was made after all
			return
		}
		if !slices.Contains([]string{"08006", "08007", "53300", "55000", "55P03", "57014", "XX000"}, got) || time.Since(began) > patience {
			t.Fatalf("%s: %v", sql, err)
		}
		t.Logf("%s: %v", sql, err)
		time.Sleep(500 * time.Millisecond)
	}
}

// value is the only value of a query.
func value[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// code is the SQLSTATE of an error, "" for none, "?" if it has no such.
func code(err error) string {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return "?"
}

// exec runs a statement for at most d and returns its SQLSTATE.
func exec(c *pgx.Conn, d time.Duration, sql string, args ...any) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), d)
	defer stop()
	_, err := c.Exec(ctx, sql, args...)
	return code(err), err
}

// later runs a statement in the background. A test that ends before it does cuts
// its connection and waits for it: nobody may use a connection that is closed.
func later(t testing.TB, c *pgx.Conn, sql string, args ...any) <-chan error {
	done, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		_, err := c.Exec(context.Background(), sql, args...)
		done <- err
		close(done)
	}()
	t.Cleanup(func() {
		select {
		case <-over:
		default:
			_ = c.PgConn().Conn().Close()
			<-over
		}
	})
	return done
}

// within waits for something, and complains if it takes longer than d, or what d is on a machine that is busy.
func within(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > max(d, patience) {
			t.Fatalf("not within %s: %s", time.Since(began), what)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); pgtest.Late(t, took, d) {
		t.Errorf("not within %s, but after %s: %s", d, took, what)
	}
}

// settled waits until no table is on its way, and returns the directory's word
// on the table.
func (w *world) settled(table string) *directory.Table {
	w.t.Helper()
	var found *directory.Table
	within(w.t, patience, table+" is declared or not", func() bool {
		found = w.snapshot().Table(w.db, "public", table)
		return found == nil || found.State == directory.Active
	})
	return found
}

// rowsOf returns the values v by key of a table, read on the shards themselves,
// and complains of rows that are twice or where they do not belong.
func (w *world) rowsOf(table string) map[int64]int64 {
	w.t.Helper()
	snap := w.snapshot()
	d := snap.Table(w.db, "public", table)
	bucket := "0"
	if d != nil && d.Kind == directory.Sharded {
		v, err := d.NewVindex(snap.BucketCount)
		if err != nil {
			w.t.Fatal(err)
		}
		if bucket, err = vindex.BucketSQL(v.(vindex.Computed), []string{"id"}, snap.BucketCount); err != nil {
			w.t.Fatal(err)
		}
	}
	ctx := context.Background()
	got := map[int64]int64{}
	for shard := range w.any.Shards() {
		c := w.direct(shard)
		if !value[bool](w.t, c, "select to_regclass($1) is not null", table) {
			if d != nil || shard == 0 {
				w.t.Errorf("shard %d has no table %s", shard, table)
			}
			continue
		}
		if d == nil && shard > 0 {
			w.t.Errorf("%s is a home table, and shard %d has a twin", table, shard)
		}
		rows, err := c.Query(ctx, "select id, v, ("+bucket+")::int from "+table)
		if err != nil {
			w.t.Fatal(err)
		}
		here := map[int64]int64{}
		var id, v int64
		var b int
		if _, err := pgx.ForEachRow(rows, []any{&id, &v, &b}, func() error {
			if bucket != "0" && int(snap.Placement[b]) != shard {
				w.t.Errorf("%s: key %d is on shard %d and belongs to %d", table, id, shard, snap.Placement[b])
			}
			if _, twice := here[id]; twice {
				w.t.Errorf("%s: key %d is twice on shard %d", table, id, shard)
			}
			here[id] = v
			return nil
		}); err != nil {
			w.t.Fatal(err)
		}
		for id, v := range here {
			if old, twice := got[id]; twice && (d == nil || d.Kind == directory.Sharded || old != v) {
				w.t.Errorf("%s: key %d is on two shards, or differs: %d and %d", table, id, old, v)
			}
			got[id] = v
		}
		if d != nil && d.Kind == directory.Reference && len(here) != len(got) {
			w.t.Errorf("%s: the copies differ: %d rows on shard %d, %d before", table, len(here), shard, len(got))
		}
	}
	return got
}

// clean complains of what no move may leave behind.
func (w *world) clean(table string) {
	w.t.Helper()
	for shard := range w.any.Shards() {
		c := w.direct(shard)
		within(w.t, 10*time.Second, fmt.Sprintf("shard %d is quiet", shard), func() bool {
			return value[int](w.t, c, `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
				and (state like 'idle in transaction%' or application_name ~ '^weft (job|recovery)')`) == 0
		})
		if n := value[int](w.t, c, "select count(*) from pg_constraint where conname ~ '^weft job'"); n != 0 {
			w.t.Errorf("shard %d has %d marks left", shard, n)
		}
	}
}

func newRand(more uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, more)) }
