package hold

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/proxy/peer"
	"weft/reshard"
)

// client is a session of a test.
type client struct {
	database string
	id       int64

	mu     sync.Mutex
	bucket int  // the bucket that its transaction has written, -1 for none
	ended  bool // the session is in the way of no round
}

func (c *client) Database() string { return c.database }

func (c *client) Awaited(b *reshard.Barrier) (bool, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var notes reshard.Notes
	if c.bucket >= 0 {
		notes.Note(1, reshard.Touch{Access: reshard.Write, Buckets: []int{c.bucket}})
	}
	return b.Awaits(&notes), c.bucket
}

func (c *client) Blocker() (peer.Blocker, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return peer.Blocker{Session: c.id, State: "idle in transaction"}, !c.ended
}

// writes makes the client's transaction write a bucket, -1 ends the transaction.
func (c *client) writes(bucket int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bucket = bucket
}

// world is a proxy of a test, with its sessions and the directory that it follows.
type world struct {
	*Holds

	mu         sync.Mutex
	snap       *directory.Snapshot
	changed    chan struct{}
	cleared    int64
	listed     []*client
	unfinished string // a database with backends that are not registered
}

func newWorld(clients ...*client) *world {
	w := &world{changed: make(chan struct{}), listed: clients}
	w.Holds = New(Config{
		Proxy: "p1", Current: w,
		Snapshot: func() *directory.Snapshot {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.snap
		},
		Each: func(look func(Session) bool) {
			w.mu.Lock()
			list := slices.Clone(w.listed)
			w.mu.Unlock()
			for _, c := range list {
				if !look(c) {
					return
				}
			}
		},
		Complete: func(_ *directory.Snapshot, database string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return database != w.unfinished
		},
	})
	return w
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Clear(version int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cleared = version
}

// follow gives the proxy a snapshot.
func (w *world) follow(snap *directory.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snap = snap
	close(w.changed)
	w.changed = make(chan struct{})
}

// set changes the world.
func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// clearedAt returns the version that the directory was last told of.
func (w *world) clearedAt() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cleared
}

// snapshot is a cluster of eight buckets with a sharded table in database app. If key is not empty, a round
// of job m1 with this key carries some buckets.
func snapshot(version int64, key string, buckets ...int) *directory.Snapshot {
	s := &directory.Snapshot{
		Version: version, Home: "a", Shards: []directory.Shard{{Name: "a"}, {Name: "b"}}, BucketCount: 8, Placement: make([]uint16, 8),
		Tables: []directory.Table{{Database: "app", Schema: "public", Name: "orders"}},
	}
	if key != "" {
		s.Moves = []directory.Move{{
			ID: "m1", Database: "app",
			Round: &directory.Round{Key: key, Phase: directory.HoldWrites, Pairs: []directory.Pair{{Buckets: buckets}}},
		}}
	}
	return s
}

// run runs f beside the Run of a world.
func run(t *testing.T, w *world, f func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		w.changed = make(chan struct{}) // of this bubble
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan bool)
		go func() { defer close(over); w.Run(ctx) }()
		f(t)
		stop()
		<-over
	})
}

// TestClear: a round begins when no transaction is open that has written one of its buckets.
func TestClear(t *testing.T) {
	in, out := &client{database: "app", id: 1, bucket: 3}, &client{database: "app", id: 2, bucket: 5}
	console := &client{id: 3, bucket: 3}
	w := newWorld(in, out, console)
	run(t, w, func(t *testing.T) {
		w.follow(snapshot(4, ""))
		if synctest.Wait(); w.clearedAt() != 4 {
			t.Errorf("without jobs: %d", w.clearedAt())
		}
		w.follow(snapshot(5, "r1", 3))
		time.Sleep(time.Second)
		if w.clearedAt() != 4 {
			t.Errorf("with a transaction in flight: %d", w.clearedAt())
		}
		in.writes(-1)
		time.Sleep(10 * clearInterval)
		if w.clearedAt() != 5 {
			t.Errorf("after its end: %d", w.clearedAt())
		}
	})
}

// TestLeaving: a session that is no longer listed is waited for as long as it may hold backends.
func TestLeaving(t *testing.T) {
	c := &client{database: "app", bucket: 3}
	w := newWorld(c)
	run(t, w, func(t *testing.T) {
		w.Leave(c)
		w.set(func() { w.listed = nil })
		w.follow(snapshot(5, "r1", 3))
		time.Sleep(time.Second)
		if w.clearedAt() != 0 {
			t.Error("a round does not wait for a session that leaves")
		}
		w.Gone(c)
		time.Sleep(10 * clearInterval)
		if w.clearedAt() != 5 {
			t.Errorf("after the session has gone: %d", w.clearedAt())
		}
	})
}

// TestUnregistered: a round waits until all backends of the job's database are registered.
func TestUnregistered(t *testing.T) {
	w := newWorld()
	w.unfinished = "app"
	run(t, w, func(t *testing.T) {
		w.follow(snapshot(5, "r1", 3))
		time.Sleep(time.Second)
		if w.clearedAt() != 0 {
			t.Error("a round begins with backends that are not registered")
		}
		w.set(func() { w.unfinished = "" })
		time.Sleep(10 * clearInterval)
		if w.clearedAt() != 5 {
			t.Errorf("after they are: %d", w.clearedAt())
		}
	})
}

// TestAlone: where the cluster never changes Run returns at once.
func TestAlone(t *testing.T) {
	New(Config{}).Run(t.Context())
}

// TestBarrier: a database has one barrier in each snapshot, and none without jobs.
func TestBarrier(t *testing.T) {
	w := newWorld()
	if b := w.Barrier(snapshot(4, ""), "app"); b != nil {
		t.Errorf("without jobs: %v", b)
	}
	first := snapshot(5, "r1", 3)
	b := w.Barrier(first, "app")
	if b == nil || b.Job != "m1" || b.Version != 5 || w.Barrier(first, "app") != b {
		t.Errorf("made %v, then %v", b, w.Barrier(first, "app"))
	}
	if other := w.Barrier(first, "plain"); other == b {
		t.Error("two databases have one barrier")
	}
	if next := w.Barrier(snapshot(6, "r1", 3), "app"); next == b {
		t.Error("a barrier outlives its snapshot")
	}
}

// TestOverdue: a statement is held as long as its round may last and a little longer, counted from when the proxy
// heard of the round.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		snap := snapshot(5, "r1", 3)
		snap.Moves[0].Round.Pause = 3 * time.Second
		b := w.Barrier(snap, "app")
		time.Sleep(3*time.Second + holdGrace)
		if err := w.Overdue(b); err != nil {
			t.Errorf("in time: %v", err)
		}
		time.Sleep(time.Millisecond)
		if err := w.Overdue(b); err == nil || pgerr.From(err).Code != pgerr.CannotConnectNow {
			t.Errorf("too late: %v", err)
		}
	})
}

// TestBlockers: a session that keeps rounds waiting is told of, until it ends or has not been in the way for a while.
func TestBlockers(t *testing.T) {
	c := &client{database: "app", id: 7, bucket: 3}
	w := newWorld(c)
	run(t, w, func(t *testing.T) {
		w.follow(snapshot(5, "r1", 3))
		time.Sleep(blameAfter / 2)
		if list := w.Blockers(); len(list) > 0 {
			t.Errorf("too early: %v", list)
		}
		time.Sleep(blameAfter)
		want := peer.Blocker{Job: "m1", Proxy: "p1", Session: 7, State: "idle in transaction", Bucket: 3}
		if list := w.Blockers(); len(list) != 1 || list[0] != want {
			t.Errorf("in the way: %v", list)
		}
		c.ended = true
		if list := w.Blockers(); len(list) > 0 {
			t.Errorf("after its end: %v", list)
		}
		c.ended = false
		w.follow(snapshot(6, ""))
		time.Sleep(blameFor - time.Second)
		if list := w.Blockers(); len(list) != 1 {
			t.Errorf("a while after the round: %v", list)
		}
		time.Sleep(2 * time.Second)
		if list := w.Blockers(); len(list) > 0 {
			t.Errorf("long after the round: %v", list)
		}
	})
}
