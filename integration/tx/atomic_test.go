package tx

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
)

// sums are ways to ask for all the money.
var sums = []string{
	"select sum(balance)::int8 from acct",
	"select sum(a.balance)::int8 from acct a join home h on h.id = a.id % 10 + 1",
	"select (select sum(balance) from acct)::int8",
	"select sum(b)::int8 from (select balance b from acct order by note nulls first, id offset 0) x",
}

// fractured counts the readings, until the end, that see money on its way.
type fractured struct{ reads, wrong, busy atomic.Int64 }

func (f *fractured) String() string {
	return fmt.Sprintf("%d readings, %d wrong, %d given up", f.reads.Load(), f.wrong.Load(), f.busy.Load())
}

// read asks until the end. In blocks it asks twice, and must be told the same.
func (w *world) read(c *pgx.Conn, f *fractured, end time.Time, blocks bool, onError func(error)) {
	ctx := context.Background()
	for i := 0; time.Now().Before(end); i++ {
		var sum, again int64
		sql := sums[i%len(sums)]
		var err error
		if blocks {
			_, err = c.Exec(ctx, "begin isolation level repeatable read")
		}
		if err == nil {
			err = c.QueryRow(ctx, sql).Scan(&sum)
		}
		if again = sum; blocks && err == nil {
			err = c.QueryRow(ctx, sums[(i+1)%len(sums)]).Scan(&again)
		}
		if blocks && !c.IsClosed() {
			_, _ = c.Exec(ctx, "rollback")
		}
		switch {
		case code(err) == "40001":
			f.busy.Add(1)
			continue
		case err != nil:
			onError(err)
			return
		}
		f.reads.Add(1)
		if sum != accounts*1000 || again != sum {
			f.wrong.Add(1)
		}
	}
}

// move moves money until the end.
func (w *world) move(c *pgx.Conn, n *atomic.Int64, end time.Time, onError func(error)) {
	for time.Now().Before(end) {
		// Each has its own accounts: it is not deadlocks that are looked for.
		from, to := rand.IntN(shards), rand.IntN(shards-1)
		if to >= from {
			to++
		}
		err := transfer(c, w.keys[from][rand.IntN(len(w.keys[from]))], w.keys[to][rand.IntN(len(w.keys[to]))])
		switch code(err) {
		case "":
			n.Add(1)
		case "40P01", "40001":
		default:
			onError(err)
			return
		}
	}
}

// TestFracturedReads: readers that see half of a transaction are found with
// weft.read = 'shard', and none with 'atomic', through one proxy or two, in blocks
// and outside.
func TestFracturedReads(t *testing.T) {
	w := newWorld(t, "fractured", 2)
	for _, mode := range []string{"shard", "atomic"} {
		t.Run(mode, func(t *testing.T) {
			end := time.Now().Add(4 * time.Second)
			var f, inBlocks fractured
			var moved atomic.Int64
			var wg sync.WaitGroup
			fail := func(err error) { t.Errorf("%v", err) }
			for i := range 4 {
				c := w.conn(i % 2)
				wg.Go(func() { w.move(c, &moved, end, fail) })
			}
			for i := range 4 {
				c := w.conn(i / 2)
				must(t, c, "set weft.read = '"+mode+"'")
				if i%2 == 0 {
					wg.Go(func() { w.read(c, &f, end, false, fail) })
				} else {
					wg.Go(func() { w.read(c, &inBlocks, end, true, fail) })
				}
			}
			wg.Wait()
			t.Logf("%d moves; autocommit: %v; blocks: %v", moved.Load(), &f, &inBlocks)
			if moved.Load() == 0 || f.reads.Load() == 0 || inBlocks.reads.Load() == 0 {
				t.Error("nothing happened")
			}
			switch {
			case mode == "shard" && f.wrong.Load()+inBlocks.wrong.Load() == 0:
				t.Error("no half of a transaction was seen: this test would not find one")
			case mode == "atomic" && f.wrong.Load()+inBlocks.wrong.Load() > 0:
				t.Error("halves of transactions were seen")
			}
		})
	}
	w.quiet()
	if got := w.total(); got != accounts*1000 {
		t.Errorf("%d in all", got)
	}
}

// TestAtomicReadsBesideCommits: readers are not starved by transactions of several shards that come one after the
// other: they wait for those that are being committed, and for no others.
func TestAtomicReadsBesideCommits(t *testing.T) {
	w := newWorld(t, "beside", 2)
	const lasts = 4 * time.Second
	c := w.conn(0)
	must(t, c, "set weft.read = 'atomic'")
	movers := make([]*pgx.Conn, 16)
	for i := range movers {
		movers[i] = w.conn(i % 2)
	}
	end := time.Now().Add(lasts)
	var moved atomic.Int64
	var wg sync.WaitGroup
	for _, c := range movers {
		wg.Go(func() { w.move(c, &moved, end, func(err error) { t.Errorf("%v", err) }) })
	}
	took := timed(t, c, sums[0], accounts*1000, end)
	wg.Wait()
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	t.Logf("%d readings beside %.0f commits a second: p50 %s, p99 %s", len(took), float64(moved.Load())/lasts.Seconds(), p50.Round(time.Millisecond), p99.Round(time.Millisecond))
	if pgtest.Late(t, p50, 500*time.Millisecond) { // 50 ms, where nothing else is at work
		t.Errorf("half of the readings took longer than %s", p50)
	}
	w.quiet()
}

// TestAtomicReadWaits: a transaction that is committed on one shard and prepared
// on another, as a dead proxy leaves it, is waited for; then there is 40001, not a
// half.
func TestAtomicReadWaits(t *testing.T) {
	w := newWorld(t, "gate", 1)
	c := w.conn(0)
	must(t, c, "set weft.read = 'atomic'")
	read := func() (sum int64, err error) {
		err = c.QueryRow(context.Background(), sums[0]).Scan(&sum)
		return sum, err
	}
	if sum, err := read(); err != nil || sum != accounts*1000 { // and the gate is there
		t.Fatal(sum, err)
	}
	one, two := w.direct(0), w.direct(1)
	for i, d := range []*pgx.Conn{one, two} {
		must(t, d, "begin")
		must(t, d, "update acct set balance = balance + $1 where id = $2", []int{-1, 1}[i], w.keys[i][0])
		must(t, d, "lock table weft_gate.gate in row exclusive mode")
	}
	must(t, two, "prepare transaction 'half'")
	must(t, one, "commit")
	// It holds as long as the gate is held, by a transaction that is prepared.
	began := time.Now()
	if sum, err := read(); code(err) != "40001" {
		t.Fatalf("%d, %v", sum, err)
	} else if took := time.Since(began); pgtest.Late(t, took, 10*time.Second) {
		t.Errorf("given up after %s", took)
	}
	must(t, c, "set weft.read = 'shard'")
	if sum, err := read(); err != nil || sum != accounts*1000-1 {
		t.Errorf("%d, %v: with 'shard' half of it is seen", sum, err)
	}
	must(t, c, "set weft.read = 'atomic'")
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(100 * time.Millisecond)
		must(t, two, "commit prepared 'half'")
	}()
	if sum, err := read(); err != nil || sum != accounts*1000 {
		t.Errorf("%d, %v", sum, err)
	}
	<-done
	// Whoever reads lets nobody wait for longer than its snapshots take.
	must(t, c, "begin isolation level repeatable read")
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	must(t, one, "begin")
	must(t, one, "set local lock_timeout = '2s'")
	must(t, one, "lock table weft_gate.gate in row exclusive mode")
	must(t, one, "commit")
	must(t, c, "commit")
	w.quiet()
}

// TestAtomicBlockWaits: a block takes its snapshots when all gates are shut and not
// before, also if weft has to learn of the shards' types first, as after each change of the schema.
func TestAtomicBlockWaits(t *testing.T) {
	w := newWorld(t, "gateblock", 2)
	c := w.conn(0)
	must(t, c, "set weft.read = 'atomic'")
	want := int64(accounts * 1000)
	for _, ddl := range []string{"", "alter table acct add column more int"} {
		if ddl != "" {
			must(t, w.conn(1), ddl)
		}
		inside := w.direct(2)
		must(t, inside, "begin")
		must(t, inside, "lock table weft_gate.gate in row exclusive mode")
		must(t, c, "begin isolation level repeatable read")
		type answer struct {
			sum int64
			err error
		}
		done := make(chan answer, 1)
		go func() {
			var a answer
			a.err = c.QueryRow(context.Background(), sums[0]).Scan(&a.sum)
			done <- a
		}()
		shut := w.direct(1)
		within(t, "it is at the gates", func() bool {
			return value[bool](t, shut, "select exists (select from pg_stat_activity where datname = current_database() and query ~ 'LOCK TABLE ONLY weft_gate' and pid <> pg_backend_pid())")
		})
		must(t, w.direct(1), "update acct set balance = balance + 5 where id = $1", w.keys[1][0])
		want += 5
		must(t, inside, "commit")
		if a := <-done; a.err != nil || a.sum != want {
			t.Errorf("after %q: %d, %v, want %d", ddl, a.sum, a.err, want)
		}
		must(t, c, "commit")
	}
	w.quiet()
}

// TestAtomicReadGivenUp: who waits at the gates is ended by statement_timeout and by a cancel request, in a block and outside, and
// leaves none of them shut.
func TestAtomicReadGivenUp(t *testing.T) {
	w := newWorld(t, "gategivenup", 1)
	must(t, w.conn(0), "update acct set note = 'x'") // and the gate is there
	inside, other := w.direct(2), w.direct(0)
	must(t, inside, "begin")
	must(t, inside, "lock table weft_gate.gate in row exclusive mode")
	for _, block := range []bool{false, true} {
		for _, timeout := range []bool{false, true} {
			c := w.conn(0)
			must(t, c, "set weft.read = 'atomic'")
			if block {
				must(t, c, "begin isolation level repeatable read")
			}
			if timeout {
				must(t, c, "set statement_timeout = '300ms'")
			} else {
				time.AfterFunc(300*time.Millisecond, func() { _ = c.PgConn().CancelRequest(context.Background()) })
			}
			began := time.Now()
			e := fails(t, exec(c, sums[0]), "57014")
			if took := time.Since(began); took < 200*time.Millisecond || pgtest.Late(t, took, 1300*time.Millisecond) {
				t.Errorf("block %t, timeout %t: ended after %s", block, timeout, took)
			}
			if timeout != strings.Contains(e.Message, "statement timeout") {
				t.Errorf("block %t, timeout %t: %s", block, timeout, e.Message)
			}
			within(t, "the gate is open", func() bool {
				return exec(other, "do $$ begin lock table weft_gate.gate in row exclusive mode nowait; end $$") == nil
			})
			if block {
				must(t, c, "rollback")
			}
			must(t, c, "set weft.read = 'shard'")
			must(t, c, sums[0])
		}
	}
	must(t, inside, "rollback")
	w.quiet()
}

// TestGateGuarded: who stays inside a gate while others wait for it is ended, also if he is not idle.
func TestGateGuarded(t *testing.T) {
	w := newWorld(t, "gateguarded", 1)
	c := w.conn(0)
	must(t, c, "update acct set note = 'x'") // and the gate is there
	must(t, c, "set weft.read = 'atomic'")
	inside := w.direct(2)
	must(t, inside, "begin")
	must(t, inside, "lock table weft_gate.gate in row exclusive mode")
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for exec(inside, "select 1") == nil {
			time.Sleep(200 * time.Millisecond)
		}
	}()
	for exec(c, sums[0]) != nil {
		if time.Since(began) > patience {
			t.Fatal("readers wait for ever")
		}
	}
	<-ended
	t.Logf("ended after %s", time.Since(began).Round(time.Millisecond))
	w.quiet()
}

// TestAtomicRefused: where it cannot be kept it is refused.
func TestAtomicRefused(t *testing.T) {
	w := newWorld(t, "gaterefused", 1)
	c := w.conn(0)
	if err := exec(c, "set weft.read = 'snapshot'"); code(err) != "22023" {
		t.Errorf("%v", err)
	}
	must(t, c, "set weft.read = 'atomic'")
	if got := value[string](t, c, "show weft.read"); got != "atomic" {
		t.Errorf("it is %s", got)
	}
	refused := func(what string) {
		t.Helper()
		e := fails(t, exec(c, sums[0]), "0A000")
		if !strings.Contains(e.Message, what) || e.Hint == "" {
			t.Errorf("%s (%s)", e.Message, e.Hint)
		}
	}
	must(t, c, "begin")
	must(t, c, "select balance from acct where id = 1") // of one shard
	refused("READ COMMITTED")
	fails(t, exec(c, "select 1"), "25P02")
	must(t, c, "rollback")
	must(t, c, "begin isolation level repeatable read")
	must(t, c, "set local weft.read = 'shard'")
	must(t, c, sums[0])
	must(t, c, "set local weft.read = 'atomic'")
	refused("after the snapshots")
	must(t, c, "rollback")
	must(t, c, "begin isolation level repeatable read read only")
	must(t, c, "select 1 from acct where id = 1")
	must(t, c, sums[0])
	must(t, c, "commit")
	// A write is no read.
	must(t, c, "begin")
	must(t, c, "update acct set note = 'x'")
	must(t, c, "rollback")
	must(t, c, "update acct set note = 'x'")
	// Savepoints of the client's own are left alone.
	must(t, c, "begin isolation level repeatable read")
	must(t, c, "savepoint weft_gate")
	must(t, c, sums[0])
	must(t, c, "update acct set note = 'y' where id = 1")
	must(t, c, "rollback to weft_gate")
	must(t, c, "release weft_gate")
	must(t, c, "commit")
	if got := value[string](t, c, "select note from acct where id = 1"); got != "x" {
		t.Errorf("note is %s", got)
	}
	// lock_timeout is the client's own afterwards.
	must(t, c, "begin isolation level repeatable read")
	must(t, c, sums[0])
	if got := value[string](t, c, "show lock_timeout"); got != "0" {
		t.Errorf("lock_timeout is %s", got)
	}
	must(t, c, "commit")
	// Also with a session that is tied to its backend.
	must(t, c, "create temp table tied (i int)")
	for _, sql := range sums {
		if got := value[int64](t, c, sql); got != accounts*1000 {
			t.Errorf("%s: %d", sql, got)
		}
	}
	must(t, c, "insert into tied values (1)")
	w.quiet()
}

// TestAtomicWrites: what a write reads is not asked to be atomic, be it by itself or in a
// READ COMMITTED block.
func TestAtomicWrites(t *testing.T) {
	w := newWorld(t, "gatewrites", 1)
	c := w.conn(0)
	must(t, c, "set weft.read = 'atomic'")
	for _, block := range []bool{false, true} {
		if block {
			must(t, c, "begin")
		}
		must(t, c, "insert into home select id + 1000, 1 from acct")
		must(t, c, "insert into acct (id) select id + 1000 from home where id > 1000")
		must(t, c, "update home set v = (select count(*) from acct) where id = 1")
		must(t, c, "delete from acct where id in (select id from home where id > 1000) or id > 1000")
		must(t, c, "with d as (delete from home where id > 1000 returning id) select count(*) from d")
		if block {
			fails(t, exec(c, "select sum(balance) from acct"), "0A000")
			must(t, c, "rollback")
		}
	}
	// Set for one block, whose first statement is parsed before it is run.
	must(t, c, "set weft.read = 'shard'")
	must(t, c, "begin isolation level repeatable read")
	must(t, c, "set local weft.read = 'atomic'")
	must(t, c, "select id from acct order by id limit 3 for update")
	must(t, c, "select sum(balance) from acct where id > $1", 0)
	must(t, c, "commit")
	if got := w.total(); got != accounts*1000 {
		t.Errorf("%d in all", got)
	}
}
