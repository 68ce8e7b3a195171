package proxy

import (
	"errors"
	"math"
	"slices"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A session talks to one backend at a time, s.conn. Inside a transaction block
// it may hold several, one per shard that has been used; and a pin ties it to
// one of the home shard's. Those it is not talking to are parked.

// shardLane is the session's way to one shard.
type shardLane struct {
	name string
	lane *pool.Lane
	last *pool.Conn // the one used last, preferred

	// translation is good for what the snapshot translates says.
	translates  *directory.Snapshot
	translation *catalog.Translation
}

// laneOf returns the session's lane to a shard of the snapshot.
func (s *Session) laneOf(snap *directory.Snapshot, shard int) *shardLane {
	if shard < len(s.lanes) && s.lanes[shard].name == snap.Shards[shard].Name {
		return &s.lanes[shard]
	}
	for len(s.lanes) <= shard {
		s.lanes = append(s.lanes, shardLane{})
	}
	l := &s.lanes[shard]
	s.closeLane(l)
	l.name, l.lane = snap.Shards[shard].Name, s.lane
	if l.name != s.lane.Shard().Name {
		l.lane = s.srv.pool.Shard(&snap.Shards[shard]).OpenLane(s.lane.Key())
	}
	return l
}

func (s *Session) closeLane(l *shardLane) {
	if l.lane != nil && l.lane != s.lane {
		l.lane.CloseLane()
	}
	*l = shardLane{}
}

func (s *Session) closeLanes() {
	for i := range s.lanes {
		s.closeLane(&s.lanes[i])
	}
	s.lane.CloseLane()
}

// errTold is the error of a step that could not be taken for a reason the
// client has heard of already.
var errTold = errors.New("the client has been told")

// acquire makes sure that the session holds a backend with its settings:
// the one at hand, else one of the home shard.
func (s *Session) acquire() error {
	if s.conn != nil {
		return nil
	}
	return s.useLane(s.lane)
}

func (s *Session) useLane(l *pool.Lane) error {
	if s.conn != nil && s.conn.Lane() != l {
		if err := s.park(); err != nil {
			return err
		}
	}
	if s.conn == nil {
		if i := slices.IndexFunc(s.parked, func(c *pool.Conn) bool { return c.Lane() == l }); i >= 0 {
			s.unpark(i)
		} else if err := s.acquireFrom(l); err != nil {
			return err
		}
	}
	if s.block.open && s.conn.Status == wire.TxIdle {
		if err := s.join(); err != nil {
			return err
		}
	}
	var err error
	s.translate, err = s.translationTo(l)
	return err
}

// acquireFrom borrows a backend for the dialogue.
func (s *Session) acquireFrom(l *pool.Lane) error {
	select {
	case <-s.cancelled: // meant for an earlier statement
	default:
	}
	c, err := s.borrow(l)
	if err != nil {
		return err
	}
	s.hold(c)
	select {
	case <-s.cancelled: // came while the backend was being got ready
		s.letGo().Release()
		return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
	default:
		return nil
	}
}

// borrow takes a backend from the pool and gives it the session's settings.
func (s *Session) borrow(l *pool.Lane) (*pool.Conn, error) {
	prefer := *s.lastOf(l)
	if s.hasTables {
		// A session that visits many shards comes back to each of them late. If
		// it insisted on the same backend, there would soon be one per session
		// on every shard, all of them cold; the one used last by anybody is warm.
		prefer = nil
	}
	since, underway := s.underway()
	want := pool.Want{
		Grows:    !underway && (s.block.open || s.interrupt.active),
		Underway: underway, Since: since, Session: s.id, Prefer: prefer, Placeholders: s.placeholders, Settings: s.settings, Cancel: s.cancelled,
	}
	c, err := s.queues(l, want)
	for err == nil {
		var clean bool
		if clean, err = c.Cleanse(s.id); clean || err != nil {
			break
		}
		c.Terminate() // its place is free for another
		c, err = s.queues(l, want)
	}
	if err != nil {
		if c != nil {
			c.Discard()
		}
		return nil, survivable(err)
	}
	c.Lent = s.srv.pool.Drains()
	s.lends(c)
	if !c.Settings.Equal(s.settings) {
		if err := c.Apply(s.settings); err != nil {
			c.Discard()
			if errors.Is(err, pool.ErrLost) {
				return nil, err
			}
			// A role or object is gone that the session stands on. Going on
			// without would run statements as somebody else.
			return nil, pgerr.Fatal(pgerr.From(err).Code, "the session's settings cannot be applied any more: %s", pgerr.From(err).Message)
		}
		for name := range s.placeholders {
			if _, set := s.settings.Get(name); set {
				notePlaceholder(c, name)
			}
		}
	}
	if err := s.readAlike(c); err != nil {
		c.Discard()
		return nil, err
	}
	if err := s.meet(c); err != nil {
		c.Discard()
		return nil, err
	}
	return c, nil
}

// underway reports whether the session holds backends already, and since which drain.
func (s *Session) underway() (since uint64, ok bool) {
	since = math.MaxUint64
	if s.conn != nil {
		since = s.conn.Lent
	}
	for _, c := range s.parked {
		since = min(since, c.Lent)
	}
	for _, c := range s.legs {
		since = min(since, c.Lent)
	}
	return since, since != math.MaxUint64
}

// lastOf is where the backend is noted that was used last of a lane.
func (s *Session) lastOf(l *pool.Lane) **pool.Conn {
	if way := s.way(l); way != nil && l != s.lane {
		return &way.last
	}
	return &s.lastConn
}

// way returns the session's record of a lane that laneOf has opened.
func (s *Session) way(l *pool.Lane) *shardLane {
	for i := range s.lanes {
		if s.lanes[i].lane == l {
			return &s.lanes[i]
		}
	}
	return nil
}

// park ends the dialogue with the backend at hand for now. What has been sent
// is answered first.
func (s *Session) park() error {
	if s.pipedHere() {
		if err := s.widen(); err != nil {
			return err
		}
	}
	if !s.ops.empty() || s.toServer.Len() > 0 {
		if err := s.flush(); err != nil {
			return err
		}
		if s.conn == nil || s.skipping {
			return errTold
		}
	}
	c := s.conn
	if c.Status == wire.TxIdle && s.unsynced {
		// The messages so far are a transaction of their own, as nothing they
		// have done needs to be undone should a later one fail.
		if err := s.endImplicit(); err != nil {
			return err
		}
		if s.conn == nil {
			return errTold
		}
	}
	if c.Status == wire.TxIdle && !s.keeps(c) {
		return s.giveBack()
	}
	if err := s.shareSettings(c); err != nil {
		return err
	}
	s.parked = append(s.parked, s.letGo())
	return nil
}

// endImplicit ends the transaction that extended messages without a Sync are.
func (s *Session) endImplicit() error {
	s.toServer.Grow()
	s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Sync)
	s.ops.push(op{kind: opSync, injected: true})
	return s.exchange()
}

// unpark goes on with a parked backend.
func (s *Session) unpark(i int) {
	c := s.parked[i]
	s.parked = slices.Delete(s.parked, i, i+1)
	s.hold(c)
}

// keeps reports whether a pin ties the session to the backend.
func (s *Session) keeps(c *pool.Conn) bool { return s.pins != 0 && c.Lane() == s.lane }

// crossShardWrite refuses what the client does not want.
func crossShardWrite() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "this transaction would write on more than one shard, and weft.commit is single").
		WithDetail("An earlier statement of this transaction, or another part of this one, writes on another shard.").
		WithHint("Keep the statements of a transaction to one value of the shard key, or SET weft.commit = atomic.")
}

// survivable makes an ERROR of what a server says at login: the session has
// been let in before and can try again.
func survivable(err error) error {
	var e *pgerr.Error
	if !errors.As(err, &e) || !e.IsFatal() || e.Code == pgerr.AdminShutdown {
		return err
	}
	mild := *e
	mild.Severity = pgerr.SeverityError
	return &mild
}

// meet does what a backend needs once before this session uses it.
func (s *Session) meet(c *pool.Conn) error {
	if s.db.Effects.Load() == nil {
		if err := s.srv.learnEffects(s.db, c); err != nil {
			return err
		}
	}
	if c.SoleSession != s.id && c.SoleSession != 0 && (s.db.ReadsSequences.Load() || s.takesOver(c)) {
		if _, err := c.Exec("DISCARD SEQUENCES"); err != nil {
			return err
		}
		c.SoleSession = 0
	}
	return nil
}

// takesOver reports whether a backend of the home shard that others have used can
// become this session's alone, at the price of one question: when the session is
// new, or the only one before it has left. So the first currval of a database is
// answered where clients come one after the other, as tests and scripts do.
func (s *Session) takesOver(c *pool.Conn) bool {
	return c.Lane() == s.lane && (s.lastConn == nil || c.SoleSession > 0 && !s.srv.connected(c.SoleSession))
}

func (s *Session) hold(c *pool.Conn) {
	s.translate = nil
	if c.Lane() != s.lane {
		if way := s.way(c.Lane()); way != nil {
			s.translate = way.translation
		}
	}
	s.mu.Lock()
	s.conn, s.current = c, c
	s.mu.Unlock()
}

// letGo takes the backend away from the session, so that a cancel request no
// longer reaches it.
func (s *Session) letGo() *pool.Conn {
	s.mu.Lock()
	c := s.conn
	s.conn, s.current = nil, nil
	s.mu.Unlock()
	return c
}

// release gives the backend back if nothing ties the session to it.
func (s *Session) release() {
	if uint32(s.pins) != s.shownPins.Load() {
		s.shownPins.Store(uint32(s.pins))
	}
	if s.conn == nil || s.conn.Status != wire.TxIdle || s.block.open || s.keeps(s.conn) || s.toServer.Len() > 0 || !s.ops.empty() || s.unsynced {
		return
	}
	_ = s.giveBack()
}

// giveBack lets others use the backend, which is idle. It is closed if it
// cannot be made clean.
func (s *Session) giveBack() error {
	if s.conn.Listening || s.done.any() {
		if err := s.settleAlone(s.conn); err != nil {
			s.drop()
			return err
		}
		if s.keeps(s.conn) {
			s.parked = append(s.parked, s.letGo())
			return nil
		}
	}
	if s.idleTimeout > 0 {
		// It is the client's idleness that counts, not the backend's.
		if _, err := s.conn.Exec("RESET idle_session_timeout"); err != nil {
			s.drop()
			return err
		}
		s.conn.Settings = s.conn.Settings.Without("idle_session_timeout")
	}
	if s.soiled == s.conn {
		s.soiled = nil
		s.drop()
		return nil
	}
	c := s.letGo()
	if s.named.Load() && !s.survives(c) {
		return nil
	}
	*s.lastOf(c.Lane()) = c
	c.UsedBy(s.id)
	c.Release()
	return nil
}

// drop closes the backend: its state is unknown.
func (s *Session) drop() {
	if c := s.letGo(); c != nil {
		if s.keeps(c) {
			s.pins &= pinSessionMode
		}
		c.Discard()
	}
	s.abandonLoans()
	if s.interrupt.handed {
		s.endGather()
	}
	s.ops.reset()
	s.toServer.Reset()
	s.rem = 0
	s.unsynced, s.pushed, s.piped = false, false, false
}

// leave gives a backend back for the last time, or closes it.
func (s *Session) leave(c *pool.Conn) {
	if c.Status != wire.TxIdle || s.keeps(c) && s.pins&(pinForever|pinTemp) != 0 {
		c.Discard() // DISCARD ALL would leave traces, such as a temporary schema
		return
	}
	if s.keeps(c) {
		if _, err := c.Exec("DISCARD ALL"); err != nil {
			c.Discard()
			return
		}
		c.UnprepareAll()
		c.Settings = nil
		c.Listening = false
		c.SoleSession = 0
	} else {
		c.UsedBy(s.id)
	}
	c.Release()
}
