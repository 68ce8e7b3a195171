package growth

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/bits"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver"
)

var (
	rows    = flag.Int("rows", 0, "how many rows the table has (make bench-growth)")
	workers = flag.Int("workers", 10, "how many clients read and write")
	apart   = flag.Duration("apart", 10*time.Second, "how long the clients work before the shard joins, and after")
	picture = flag.String("picture", "", "the file that the plot is written to")
)

const (
	each   = 100 // rows of a tenant
	shards = 4
	joins  = "shard-4"
	db     = "growth"

	bucketCount = 4096 // as weft.yaml has it by default
)

func TestMain(m *testing.M) {
	harness.ShardCount = shards
	os.Exit(harness.Main(m))
}

// TestGrowth: a cluster of four shards gets a fifth while clients work. The figures are printed; the
// test fails if a row is lost or twice, or if other buckets move than the fifth shard's.
func TestGrowth(t *testing.T) {
	if *rows == 0 {
		t.Skip("takes minutes; make bench-growth runs it. TestGrow of integration/shards is the short form.")
	}
	p := harness.StartProgram(t, func(*config.Config) {})
	p.CreateDatabase(t, db)
	connect := func() *pgx.Conn { return p.Connect(t, "postgres", "dbname="+db) }
	c := connect()
	tenants := *rows / each
	must(t, c, "create table event (tenant bigint, id int, at timestamptz not null default now(), body text not null, v bigint not null default 0, primary key (tenant, id)); create index on event (tenant, at)")
	for n := 128; n <= bucketCount; n *= 2 { // a bucket moves at once: with the few of the tests it would be too large
		must(t, c, "select weft.grow_buckets("+fmt.Sprint(n)+")")
	}
	must(t, c, "select weft.shard_table('event', 'tenant')")
	began := time.Now()
	fill(t, connect, tenants)
	t.Logf("%d rows in %s", *rows, time.Since(began).Round(time.Second))

	s := harness.EmptyServer(t, nil)
	before := harness.Snapshot(t)
	work := &clients{began: time.Now()}
	for i := range *workers {
		work.start(t, connect(), i%(shards+1) == 0, tenants, each) // as many as tenants go
	}
	t.Cleanup(work.stop)
	done := newProgress(work.began)
	time.Sleep(*apart)
	from := time.Since(work.began)
	var join string
	if err := c.QueryRow(t.Context(), "select weft.add_shard($1, $2)", joins, s.Addr()).Scan(&join); err != nil {
		t.Fatal(err)
	}
	watcher := connect()
	stop := done.watch(t, watcher)
	part(t, work, buckets(t, s, tenants, len(before.Placement)))
	must(t, c, "select weft.wait_move($1)", join)
	to := time.Since(work.began)
	time.Sleep(*apart)
	stop()
	over := time.Since(work.began)
	work.stop()

	after := harness.Snapshot(t)
	was, is, moved := before.PlacementOf(db, ""), after.PlacementOf(db, ""), 0
	for b := range was {
		if a, z := before.Shards[was[b]].Name, after.Shards[is[b]].Name; a != z {
			moved++
			if z != joins {
				t.Errorf("bucket %d went from %s to %s", b, a, z)
			}
		}
	}
	if quota := len(was) / (shards + 1); moved != quota {
		t.Errorf("%d of %d buckets have moved, want %d", moved, len(was), quota)
	}
	if n, sum := ints(t, c, "select count(*), sum(v) from event"); n != int64(*rows) || sum != work.writes() {
		t.Errorf("%d of %d rows, sum %d, want %d", n, *rows, sum, work.writes())
	}
	for _, r := range maps(t, c, "select * from weft.verify_placement()") {
		if fmt.Sprint(r["misplaced"]) != "0" {
			t.Errorf("%v", r)
		}
	}

	// What the clients have seen.
	d, err := pgx.Connect(t.Context(), s.ConnString(db))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close(context.Background()) }()
	stays := func(s seen) bool { return !s.mover }
	goes := func(s seen) bool { return s.mover }
	quiet, busy := work.between(0, from, stays), work.between(from, to, stays)
	t.Logf("the shard joined and got its rows in %s", (to - from).Round(time.Millisecond))
	t.Logf("tenants that stay, before: %s", quiet)
	t.Logf("tenants that stay, meanwhile: %s; ratios: throughput %.2f, p99 %.2f", busy, busy.perSecond/quiet.perSecond, float64(busy.p99)/float64(quiet.p99))
	t.Logf("tenants that go, reads meanwhile: %s", work.between(from, to, func(s seen) bool { return goes(s) && !s.write }))
	t.Logf("tenants that go, writes meanwhile: %s", work.between(from, to, func(s seen) bool { return goes(s) && s.write }))
	for _, r := range maps(t, c, "select rows, rounds, given_up, pause_p50_ms, pause_p99_ms, pause_max_ms, read_pause_p99_ms, extract(epoch from ended - started)::float8 as seconds from weft.moves where rows > 0") {
		t.Logf("the job: %v", r)
	}
	pace(t, before.Shards[0].Hosts[0], d, db, c)
	if *picture != "" {
		draw(t, work, done, from, to, over)
	}
}

// buckets returns the bucket of each tenant.
func buckets(t *testing.T, s *pgserver.Temp, tenants, count int) []int {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	list, _ := c.Query(t.Context(), "select ((hashint8extended(i, 0) >> $1) & $2)::int from generate_series(0, $3::bigint - 1) i", 65-bits.Len(uint(count)), count-1, tenants)
	out, err := pgx.CollectRows(list, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// part tells the clients which tenants go, as soon as the job has a target.
func part(t *testing.T, work *clients, of []int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no job has a target")
		}
		snap := harness.Snapshot(t)
		for _, target := range snap.Targets {
			now, sides := snap.PlacementOf(db, ""), [2][]int32{}
			for tenant, b := range of {
				side := 0
				if target[b] != now[b] {
					side = 1
				}
				sides[side] = append(sides[side], int32(tenant))
			}
			work.sides.Store(&sides)
			return
		}
	}
}

// fill loads the rows over four connections.
func fill(t *testing.T, connect func() *pgx.Conn, tenants int) {
	const lanes = 4
	errs := make(chan error, lanes)
	for lane := range lanes {
		c := connect()
		go func() {
			tenant, id := lane, 0
			_, err := c.CopyFrom(context.Background(), pgx.Identifier{"event"}, []string{"tenant", "id", "body"}, pgx.CopyFromFunc(func() ([]any, error) {
				if tenant >= tenants {
					return nil, nil
				}
				row := []any{int64(tenant), int32(id), fmt.Sprintf("what happened to tenant %d for the %dth time", tenant, id)}
				if id++; id == each {
					tenant, id = tenant+lanes, 0
				}
				return row, nil
			}))
			errs <- err
		}()
	}
	for range lanes {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

// pace compares how fast the job's rounds carried rows with a COPY of a shard's rows, into a table with
// the same indexes on the server that has joined.
func pace(t *testing.T, host string, to *pgx.Conn, db string, c *pgx.Conn) {
	from, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", host, db))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close(context.Background()) }()
	must(t, to, "create schema plain; create table plain.event (like public.event including all)")
	r, w := io.Pipe()
	began := time.Now()
	go func() {
		_, err := from.CopyTo(context.Background(), w, fmt.Sprintf("copy (select * from event limit %d) to stdout", *rows/(shards*(shards+1))))
		_ = w.CloseWithError(err)
	}()
	tag, err := to.PgConn().CopyFrom(t.Context(), r, "copy plain.event from stdin")
	if err != nil {
		t.Fatal(err)
	}
	copied := float64(tag.RowsAffected()) / time.Since(began).Seconds()
	for _, r := range maps(t, c, "select sum(rows)::float8 as rows, sum(write_pause_ms)::float8 as ms from weft.move_rounds where outcome = 'carried'") {
		n, _ := r["rows"].(float64)
		ms, _ := r["ms"].(float64)
		t.Logf("pace: %.0f rows/s in the rounds, %.0f rows/s by COPY; ratio %.2f", n/ms*1000, copied, n/ms*1000/copied)
	}
}

// draw writes the picture.
func draw(t *testing.T, work *clients, done *progress, from, to, over time.Duration) {
	var perSecond, p99 []float64
	for at := time.Duration(0); at+time.Second <= over; at += time.Second {
		f := work.between(at, at+time.Second, func(seen) bool { return true })
		perSecond, p99 = append(perSecond, f.perSecond), append(p99, float64(f.p99)/float64(time.Millisecond))
	}
	p := plot{
		title:  fmt.Sprintf("%d rows, four shards become five while %d clients read and write", *rows, *workers),
		panels: []panel{{"statements per second", perSecond}, {"p99 of all statements, in milliseconds", p99}, {"buckets of the new shard, in percent of its quota", done.percent(len(perSecond))}},
		from:   int(from.Seconds()), to: int(to.Seconds()), note: "the fifth shard joins and gets its rows",
	}
	f, err := os.Create(*picture)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ints(t *testing.T, c *pgx.Conn, sql string) (a, b int64) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql).Scan(&a, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return a, b
}

func maps(t *testing.T, c *pgx.Conn, sql string) []map[string]any {
	t.Helper()
	list, _ := c.Query(t.Context(), sql)
	out, err := pgx.CollectRows(list, pgx.RowToMap)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}
