package proxy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// held is the backends that a session has borrowed. The session talks to at most one of them:
// conn. The others are parked: they take part in the open block, at most one per shard, or a
// pin ties the session to one of the home shard's. A backend is in conn or in parked, never in
// both.
type held struct {
	s *Session

	conn   *pool.Conn
	parked []*pool.Conn
	last   *pool.Conn  // the backend of the home shard that was given back last
	lanes  []shardLane // by index of the shard
	// translate maps OIDs between conn's shard and the home shard.
	translate *catalog.Translation
	// reserved are backends for the legs of a statement that is about to begin, see reserve.
	reserved []*pool.Conn
	// soiled is a backend that keeps something of this session and must be closed.
	soiled *pool.Conn
	away   away
}

// shardLane is the session's way to one shard.
type shardLane struct {
	name string
	// spec is what the snapshot of the last use said of the shard, which tells the pool of other hosts.
	spec *directory.Shard
	lane *pool.Lane
	last *pool.Conn // the backend used last, preferred for the next loan

	// translation was made under the snapshot translates, and holds for this snapshot alone.
	translates  *directory.Snapshot
	translation *catalog.Translation
}

// laneOf returns the session's lane to a shard of the snapshot.
func (h *held) laneOf(snap *directory.Snapshot, shard int) *shardLane {
	spec := &snap.Shards[shard]
	if shard < len(h.lanes) && h.lanes[shard].name == spec.Name {
		l := &h.lanes[shard]
		if l.spec != spec { // another snapshot: the shard may have other hosts now
			l.spec = spec
			h.s.srv.pool.Shard(spec)
		}
		return l
	}
	for len(h.lanes) <= shard {
		h.lanes = append(h.lanes, shardLane{})
	}
	l := &h.lanes[shard]
	h.closeLane(l)
	l.name, l.spec, l.lane = spec.Name, spec, h.s.lane
	if sh := h.s.srv.pool.Shard(spec); l.name != h.s.lane.Shard().Name {
		l.lane = sh.OpenLane(h.s.lane.Key())
	}
	return l
}

func (h *held) closeLane(l *shardLane) {
	if l.lane != nil && l.lane != h.s.lane {
		l.lane.CloseLane()
	}
	*l = shardLane{}
}

func (h *held) closeLanes() {
	for i := range h.lanes {
		h.closeLane(&h.lanes[i])
	}
	h.away.close()
	h.s.lane.CloseLane()
}

// errTold says that a step failed for a reason that the client has been told already.
var errTold = errors.New("the client has been told")

// acquire makes sure that the session holds a backend with its settings:
// the one at hand, else one of the home shard.
func (h *held) acquire() error {
	if h.conn != nil {
		return nil
	}
	return h.useLane(h.s.lane)
}

// useLane makes a backend of the lane the one at hand, and lets it join the open block.
func (h *held) useLane(l *pool.Lane) error {
	if h.conn != nil && h.conn.Lane() != l {
		if err := h.park(); err != nil {
			return err
		}
	}
	for h.conn == nil {
		if i := slices.IndexFunc(h.parked, func(c *pool.Conn) bool { return c.Lane() == l }); i >= 0 {
			h.unpark(i)
		} else if err := h.acquireFrom(l); err != nil {
			if l = h.away.instead(l, err); l == nil {
				return err
			}
		}
	}
	if h.s.tx.isOpen() && h.conn.Status() == wire.TxIdle {
		if err := h.s.tx.join(); err != nil {
			return err
		}
	}
	h.s.route.touch.ask(h.conn) // by whatever it is used for
	var err error
	h.translate, err = h.translationTo(l)
	return err
}

// acquireFrom borrows a backend for the dialogue.
func (h *held) acquireFrom(l *pool.Lane) error {
	select {
	case <-h.s.reach.cancelled: // meant for an earlier statement
	default:
	}
	c, err := h.borrow(l)
	if err != nil {
		return err
	}
	h.hold(c)
	select {
	case <-h.s.reach.cancelled: // came while the backend was being got ready
		h.detach().Release()
		return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
	default:
		return nil
	}
}

// borrow takes a backend from the pool and gives it the session's settings.
func (h *held) borrow(l *pool.Lane) (*pool.Conn, error) {
	c, err := h.ready(l)
	if errors.Is(err, pool.ErrLost) {
		told := *pgerr.From(err)
		err = told.WithCause(fmt.Errorf("%w: %w", errUnsent, err))
	}
	return c, err
}

// ready is borrow, without saying of an error that nothing was sent.
func (h *held) ready(l *pool.Lane) (*pool.Conn, error) {
	want := h.want()
	if !h.s.route.hasTables {
		// A session that visits many shards comes back to each of them late. If the session
		// insisted on the same backend, every shard would soon have one backend per session,
		// all of them cold. The backend that any session used last is warm.
		want.Prefer = *h.lastOf(l)
	}
	c, err := h.s.reach.queueFor(l, want)
	for err == nil {
		var clean bool
		if clean, err = c.Cleanse(h.s.id); clean || err != nil {
			break
		}
		c.Terminate() // frees the place for another backend
		c, err = h.s.reach.queueFor(l, want)
	}
	if err != nil {
		if c != nil {
			c.Discard()
		}
		return nil, survivable(err)
	}
	c.Lent()
	if !c.Bind(h.s.client.Task()) {
		h.s.client.Task().Leave() // nothing but the loop may be waited for in the loop
	}
	h.s.reach.noteBorrowed(c)
	if !c.Settings().Equal(h.s.record.settings) {
		if err := c.Apply(h.s.record.settings); err != nil {
			c.Discard()
			if errors.Is(err, pool.ErrLost) {
				return nil, err
			}
			// A role or object that the session's settings name is gone. Without these settings
			// statements would run as another role.
			return nil, pgerr.Fatal(pgerr.From(err).Code, "the session's settings cannot be applied any more: %s", pgerr.From(err).Message)
		}
		for name := range h.s.record.placeholders {
			if _, set := h.s.record.settings.Get(name); set {
				c.NotePlaceholder(name)
			}
		}
	}
	if err := h.s.record.readAlike(c); err != nil {
		c.Discard()
		return nil, err
	}
	if err := h.meet(c); err != nil {
		c.Discard()
		return nil, err
	}
	return c, nil
}

// borrowFar is borrow for a lane that may be that of a standby. If the standby cannot be used, the backend is one of another server.
func (h *held) borrowFar(l *pool.Lane) (*pool.Conn, error) {
	for {
		c, err := h.borrow(l)
		if err == nil {
			return c, nil
		}
		if l = h.away.instead(l, err); l == nil {
			return nil, err
		}
	}
}

// want says what the session needs of its next backend.
func (h *held) want() pool.Want {
	since, underway := h.underway()
	return pool.Want{
		Grows:    !underway && (h.s.tx.isOpen() || h.s.reach.interrupt.active),
		Underway: underway, Since: since, Session: h.s.id, Placeholders: h.s.record.placeholders, Settings: h.s.record.settings, Cancel: h.s.reach.cancelled,
		Waited: &h.s.account.warm.queued, Asker: h, Task: h.s.client.Task(),
	}
}

// underway reports whether the session holds backends already, and the earliest drain since
// which it holds one.
func (h *held) underway() (since uint64, ok bool) {
	since = math.MaxUint64
	if h.conn != nil {
		since = h.conn.LentAt()
	}
	for _, c := range h.parked {
		since = min(since, c.LentAt())
	}
	for _, c := range h.s.reach.legs {
		since = min(since, c.LentAt())
	}
	for _, c := range h.reserved {
		since = min(since, c.LentAt())
	}
	return since, since != math.MaxUint64
}

// lastOf returns the place where the session notes the backend of a lane that it used last.
func (h *held) lastOf(l *pool.Lane) **pool.Conn {
	if l.Shard().IsStandby() {
		return &h.away.last
	}
	if way := h.way(l); way != nil && l != h.s.lane {
		return &way.last
	}
	return &h.last
}

// way returns the session's record of a lane that laneOf has opened, or of the shard whose standby the lane is to.
func (h *held) way(l *pool.Lane) *shardLane {
	for i := range h.lanes {
		if h.lanes[i].lane == l || l.Shard().IsStandby() && h.lanes[i].name == l.Shard().Name {
			return &h.lanes[i]
		}
	}
	return nil
}

// park ends the dialogue with the backend at hand for now. Everything sent to the backend is
// answered first.
func (h *held) park() error {
	if h.s.implicit.pipedHere() {
		if err := h.s.implicit.widen(); err != nil {
			return err
		}
	}
	if !h.s.pipe.ops.empty() || h.s.pipe.unsent.Len() > 0 {
		if err := h.s.flush(); err != nil {
			return err
		}
		if h.conn == nil || h.s.pipe.isSkipping() {
			return errTold
		}
	}
	c := h.conn
	if c.Status() == wire.TxIdle && h.s.pipe.isUnsynced() {
		// The messages so far can be a transaction by themselves: nothing they have done needs
		// to be undone if a later message fails.
		if err := h.endImplicit(); err != nil {
			return err
		}
		if h.conn == nil {
			return errTold
		}
	}
	if c.Status() == wire.TxIdle && !h.isPinned(c) {
		return h.giveBack()
	}
	if err := h.shareSettings(c); err != nil {
		return err
	}
	h.parked = append(h.parked, h.detach())
	return nil
}

// endImplicit ends the implicit transaction of extended messages that no Sync has followed yet.
func (h *held) endImplicit() error {
	h.s.pipe.unsent.Grow()
	h.s.pipe.unsent.B = wire.AppendEmpty(h.s.pipe.unsent.B, wire.Sync)
	h.s.pipe.ops.push(op{kind: opSync, injected: true})
	return h.s.pipe.exchange()
}

// unpark makes a parked backend the one at hand again.
func (h *held) unpark(i int) {
	c := h.parked[i]
	h.parked = slices.Delete(h.parked, i, i+1)
	h.hold(c)
}

// switchTo makes a parked backend the one at hand; the one at hand until now, if there is one, is
// parked as it is.
func (h *held) switchTo(i int) {
	if h.conn != nil {
		h.parked = append(h.parked, h.detach())
	}
	h.unpark(i)
}

// parkBorrowed parks a backend that has just been borrowed: it takes part in the open block, and
// the dialogue goes on with another.
func (h *held) parkBorrowed(c *pool.Conn) { h.parked = append(h.parked, c) }

// siftParked keeps the parked backends for which keep returns true. keep gives the others back or
// closes them.
func (h *held) siftParked(keep func(c *pool.Conn) bool) {
	kept := h.parked[:0]
	for _, c := range h.parked {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	clear(h.parked[len(kept):])
	h.parked = kept
}

// soil notes that a backend keeps something of this session: no other session may have it.
func (h *held) soil(c *pool.Conn) { h.soiled = c }

// takeSoiled reports whether a backend is soiled. The caller closes it then.
func (h *held) takeSoiled(c *pool.Conn) bool {
	if h.soiled != c {
		return false
	}
	h.soiled = nil
	return true
}

// isPinned reports whether a pin ties the session to the backend.
func (h *held) isPinned(c *pool.Conn) bool { return h.s.record.pins != 0 && c.Lane() == h.s.lane }

// crossShardWrite is the error for a write on a second shard while weft.commit is single.
func crossShardWrite() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "this transaction would write on more than one shard, and weft.commit is single").
		WithDetail("An earlier statement of this transaction, or another part of this one, writes on another shard.").
		WithHint("Keep the statements of a transaction to one value of the shard key, or SET weft.commit = atomic.")
}

// survivable turns a server's FATAL at login into an ERROR: the session has been let in before
// and can try again.
func survivable(err error) error {
	var e *pgerr.Error
	if !errors.As(err, &e) || !e.IsFatal() || e.Code == pgerr.AdminShutdown {
		return err
	}
	mild := *e
	mild.Severity = pgerr.SeverityError
	return &mild
}

// meet makes a backend ready for its first use by this session: it learns the effects of the
// database's functions if they are not known, and discards the sequence values of another
// session if this one may ask for currval.
func (h *held) meet(c *pool.Conn) error {
	if h.s.db.Effects.Load() == nil {
		if err := h.s.srv.keeper.learnEffects(h.s.db, c); err != nil {
			return err
		}
	}
	if c.SoleSession() != h.s.id && c.SoleSession() != 0 && (h.s.db.ReadsSequences.Load() || h.takesOver(c)) {
		if _, err := c.Exec("DISCARD SEQUENCES"); err != nil {
			return err
		}
		c.SequencesDiscarded()
	}
	return nil
}

// takesOver reports whether this session can become the sole user of a home shard's backend
// that others have used, at the price of one command: when this session is new, or when the
// only session before it has left. So the first currval of a database is answered where clients
// come one after the other, as tests and scripts do.
func (h *held) takesOver(c *pool.Conn) bool {
	return c.Lane() == h.s.lane && (h.last == nil || c.SoleSession() > 0 && !h.s.srv.register.connected(c.SoleSession()))
}

// hold makes c the backend at hand, which cancel requests reach.
func (h *held) hold(c *pool.Conn) {
	h.translate = nil
	if c.Lane() != h.s.lane {
		if way := h.way(c.Lane()); way != nil {
			h.translate = way.translation
		}
	}
	h.conn = c
	h.s.reach.aim(c)
}

// detach takes the backend at hand away from the session, so that a cancel request no longer
// reaches it.
func (h *held) detach() *pool.Conn {
	c := h.conn
	h.s.reach.aim(nil)
	h.conn = nil
	return c
}

// release gives the backend at hand back if nothing ties the session to it.
func (h *held) release() {
	if uint32(h.s.record.pins) != h.s.reach.pins.Load() {
		h.s.reach.pins.Store(uint32(h.s.record.pins))
	}
	if h.conn == nil || h.conn.Status() != wire.TxIdle || h.s.tx.isOpen() || h.s.pipe.unsent.Len() > 0 || !h.s.pipe.ops.empty() || h.s.pipe.isUnsynced() {
		return
	}
	if h.isPinned(h.conn) {
		h.conn.Keep()
		return
	}
	_ = h.giveBack()
}

// giveBack lets other sessions use the backend at hand, which is idle. The backend is closed if
// it cannot be made clean.
func (h *held) giveBack() error {
	if h.conn.Listening() || h.s.record.done.any() {
		if err := h.s.record.settleAlone(h.conn); err != nil {
			h.drop()
			return err
		}
		if h.isPinned(h.conn) {
			h.conn.Keep()
			h.parked = append(h.parked, h.detach())
			return nil
		}
	}
	if h.s.record.idleTimeout > 0 {
		// idle_session_timeout counts the idleness of the client, not of the backend.
		if _, err := h.conn.Exec("RESET idle_session_timeout"); err != nil {
			h.drop()
			return err
		}
		h.conn.NoteSettings(h.conn.Settings().Without("idle_session_timeout"))
	}
	if h.takeSoiled(h.conn) {
		h.drop()
		return nil
	}
	c := h.detach()
	if h.s.reach.named.Load() && !h.s.reach.survives(c) {
		return nil
	}
	*h.lastOf(c.Lane()) = c
	c.UsedBy(h.s.id)
	c.Release()
	return nil
}

// drop closes the backend at hand: its state is unknown.
func (h *held) drop() {
	if c := h.detach(); c != nil {
		if h.isPinned(c) {
			h.s.record.pins.untie()
		}
		h.forsake(c)
	}
	h.s.drawn.abandonLoans()
	if h.s.reach.interrupt.handed {
		h.s.reach.endGather()
	}
	h.s.pipe.ops.reset()
	h.s.pipe.unsent.Reset()
	h.s.out.dropRest()
	h.s.pipe.noteCopy(copyDropped)
	h.s.pipe.synced()
}

// forsake closes the backend that was at hand in the middle of what it does.
func (h *held) forsake(c *pool.Conn) {
	if due := h.s.pipe.ops.exchanges(); due > 1 || due == 1 && !c.Busy() {
		c.Owes()
	}
	if h.s.commit.underway {
		c.Commits()
	}
	c.Discard()
}

// leaveParked gives the parked backends back at the end of the session.
func (h *held) leaveParked() {
	for _, c := range h.parked {
		h.leave(c)
	}
	h.parked = nil
}

// leave gives a backend back at the end of the session, or closes it.
func (h *held) leave(c *pool.Conn) {
	if c.Status() != wire.TxIdle || h.isPinned(c) && h.s.record.pins&(pinForever|pinTemp) != 0 {
		c.Discard() // DISCARD ALL would leave traces, such as a temporary schema
		return
	}
	if h.isPinned(c) {
		if _, err := c.Exec("DISCARD ALL"); err != nil {
			c.Discard()
			return
		}
		c.DiscardedAll()
	} else {
		c.UsedBy(h.s.id)
	}
	c.Release()
}
