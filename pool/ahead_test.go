package pool_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/primary"
)

// pids returns the backends of clients that a server has.
func (r *replicated) pids(address string) string {
	r.t.Helper()
	probe, err := r.pool.Shard(r.spec).DialProbe(r.t.Context(), address, "template1", "postgres")
	if err != nil {
		r.t.Fatal(err)
	}
	defer probe.Close()
	rows, err := probe.Ask(r.t.Context(), "SELECT coalesce(string_agg(pid::text, ' ' ORDER BY pid), '') FROM pg_stat_activity WHERE datname = 'postgres'")
	if err != nil {
		r.t.Fatal(err)
	}
	return rows[0][0]
}

// await waits until a server has n backends of clients, and returns them.
func (r *replicated) await(address string, n int) (pids []string) {
	r.t.Helper()
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if pids = strings.Fields(r.pids(address)); len(pids) == n {
			return pids
		}
	}
	r.t.Fatalf("%s has %d backends, want %d", address, len(pids), n)
	return nil
}

// run has the pool look after its connections until the test ends.
func (r *replicated) run() {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.pool.Run(ctx) })
	r.t.Cleanup(func() { stop(); wg.Wait() })
}

// TestAnticipate: while there is no primary, weft logs in to the standby, and its first sessions after the promotion get these backends, which write.
func TestAnticipate(t *testing.T) {
	r := newReplicated(t)
	r.run()
	sh := r.pool.Shard(r.spec)
	second := sh.OpenLane(r.lane.Key()) // another session
	defer second.CloseLane()
	spares := pool.NewSpares(r.pool)
	defer spares.End()
	held, err := r.lane.Acquire(t.Context(), pool.Want{})
	if err != nil {
		t.Fatal(err)
	}
	spare, err := spares.Dial(t.Context(), r.spec, "postgres", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	spare.Terminate()

	sh.Seek(true)
	r.a.Kill()
	sh.Anticipate([]string{r.b.Addr()})
	sh.Anticipate([]string{r.b.Addr()}) // each server once
	held.Discard()
	ahead := r.await(r.b.Addr(), 3)
	if c, err := r.lane.Dedicated(t.Context()); err == nil { // not promoted yet: the logins stay
		c.Discard()
		t.Error("the standby counts as the primary")
	}
	if err := r.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh.Lead(r.b.Addr())
	next := held.Generation()
	next.Timeline++
	sh.Raise(next, primary.Ruling{})
	sh.Seek(false)
	var got []string
	if spare, err = spares.Dial(t.Context(), r.spec, "postgres", "postgres"); err != nil {
		t.Fatal(err)
	}
	got = append(got, fmt.Sprint(spare.PID()))
	spare.Terminate()
	for range 2 {
		c, err := r.lane.Acquire(t.Context(), pool.Want{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Discard()
		got = append(got, fmt.Sprint(c.PID()))
		rows, err := c.Exec("CREATE TEMP TABLE t AS SELECT 1; SHOW transaction_read_only")
		if standby, _ := c.Param("in_hot_standby"); err != nil || rows[0][0] != "off" || standby != "off" || c.Generation().Timeline != next.Timeline {
			t.Errorf("%v, %v, in_hot_standby is %q, generation %s", rows, err, standby, c.Generation())
		}
	}
	if slices.Sort(got); !slices.Equal(got, ahead) {
		t.Errorf("backends %v, made ahead: %v", got, ahead)
	}
}

// TestAheadInVain: logins made ahead are closed when a primary has been there for a while, when new ones may be told something else, and while an operator
// wants no connection; one that is lost is replaced.
func TestAheadInVain(t *testing.T) {
	r := newReplicated(t)
	sh := r.pool.Shard(r.spec)
	search := func() {
		t.Helper()
		if _, err := r.at(); err != nil {
			t.Fatal(err)
		}
		sh.Seek(true)
		sh.Anticipate([]string{r.b.Addr()})
		r.await(r.b.Addr(), 1)
	}
	search()
	sh.Seek(false) // the old primary is back
	if got, err := r.at(); err != nil || got != r.a.Addr() {
		t.Errorf("at %s, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.pool.Run(ctx) })
	r.await(r.b.Addr(), 0)

	search()
	r.pool.Retire(func(k pool.Key) bool { return k.Database == "other" })
	r.await(r.b.Addr(), 1)
	r.pool.Retire(func(k pool.Key) bool { return k.Database == "postgres" })
	r.await(r.b.Addr(), 0)
	sh.Seek(false)

	search()
	sh.Drain(pool.DrainBegun)
	r.await(r.b.Addr(), 0)
	sh.Seek(true)
	sh.Anticipate([]string{r.a.Addr()})
	sh.Drain(pool.DrainNone)
	sh.Seek(false)

	search()
	stop()
	wg.Wait() // the end of the pool closes all
	r.await(r.b.Addr(), 0)
	sh.Seek(false)

	search()
	r.a.Kill()
	probe, err := sh.DialProbe(t.Context(), r.b.Addr(), "template1", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Ask(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'"); err != nil {
		t.Fatal(err)
	}
	probe.Close()
	r.await(r.b.Addr(), 0)
	if err := r.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh.Lead(r.b.Addr())
	sh.Seek(false)
	if got, err := r.at(); err != nil || got != r.b.Addr() {
		t.Errorf("at %s, %v", got, err)
	}
}

// TestAheadAgain: a primary that comes and goes makes no more logins than one that stays away.
func TestAheadAgain(t *testing.T) {
	r := newReplicated(t)
	sh := r.pool.Shard(r.spec)
	if _, err := r.at(); err != nil {
		t.Fatal(err)
	}
	const most = 8
	for n := 1; n <= most+2; n++ {
		sh.Seek(true)
		sh.Anticipate([]string{r.b.Addr()})
		r.await(r.b.Addr(), min(n, most))
		sh.Seek(false)
	}
	r.pool.Retire(func(pool.Key) bool { return true })
	r.await(r.b.Addr(), 0)
}
