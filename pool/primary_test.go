package pool_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/primary"
)

// replicated is a shard of two servers: the second one begins as a standby of the first.
type replicated struct {
	t    *testing.T
	a    *pgserver.Temp
	b    *pgserver.Server
	spec *directory.Shard
	pool *pool.Pool
	lane *pool.Lane
}

func newReplicated(t *testing.T) *replicated {
	r := &replicated{t: t, a: pgtest.Start(t, pgserver.Config{Settings: pgserver.ReplicationSettings()})}
	r.b = pgtest.Standby(t, r.a.Server)
	r.spec = &directory.Shard{Name: "shard-0", Hosts: []string{r.b.Addr(), r.a.Addr()}, Options: map[string]string{"sslmode": "disable"}}
	var err error
	if r.pool, err = pool.New(pool.Config{ConnectTimeout: pgtest.Stretch(2 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	r.lane = r.pool.Shard(r.spec).OpenLane(pool.Key{Database: "postgres", User: "postgres"})
	t.Cleanup(r.lane.CloseLane)
	return r
}

// at returns the address of the server that a new connection leads to.
func (r *replicated) at() (string, error) {
	r.t.Helper()
	c, err := r.lane.Acquire(r.t.Context(), pool.Want{})
	if err != nil {
		return "", err
	}
	defer c.Discard()
	rows, err := c.Exec("SELECT '127.0.0.1:' || inet_server_port()")
	if err != nil {
		return "", err
	}
	return rows[0][0], nil
}

// TestPrimaryIsFound: of two servers, connections go to the primary, whichever comes first in the list, and to the standby once it is
// promoted. An old primary that is started again beside it is not used.
func TestPrimaryIsFound(t *testing.T) {
	r := newReplicated(t)
	if got, err := r.at(); err != nil || got != r.a.Addr() {
		t.Errorf("connected to %s, %v; the primary is %s", got, err, r.a.Addr())
	}
	held, err := r.lane.Acquire(t.Context(), pool.Want{})
	if err != nil {
		t.Fatal(err)
	}
	r.a.Kill()
	held.Discard()
	if _, err := r.at(); code(err) != pgerr.CannotConnectNow || !strings.Contains(pgerr.From(err).Detail, r.b.Addr()+`: server `+r.b.Addr()+` of shard "shard-0" is a standby`) {
		t.Errorf("without a primary: %v", err)
	}
	if err := r.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := r.at(); err != nil || got != r.b.Addr() {
		t.Errorf("connected to %s, %v; the primary is %s", got, err, r.b.Addr())
	}
	// The directory learns of the promotion.
	next := *r.spec
	next.System, next.Timeline = held.Generation().System, 2
	sh := r.pool.Shard(&next)
	if err := r.a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, err := r.at(); err != nil || got != r.b.Addr() {
			t.Errorf("connected to %s, %v, with two primaries", got, err)
		}
	}
	r.b.Kill()
	if _, err := r.at(); code(err) != pgerr.CannotConnectNow || !strings.Contains(pgerr.From(err).Detail, r.a.Addr()+` of shard "shard-0" is not the primary any more`) {
		t.Errorf("only the old primary answers: %v", err)
	}
	sh.Lead(r.a.Addr())
	if _, err := r.at(); code(err) != pgerr.CannotConnectNow || !strings.Contains(pgerr.From(err).Detail, "It is on timeline 1") {
		t.Errorf("the old primary alone: %v", err)
	}
}

// TestRaise: connections to an old primary are closed when a higher generation is known, those that are idle and those in use.
func TestRaise(t *testing.T) {
	r := newReplicated(t)
	idle, err := r.lane.Acquire(t.Context(), pool.Want{})
	if err != nil {
		t.Fatal(err)
	}
	used, err := r.lane.Acquire(t.Context(), pool.Want{})
	if err != nil {
		t.Fatal(err)
	}
	idle.Release()
	spares := pool.NewSpares(r.pool)
	defer spares.End()
	spare, err := spares.Dial(t.Context(), r.spec, "postgres", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	pid := spare.PID()
	spare.Terminate()
	if err := r.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh := r.pool.Shard(r.spec)
	g := used.Generation()
	if g.Timeline != 1 {
		t.Errorf("generation %s", g)
	}
	sh.Raise(g, primary.Ruling{})
	if _, err := used.Exec("SELECT"); err != nil {
		t.Errorf("the same generation: %v", err)
	}
	g.Timeline = 2
	sh.Raise(g, primary.Ruling{})
	if _, err := used.Exec("SELECT"); err == nil {
		t.Error("a connection to the old primary is used")
	}
	used.Discard()
	if open, _, _ := counts(r.pool); open != 0 {
		t.Errorf("%d connections are open", open)
	}
	if got, err := r.at(); err != nil || got != r.b.Addr() {
		t.Errorf("connected to %s, %v", got, err)
	}
	if spare, err = spares.Dial(t.Context(), r.spec, "postgres", "postgres"); err != nil || spare.PID() == pid {
		t.Errorf("weft's own connection: %v, still the old one", err)
	} else {
		spare.Terminate()
	}
	sh.Raise(primary.Generation{System: g.System, Timeline: 1}, primary.Ruling{})
	if sh.Generation() != g {
		t.Errorf("lowered to %s", sh.Generation())
	}
}

// TestRuling: connections to a primary that an operator has decided against are closed, and none is opened. A new ruling may lower the generation.
func TestRuling(t *testing.T) {
	r := newReplicated(t)
	used, err := r.lane.Acquire(t.Context(), pool.Want{})
	if err != nil {
		t.Fatal(err)
	}
	sh, g := r.pool.Shard(r.spec), used.Generation()
	sh.Raise(g, primary.Ruling{Number: 1, Timeline: 1, Address: r.b.Addr()})
	if _, err := used.Exec("SELECT"); err == nil {
		t.Error("a connection to the wrong primary is used")
	}
	used.Discard()
	if _, err := r.lane.Acquire(t.Context(), pool.Want{}); err == nil || code(err) != pgerr.CannotConnectNow {
		t.Errorf("the wrong primary: %v", err)
	}
	sh.Raise(primary.Generation{System: g.System, Timeline: 5}, primary.Ruling{Number: 2})
	sh.Raise(primary.Generation{System: g.System, Timeline: 6}, primary.Ruling{Number: 1}) // an old snapshot
	if sh.Generation().Timeline != 5 {
		t.Errorf("raised to %s", sh.Generation())
	}
	sh.Raise(primary.Generation{System: g.System}, primary.Ruling{Number: 3})
	if got, err := r.at(); err != nil || got != r.a.Addr() {
		t.Errorf("after a reset: connected to %s, %v", got, err)
	}
}

// TestFrozenHost: a server that takes connections and does not answer does not keep clients from another that is the primary, and only the
// first login has to find out.
func TestFrozenHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const timeout = 4 * time.Second
	p, err := pool.New(pool.Config{ConnectTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	sh := p.Shard(&directory.Shard{Name: "shard-0", Hosts: []string{l.Addr().String(), postgres.Addr()}, Options: map[string]string{"sslmode": "disable"}})
	ln := sh.OpenLane(pool.Key{Database: "postgres", User: "postgres"})
	defer ln.CloseLane()
	for i := range 3 {
		began := time.Now()
		c, err := ln.Acquire(context.Background(), pool.Want{})
		if err != nil {
			t.Fatalf("login %d: %v", i, err)
		}
		c.Discard()
		if took := time.Since(began); i > 0 && pgtest.Late(t, took, timeout/2) {
			t.Errorf("login %d took %s", i, took)
		}
	}
	sh.Lead(l.Addr().String())
	if c, err := ln.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.ConnectionFailure {
		t.Errorf("the frozen one is said to be the primary: %v, %v", c, err)
	}
}
