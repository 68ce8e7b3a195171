package settle

import (
	"fmt"
	"testing"
	"time"

	"weft/twopc"
)

// TestReadAfterFailover: a client that was told COMMIT reads its write on a shard whose primary died before it followed, with the first statement, through each
// proxy.
func TestReadAfterFailover(t *testing.T) {
	w := newWorld(t)
	reached, goOn := w.stops[0].at(twopc.AfterCommit)
	ended := w.transfer(w.connect(0))
	w.come("the decision", reached)
	w.caughtUp(follower)
	w.primaries[follower].Kill()
	goOn()
	if err := <-ended; err != nil {
		t.Fatalf("COMMIT while a shard has no primary: %v", err)
	}
	var reads [2]<-chan int
	for i := range w.proxies {
		c, got := w.connect(i), make(chan int, 1)
		reads[i] = got
		go func() {
			n := -1
			_ = c.QueryRow(w.within(), fmt.Sprintf("select v from t where k = %d", w.keys[follower])).Scan(&n)
			got <- n
		}()
	}
	time.Sleep(100 * time.Millisecond) // the reads wait
	w.promote(follower)
	for i, got := range reads {
		if n := <-got; n != 1 {
			t.Errorf("proxy %d reads %d", i, n)
		}
	}
	if n := w.prepared(w.standbys[follower]); n != 0 {
		t.Errorf("%d transactions are prepared", n)
	}
	w.await("the decision is forgotten", func() bool { return w.left(w.primaries[decider].Server) == 0 })
}

// TestAppliedDecision: what a shard has decided is applied to the others before clients use its new primary.
func TestAppliedDecision(t *testing.T) {
	w := newWorld(t)
	reached, goOn := w.stops[0].at(twopc.AfterCommit)
	defer goOn()
	ended := w.transfer(w.connect(0)) // stands still after the decision
	w.come("the decision", reached)
	w.caughtUp(decider)
	w.primaries[decider].Kill()
	w.promote(decider)
	c := w.connect(1)
	for _, shard := range []int{decider, follower} {
		n := -1
		if err := c.QueryRow(w.within(), fmt.Sprintf("select v from t where k = %d", w.keys[shard])).Scan(&n); err != nil || n != 1 {
			t.Errorf("read %d, %v", n, err)
		}
	}
	goOn()
	if err := <-ended; err != nil {
		t.Errorf("COMMIT: %v", err)
	}
	w.await("the decision is forgotten", func() bool { return w.left(w.standbys[decider]) == 0 })
}

// TestForgottenTooEarly: a decision stays while a standby lacks what followed it. A commit that the client was told of is not rolled back when that standby
// takes over.
func TestForgottenTooEarly(t *testing.T) {
	w := newWorld(t)
	reached, goOn := w.stops[0].at(twopc.AfterCommit)
	ended := w.transfer(w.connect(0))
	w.come("the decision", reached)
	w.caughtUp(follower) // the standby has the prepared transaction
	if err := w.standbys[follower].Stop(w.within()); err != nil {
		t.Fatal(err)
	}
	goOn()
	if err := <-ended; err != nil {
		t.Fatalf("COMMIT: %v", err)
	}
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if w.left(w.primaries[decider].Server) != 1 {
			t.Error("the decision was forgotten, and the standby is still prepared")
			break
		}
	}
	w.primaries[follower].Kill()
	b, err := w.standbys[follower].Config().Start(w.within())
	if err != nil {
		t.Fatal(err)
	}
	w.standbys[follower] = b
	w.promote(follower)
	n := -1
	if err := w.connect(1).QueryRow(w.within(), fmt.Sprintf("select v from t where k = %d", w.keys[follower])).Scan(&n); err != nil || n != 1 {
		t.Errorf("read %d, %v", n, err)
	}
	w.await("the decision is forgotten", func() bool { return w.left(w.primaries[decider].Server) == 0 })
}
