package tx

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
)

const (
	take = "update acct set balance = balance - 1 where id = $1"
	// limit is within which a deadlock must be found, and slack what the machine
	// may add when it is busy.
	limit = 2 * time.Second
	slack = time.Second
)

// TestDeadlock: two transactions take two accounts on two shards in opposite
// order, through one proxy and through two.
func TestDeadlock(t *testing.T) {
	w := newWorld(t, "dead", 2)
	for _, proxies := range [][]int{{0, 0}, {0, 1}, {1, 0}} {
		t.Run(fmt.Sprint(proxies), func(t *testing.T) {
			k0, k1 := w.keys[0][0], w.keys[1][0]
			old, young := w.conn(proxies[0]), w.conn(proxies[1])
			must(t, old, "begin")
			must(t, old, take, k0)
			time.Sleep(20 * time.Millisecond) // clocks are compared
			must(t, young, "begin")
			must(t, young, take, k1)
			began := time.Now()
			oldWaits := later(old, take, k1)
			time.Sleep(50 * time.Millisecond)
			err := exec(young, take, k0)
			took := time.Since(began)
			e := fails(t, err, "40P01")
			if e.Message != "deadlock detected" || e.Hint == "" || strings.Count(e.Detail, "blocked by process") != 2 || strings.Count(e.Detail, "ShareLock on transaction") != 2 {
				t.Errorf("%s\n%s\n%s", e.Message, e.Detail, e.Hint)
			}
			t.Logf("found after %s", took)
			if pgtest.Late(t, took, limit+slack) {
				t.Errorf("found after %s", took)
			}
			// What it held is free before its client says anything, as with PostgreSQL.
			if err := <-oldWaits; err != nil {
				t.Fatalf("the older one: %v", err)
			}
			must(t, old, "commit")
			fails(t, exec(young, "select 1"), "25P02")
			must(t, young, "rollback")
			must(t, young, take, k0)
			w.quiet()
		})
	}
	if got := w.total(); got != accounts*1000-3*3 {
		t.Errorf("%d in all", got)
	}
}

// TestDeadlockOfThree: a circle over three shards.
func TestDeadlockOfThree(t *testing.T) {
	w := newWorld(t, "dead3", 2)
	var conns []*pgx.Conn
	for i := range 3 {
		c := w.conn(i % 2)
		must(t, c, "begin")
		must(t, c, take, w.keys[i][0])
		conns = append(conns, c)
		time.Sleep(20 * time.Millisecond)
	}
	var waits []<-chan error
	began := time.Now()
	for i, c := range conns {
		waits = append(waits, later(c, take, w.keys[(i+1)%3][0]))
	}
	fails(t, <-waits[2], "40P01")
	if took := time.Since(began); pgtest.Late(t, took, limit+slack) {
		t.Errorf("found after %s", took)
	}
	must(t, conns[2], "rollback")
	if err := <-waits[1]; err != nil { // the last to begin has gone, whom it waited for
		t.Fatal(err)
	}
	must(t, conns[1], "commit")
	if err := <-waits[0]; err != nil {
		t.Fatal(err)
	}
	must(t, conns[0], "commit")
	w.quiet()
}

// TestDeadlockWithSavepoint: giving way costs what was done since the savepoint.
func TestDeadlockWithSavepoint(t *testing.T) {
	w := newWorld(t, "deadsave", 1)
	k0, k1, k2 := w.keys[0][0], w.keys[1][0], w.keys[2][0]
	old, young := w.conn(0), w.conn(0)
	must(t, old, "begin")
	must(t, old, take, k0)
	time.Sleep(20 * time.Millisecond)
	must(t, young, "begin")
	must(t, young, take, k2)
	must(t, young, "savepoint s")
	must(t, young, take, k1)
	waits := later(old, take, k1)
	time.Sleep(50 * time.Millisecond)
	fails(t, exec(young, take, k0), "40P01")
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	must(t, young, "rollback to s")
	must(t, old, "commit")
	must(t, young, take, k0)
	must(t, young, "commit")
	w.quiet()
	if got := w.total(); got != accounts*1000-4 {
		t.Errorf("%d in all", got)
	}
}

// TestMakesWay: a statement that is a transaction of its own is carried out again after a deadlock, and its
// client hears nothing of it, however it was sent.
func TestMakesWay(t *testing.T) {
	w := newWorld(t, "deadalone", 2)
	k0, k1 := w.keys[0][0], w.keys[1][0]
	const both = "update acct set balance = balance - 1 where id in ($1, $2)"
	for _, tc := range []struct {
		proxy int
		mode  pgx.QueryExecMode
	}{{0, pgx.QueryExecModeSimpleProtocol}, {1, pgx.QueryExecModeExec}, {0, pgx.QueryExecModeCacheStatement}} {
		old, alone := w.conn(0), w.conn(tc.proxy)
		must(t, old, "begin")
		must(t, old, take, k1)
		time.Sleep(20 * time.Millisecond)
		waits := later(alone, both, tc.mode, k0, k1)
		within(t, "it waits", func() bool {
			return value[int](t, w.direct(1), "select count(*) from pg_locks where not granted") > 0
		})
		must(t, old, take, k0)
		must(t, old, "commit")
		if err := <-waits; err != nil {
			t.Errorf("%v: %v", tc.mode, err)
		}
		w.quiet()
	}
	if got := w.total(); got != accounts*1000-3*4 {
		t.Errorf("%d in all", got)
	}
}

// TestLocalDeadlock: what one shard sees is its own to break.
func TestLocalDeadlock(t *testing.T) {
	w := newWorld(t, "deadlocal", 1)
	a, b := w.conn(0), w.conn(0)
	k, l, m := w.keys[0][0], w.keys[0][1], w.keys[1][0]
	for _, c := range []*pgx.Conn{a, b} {
		must(t, c, "begin")
		must(t, c, "select 1 from acct where id = $1", m) // and they have two participants
	}
	must(t, a, take, k)
	must(t, b, take, l)
	waits := later(a, take, l)
	err := exec(b, take, k)
	other := <-waits
	if code(err)+code(other) != "40P01" {
		t.Fatalf("%v, %v", err, other)
	}
	e := fails(t, map[bool]error{true: err, false: other}[err != nil], "40P01")
	if strings.Contains(e.Detail, "shard") {
		t.Errorf("weft was faster: %s", e.Detail)
	}
	must(t, a, "rollback")
	must(t, b, "rollback")
	w.quiet()
}

// TestInnocentWaits: who waits for long without a circle is left alone, however
// many wait in line.
func TestInnocentWaits(t *testing.T) {
	w := newWorld(t, "innocent", 2)
	first := w.conn(0)
	must(t, first, "begin")
	must(t, first, take, w.keys[0][0])
	must(t, first, take, w.keys[1][0])
	var conns []*pgx.Conn
	var waits []<-chan error
	for i := range 4 {
		c := w.conn(i % 2)
		must(t, c, "begin")
		must(t, c, take, w.keys[2][i])
		conns, waits = append(conns, c), append(waits, later(c, take, w.keys[i%2][0]))
	}
	time.Sleep(3 * time.Second)
	for i := range waits {
		select {
		case err := <-waits[i]:
			t.Fatalf("%d did not wait: %v", i, err)
		default:
		}
	}
	must(t, first, "commit")
	for range conns { // they go on as each lets the next one
		var done int
		within(t, "somebody goes on", func() bool {
			for i := range waits {
				select {
				case err := <-waits[i]:
					if err != nil {
						t.Errorf("%d: %v", i, err)
					}
					waits[i] = nil
					done = i
					return true
				default:
				}
			}
			return false
		})
		must(t, conns[done], "commit")
	}
	w.quiet()
}

// TestManyDeadlocks: clients that deadlock all the time go on all the time, and no
// money is lost.
func TestManyDeadlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	w := newWorld(t, "deadmany", 2)
	type tally struct{ done, dead int }
	const clients = 6
	results := make(chan tally, clients)
	end := time.Now().Add(8 * time.Second)
	for i := range clients {
		c := w.conn(i % 2)
		go func() {
			var n tally
			for j := i; time.Now().Before(end); j++ {
				a, b := w.keys[j%shards][0], w.keys[(j+1+i%2)%shards][0]
				err := transfer(c, a, b)
				switch code(err) {
				case "":
					n.done++
				case "40P01":
					n.dead++
				default:
					t.Errorf("%v", err)
				}
			}
			results <- n
		}()
	}
	var sum tally
	for range clients {
		n := <-results
		sum.done, sum.dead = sum.done+n.done, sum.dead+n.dead
	}
	t.Logf("%d transfers, %d deadlocks", sum.done, sum.dead)
	if sum.done == 0 || sum.dead == 0 {
		t.Errorf("%d transfers and %d deadlocks", sum.done, sum.dead)
	}
	w.quiet()
	if got := w.total(); got != accounts*1000 {
		t.Errorf("%d in all", got)
	}
}

// transfer moves money between two accounts.
func transfer(c *pgx.Conn, from, to int64) error {
	if err := exec(c, "begin"); err != nil {
		return err
	}
	err := exec(c, take, from)
	if err == nil {
		err = exec(c, "update acct set balance = balance + 1 where id = $1", to)
	}
	if err == nil {
		return exec(c, "commit")
	}
	if _, lost := c.Exec(context.Background(), "rollback"); lost != nil {
		return lost
	}
	return err
}
