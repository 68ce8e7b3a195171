package tx

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestAdvisoryLocks: there is one space of them, wherever the block that takes one
// has been, and they go when PostgreSQL lets them go.
func TestAdvisoryLocks(t *testing.T) {
	w := newWorld(t, "advisory", 2)
	a, b := w.conn(0), w.conn(1)
	try := func(form string, key int) bool {
		t.Helper()
		return value[bool](t, b, fmt.Sprintf("select pg_try_advisory_%s(%d)", form, key))
	}
	// is says whether b, in a block on another shard, gets the lock of a transaction.
	is := func(form string, key int, want bool) {
		t.Helper()
		must(t, b, "begin")
		must(t, b, take, w.keys[2][1])
		if got := try(form, key); got != want {
			t.Errorf("%s(%d): %v", form, key, got)
		}
		must(t, b, "rollback")
	}
	must(t, a, "begin")
	must(t, a, take, w.keys[1][0])
	must(t, a, "select pg_advisory_xact_lock(1)")
	must(t, a, take, w.keys[2][0])
	must(t, a, "select pg_advisory_xact_lock_shared(2), pg_advisory_xact_lock(3, 4)")
	must(t, a, "savepoint s")
	must(t, a, "select pg_advisory_xact_lock(5)")
	is("xact_lock", 1, false)
	is("xact_lock_shared", 1, false)
	is("xact_lock", 2, false)
	is("xact_lock_shared", 2, true)
	is("xact_lock", 5, false)
	is("lock", 1, false)
	must(t, a, "rollback to s")
	is("xact_lock", 5, true)
	is("xact_lock", 1, false)
	must(t, a, "commit")
	is("xact_lock", 1, true)
	is("xact_lock", 2, true)

	w.begin(a)
	must(t, a, "select pg_advisory_xact_lock($1)", int64(1))
	is("xact_lock", 1, false)
	must(t, a, "rollback")
	is("xact_lock", 1, true)

	// Those of the session outlive its transactions.
	w.begin(a)
	must(t, a, "select pg_advisory_lock(7), pg_advisory_lock_shared(8)")
	must(t, a, "rollback")
	is("xact_lock", 7, false)
	is("xact_lock_shared", 8, true)
	w.begin(a)
	must(t, a, "select pg_advisory_lock(7)")
	must(t, a, "commit")
	if !value[bool](t, a, "select pg_advisory_unlock(7)") || try("lock", 7) {
		t.Error("one of two was enough")
	}
	must(t, a, "begin")
	must(t, a, take, w.keys[2][0])
	if !value[bool](t, a, "select pg_advisory_unlock(7)") || !try("lock", 7) {
		t.Error("it has not been given back")
	}
	must(t, a, "commit")
	if value[bool](t, a, "select pg_try_advisory_lock(7)") {
		t.Error("two have it")
	}
	_ = b.Close(context.Background())
	within(t, "the lock of a session that is gone is free", func() bool { return value[bool](t, a, "select pg_try_advisory_lock(7)") })
	must(t, a, "select pg_advisory_unlock_all()")
	w.quiet()
}

// TestAdvisoryWait: who waits for one gets it with the commit of who has it.
func TestAdvisoryWait(t *testing.T) {
	w := newWorld(t, "advisorywait", 1)
	a, b := w.conn(0), w.conn(0)
	w.begin(a)
	must(t, a, "select pg_advisory_xact_lock(1)")
	must(t, b, "begin")
	must(t, b, take, w.keys[2][0])
	done := make(chan error, 1)
	go func() { done <- exec(b, "select pg_advisory_xact_lock(1)") }()
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	must(t, a, "commit")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	must(t, b, "commit")
	w.quiet()
}

// TestLocksAreNoWrites: shards on which rows were locked, and the home shard that
// has an advisory lock, take no part in the commit, and keep the locks up to it.
func TestLocksAreNoWrites(t *testing.T) {
	w := newWorld(t, "lockonly", 1)
	a, b := w.conn(0), w.conn(0)
	w.begin(a)
	must(t, a, "commit") // weft's own tables are there
	var locks []*pgx.Conn
	for i := range shards {
		d := w.direct(i)
		must(t, d, "begin")
		must(t, d, "lock table weft_gate.gate, weft.decision in access exclusive mode")
		locks = append(locks, d)
	}
	must(t, a, "begin")
	must(t, a, "select id from acct where id = $1 for update", w.keys[0][0])
	must(t, a, take, w.keys[1][0])
	must(t, a, "select id from acct where id = $1 for no key update", w.keys[2][0])
	must(t, a, "select pg_advisory_lock(1), pg_advisory_xact_lock(2)")
	must(t, a, "select id from acct order by id limit 5 for share")
	must(t, a, "select id from home where id = 1 for update")
	for _, i := range []int{0, 2} {
		if got := code(exec(b, "select id from acct where id = $1 for update nowait", w.keys[i][0])); got != "55P03" {
			t.Errorf("shard %d: %q", i, got)
		}
	}
	must(t, a, "commit")
	for _, i := range []int{0, 1, 2} {
		must(t, b, "select id from acct where id = $1 for update nowait", w.keys[i][0])
	}
	must(t, b, "select id from home where id = 1 for update nowait")
	must(t, a, "select pg_advisory_unlock(1)")
	for _, d := range locks {
		must(t, d, "rollback")
	}
	w.quiet()
}

// TestLocksUntilSync: extended messages without a Sync between are one transaction,
// and keep the rows of a query over several shards locked.
func TestLocksUntilSync(t *testing.T) {
	w := newWorld(t, "locksync", 1)
	a, b := w.conn(0), w.conn(0)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	p := a.PgConn().StartPipeline(ctx)
	p.SendQueryParams("select id from acct where id < 20 for update", nil, nil, nil, nil)
	p.SendFlushRequest()
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	res, err := p.GetResults()
	if err != nil {
		t.Fatal(err)
	}
	if got := res.(*pgconn.ResultReader).Read(); got.Err != nil || len(got.Rows) != 19 {
		t.Fatalf("%d rows, %v", len(got.Rows), got.Err)
	}
	for id := range 19 {
		if got := code(exec(b, "select id from acct where id = $1 for update nowait", id+1)); got != "55P03" {
			t.Errorf("row %d: %q", id+1, got)
		}
	}
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, b, "select id from acct where id < 20 for update nowait")
	w.quiet()
}

// TestLockedCopy: who has locked a row of a reference table beside a sharded row, on
// whatever shard, is waited for by those who write it.
func TestLockedCopy(t *testing.T) {
	w := newWorld(t, "lockedcopy", 1)
	a, b := w.conn(0), w.conn(0)
	for i := range shards {
		must(t, a, "begin")
		must(t, a, "select acct.id, ref.v from acct join ref on ref.id = 3 where acct.id = $1 for update", w.keys[i][0])
		done := make(chan error, 1)
		go func() { done <- exec(b, "update ref set v = v + 1 where id = 3") }()
		waits(t, done)
		must(t, a, "commit")
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w.quiet()
}

// TestReferenceDeletes: no row is left that references one which is gone, whoever
// came first, on whatever shard.
func TestReferenceDeletes(t *testing.T) {
	w := newWorld(t, "refdelete", 2)
	a, b := w.conn(0), w.conn(1)
	must(t, a, "create table child (id bigint primary key, ref_id bigint references ref)")
	must(t, a, "select weft.shard_table('child', 'id')")
	insert := func(c *pgx.Conn, key, ref int64) error { return exec(c, "insert into child values ($1, $2)", key, ref) }
	for i := range shards {
		key, ref := w.keys[i][0], int64(i+1)
		// The row first.
		must(t, a, "begin")
		if err := insert(a, key, ref); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- exec(b, "delete from ref where id = $1", ref) }()
		waits(t, done)
		must(t, a, "commit")
		if got := code(<-done); got != "23503" {
			t.Errorf("shard %d: delete of a referenced row: %q", i, got)
		}
		must(t, a, "delete from child")
		// The delete first.
		must(t, b, "begin")
		must(t, b, "delete from ref where id = $1", ref)
		go func() { done <- insert(a, key, ref) }()
		waits(t, done)
		must(t, b, "commit")
		if got := code(<-done); got != "23503" {
			t.Errorf("shard %d: reference to a deleted row: %q", i, got)
		}
		must(t, b, "begin")
		must(t, b, "delete from ref where id = $1", ref+5)
		go func() { done <- insert(a, key, ref+5) }()
		waits(t, done)
		must(t, b, "rollback")
		if err := <-done; err != nil {
			t.Errorf("shard %d: %v", i, err)
		}
		must(t, a, "delete from child")
	}
	w.race(t, "delete from ref where id = $1", "insert into ref values ($1, 1)")
}

// race deletes and inserts rows of ref while others reference them.
func (w *world) race(t *testing.T, remove, add string) {
	end := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	fine := func(err error) {
		if c := code(err); c != "" && c != "23503" && c != "23505" && c != "40P01" {
			t.Errorf("%v", err)
		}
	}
	for n := range 2 {
		c := w.conn(n)
		wg.Go(func() {
			for i := int64(0); time.Now().Before(end) && !t.Failed(); i++ {
				fine(exec(c, "insert into child values ($1, $2), ($3, $2)", i*8+int64(n), i%4+1, i*8+4+int64(n)))
				if i%3 == 0 {
					fine(exec(c, "delete from child where ref_id = $1", i%4+1))
				}
			}
		})
	}
	c := w.conn(0)
	wg.Go(func() {
		for i := int64(0); time.Now().Before(end) && !t.Failed(); i++ {
			fine(exec(c, add, i%4+1))
			fine(exec(c, remove, i%4+1))
		}
	})
	wg.Wait()
	for i := range shards {
		d := w.direct(i)
		if n := value[int](t, d, "select count(*) from child where ref_id not in (select id from ref)"); n > 0 {
			t.Errorf("shard %d: %d rows reference what is not there", i, n)
		}
	}
	if err := exec(c, "select weft.verify_reference('ref')"); err != nil {
		t.Error(err)
	}
	w.quiet()
}

// waits makes sure that something is not done at once.
func waits(t *testing.T, done chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Error(errors.Join(errors.New("did not wait"), err))
		done <- err
	case <-time.After(150 * time.Millisecond):
	}
}
