package heat

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
)

// The tests that compare how long statements take, or count how many there are in a time, are run with
// this flag only. A machine that is busy with other things makes statements wait for it rather than for a shard.
// Without the flag the tests look at the order in which waiters are served, which no machine changes.
var flood = flag.Bool("flood", false, "compare the times and shares of clients that flood a shard")

// scarce lets a proxy have few connections to each shard, and clients wait for as long as it takes.
func scarce(c *config.Config) {
	c.Pool.MaxPerShard, c.Pool.MaxPerUser = 4, 4
	c.Pool.QueueTimeout, c.Pool.OverloadWait = 10*time.Minute, 0
}

// keysByShard returns keys of two shards.
func (w *world) keysByShard() [][]int64 {
	w.Helper()
	c := w.conn(0, "postgres")
	by := map[string][]int64{}
	for id := int64(1); id <= 60; id++ {
		port := w.rows(c, "select current_setting('port') as port from acct where id = $1", id)[0]["port"].(string)
		by[port] = append(by[port], id)
	}
	if len(by) != 2 {
		w.Fatalf("keys are on %d shards", len(by))
	}
	var out [][]int64
	for _, ids := range by {
		if len(ids) < 12 {
			w.Fatalf("a shard has %d keys of 60", len(ids))
		}
		out = append(out, ids)
	}
	return out
}

// clients run one statement again and again, and note how long each took.
type clients struct {
	mu    sync.Mutex
	took  []time.Duration
	wg    sync.WaitGroup
	ended chan struct{}
}

// run lets n clients of a user run a statement, with a pause after each.
func (w *world) run(n int, user string, pause time.Duration, sql string, args ...any) *clients {
	w.Helper()
	return w.runOn(0, n, user, pause, sql, args...)
}

// runOn is run through one of the proxies.
func (w *world) runOn(proxy, n int, user string, pause time.Duration, sql string, args ...any) *clients {
	w.Helper()
	cs := &clients{ended: make(chan struct{})}
	for range n {
		c := w.conn(proxy, user)
		cs.wg.Go(func() {
			for {
				select {
				case <-cs.ended:
					return
				default:
				}
				began := time.Now()
				_, err := c.Exec(context.Background(), sql, args...)
				if err != nil {
					w.Errorf("%s: %v", sql, err)
					return
				}
				cs.mu.Lock()
				cs.took = append(cs.took, time.Since(began))
				cs.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	w.Cleanup(cs.stop)
	return cs
}

// stop ends the clients. It may be called again.
func (cs *clients) stop() {
	cs.mu.Lock()
	select {
	case <-cs.ended:
	default:
		close(cs.ended)
	}
	cs.mu.Unlock()
	cs.wg.Wait()
}

// since returns how many statements have ended since reset, and their median time.
func (cs *clients) since() (n int, median time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.took) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(cs.took))
	return len(s), s[len(s)/2]
}

func (cs *clients) reset() {
	cs.mu.Lock()
	cs.took = cs.took[:0]
	cs.mu.Unlock()
}

// enough waits until each group has run so many statements.
func (w *world) enough(n int, groups ...*clients) {
	w.Helper()
	for _, cs := range groups {
		w.await("statements", func() (any, bool) {
			got, _ := cs.since()
			return got, got >= n
		})
	}
}

// occupy lets a user take all connections to the shard of a key. The function that it returns gives one of
// them back.
func (w *world) occupy(user string, id int64) (leave func()) {
	w.Helper()
	var held []*pgx.Conn
	for range 4 {
		c := w.conn(0, user, "default_query_exec_mode=simple_protocol") // which prepares nothing at home
		w.must(c, "begin")
		w.must(c, "select n from acct where id = $1", id)
		held = append(held, c)
	}
	return func() {
		w.Helper()
		w.must(held[0], "commit")
		held = held[1:]
	}
}

// waiting waits until so many clients wait for connections, all to the same shard.
func (w *world) waiting(n int) {
	w.Helper()
	admin := w.proxies[0].Connect(w.T, "postgres", "dbname=weft", "default_query_exec_mode=simple_protocol")
	defer func() { _ = admin.Close(context.Background()) }()
	w.await(fmt.Sprintf("%d clients that wait", n), func() (any, bool) {
		by := map[any]int{}
		pools := w.rows(admin, "SHOW POOLS")
		for _, r := range pools {
			if k := number(r["waiting"]); r["database"] == w.db && k > 0 {
				by[r["shard"]] += k
			}
		}
		if len(by) > 1 {
			return pools, false
		}
		for _, k := range by {
			return pools, k == n
		}
		return pools, n == 0
	})
}

func number(v any) (n int) {
	_, _ = fmt.Sscan(fmt.Sprint(v), &n)
	return n
}

// queue is clients that wait for the same shard, and then run one statement each.
type queue struct {
	*world
	clients []*pgx.Conn
	wg      sync.WaitGroup
	mu      sync.Mutex
	order   []turn
}

// turn is when a client of a group was served, by the shard's clock.
type turn struct {
	at    int64
	group string
}

// ready connects clients that have been to the shard of a key, so that they need nothing but their
// connection there.
func (w *world) ready(n int, id int64, settings ...string) *queue {
	w.Helper()
	q := &queue{world: w}
	for range n {
		c := w.conn(0, "postgres", "default_query_exec_mode=simple_protocol")
		for _, sql := range settings {
			w.must(c, sql)
		}
		w.must(c, "select n from acct where id = $1", id)
		q.clients = append(q.clients, c)
	}
	return q
}

// come lets the next client wait for a connection, with a statement on a key.
func (q *queue) come(group string, id int64) {
	c := q.clients[0]
	q.clients = q.clients[1:]
	q.wg.Go(func() {
		ctx, stop := context.WithTimeout(context.Background(), 2*patience)
		defer stop()
		one := turn{group: group}
		err := c.QueryRow(ctx, "select (extract(epoch from clock_timestamp()) * 1000000)::bigint from acct where id = $1", id).Scan(&one.at)
		if err != nil {
			q.Errorf("%s: %v", group, err)
			return
		}
		q.mu.Lock()
		q.order = append(q.order, one)
		q.mu.Unlock()
	})
}

// first returns how many of a group were among the first n that were served.
func (q *queue) first(n int, group string) (k int) {
	q.Helper()
	q.wg.Wait()
	slices.SortFunc(q.order, func(a, b turn) int { return int(a.at - b.at) })
	for _, one := range q.order[:min(n, len(q.order))] {
		if one.group == group {
			k++
		}
	}
	return k
}

// Clients that want other keys than a crowd does, and came last, do not wait for the crowd.
func TestTurns(t *testing.T) {
	w := newWorld(t, "turns", scarce)
	by := w.keysByShard()
	const crowd, others = 30, 6
	q := w.ready(crowd+others, by[0][0])
	leave := w.occupy("postgres", by[0][0])
	for range crowd {
		q.come("crowd", by[0][0])
	}
	w.waiting(crowd)
	for _, id := range by[0][1 : 1+others] {
		q.come("others", id)
	}
	w.waiting(crowd + others)
	leave()
	if n := q.first(20, "others"); n != others {
		t.Errorf("%d of %d were among the first 20", n, others)
	}
}

// A user who keeps all connections of a shard busy holds up statements over all shards, and these do
// not hold up statements on the other shard: they hold nothing while they wait.
func TestConvoy(t *testing.T) {
	w := newWorld(t, "convoy", scarce)
	by := w.keysByShard()
	one := w.conn(0, "postgres", "default_query_exec_mode=simple_protocol")
	for _, ids := range by {
		w.must(one, "select n from acct where id = $1", ids[0])
	}
	clients := map[*pgx.Conn]string{}
	for i := range 14 {
		sql := "select count(*), sum(n) from acct"
		switch i % 5 {
		case 0:
			sql = fmt.Sprintf("update acct set n = n + 1 where id in (%d, %d)", by[0][1], by[1][1])
		case 1:
			sql = fmt.Sprintf("insert into acct values (%d), (%d) on conflict do nothing", by[0][1], by[1][1])
		case 2:
			sql = "insert into acct select id, n from acct on conflict do nothing"
		case 3:
			sql = "begin isolation level repeatable read; select count(*) from acct; commit"
		}
		c := w.conn(0, "postgres", "default_query_exec_mode=simple_protocol")
		w.must(c, sql)
		clients[c] = sql
	}
	for hot := range by { // shards are asked in a fixed order: the full one comes first or last
		leave := w.occupy("alice", by[hot][0])
		var wg sync.WaitGroup
		for c, sql := range clients {
			wg.Go(func() {
				ctx, stop := context.WithTimeout(context.Background(), 2*patience)
				defer stop()
				if _, err := c.Exec(ctx, sql); err != nil {
					t.Errorf("%s: %v", sql, err)
				}
			})
		}
		w.waiting(len(clients))
		for range 50 {
			w.must(one, "select n from acct where id = $1", by[1-hot][0])
		}
		w.waiting(len(clients))
		for range 4 {
			leave()
		}
		wg.Wait()
	}
	if n := w.rows(one, "select sum(n)::bigint as n from acct")[0]["n"]; fmt.Sprint(n) != "18" {
		t.Errorf("%v updates, of 9 on two rows each", n)
	}
}

// A key that 64 clients flood takes neither its shard nor the other one from the others.
func TestIsolation(t *testing.T) {
	if !*flood {
		t.Skip("compares times, which other work on the machine changes: give -flood on an idle one")
	}
	w := newWorld(t, "isolation", scarce)
	by := w.keysByShard()
	const sql = "select pg_sleep(0.02) from acct where id = $1"
	var victims []*clients
	for _, id := range by[0][1:7] {
		victims = append(victims, w.run(1, "postgres", 80*time.Millisecond, sql, id))
	}
	others := w.run(2, "postgres", 20*time.Millisecond, sql, by[1][0])
	median := func() time.Duration {
		var all []time.Duration
		for _, v := range victims {
			_, m := v.since()
			all = append(all, m)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	w.enough(15, append(victims, others)...)
	calm := median()
	_, elsewhere := others.since()

	crowd := w.run(64, "postgres", 0, sql, by[0][0])
	w.enough(200, crowd)
	for _, cs := range append(victims, others, crowd) {
		cs.reset()
	}
	w.enough(15, append(victims, others)...)
	w.enough(200, crowd)
	hot := median()
	_, flooded := crowd.since()
	_, beside := others.since()
	t.Logf("victims %v, then %v; the flood %v; other shard %v, then %v", calm, hot, flooded, elsewhere, beside)
	// In one line everybody would wait as long as the flood does: sixteen times as long as a statement takes.
	if hot > flooded/3 {
		t.Errorf("victims take %v, the flood %v", hot, flooded)
	}
	if beside > flooded/3 {
		t.Errorf("statements on the other shard take %v, the flood %v", beside, flooded)
	}
}

// Five keys, one of which has nearly all clients, get the same time of a shard.
func TestFairness(t *testing.T) {
	if !*flood {
		t.Skip("counts statements in a time, which other work on the machine changes: give -flood on an idle one")
	}
	w := newWorld(t, "fairness", func(c *config.Config) { scarce(c); c.Pool.MaxPerShard, c.Pool.MaxPerUser = 2, 2 })
	by := w.keysByShard()
	const sql = "select pg_sleep(0.02) from acct where id = $1"
	var groups []*clients
	groups = append(groups, w.run(60, "postgres", 0, sql, by[0][0]))
	for _, id := range by[0][1:5] {
		groups = append(groups, w.run(3, "postgres", 0, sql, id))
	}
	w.enough(20, groups...)
	w.await("a fair share for each", func() (any, bool) {
		for _, cs := range groups {
			cs.reset()
		}
		w.enough(40, groups[1:]...)
		sum, squares := 0.0, 0.0
		var counts []int
		for _, cs := range groups {
			n, _ := cs.since()
			counts = append(counts, n)
			sum += float64(n)
			squares += float64(n) * float64(n)
		}
		jain := sum * sum / (float64(len(groups)) * squares)
		t.Logf("Jain's index %.3f of %v", jain, counts)
		return counts, jain >= 0.95
	})
}

// A client of an overloaded shard is told to come back, and its session and prepared statements stay.
// A transaction that has begun is not refused.
func TestOverload(t *testing.T) {
	w := newWorld(t, "overload", func(c *config.Config) {
		scarce(c)
		c.Pool.MaxPerShard, c.Pool.MaxPerUser, c.Pool.OverloadWait = 2, 2, 400*time.Millisecond
	})
	by := w.keysByShard()
	const sql = "select pg_sleep(0.03) from acct where id = $1"
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan struct{})
	defer close(ended)
	refused := make(chan *pgconn.PgError, 1)
	for range 60 {
		c := w.conn(0, "postgres")
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				_, err := c.Exec(ctx, sql, by[0][0])
				var pe *pgconn.PgError
				switch {
				case errors.As(err, &pe) && pe.Code == "53000":
					select {
					case refused <- pe:
					default:
					}
				case err != nil:
					t.Error(err)
					return
				}
			}
		})
	}
	select {
	case pe := <-refused:
		if pe.Severity != "ERROR" || !strings.Contains(pe.Detail, "retry_after_ms=") || !strings.Contains(pe.Hint, "Try again") {
			t.Errorf("%+v", pe)
		}
	case <-ctx.Done():
		t.Error("nobody is refused")
		return
	}
	// A transaction that holds a connection to the other shard gets one here.
	c := w.conn(0, "postgres")
	for i := range 5 {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "update acct set n = n + 1 where id = $1", by[1][0]); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "update acct set n = n + 1 where id = $1", by[0][3])
			return err
		})
		if err != nil {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
}

// The setting weft.priority is checked, shown and heeded.
func TestPriority(t *testing.T) {
	w := newWorld(t, "priority", scarce)
	c := w.conn(0, "postgres")
	if got := w.rows(c, "show weft.priority")[0]["weft.priority"]; got != "user" {
		t.Errorf("default %v", got)
	}
	var pe *pgconn.PgError
	if _, err := c.Exec(context.Background(), "set weft.priority = top"); !errors.As(err, &pe) || pe.Code != "22023" {
		t.Errorf("a wrong value: %v", err)
	}
	by := w.keysByShard()
	const each = 12
	low, normal := w.ready(each, by[0][0], "set weft.priority = low"), w.ready(each, by[0][0])
	leave := w.occupy("postgres", by[0][0])
	for i := range each {
		low.come("low", by[0][i%6])
	}
	w.waiting(each)
	for range each {
		normal.come("normal", by[0][7])
	}
	w.waiting(2 * each)
	leave()
	low.wg.Wait()
	normal.wg.Wait()
	normal.order = append(normal.order, low.order...)
	// One turn of twenty begins with the lowest class.
	if n := normal.first(each+2, "normal"); n != each || len(normal.order) != 2*each {
		t.Errorf("%d of %d normal ones were among the first %d of %d", n, each, each+2, len(normal.order))
	}
}
