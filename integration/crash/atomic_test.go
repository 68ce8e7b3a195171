package crash

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/twopc"
)

// auditor is a client that adds up a bank, again and again.
type auditor struct {
	mode   string // weft.read
	sql    string
	total  int64
	target func() string // where it connects

	// right and wrong are sums, busy are those that were given up (40001), failed those
	// that deaths have ended.
	right, wrong, busy, failed atomic.Int64

	stop  context.CancelFunc
	done  chan struct{}
	first string // wrong reading; valid when done is closed
	err   error  // valid when done is closed: one that nobody could have expected
}

func (a *auditor) String() string {
	return fmt.Sprintf("%s: %d right, %d wrong, %d given up, %d failed", a.mode, a.right.Load(), a.wrong.Load(), a.busy.Load(), a.failed.Load())
}

// start lets it begin. Every other sum is taken in a block, twice.
func (a *auditor) start() *auditor {
	ctx, stop := context.WithCancel(context.Background())
	a.stop, a.done = stop, make(chan struct{})
	go func() {
		defer close(a.done)
		var c *pgx.Conn
		for n := 0; ctx.Err() == nil && a.err == nil; n++ {
			if c == nil || c.IsClosed() {
				if c = a.connect(); c == nil {
					time.Sleep(20 * time.Millisecond)
					continue
				}
			}
			a.look(c, n%2 == 1)
			time.Sleep(2 * time.Millisecond)
		}
		if c != nil {
			_ = c.Close(context.Background())
		}
	}()
	return a
}

func (a *auditor) connect() *pgx.Conn {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, a.target())
	if err != nil {
		return nil
	}
	if _, err := c.Exec(ctx, "set weft.read = '"+a.mode+"'"); err != nil {
		_ = c.Close(ctx)
		return nil
	}
	return c
}

func (a *auditor) look(c *pgx.Conn, block bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var sum, again int64
	var err error
	if block {
		_, err = c.Exec(ctx, "begin isolation level repeatable read")
	}
	if err == nil {
		err = c.QueryRow(ctx, a.sql).Scan(&sum)
	}
	if again = sum; block && err == nil {
		err = c.QueryRow(ctx, a.sql).Scan(&again)
	}
	if block && !c.IsClosed() {
		_, _ = c.Exec(ctx, "rollback")
	}
	switch {
	case code(err) == "40001":
		a.busy.Add(1)
	case err != nil && !slices.Contains(survivable, code(err)):
		a.err = err
	case err != nil:
		a.failed.Add(1)
	case sum == a.total && again == sum:
		a.right.Add(1)
	default:
		a.wrong.Add(1)
		if a.mode == "atomic" && a.first == "" {
			var mode string
			_ = c.QueryRow(ctx, "show weft.read").Scan(&mode)
			a.first = fmt.Sprintf("%d, then %d, in a block: %t, weft.read is %s, at %s", sum, again, block, mode, time.Now().Format(time.StampMilli))
		}
	}
}

// end ends it.
func (a *auditor) end(t testing.TB) {
	t.Helper()
	a.stop()
	select {
	case <-a.done:
	case <-time.After(patience):
		t.Fatal("an auditor hangs")
	}
	if a.err != nil {
		t.Errorf("%s: %v", a.mode, a.err)
	}
	if a.first != "" {
		t.Errorf("halves of a transaction were seen: %s", a.first)
	}
}

// TestAtomicReads stops a commit where half of it is to be seen, lets the other proxy
// add up the bank, and kills somebody there. With weft.read = 'shard' the sum is
// wrong until that is over; with 'atomic' it never is, and soon there is one again.
func TestAtomicReads(t *testing.T) {
	m := newMatrix(t, "c_gate")
	rest := []twopc.Point{twopc.AfterPrepare, twopc.AfterCommit, twopc.DuringFollow, twopc.AfterFollow}
	for range *rounds {
		for i, point := range rest {
			for j, victim := range []string{"proxy", "participant", "decider", "etcd"} {
				if *rounds == 1 && j != (i+3)%4 {
					continue // in short, the death that is worst there
				}
				m.fracture(point, victim)
			}
		}
	}
	m.report()
}

func (m *matrix) fracture(point twopc.Point, victim string) {
	t := m.t
	t.Helper()
	m.n++
	p, c := m.weft[0], m.conn(0)
	shards := m.transfer(c, m.r, m.n, 3)
	p.StopAt(t, string(point), false)
	done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
	what := fmt.Sprintf("round %d: %s died at %s of shards %v", m.n, victim, point, shards)
	within(t, patience, what+": comes there", p.Stopped)
	target := m.weft[1].ConnString("postgres", "dbname="+m.db)
	var all []*auditor
	for _, mode := range []string{"shard", "atomic"} {
		a := &auditor{mode: mode, sql: "select sum(v)::int8 from bank", total: int64(m.total), target: func() string { return target }}
		all = append(all, a.start())
	}
	shard, atomic := all[0], all[1]
	within(t, patience, what+": both have looked", func() bool {
		return shard.right.Load()+shard.wrong.Load() >= 4 && atomic.right.Load()+atomic.wrong.Load()+atomic.busy.Load() >= 1
	})
	half := point == twopc.AfterCommit || point == twopc.DuringFollow
	if half != (shard.wrong.Load() > 0) {
		t.Errorf("%s: meanwhile %v", what, shard)
	}
	m.kill(p, shards, []string{victim}, false)
	err := <-done
	within(t, 10*time.Second, what+": nothing is prepared", func() bool { return m.prepared() == 0 })
	before := atomic.right.Load()
	within(t, 10*time.Second, what+": there is a sum again", func() bool { return atomic.right.Load() > before+2 })
	for _, a := range all {
		a.end(t)
	}
	if atomic.wrong.Load() > 0 {
		t.Errorf("%s: halves of a transaction were seen", what)
	}
	parts, _ := m.applied(m.n)
	if parts != 0 && parts != len(shards) || err == nil && parts == 0 {
		t.Fatalf("%s: answer %v, %d of %d parts", what, err, parts, len(shards))
	}
	t.Logf("%s: answer %s, %d of %d parts; %v; %v", what, brief(err), parts, len(shards), shard, atomic)
	m.counts[map[bool]string{true: "committed", false: "rolled back"}[parts > 0]]++
	m.counts[victim+" died"]++
	m.counts["halves seen with shard"] += int(shard.wrong.Load())
}
