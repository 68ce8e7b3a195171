package failover

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// One cluster, whose primaries are killed, switched and frozen while clients write, and
// which is started again on what is left. Clients may see errors; what was acknowledged is
// there.
func TestFailover(t *testing.T) {
	c := newCluster(t)
	c.mustAsk("create table t (id bigint primary key)")
	c.mustAsk("select weft.shard_table('t', 'id')")
	l := startLoad(c)
	l.goesOn()

	for shard := range shards {
		c.killPrimary(shard)
		l.goesOn()
	}
	for shard := range shards {
		c.awaitStandby(shard)
	}
	old := c.primary(1)
	c.order("switch", 1)
	if now := c.primary(1); now.Address == old.Address {
		t.Errorf("%s is the primary still after a switch", old.Address)
	}
	l.goesOn()
	c.freezeAndThaw(0)
	l.goesOn()

	acked := l.stop()
	c.check(acked)
	t.Logf("%d statements were answered by errors", l.errors)
	c.killAndRestart(1)
	c.check(acked)
}

// killPrimary kills a primary's postmaster, as weft status names it, and waits for another
// primary.
func (c *cluster) killPrimary(shard int) {
	c.t.Helper()
	old := c.primary(shard)
	if err := syscall.Kill(old.PID, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	began := time.Now()
	await(c.t, "another primary", func() bool { return c.primary(shard).Address != old.Address })
	c.t.Logf("shard-%d has another primary after %v", shard, time.Since(began).Round(time.Millisecond))
}

// freezeAndThaw freezes a primary, which then does not answer, and lets it go on as the
// primary.
func (c *cluster) freezeAndThaw(shard int) {
	c.t.Helper()
	before := c.primary(shard)
	if text := c.order("freeze", shard); !strings.Contains(text, before.Address) {
		c.t.Errorf("freeze: %s", text)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	if got, err := ask(ctx, before.Address, "select 1"); err == nil {
		c.t.Errorf("a frozen server answered %s", got)
	}
	c.order("thaw", shard)
	if now := c.primary(shard); now.PID != before.PID {
		c.t.Errorf("the primary is %+v after a thaw, was %+v", now, before)
	}
}

// killAndRestart kills a primary, then weft dev itself while the old primary becomes a
// standby, and starts weft dev again: each shard has the primary that it had.
func (c *cluster) killAndRestart(shard int) {
	c.t.Helper()
	c.awaitStandby(shard)
	c.order("kill", shard)
	now := []server{c.primary(0), c.primary(1)}
	c.end(syscall.SIGKILL)
	c.start()
	for shard, want := range now {
		if got := c.primary(shard); got.Dir != want.Dir {
			c.t.Errorf("shard-%d: the primary is in %s, was in %s", shard, got.Dir, want.Dir)
		}
		c.awaitStandby(shard)
	}
}
