package move

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestDeclareOnline: a table is declared without a lock, its rows are carried by a job, and it is one of the
// database's tables then.
func TestDeclareOnline(t *testing.T) {
	w := plain(t, "online_once", 2)
	c, other := w.conn(0), w.conn(1)
	// A transaction that has the table in use from before is not waited for by the declaration, but by the job.
	tx, err := other.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(context.Background(), "insert into alone (id, email) values (100001, 'before')"); err != nil {
		t.Fatal(err)
	}
	w.must(c, "select weft.shard_table('alone', 'id', online => true, wait => false)")
	job := value[string](w, c, "select job from weft.moves where kind = 'declare'")
	if n := value[int](w, c, "select count(*) from alone"); n != accounts {
		t.Errorf("%d rows while one is not committed", n)
	}
	w.must(c, "insert into alone (id, email) values (100002, 'meanwhile')")
	time.Sleep(500 * time.Millisecond)
	if state := value[string](w, c, "select state from weft.moves where job = $1", job); state != "preparing" {
		t.Errorf("the job is %s beside a transaction that is older", state)
	}
	if err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.must(c, "select weft.wait_move($1)", job)
	if state := value[string](w, c, "select state from weft.moves where job = $1", job); state != "done" {
		t.Errorf("the job is %s", state)
	}
	for _, c := range []*pgx.Conn{c, other} {
		if n := value[int](w, c, "select count(*) from alone"); n != accounts+2 {
			t.Errorf("%d rows", n)
		}
		if id := value[int](w, c, "select id from alone where email = 'before'"); id != 100001 {
			t.Errorf("row %d by a unique column", id)
		}
	}
	w.refused(c, "insert into alone (id, email) values (100003, 'a17')", "23505", "email")
	w.spread("alone")
	w.settled(c)
	if diff := w.dump(c, "select * from weft.schema_diff()"); diff != "[] <nil>" {
		t.Errorf("the shards differ: %s", diff)
	}

	// What cannot be declared online says so, and what to do.
	w.refused(c, "select weft.shard_table('cust', 'id', online => true)", "0A000", "foreign key")
	w.refused(c, "select weft.shard_table('alone', 'id', online => true)", "42710", "already declared")
	w.refused(c, "select weft.shard_table('kind', 'id', online => 'maybe')", "22023", "online")
	w.refused(c, "select weft.shard_tables('cust.id, ord')", "22023", "no table with its key column")
}

// TestDeclareTogether: tables that foreign keys tie together are declared in one step, and the foreign keys are in
// force throughout.
func TestDeclareTogether(t *testing.T) {
	for _, call := range []string{
		"select weft.shard_tables('cust.id, ord.cust, item.cust')",
		"select weft.shard_table('ord', 'cust', cascade => true)",
	} {
		db := "online_cascade"
		if strings.Contains(call, "shard_tables") {
			db = "online_tables"
		}
		w := plain(t, db, 2)
		c := w.conn(0)
		w.must(c, call)
		for _, table := range []string{"cust", "ord", "item"} {
			w.spread(table)
		}
		w.settled(c)
		w.refused(c, "insert into ord (cust, n) values (99999, 1)", "23503", "")
		w.must(c, "delete from cust where id = 17")
		if n := value[int](w, c, "select count(*) from item where cust = 17"); n != 0 {
			t.Errorf("%d items of a customer who is gone", n)
		}
		if n := value[int](w, c, "select count(*) from cust join ord on cust = id join item on item.cust = ord.cust and item.ord = ord.n"); n == 0 {
			t.Error("nothing is joined")
		}
	}
}

// TestDeclareUnderLoad: tables are declared, and the declaration is cancelled and made again, while clients
// read and write. Every answer is exact, and nobody waits for long.
func TestDeclareUnderLoad(t *testing.T) {
	w := plain(t, "online_load", 2)
	c := w.conn(0)
	w.must(c, "truncate item, ord; update cust set balance = 1000")
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	longest := time.Duration(0)
	report := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	inserted := make([]int64, 6)
	timed := func(f func() error) error {
		began := time.Now()
		err := f()
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, time.Since(began))
		return err
	}
	again := func(err error) bool {
		var e *pgconn.PgError
		return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
	}
	client := func(i int, work func(c *pgx.Conn) error) {
		c := w.conn(i % 2)
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := work(c); err != nil && !again(err) {
					report("client %d: %v", i, err)
					return
				}
				time.Sleep(5 * time.Millisecond) // a job that has to follow clients as fast as they can takes a minute
			}
		})
	}
	bg := context.Background()
	for i := range 2 { // money goes between two customers, in a block
		client(i, func(c *pgx.Conn) error {
			return timed(func() error {
				tx, err := c.Begin(bg)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback(bg) }()
				a, b := rand.IntN(accounts)+1, rand.IntN(accounts)+1
				if a > b {
					a, b = b, a
				}
				for _, x := range [][2]int{{a, -1}, {b, 1}} {
					if _, err := tx.Exec(bg, "update cust set balance = balance + $2, touched = touched + 1 where id = $1", x[0], x[1]); err != nil {
						return err
					}
				}
				return tx.Commit(bg)
			})
		})
	}
	for i := 2; i < 4; i++ { // orders with their items, with foreign keys
		n := int64(i) * 1_000_000
		client(i, func(c *pgx.Conn) error {
			n++
			return timed(func() error {
				tx, err := c.Begin(bg)
				if err != nil {
					return err
				}
				defer func() { _ = tx.Rollback(bg) }()
				id := rand.IntN(accounts) + 1
				if _, err := tx.Exec(bg, "insert into ord (cust, n) values ($1, $2)", id, n); err != nil {
					return err
				}
				if _, err := tx.Exec(bg, "insert into item (cust, ord, n) values ($1, $2, 1), ($1, $2, 2)", id, n); err != nil {
					return err
				}
				if err := tx.Commit(bg); err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				inserted[i]++
				return nil
			})
		})
	}
	client(4, func(c *pgx.Conn) error { // sums over everything
		var sum, count int64
		if err := timed(func() error { return c.QueryRow(bg, "select sum(balance), count(*) from cust").Scan(&sum, &count) }); err != nil {
			return err
		}
		if count != accounts {
			report("%d customers", count)
		}
		return nil
	})
	client(5, func(c *pgx.Conn) error { // each order has two items
		var orders, items int64
		err := timed(func() error {
			return c.QueryRow(bg, "select count(distinct (o.cust, o.n)), count(*) from ord o join item i on i.cust = o.cust and i.ord = o.n where o.cust = $1", rand.IntN(accounts)+1).Scan(&orders, &items)
		})
		if err == nil && items != 2*orders {
			report("%d orders and %d items", orders, items)
		}
		return err
	})
	client(6, func(c *pgx.Conn) error { // a block that sees one moment
		tx, err := c.BeginTx(bg, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(bg) }()
		var first, second int64
		if err := tx.QueryRow(bg, "select count(*) from cust").Scan(&first); err != nil {
			return err
		}
		time.Sleep(30 * time.Millisecond)
		if err := tx.QueryRow(bg, "select count(*) from cust").Scan(&second); err != nil {
			return err
		}
		if first != accounts || second != accounts {
			report("%d and %d customers in one block", first, second)
		}
		return nil
	})
	time.Sleep(time.Second)
	w.must(c, "select weft.shard_tables('cust.id, ord.cust, item.cust', wait => false)")
	job := value[string](w, c, "select job from weft.moves where kind = 'declare' and state not in ('done', 'cancelled')")
	w.until(c, "select buckets_done > 5 from weft.moves where job = $1", job)
	w.verified(c)
	w.must(c, "select weft.cancel_move($1)", job)
	w.must(c, "select weft.wait_move($1)", job)
	if state := value[string](w, c, "select state from weft.moves where job = $1", job); state != "cancelled" {
		t.Errorf("the job is %s", state)
	}
	if n := value[int](w, c, "select count(*) from weft.tables where name in ('cust', 'ord', 'item')"); n != 0 {
		t.Errorf("%d tables are declared still", n)
	}
	w.must(c, "select weft.shard_tables('cust.id, ord.cust, item.cust')")
	time.Sleep(time.Second)
	stop()
	wg.Wait()
	for _, err := range wrong {
		t.Error(err)
	}
	if sum := value[int](w, c, "select sum(balance) from cust"); sum != 1000*accounts {
		t.Errorf("the sum of all balances is %d", sum)
	}
	if n := value[int64](w, c, "select count(*) from ord"); n != inserted[2]+inserted[3] {
		t.Errorf("%d orders, and %d were acknowledged", n, inserted[2]+inserted[3])
	}
	if n := value[int64](w, c, "select count(*) from item"); n != 2*(inserted[2]+inserted[3]) {
		t.Errorf("%d items", n)
	}
	for _, table := range []string{"cust", "ord", "item"} {
		w.spread(table)
	}
	w.settled(c)
	t.Logf("the longest statement or block took %s; %d orders", longest, inserted[2]+inserted[3])
	if longest > 3*time.Second+500*time.Millisecond {
		t.Errorf("somebody waited for %s", longest)
	}
}

// TestUndeclareOnline: tables go home without a lock, by a job that can be paused, resumed and cancelled.
func TestUndeclareOnline(t *testing.T) {
	w := plain(t, "online_home", 2)
	c, other := w.conn(0), w.conn(1)
	w.must(c, "select weft.shard_table('cust', 'id', cascade => true)")
	w.must(c, "select weft.shard_table('alone', 'id')")
	count := func(want int) {
		t.Helper()
		for _, c := range []*pgx.Conn{c, other} {
			if n := value[int](w, c, "select count(*) from cust join ord on ord.cust = id join item on item.cust = ord.cust and item.ord = ord.n"); n != want {
				t.Errorf("%d joined rows, want %d", n, want)
			}
			if n := value[int](w, c, "select count(*) from cust join alone using (id)"); n != accounts {
				t.Errorf("%d rows of two groups joined", n)
			}
			if id := value[int](w, c, "select id from cust where email = 'c17'"); id != 17 {
				t.Errorf("customer %d by a unique column", id)
			}
		}
	}
	count(1000)
	w.refused(c, "select weft.unshard_table('ord', online => true)", "(0A000|55006)", "foreign key")
	w.must(c, "select weft.unshard_table('cust', cascade => true, wait => false, until => 30)")
	job := value[string](w, c, "select job from weft.moves where kind = 'undeclare'")
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	count(1000)
	w.verified(c)
	w.must(c, "select weft.cancel_move($1)", job)
	w.must(c, "select weft.wait_move($1)", job)
	if state := value[string](w, c, "select state from weft.moves where job = $1", job); state != "cancelled" {
		t.Errorf("the job is %s", state)
	}
	count(1000)
	w.spread("cust")
	w.settled(c)
	w.must(c, "select weft.unshard_table('cust', cascade => true)")
	count(1000)
	w.must(c, "insert into ord (cust, n) values (17, 5000)")
	w.refused(c, "insert into ord (cust, n) values (99999, 1)", "23503", "")
	w.refused(c, "insert into cust (id, email) values (5000, 'c17')", "23505", "")
	if n := value[int](w, c, "select count(*) from weft.tables where name in ('cust', 'ord', 'item')"); n != 0 {
		t.Errorf("%d tables are declared still", n)
	}
	for i, s := range w.proxies[0].Shards()[1:] {
		d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
		if err != nil {
			t.Fatal(err)
		}
		if n := value[int](w, d, "select count(*) from pg_class where relname in ('cust', 'ord', 'item')"); n != 0 {
			t.Errorf("shard %d has %d of the tables still", i+1, n)
		}
		_ = d.Close(context.Background())
	}
	w.settled(c)
}
