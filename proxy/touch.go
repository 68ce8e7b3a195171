package proxy

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/reshard"
	"weft/wire"
)

// While a job carries rows to other shards, each statement notes which buckets it is about to
// touch, right before it is sent, and waits if a round of the job concerns them. A statement of
// which nothing is known counts as writing all buckets: a way through the proxy that does not say
// what it touches is slow during a move, and never wrong.

// touching is what a session's transaction touches.
type touching struct {
	s *Session

	// mu is held from looking at the newest snapshot until the touch is noted. A proxy that has
	// adopted a snapshot, and then takes every session's mu once, knows of everything that was
	// sent by an older one.
	mu    sync.Mutex
	notes reshard.Notes
	// waits is what the session waits for, "" if it waits for no round; guarded by mu.
	waits string

	// next is what the statement that is being routed will touch, if known.
	next  reshard.Touch
	known bool // next is known
	// pinned is the cluster by whose placement the block goes to its end: its snapshots were taken
	// then, and see rows where they were. Nil in READ COMMITTED.
	pinned *directory.Snapshot
	// early is the placement by which a backend may have taken its snapshot before pinned was set.
	early reshard.Early
	// readOnly says that the rows of some shard may not be changed.
	readOnly bool
	// routed is the cluster by which the shard of the statement was found, nil if none was.
	routed *directory.Snapshot
	// freed says that pinned was given up: the next statement goes by the newest placement.
	freed bool
}

// begin forgets what the statement before has touched.
func (t *touching) begin() { t.known, t.routed = false, nil }

// expect says what the statement that is being routed will touch.
func (t *touching) expect(next reshard.Touch) { t.next, t.known = next, true }

// noting reports whether statements of the session's database must say what they touch.
func (t *touching) noting() bool {
	return t.s.route.snap != nil && (len(t.s.route.snap.Moves) > 0 || t.readOnly)
}

// mayWrite refuses a statement that changes rows of a shard that is read only.
func (t *touching) mayWrite(touch reshard.Touch) error {
	if touch.Access != reshard.Write {
		return nil
	}
	snap := t.s.route.snap
	for i := range snap.Shards {
		if snap.Shards[i].State != directory.ShardReadOnly {
			continue
		}
		if touch.All || slices.ContainsFunc(touch.Buckets, func(b int) bool { return directory.PlacesIn(snap).Has(i, b) }) {
			name := snap.Shards[i].Name
			return pgerr.New("25006", "shard %q is read only", name).
				WithHint("An operator has said so. SELECT weft.set_shard_state(%s, 'active') makes it take writes again.", quote.Literal(name))
		}
	}
	return nil
}

// enter notes what the statement touches, right before it is sent. It waits for a round that
// holds the statement. It returns errMoved if the statement must be routed again, because rows
// have moved since.
func (t *touching) enter() error {
	var began time.Time
	for {
		held, err := t.try()
		if held == nil || err != nil {
			return err
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := t.await(held, began); err != nil {
			return err
		}
	}
}

// enterAll notes that the session looks at all shards, or writes to them: a block that takes its
// snapshots, a function of weft's own. Nothing has been routed yet, so it goes by the newest
// snapshot.
func (t *touching) enterAll(access reshard.Access) error {
	if t.pinned != nil {
		t.routed = nil
	}
	for {
		t.expect(reshard.Touch{Access: access, All: true})
		err := t.enter()
		if !errors.Is(err, errMoved) {
			return err
		}
		t.s.route.refresh()
	}
}

// enterEverything notes that a command goes to all shards and may change everything there. It goes
// by the newest snapshot.
func (t *touching) enterEverything() error {
	for {
		t.begin()
		err := t.enter()
		if !errors.Is(err, errMoved) {
			return err
		}
		t.s.route.refresh()
	}
}

// pass notes a statement of a database that had no declared tables when the statement was read, right
// before it is sent. It waits for a round that holds the statement.
func (t *touching) pass() error {
	var began time.Time
	for {
		held := t.tryPass()
		if held == nil {
			return nil
		}
		if began.IsZero() {
			began = time.Now()
		}
		if err := t.await(held, began); err != nil {
			return err
		}
	}
}

// tryPass notes the statement unless a round holds it: then it returns the round's barrier.
func (t *touching) tryPass() *reshard.Barrier {
	t.mu.Lock()
	defer t.mu.Unlock()
	snap := t.s.srv.cfg.Snapshot()
	if snap == nil || t.s.db == nil {
		return nil
	}
	if len(snap.Moves) == 0 || snap.Carrying(t.s.db.Name) == nil {
		t.notes.Unnoted(snap.Version)
		return nil
	}
	b := t.s.srv.moving.holds.Barrier(snap, t.s.db.Name)
	if b.Holds(&t.notes, reshard.Everything()) {
		return b
	}
	t.notes.Note(snap.Version, reshard.Everything())
	return nil
}

// try notes the touch unless a round holds it: then try returns the round's barrier.
func (t *touching) try() (*reshard.Barrier, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	touch := reshard.Everything()
	if t.known {
		touch = t.next
	}
	snap := t.s.srv.cfg.Snapshot()
	if len(touch.Buckets) > 0 && t.numbered() != snap.BucketCount {
		return nil, errMoved // its buckets have other numbers now
	}
	if t.readOnly {
		if err := t.mayWrite(touch); err != nil {
			return nil, err
		}
	}
	b := t.s.srv.moving.holds.Barrier(snap, t.s.db.Name)
	switch {
	case t.pinned != nil:
		if t.routed != nil && t.routed != t.s.route.snap && !directory.PlacesIn(t.s.route.snap).Same(t.routed) {
			return nil, errMoved // its shard was found before the block took its snapshots
		}
		if touch.Access == reshard.Write && t.left(snap, touch) {
			return nil, errRowsMoved()
		}
		if touch.Access != reshard.None && snap != t.s.route.base && !directory.SameGroups(snap, t.pinned, t.s.db.Name) {
			return nil, pgerr.New(pgerr.SerializationFailure, "could not serialize access due to a table that was declared, or whose declaration was taken back, meanwhile").
				WithHint("Run the transaction again.")
		}
	case t.freed || snap != t.s.route.base && t.hasMoved(snap):
		return nil, errMoved
	case !t.s.tx.isOpen():
	case t.s.tx.isSnapped():
		if t.s.tx.isolation() != "" && !t.early.Fits(t.s.route.snap) {
			return nil, errRowsMoved()
		}
	default:
		t.early.Note(t.s.route.snap, b)
	}
	if b == nil {
		t.notes.Unnoted(snap.Version)
		return nil, nil
	}
	if b.Holds(&t.notes, touch) {
		return b, nil
	}
	t.notes.Note(snap.Version, touch)
	if t.pinned == nil && t.s.tx.isSnapped() && t.s.tx.isOpen() && t.s.tx.isolation() != "" {
		t.pinned = t.s.route.snap
	}
	return nil, nil
}

// numbered returns how many buckets the cluster had by which the statement was routed.
func (t *touching) numbered() int {
	if t.routed != nil {
		return t.routed.BucketCount
	}
	return t.s.route.snap.BucketCount
}

// errRowsMoved is the error of a block whose snapshots see rows where they no longer are.
func errRowsMoved() *pgerr.Error {
	return pgerr.New(pgerr.SerializationFailure, "could not serialize access due to rows that have moved to another shard").
		WithHint("Run the transaction again.")
}

// ask notes that a backend of the session is about to be asked something, which may be when it takes
// the snapshot of its transaction.
func (t *touching) ask(c *pool.Conn) {
	if !t.s.tx.isOpen() || t.s.tx.isSnapped() || t.s.route.snap == nil || !takesPart(c) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	snap := t.s.srv.cfg.Snapshot()
	t.early.Note(snap.For(t.s.db.Name), t.s.srv.moving.holds.Barrier(snap, t.s.db.Name))
}

// anew notes that no backend of the block has a snapshot any more.
func (t *touching) anew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.early.Forget()
}

// snapped notes that all backends of the block have taken their snapshots: no round needs to wait
// for the block's reading.
func (t *touching) snapped() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pinned != nil {
		t.notes.Repeatable()
		t.notes.StatementOver()
	}
}

// left reports whether buckets that a statement touches are elsewhere than the block's snapshots
// see them.
func (t *touching) left(snap *directory.Snapshot, touch reshard.Touch) bool {
	snap = snap.For(t.s.db.Name)
	if !touch.All {
		return len(touch.Buckets) > 0 && directory.PlacesIn(snap).Left(t.pinned, touch.Buckets)
	}
	// A shard that has joined is not one of the block's.
	return directory.PlacesIn(snap).Left(t.pinned, nil) || len(snap.Shards) != len(t.pinned.Shards)
}

// seen returns a snapshot of the cluster as the session's statements see it.
func (t *touching) seen(snap *directory.Snapshot) *directory.Snapshot {
	snap = snap.For(t.s.db.Name)
	if t.pinned == nil {
		return snap
	}
	// A shard that has joined since would take its snapshot now, and see rows for a second time. No
	// shard leaves while a block is open.
	return snap.PlacedAs(t.pinned)
}

// leastHold is how long a statement waits for a round at least: a proxy that stood still hears of
// the end of a round a moment after it goes on.
const leastHold = 250 * time.Millisecond

// await waits until the cluster has changed. A statement that waits for a round is like one that
// waits for a lock: its timeouts and cancel requests end it, and nobody waits for a round that is
// overdue. began is when the statement began to wait, for this round or one before.
func (t *touching) await(b *reshard.Barrier, began time.Time) error {
	t.s.client.Task().Leave()
	since := time.Now()
	t.mark(b)
	t.s.srv.metrics.held.now.Add(1)
	defer func() {
		t.mark(nil)
		t.s.srv.metrics.held.now.Add(-1)
		t.s.srv.metrics.held.waited.Add(t.s.id, int64(time.Since(since)))
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for t.s.srv.moving.holds.Barrier(t.s.srv.cfg.Snapshot(), t.s.db.Name) == b {
		select {
		case <-t.s.reach.cancelled:
			return errCancelled()
		case <-t.s.srv.ctx.Done():
			return pgerr.New(pgerr.AdminShutdown, "rows of the statement are on their way to another shard")
		case <-tick.C:
			if e := t.s.reach.killed.Load(); e != nil {
				return e
			}
			waited := time.Since(began)
			if e := t.late(waited); e != nil {
				return e
			}
			if waited > leastHold {
				if e := t.s.srv.moving.holds.Overdue(b); e != nil {
					return e
				}
			}
		}
	}
	return nil
}

// late returns the error of a statement that has waited longer than its timeouts allow.
func (t *touching) late(waited time.Duration) error {
	c := t.s.held.conn
	if d := t.s.reach.patience.limit(0, c); d > 0 && waited > d {
		return errStatementTimeout()
	}
	if d := t.s.reach.patience.limit(1, c); d > 0 && waited > d {
		return errLockTimeout()
	}
	return nil
}

// mark notes what the session waits for; nil: for no round.
func (t *touching) mark(b *reshard.Barrier) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waits = ""
	if b == nil {
		return
	}
	touch := reshard.Everything()
	if t.known {
		touch = t.next
	}
	bucket, to := b.First(touch)
	if t.waits = fmt.Sprintf("bucket %d on its way to %s", bucket, to); bucket < 0 {
		t.waits = "buckets on their way to " + to
	}
}

// waitsFor returns what the session waits for, "" if it waits for no round.
func (t *touching) waitsFor() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waits
}

// rest is called when the session waits for its client and everything that was sent is answered.
func (t *touching) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.notes.Idle() {
		if !t.s.tx.isOpen() {
			t.early.Forget()
		}
		return
	}
	if !t.s.pipe.ops.empty() || t.s.pipe.unsent.Len() > 0 {
		return
	}
	if c := t.s.held.conn; t.s.tx.isOpen() || t.s.pipe.isUnsynced() || c != nil && c.Status() != wire.TxIdle {
		t.notes.StatementOver()
		if t.pinned != nil {
			t.notes.Repeatable() // a block that is held to one shard has its snapshot by its first statement
		}
		return
	}
	t.notes.Over()
	t.early.Forget()
	if t.pinned != nil {
		t.pinned, t.freed = nil, true
	}
}

// end is called when the session has given all its backends back or closed them.
func (t *touching) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes.Over()
	t.early.Forget()
}

// awaited reports whether a barrier must wait for the session, and for which bucket: -1 for all.
func (t *touching) awaited(b *reshard.Barrier) (yes bool, bucket int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !b.Awaits(&t.notes) {
		return false, 0
	}
	return true, b.Met(&t.notes)
}

// idle reports whether the session has no transaction that a round could wait for.
func (t *touching) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.notes.Idle()
}

// expectDeed says that a statement touches no rows of sharded tables, if what is to be done with it
// says so.
func (t *touching) expectDeed(do deed, p *plan.Plan, f *parser.Facts) {
	switch do {
	case runHome, runAtHand, runFree, runAtClock, runOnCopy, denyParameters, runProgram:
		t.expect(reshard.Touch{})
	case runAtCursor:
		if access(p, f) == reshard.Read {
			t.expect(reshard.Touch{}) // the cursor has its snapshot
		}
	}
}

// expectKeyed says what a statement touches whose keys have just been bound.
func (t *touching) expectKeyed(r *router, p *plan.Plan, f *parser.Facts) {
	if !t.noting() {
		return
	}
	touch := reshard.Touch{Access: access(p, f)}
	buckets, all := r.bind.Touched()
	touch.All, touch.Buckets = all, slices.Clone(buckets)
	t.expect(touch)
}

// expectGathered says what a statement over several shards touches.
func (t *touching) expectGathered(p *plan.Plan, f *parser.Facts) {
	t.expect(reshard.Touch{Access: access(p, f), All: true})
}

// access is what a statement does to the rows that it touches.
func access(p *plan.Plan, f *parser.Facts) reshard.Access {
	if p.Writes || p.Locks || f == nil || f.Effects&(parser.Writes|transactional) != 0 {
		return reshard.Write
	}
	return reshard.Read
}

// hasMoved reports whether buckets of the session's database are elsewhere by a newer snapshot.
func (t *touching) hasMoved(snap *directory.Snapshot) bool {
	rt := &t.s.route
	return rt.base == nil || !directory.PlacesIn(snap.For(rt.s.db.Name)).Same(rt.snap)
}
