package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// moveLoad is clients of two proxies whose every answer is known beforehand:
//
//	pair  deposits and withdrawals inside a key: its sum over all shards never changes, however it is read
//	bank  transfers between keys: its sum never changes for weft.read = 'atomic'
//	line  rows that are only added: those that were acknowledged are there
type moveLoad struct {
	w    *world
	ctx  context.Context // ends with the load
	stop context.CancelFunc
	done sync.WaitGroup
	next atomic.Int64 // number of the next line

	mu      sync.Mutex
	targets [2]string
	lives   [2]int  // counts the deaths of each proxy
	gone    [2]bool // has died, or stands still
	buckets map[int64]int
	owners  []int         // by bucket: its shard, when the cell began
	moving  map[int][]int // by bucket that moves: the shards it needs
	downs   map[int]bool  // shards that have died in this cell
	list    []moveStatement
	errs    []error
	sent    map[int64]bool // lines: acknowledged or in doubt
	total   int
}

// moveStatement is what became of one statement.
type moveStatement struct {
	proxy  int
	what   string
	keys   []int64 // nil: all
	took   time.Duration
	err    error
	told   string // SQLSTATE
	lost   bool   // its proxy has died, or stood still
	counts bool   // nothing it needs was dead
}

func startMoveLoad(w *world) *moveLoad {
	ctx, stop := context.WithCancel(context.Background())
	l := &moveLoad{w: w, ctx: ctx, stop: stop, buckets: map[int64]int{}, sent: map[int64]bool{}}
	rows, err := w.eye(0).Query(ctx, fmt.Sprintf("select k, ((hashint8extended(k, 0) >> 58) & 63)::int from generate_series(1::bigint, %d) k", moveKeys))
	if err != nil {
		w.t.Fatal(err)
	}
	var key int64
	var bucket int
	if _, err := pgx.ForEachRow(rows, []any{&key, &bucket}, func() error { l.buckets[key] = bucket; return nil }); err != nil {
		w.t.Fatal(err)
	}
	for i := range 2 {
		l.use(i, w.weft[i])
		for n, f := range []func(context.Context, *moveClient) error{l.write, l.look, l.transfer, l.audit} {
			l.client(i, n, f)
		}
	}
	return l
}

// client starts the n-th client of a proxy.
func (l *moveLoad) client(proxy, n int, f func(context.Context, *moveClient) error) {
	c := &moveClient{load: l, proxy: proxy, r: rand.New(rand.NewPCG(*seed, uint64(10*proxy+n))), atomic: n == 3}
	l.done.Go(func() { c.run(l.ctx, f) })
}

// refer starts clients that write and read a reference table.
func (l *moveLoad) refer() {
	for i := range 2 {
		l.client(i, 4, func(ctx context.Context, c *moveClient) error {
			sql := "update ref set v = v + 1 where id = $1"
			if c.r.IntN(2) == 0 {
				sql = "select v from ref where id = $1"
			}
			var keys []int64 // a write needs all shards
			_ = c.do("reference", keys, func() error { _, err := c.conn.Exec(ctx, sql, 1+c.r.IntN(20)); return err })
			return nil
		})
	}
}

func (l *moveLoad) end() {
	l.stop()
	l.done.Wait()
}

// use says which program is a proxy from now on, lose that it is about to die or to stand still.
func (l *moveLoad) use(i int, p *harness.Program) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.targets[i] = p.ConnString("postgres", "dbname="+l.w.db)
	l.lives[i]++
	l.gone[i] = false
}

func (l *moveLoad) lose(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lives[i]++
	l.gone[i] = true
}

// concerns says which buckets a cell moves, and which shards each of them needs, and forgets the cell before.
func (l *moveLoad) concerns(place []uint16, buckets []int, needs func(bucket int) []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owners, l.moving, l.downs, l.list = nil, map[int][]int{}, map[int]bool{}, nil
	for _, at := range place {
		l.owners = append(l.owners, int(at))
	}
	for _, b := range buckets {
		l.moving[b] = needs(b)
	}
}

// put says that a key has another bucket.
func (l *moveLoad) put(key int64, bucket int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buckets[key] = bucket
}

// down notes that a shard dies.
func (l *moveLoad) down(shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.downs[shard] = true
}

// needsDead reports whether a statement needs a shard that has died. mu is held.
func (l *moveLoad) needsDead(keys []int64) bool {
	if keys == nil {
		return len(l.downs) > 0
	}
	return slices.ContainsFunc(keys, func(k int64) bool {
		b := l.buckets[k]
		return b < len(l.owners) && l.downs[l.owners[b]] || slices.ContainsFunc(l.moving[b], func(s int) bool { return l.downs[s] })
	})
}

// take returns the statements of the cell so far.
func (l *moveLoad) take() []moveStatement {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	for i := range list {
		list[i].counts = !list[i].lost && !l.needsDead(list[i].keys)
	}
	return list
}

// takeWrong returns the answers of the cell that were not right.
func (l *moveLoad) takeWrong() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs := l.errs
	l.errs = nil
	return errs
}

// report says what the load has done in this cell.
func (l *moveLoad) report() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.total
	l.total = 0
	return fmt.Sprintf("%d statements", n)
}

// compare complains of lines that were acknowledged and are not there, and of lines that are there twice or from nowhere.
func (l *moveLoad) compare(found map[int64]int, complain func(string, ...any)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, acknowledged := range l.sent {
		if acknowledged && found[n] == 0 {
			complain("line %d was acknowledged and is not there", n)
		}
	}
	for n, times := range found {
		if _, sent := l.sent[n]; !sent || times > 1 {
			complain("line %d is there %d times, sent: %v", n, times, sent)
		}
	}
}

// moveClient is one client.
type moveClient struct {
	load   *moveLoad
	proxy  int
	r      *rand.Rand
	atomic bool
	conn   *pgx.Conn
}

// hopeless is how long a client waits before it gives a statement up: that is reported.
const hopeless = patience

func (c *moveClient) run(ctx context.Context, f func(context.Context, *moveClient) error) {
	for ctx.Err() == nil {
		if c.conn == nil || c.conn.IsClosed() {
			if !c.connect() {
				time.Sleep(50 * time.Millisecond)
				continue
			}
		}
		c.load.w.busy.RLock()
		once, stop := context.WithTimeout(context.Background(), hopeless)
		if err := f(once, c); err != nil {
			c.load.mu.Lock()
			c.load.errs = append(c.load.errs, fmt.Errorf("proxy %d: %w", c.proxy, err))
			c.load.mu.Unlock()
		}
		stop()
		c.load.w.busy.RUnlock()
		time.Sleep(c.pause())
	}
	if c.conn != nil {
		_ = c.conn.Close(context.Background())
	}
}

// pause is how long a client thinks before its next statement. In the sample, where the clients of a cell would compute for
// most of the time that the cell waits, a client sends some thirty statements a second.
func (c *moveClient) pause() time.Duration {
	d := time.Duration(2+c.r.IntN(8)) * time.Millisecond
	if *moveTime == 0 && *rounds == 1 {
		d *= 4
	}
	return d
}

func (c *moveClient) connect() bool {
	c.load.mu.Lock()
	target := c.load.targets[c.proxy]
	c.load.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	conn, err := pgx.Connect(ctx, target)
	if err != nil {
		return false
	}
	if c.atomic {
		_, err = conn.Exec(ctx, "set weft.read = 'atomic'")
	}
	if err != nil {
		_ = conn.Close(ctx)
		return false
	}
	c.conn = conn
	return true
}

// do runs something and notes what became of it. keys are those it needs, nil for all.
func (c *moveClient) do(what string, keys []int64, f func() error) error {
	l := c.load
	l.mu.Lock()
	life := l.lives[c.proxy]
	l.mu.Unlock()
	began := time.Now()
	err := f()
	s := moveStatement{proxy: c.proxy, what: fmt.Sprintf("%s of %v through proxy %d", what, keys, c.proxy), keys: keys, took: time.Since(began), err: err, told: code(err)}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.lost = l.lives[c.proxy] != life || l.gone[c.proxy]
	l.list = append(l.list, s)
	l.total++
	return err
}

func (c *moveClient) key() int64 { return int64(1 + c.r.IntN(moveKeys)) }

// write changes a pair, or adds a line.
func (l *moveLoad) write(ctx context.Context, c *moveClient) error {
	key := c.key()
	if c.r.IntN(2) == 0 {
		var affected int64
		err := c.do("update", []int64{key}, func() error {
			tag, err := c.conn.Exec(ctx, "update pair set v = v + case side when 0 then 1 else -1 end where id = $1", key)
			affected = tag.RowsAffected()
			return err
		})
		if err == nil && affected != 2 {
			return fmt.Errorf("an update of key %d changed %d rows of 2", key, affected)
		}
		return nil
	}
	n := l.next.Add(1)
	l.mu.Lock()
	l.sent[n] = false
	l.mu.Unlock()
	err := c.do("insert", []int64{key}, func() error {
		_, err := c.conn.Exec(ctx, "insert into line values ($1, $2)", key, n)
		return err
	})
	if err == nil {
		l.mu.Lock()
		l.sent[n] = true
		l.mu.Unlock()
	}
	return nil
}

// look adds up all pairs, or reads one.
func (l *moveLoad) look(ctx context.Context, c *moveClient) error {
	var n, sum int
	if c.r.IntN(2) == 0 {
		err := c.do("count", nil, func() error {
			return c.conn.QueryRow(ctx, "select count(*)::int, sum(v)::int from pair").Scan(&n, &sum)
		})
		if err == nil && (n != 2*moveKeys || sum != 2*moveKeys*moveFunds) {
			return fmt.Errorf("%d pairs of %d, with %d of %d", n, 2*moveKeys, sum, 2*moveKeys*moveFunds)
		}
		return nil
	}
	key := c.key()
	err := c.do("read", []int64{key}, func() error {
		return c.conn.QueryRow(ctx, "select count(*)::int, sum(v)::int from pair where id = $1", key).Scan(&n, &sum)
	})
	if err == nil && (n != 2 || sum != 2*moveFunds) {
		return fmt.Errorf("key %d has %d rows of 2, with %d of %d", key, n, sum, 2*moveFunds)
	}
	return nil
}

// transfer moves money between two keys, the lower one first.
func (l *moveLoad) transfer(ctx context.Context, c *moveClient) error {
	from, to := c.key(), c.key()
	if from == to {
		return nil
	}
	keys := []int64{min(from, to), max(from, to)}
	begin := func(sql string, keys []int64, args ...any) error {
		return c.do(sql, keys, func() error { _, err := c.conn.Exec(ctx, sql, args...); return err })
	}
	err := begin("begin", []int64{})
	for i, amount := range []int{-1, 1} {
		if err == nil {
			err = begin("update bank set v = v + $1 where id = $2", keys, amount, keys[i])
		}
	}
	if err == nil {
		err = begin("commit", keys)
	}
	if err != nil && !c.conn.IsClosed() {
		_, _ = c.conn.Exec(ctx, "rollback")
	}
	return nil
}

// audit adds up the bank.
func (l *moveLoad) audit(ctx context.Context, c *moveClient) error {
	var n, sum int
	err := c.do("audit", nil, func() error {
		return c.conn.QueryRow(ctx, "select count(*)::int, sum(v)::int from bank").Scan(&n, &sum)
	})
	if err == nil && (n != moveKeys || sum != moveKeys*moveFunds) {
		return fmt.Errorf("%d accounts of %d, with %d of %d", n, moveKeys, sum, moveKeys*moveFunds)
	}
	return nil
}
