package pool_test

import (
	"testing"

	"weft/pool"
)

// TestServersChange: connections outlive that another server of the shard comes or goes, and not that their own one goes.
func TestServersChange(t *testing.T) {
	r := newReplicated(t)
	spares := pool.NewSpares(r.pool)
	defer spares.End()
	pid := func() [2]int32 {
		t.Helper()
		c, err := r.lane.Acquire(t.Context(), pool.Want{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		spare, err := spares.Dial(t.Context(), r.spec, "postgres", "postgres")
		if err != nil {
			t.Fatal(err)
		}
		defer spare.Terminate()
		return [2]int32{c.PID(), spare.PID()}
	}
	change := func(hosts ...string) {
		next := *r.spec
		next.Hosts = hosts
		r.spec = &next
		r.pool.Shard(r.spec)
	}
	was := pid()
	a, b := r.a.Addr(), r.b.Addr()
	for _, hosts := range [][]string{{a, b, "127.0.0.1:1"}, {b, a}, {a}, {b, a}} {
		if change(hosts...); pid() != was {
			t.Errorf("other connections after the servers became %s", hosts)
		}
	}

	// The login to the standby that was made ahead outlives that the old primary goes. A connection in use does not: it is closed when it is free.
	held, err := r.lane.Acquire(t.Context(), pool.Want{})
	if err != nil {
		t.Fatal(err)
	}
	sh := r.pool.Shard(r.spec)
	sh.Seek(true)
	sh.Anticipate([]string{b})
	r.await(b, 2)
	r.a.Kill()
	change(b)
	held.Release()
	if n, _, _ := counts(r.pool); n != 0 {
		t.Errorf("%d connections to a server that has left", n)
	}
	if err := r.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh.Lead(b)
	sh.Seek(false)
	if now := pid(); now[0] == was[0] || now[1] == was[1] {
		t.Errorf("connections of a server that has left: %v, %v", was, now)
	}
	was = pid()
	if change(b, a); pid() == was {
		t.Error("a server that was not asked who it is counts as the primary")
	}
}
