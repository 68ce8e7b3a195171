package settle

import (
	"context"
	"errors"
	"testing"
	"time"

	"weft/pgserver"
	"weft/twopc"
)

// TestLongFailover: a COMMIT whose answer is lost is asked about for as long as clients wait for a primary, or until the client cancels it.
func TestLongFailover(t *testing.T) {
	w := newWorld(t)
	reached, goOn := w.stops[0].at(twopc.AfterPrepare)
	ended := w.transfer(w.connect(0))
	w.come("all have prepared", reached)
	impatient := w.connect(1)
	prepared, goOn1 := w.stops[1].at(twopc.AfterPrepare)
	w.must(impatient, "begin")
	w.must(impatient, "insert into t select g, 0 from generate_series(101, 140) g")
	ctx, cancel := context.WithCancel(w.within())
	cancelled := make(chan error, 1)
	go func() {
		_, err := impatient.PgConn().Exec(context.Background(), "commit").ReadAll()
		cancelled <- err
	}()
	w.come("all have prepared", prepared)
	w.primaries[decider].Kill()
	goOn()
	goOn1()
	defer cancel()
	time.Sleep(11 * time.Second)
	if err := impatient.PgConn().CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; code(err) != "08007" {
		t.Errorf("a COMMIT that is cancelled: %v", err)
	}
	select {
	case err := <-ended:
		t.Fatalf("COMMIT does not wait for a primary: %v", err)
	default:
	}
	w.promote(decider)
	if err := <-ended; code(err) != "08006" {
		t.Errorf("COMMIT: %v", err)
	}
	w.await("nothing is prepared", func() bool { return w.prepared(w.primaries[follower].Server) == 0 })
	if a, b := w.v(decider, w.standbys[decider]), w.v(follower, w.primaries[follower].Server); a != 0 || b != 0 {
		t.Errorf("the shards have %d and %d", a, b)
	}
}

// TestOldDecider: a resolver that reaches only the old primary of the deciding shard does not undo what the new one has decided.
func TestOldDecider(t *testing.T) {
	w := newWorld(t)
	w.caughtUp(decider)
	w.primaries[decider].Kill()
	w.promote(decider)
	c := w.connect(0)
	w.must(c, "select sum(v) from t") // waits for the new primary
	reached, goOn := w.stops[0].at(twopc.AfterCommit)
	defer goOn()
	ended := w.transfer(c)
	w.come("the decision", reached)
	if err := w.primaries[decider].Restart(w.within()); err != nil {
		t.Fatal(err)
	}
	left, err := w.resolve([2]*pgserver.Server{w.primaries[decider].Server, w.primaries[follower].Server})
	if left != 1 || !errors.Is(err, twopc.ErrStale) {
		t.Errorf("%d transactions are left, %v", left, err)
	}
	goOn()
	if err := <-ended; err != nil {
		t.Errorf("COMMIT: %v", err)
	}
	if a, b := w.v(decider, w.standbys[decider]), w.v(follower, w.primaries[follower].Server); a != 1 || b != 1 {
		t.Errorf("the shards have %d and %d", a, b)
	}
}

// TestLostCommit: a client is not told COMMIT if the deciding shard has lost the commit in a failover, and the other shard was rolled back for it.
func TestLostCommit(t *testing.T) {
	w := newWorld(t)
	if err := w.standbys[decider].Stop(w.within()); err != nil {
		t.Fatal(err)
	}
	reached, goOn := w.stops[0].at(twopc.AfterCommit)
	defer goOn()
	ended := w.transfer(w.connect(0))
	w.come("the decision", reached)
	w.primaries[decider].Kill()
	b, err := w.standbys[decider].Config().Start(w.within())
	if err != nil {
		t.Fatal(err)
	}
	w.standbys[decider] = b
	w.promote(decider)
	w.await("the other shard is rolled back", func() bool { return w.prepared(w.primaries[follower].Server) == 0 })
	goOn()
	if err := <-ended; code(err) != "08006" {
		t.Errorf("COMMIT: %v", err)
	}
	if a, b := w.v(decider, w.standbys[decider]), w.v(follower, w.primaries[follower].Server); a != 0 || b != 0 {
		t.Errorf("the shards have %d and %d", a, b)
	}
}
