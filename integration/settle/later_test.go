package settle

import "testing"

// synchronous makes commits of a shard wait for its standby.
func (w *world) synchronous(shard int) {
	w.Helper()
	p := w.primaries[shard]
	if err := p.SetSynchronous(w.standbys[shard].Config().Name); err != nil {
		w.Fatal(err)
	}
	w.await("a synchronous standby", func() bool {
		return w.ask(p.Server, "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1
	})
}

// TestSynchronousLater: a session that has used a shard before it had a synchronous standby, as after a failover, commits as one that came later. The
// shard fails over, and nothing counts as lost.
func TestSynchronousLater(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	transfer := func() {
		t.Helper()
		if err := <-w.transfer(c); err != nil {
			t.Fatal(err)
		}
	}
	transfer()
	w.synchronous(follower)
	w.await("a decision that says that a standby has the promise", func() bool {
		transfer()
		return w.ask(w.primaries[decider].Server, "select count(*) from weft.decision where participants like '%+%'") > 0
	})
	for range 20 {
		transfer()
	}
	w.primaries[follower].Kill()
	w.promote(follower)
	transfer()
	var lossy *bool
	w.await("the failover in weft.failovers", func() bool {
		return c.QueryRow(w.within(), "select lossy from weft.failovers where shard = 'shop-1'").Scan(&lossy) == nil
	})
	if lossy == nil || *lossy {
		t.Error("the failover counts as lossy, or may be")
	}
	w.await("no decision is left", func() bool { return w.left(w.primaries[decider].Server) == 0 })
	if n, m := w.v(decider, w.primaries[decider].Server), w.v(follower, w.standbys[follower]); n != m {
		t.Errorf("%d transfers on one shard, %d on the other", n, m)
	}
}
