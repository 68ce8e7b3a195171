package tx

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

var (
	stressFor  = flag.Duration("stress", 4*time.Second, "how long each mix of TestStress lasts")
	stressSeed = flag.Uint64("seed", 1, "of what TestStress does")
	stressMix  = flag.String("mix", "all", "what TestStress is made of; \"each\": one mix after the other")
)

// TestStress: clients write on several shards in every way there is, while their
// statements are cancelled, time out, lose a shard or lose their client at any
// moment. What was acknowledged is there, what was said to have failed is not,
// and nothing is left behind.
func TestStress(t *testing.T) {
	for _, m := range mixes {
		if *stressMix == "each" || *stressMix == m.name {
			t.Run(m.name, func(t *testing.T) { newStress(t, m).run() })
		}
	}
}

// mix says what clients do and what is done to them.
type mix struct {
	name  string
	ops   []func(*stressor) (fate, error)
	kill  bool // backends are terminated
	alter bool // somebody changes the table
}

// fate is what a client knows about a transaction.
type fate int

const (
	unknown fate = iota
	there
	nowhere
)

// stress is one run of a mix.
type stress struct {
	*world
	mix
	mu    sync.Mutex
	fates map[int64]fate // by transaction
	sizes map[int64]int  // rows of it in journal
	codes map[string]int
	next  int64
}

// stressor is one client.
type stressor struct {
	*stress
	*rand.Rand
	conn  *pgx.Conn
	tx    int64
	about string // the statement that is being run
}

const stressors = 8

func newStress(t *testing.T, m mix) *stress {
	s := &stress{world: newWorld(t, "stress_"+m.name, 2), mix: m, fates: map[int64]fate{}, sizes: map[int64]int{}, codes: map[string]int{}}
	c := s.conn(0)
	must(t, c, "create table journal (id bigint primary key, tx bigint not null, mail text unique, n int not null default 0)")
	must(t, c, "select weft.shard_table('journal', 'id')")
	return s
}

func (s *stress) run() {
	before := runtime.NumGoroutine()
	ctx, stop := context.WithTimeout(context.Background(), *stressFor)
	defer stop()
	var wg sync.WaitGroup
	for i := range stressors {
		wg.Go(func() {
			(&stressor{stress: s, Rand: rand.New(rand.NewPCG(*stressSeed, uint64(i)))}).work(ctx, s.proxies[i%len(s.proxies)])
		})
	}
	if s.kill {
		wg.Go(func() { s.killAtRandom(ctx) })
	}
	if s.alter {
		wg.Go(func() { s.alterAtRandom(ctx) })
	}
	wg.Wait()
	s.check(before)
}

// work runs transactions until ctx ends.
func (c *stressor) work(ctx context.Context, target *harness.Target) {
	defer func() {
		if c.conn != nil {
			_ = c.conn.Close(context.Background())
		}
	}()
	for ctx.Err() == nil && !c.t.Failed() {
		if c.conn == nil || c.conn.IsClosed() {
			cctx, stop := context.WithTimeout(context.Background(), patience)
			conn, err := pgx.Connect(cctx, target.ConnString("postgres", "dbname="+c.db))
			stop()
			if err != nil {
				c.t.Errorf("connect: %v", err)
				return
			}
			c.conn = conn
		}
		c.settings()
		c.mu.Lock()
		c.next++
		c.tx = c.next
		c.mu.Unlock()
		f, err := c.ops[c.IntN(len(c.ops))](c)
		c.note(f, err)
		if !c.conn.IsClosed() && c.conn.PgConn().TxStatus() != 'I' {
			c.calm("rollback")
		}
	}
}

// settings gives the next transaction timeouts, or none.
func (c *stressor) settings() {
	switch c.IntN(6) {
	case 0:
		c.calm(fmt.Sprintf("set statement_timeout = %d", 1+c.IntN(25)))
	case 1:
		c.calm(fmt.Sprintf("set lock_timeout = %d", 1+c.IntN(8)))
	case 2:
		c.calm(fmt.Sprintf("set idle_in_transaction_session_timeout = %d", 1+c.IntN(30)))
	default:
		c.calm("set statement_timeout = 0")
		c.calm("set lock_timeout = 0")
		c.calm("set idle_in_transaction_session_timeout = 0")
	}
}

// calm runs something that nobody disturbs, but for requests and timeouts of
// before that come late.
func (c *stressor) calm(sql string) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var last error
	for range 20 {
		_, err := c.conn.PgConn().Exec(ctx, sql).ReadAll()
		if ctx.Err() != nil {
			c.t.Errorf("%s does not end", sql)
		}
		last = err
		if err == nil || c.conn.IsClosed() {
			return
		}
		c.count(err)
	}
	c.t.Errorf("%s cannot be run: %v", sql, last)
}

// note remembers what the client knows.
func (c *stressor) note(f fate, err error) {
	c.count(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fates[c.tx] = f
}

func (c *stressor) count(err error) {
	key := "ok"
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		key = e.Code + " " + e.Message
		switch e.Code {
		case "57014", "55P03", "40P01", "08006", "57P01", "08007", "25P03", "25P02", "40001":
		default:
			c.t.Errorf("%s: %s %s (%s; %s)", c.about, e.Code, e.Message, e.Detail, e.Hint)
		}
	} else if err != nil {
		key = "lost"
	}
	c.mu.Lock()
	c.codes[key]++
	c.mu.Unlock()
}

// disturbed runs f, which talks to the server, and does something to it meanwhile.
func (c *stressor) disturbed(f func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	after := time.Duration(c.IntN(4000)) * time.Microsecond
	switch c.IntN(14) {
	case 0, 1, 2:
		conn := c.conn.PgConn()
		wg.Go(func() {
			time.Sleep(after)
			_ = conn.CancelRequest(ctx)
		})
	case 3: // pgx closes the connection
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	case 4:
		raw := c.conn.PgConn().Conn()
		wg.Go(func() {
			time.Sleep(after)
			vanish(raw)
		})
	}
	err := f(ctx)
	if err != nil && ctx.Err() == context.DeadlineExceeded && after > 0 && !c.conn.IsClosed() {
		_ = c.conn.Close(context.Background())
	}
	return err
}

// vanish ends a connection in one of the ways a client's can end.
func vanish(raw interface{ Close() error }) {
	if tcp, ok := raw.(interface {
		SetLinger(int) error
		CloseWrite() error
	}); ok {
		switch time.Now().UnixMicro() % 3 {
		case 0:
			_ = tcp.SetLinger(0)
		case 1:
			_ = tcp.CloseWrite()
			return
		}
	}
	_ = raw.Close()
}

// killAtRandom terminates backends of weft's.
func (s *stress) killAtRandom(ctx context.Context) {
	g := rand.New(rand.NewPCG(*stressSeed, 99))
	var d [shards]*pgx.Conn
	for i := range d {
		d[i] = s.direct(i)
	}
	for ctx.Err() == nil {
		time.Sleep(time.Duration(g.IntN(120)) * time.Millisecond)
		must(s.t, d[g.IntN(shards)], "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name <> 'direct' and pid <> pg_backend_pid() and state <> 'idle' order by random() limit 1")
	}
}

// alterAtRandom changes the table that all write.
func (s *stress) alterAtRandom(ctx context.Context) {
	c := &stressor{stress: s, Rand: rand.New(rand.NewPCG(*stressSeed, 77))}
	has := map[string]fate{}
	var d [shards]*pgx.Conn
	for i := range d {
		d[i] = s.direct(i)
	}
	columns := func(name string) (n int) {
		for i := range d {
			n += value[int](s.t, d[i], "select count(*) from pg_attribute where attrelid = 'journal'::regclass and attname = $1 and not attisdropped", name)
		}
		return n
	}
	for i := 0; ctx.Err() == nil && !s.t.Failed(); i++ {
		if c.conn == nil || c.conn.IsClosed() {
			c.conn = s.world.conn(i % 2)
		}
		name := fmt.Sprintf("c%d", i)
		sql := "alter table journal add column " + name + " int"
		var f fate
		var err error
		if c.IntN(2) == 0 {
			err = c.step(sql)
			f = judge(err)
		} else {
			f = nowhere
			if err = c.step("begin"); err == nil {
				if err = c.step(sql); err == nil {
					if err = c.step("create index on journal (" + name + ")"); err == nil {
						f, err = c.commit()
					}
				}
			}
		}
		c.count(err)
		has[name] = f
		if !c.conn.IsClosed() && c.conn.PgConn().TxStatus() != 'I' {
			c.calm("rollback")
		}
		time.Sleep(time.Duration(c.IntN(100)) * time.Millisecond)
	}
	s.quiet()
	for name, f := range has {
		switch n := columns(name); {
		case n != 0 && n != shards, f == there && n == 0, f == nowhere && n > 0:
			s.t.Errorf("column %s is on %d shards, the client was told %d", name, n, f)
		}
	}
}

// check compares what is there with what clients were told.
func (s *stress) check(goroutines int) {
	t := s.t
	s.quiet()
	if got := s.total(); got != accounts*1000 {
		t.Errorf("%d in all", got)
	}
	found := map[int64]int{}
	for i := range shards {
		c := s.direct(i)
		rows, err := c.Query(context.Background(), "select tx, count(*) from journal group by 1")
		if err != nil {
			t.Fatal(err)
		}
		var tx int64
		var n int
		if _, err := pgx.ForEachRow(rows, []any{&tx, &n}, func() error { found[tx] += n; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	told := map[fate]int{}
	for tx, f := range s.fates {
		told[f]++
		n, want := found[tx], s.sizes[tx]
		if n != 0 && n != want || f == there && n != want || f == nowhere && n != 0 && want != 0 {
			t.Errorf("transaction %d: %d of %d rows, the client was told %d", tx, n, want, f)
		}
	}
	c := s.conn(0)
	if err := exec(c, "select weft.verify_reference('ref')"); err != nil {
		t.Errorf("the copies of a reference table differ: %v", err)
	}
	rows, err := c.Query(context.Background(), "select * from weft.verify_lookup()")
	if err != nil {
		t.Fatal(err)
	}
	lookups, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil || len(lookups) == 0 {
		t.Errorf("%d lookups, %v", len(lookups), err)
	}
	for _, l := range lookups {
		if fmt.Sprintf("%v %v %v", l["missing"], l["stale"], l["duplicates"]) != "0 0 0" {
			t.Errorf("a lookup is not what the rows are: %v", l)
		}
	}
	_ = c.Close(context.Background())
	s.nothingUsed()
	within(t, "goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines+10 })
	t.Logf("%d there, %d not, %d unknown", told[there], told[nowhere], told[unknown])
	for _, code := range slices.Sorted(maps.Keys(s.codes)) {
		t.Logf("  %s: %d", code, s.codes[code])
	}
}
