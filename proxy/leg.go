package proxy

import (
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"weft/catalog"
	"weft/explain"
	"weft/pgerr"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// leg is one shard's part in a gathered statement: its backend, the messages it is sent, and
// the rows it answers with.
type leg struct {
	s     *Session
	conn  *pool.Conn
	shard int
	// borrowed says that the backend was borrowed for this statement alone. Otherwise it takes
	// part in the block, or the session is tied to it.
	borrowed bool
	// out is still to be sent. begins says that out begins with the BEGIN of the block, whose
	// answer comes first.
	out    []byte
	begins bool
	owed   bool // something has been sent and not answered to its end
	// running says that the shard has planned the statement.
	running bool
	// opened says that weft has opened the backend's transaction for this statement.
	opened bool
	// then is the leg that is sent its statement when this leg is over.
	then *leg

	translate *catalog.Translation
	deep      catalog.Rows
	consume   int // bytes of the frame that was returned last
	// over says that nothing more comes. err is the error that the leg has met, if any.
	over bool
	err  error

	rows  int64
	bytes int64
	began int64 // when the statement was sent, in tally.Now's time
	// changed is the number of rows in the command tag.
	changed int64
	// counts, if not nil, are by piece. The times are then noted, too: when the statement was
	// sent, when its first row was read, and when it was over.
	counts                  []explain.Moved
	sentAt, firstAt, overAt time.Time
}

// send sends out, if there is anything in it.
func (l *leg) send() {
	if len(l.out) == 0 || l.over {
		return
	}
	_, err := l.conn.Write(l.out)
	l.out, l.owed = nil, true
	l.began = tally.Now()
	if l.counts != nil {
		l.sentAt = time.Now()
	}
	if err != nil {
		l.fail(l.conn.Lost(err))
	}
}

// fail notes that the backend is lost.
func (l *leg) fail(err error) {
	l.over = true
	if l.err == nil || !errors.Is(l.err, pool.ErrLost) {
		l.err = err
	}
}

// lost reports whether the backend's state is unknown.
func (l *leg) lost() bool { return errors.Is(l.err, pool.ErrLost) }

// Next returns the next row of the shard. It implements stream.Rows.
func (l *leg) Next() ([]byte, error) {
	l.send()
	if l.s.reach.interrupt.stop.Load() {
		return nil, l.s.reach.interrupted()
	}
	for !l.over {
		typ, body, err := l.frame()
		if err != nil {
			break
		}
		if typ != wire.DataRow || l.err != nil {
			continue
		}
		l.rows++
		l.bytes += int64(len(body))
		if l.translate != nil && l.deep.Deep() {
			if err := l.translate.DataRow(body, l.deep); err != nil {
				l.fail(l.conn.Lost(untranslatable(err)))
				break
			}
		}
		return body, nil
	}
	if l.err != nil {
		return nil, l.err
	}
	return nil, io.EOF
}

// frame reads one message of the shard and handles it. Rows are left to the caller.
func (l *leg) frame() (typ byte, body []byte, err error) {
	c := l.conn
	c.Consume(l.consume)
	l.consume = 0
	typ, body, err = c.Next(wire.LargeLimit)
	if err != nil {
		l.fail(c.Lost(err))
		return 0, nil, err
	}
	l.consume = wire.HeaderLen + len(body)
	switch typ {
	case wire.ErrorResponse:
		e := pool.ServerError(body)
		if e.IsFatal() { // the server is about to close the connection
			l.fail(c.Lost(e))
			return typ, nil, e
		}
		if err := l.s.lost.retry.evades(c, body); err != nil {
			l.fail(err)
			return typ, nil, err
		}
		if l.err == nil {
			l.err = drifted(&l.s.route, c, e)
		}
	case wire.DataRow:
		if l.counts != nil { // also rows that are no longer wanted
			l.count(body)
		}
	case wire.BindComplete:
		l.running = true
	case wire.CommandComplete:
		l.changed = rowsOf(body)
	case wire.ParameterStatus:
		c.NoteParameter(body)
	case wire.NoticeResponse:
		if pool.Dying(body) {
			break
		}
		l.s.out.Grow()
		l.s.out.B = wire.AppendFrame(l.s.out.B, typ, body)
		if l.s.out.Full() {
			// The next write to the client reports that the client is gone.
			_ = l.s.out.flushClient()
		}
	case wire.NotificationResponse:
		l.s.record.onBackendNotification(c, body)
	case wire.RowDescription:
		l.running = true
		if l.translate != nil {
			if l.deep, err = l.translate.RowDescription(body); err != nil {
				l.fail(c.Lost(untranslatable(err)))
				return typ, nil, err
			}
		}
	case wire.ReadyForQuery:
		if len(body) == 1 {
			c.Ready(body[0])
		}
		c.Consume(l.consume)
		l.consume = 0
		if l.begins && l.err == nil {
			l.begins = false
			return typ, nil, nil
		}
		if l.begins {
			// The block did not begin here. The statement sent behind the BEGIN is still to be
			// answered, and ran outside of any block.
			l.fail(c.Lost(l.err))
		}
		l.over, l.owed = true, false
		now := tally.Now()
		c.Lane().Shard().Times.Add(l.s.id, now-l.began)
		if l.s.account.isTraced() {
			l.s.account.tracePart(c.Lane().Shard(), l.began, now)
		}
		if l.counts != nil {
			l.overAt = time.Now()
		}
		if l.then != nil && (l.err == nil || atEnd(l.err)) {
			l.then.send()
		}
	}
	return typ, body, nil
}

// unsent reports whether the shard owes no answer because nothing was sent to it.
func (l *leg) unsent() bool { return !l.over && (len(l.out) > 0 || !l.owed) }

// skip ends a leg without sending its statement.
func (l *leg) skip() {
	l.out, l.over = nil, true
	l.conn.BeginWithdrawn()
}

// drain reads the rest of the shard's answer.
func (l *leg) drain() {
	if l.unsent() { // the leg before this one has failed
		l.skip()
	}
	for !l.over {
		if _, _, err := l.frame(); err != nil {
			return
		}
	}
}

// stopLegs makes the shards stop, all at once, and reads the rest of their answers. An open
// transaction on a shard that is stopped fails.
func (ls *legs) stopLegs(legs []*leg) {
	var busy []*leg
	var conns []*pool.Conn
	for _, l := range legs {
		if l.over {
			continue
		}
		if l.unsent() {
			l.skip()
			continue
		}
		if l.awaitBegin(); l.over {
			continue
		}
		l.conn.BeginCancel()
		busy, conns = append(busy, l), append(conns, l.conn)
	}
	ls.s.reach.deliverCancels(conns)
	for _, l := range busy {
		before := l.err
		l.then = nil
		l.drain()
		if before == nil && !l.lost() {
			l.err = nil // the error comes from weft's own cancel request
		}
	}
}

// awaitBegin waits for the answer to the BEGIN that the statement was sent with: a cancel
// request must not hit the BEGIN.
func (l *leg) awaitBegin() {
	if !l.conn.Opening() {
		return
	}
	_ = l.conn.Conn().SetReadDeadline(time.Now().Add(beginTimeout))
	for l.conn.Opening() && !l.over {
		if _, _, err := l.frame(); err != nil {
			return // the backend is given up, and rolls back
		}
	}
	_ = l.conn.Conn().SetReadDeadline(time.Time{})
}

// beginTimeout is how long a BEGIN may take. A BEGIN has nothing to wait for.
const beginTimeout = 5 * time.Second

// addLeg adds a leg to a shard to the legs of an execution, where cancel requests find it.
func (ls *legs) addLeg(x *gathering, shard int) (*leg, error) {
	l, err := ls.legFor(shard, x.far)
	if l != nil && readsOwn(x.req.facts) && ls.s.route.snap.Shards[shard].Name == ls.s.route.snap.Home {
		err = ls.s.route.showOwnTo(l, x.req.facts)
	}
	if l != nil {
		x.legs = append(x.legs, l)
		ls.s.reach.track(x.legs)
		ls.s.held.touch(l, x.req.facts)
	}
	return l, err
}

// legFor makes a leg to a shard: with the backend that takes part in the block or that the
// session is tied to, else with a borrowed one. far says that it may be a standby's.
func (ls *legs) legFor(shard int, far bool) (*leg, error) {
	l, err := ls.legTo(shard, far)
	if err == nil {
		l.translate, err = ls.s.held.translationTo(l.conn.Lane())
	}
	return l, err
}

// legTo makes a leg whose rows are not read, as it has no translation. It asks nothing in the
// leg's transaction.
func (ls *legs) legTo(shard int, far bool) (*leg, error) {
	lane, err := ls.s.held.away.laneTo(shard, far)
	if err != nil {
		return nil, err
	}
	l := &leg{s: ls.s, shard: shard}
	for _, c := range ls.s.held.parked {
		if c.Lane() == lane {
			l.conn = c
		}
	}
	if l.conn == nil {
		c, err := ls.s.held.borrowFar(lane)
		if err != nil {
			return nil, err
		}
		l.conn = c
		if ls.s.tx.isOpen() {
			ls.s.held.parkBorrowed(c)
		} else {
			l.borrowed = true
		}
	}
	l.conn.UnnamedGone()
	if err := ls.joinLeg(l); err != nil {
		return nil, ls.notJoined(l.conn, err)
	}
	return l, nil
}

// notJoined rolls back, or closes, a backend that could not join the block. err is the reason.
func (ls *legs) notJoined(c *pool.Conn, err error) error {
	if !errors.Is(err, pool.ErrLost) {
		if _, lost := c.Exec("ROLLBACK"); lost == nil {
			return err
		}
	}
	return ls.loseParked(c, err)
}

// joinLeg makes the leg's backend take part in the block.
func (ls *legs) joinLeg(l *leg) error {
	b := &ls.s.tx.block
	if !b.isOpen() || l.conn.Status() != wire.TxIdle {
		return nil
	}
	if b.isSealed() {
		return crossShardBlock()
	}
	// Also for the first participant: it cannot be asked later, when its BEGIN may be on the
	// way.
	ls.s.reach.bePatient(l.conn)
	ls.s.reach.noteParty(l.conn)
	if b.plain && len(b.replay) == 0 {
		l.out = wire.AppendQuery(l.out, ls.s.reach.beginning(l.conn))
		l.conn.BeginSent()
		l.begins = true
		return nil
	}
	for i := -1; i < len(b.replay); i++ {
		sql := ls.s.reach.beginning(l.conn)
		if i >= 0 {
			sql = b.replay[i]
		}
		if err := ls.s.every.execBeside(l.conn, sql); err != nil {
			return err
		}
	}
	return nil
}

// track lets cancel requests reach the backends of the legs.
func (re *reach) track(legs []*leg) {
	re.mu.Lock()
	defer re.mu.Unlock()
	if len(re.legs) == 0 {
		re.legsBegan = time.Now()
	}
	re.legs = re.legs[:0]
	for _, l := range legs {
		re.legs = append(re.legs, l.conn)
	}
}

// dropLegs closes the backends of a gathered statement whose legs were not ended.
func (ls *legs) dropLegs() {
	for _, c := range ls.s.reach.takeLegs() {
		if c != ls.s.held.conn && !slices.Contains(ls.s.held.parked, c) {
			c.Discard()
		}
	}
}

// endLegs ends the dialogue with all shards. If stop is set, legs that are not over are made to
// stop. It returns the error of a lost backend, if there is one, else the first error of a
// shard.
func (ls *legs) endLegs(legs []*leg, stop bool) error {
	if stop {
		ls.stopLegs(legs)
	}
	var first, lost error
	var bytes int64
	for _, l := range legs {
		l.drain()
		bytes += l.bytes
		if l.err != nil && first == nil {
			first = l.err
		}
		if l.lost() && lost == nil {
			lost = l.err
		}
	}
	ls.s.account.addLegs(legs, bytes)
	ls.s.srv.metrics.gathered.Add(ls.s.id, bytes)
	ls.s.reach.forgetLegs()
	for _, l := range legs {
		switch {
		case !l.borrowed && !l.lost():
			l.conn.AwaitCancels()
			if l.opened && l.conn.Status() != wire.TxIdle {
				// The session is tied to the backend, but weft has opened the transaction.
				if _, err := l.conn.Exec("ROLLBACK"); err != nil {
					lost = ls.loseParked(l.conn, err)
				}
			}
		case !l.borrowed:
			lost = ls.loseParked(l.conn, lost)
		case l.borrowed && l.opened && !l.lost() && l.conn.Status() == wire.TxActive && ls.endOpened(l):
		case l.borrowed && (l.lost() || l.conn.Status() != wire.TxIdle):
			l.conn.Discard()
		case l.borrowed:
			ls.s.held.untouch(l.conn)
			*ls.s.held.lastOf(l.conn.Lane()) = l.conn
			l.conn.UsedBy(ls.s.id)
			l.conn.Release()
		}
	}
	if lost != nil {
		return lost
	}
	return first
}

// endOpened commits a transaction that weft has opened, and gives the backend back. It returns
// false if that is not possible.
func (ls *legs) endOpened(l *leg) bool {
	if _, err := l.conn.Exec("COMMIT"); err != nil || l.conn.Status() != wire.TxIdle {
		return false
	}
	ls.s.held.untouch(l.conn)
	*ls.s.held.lastOf(l.conn.Lane()) = l.conn
	l.conn.UsedBy(ls.s.id)
	l.conn.Release()
	return true
}

// loseParked closes a lost backend that the session holds, and returns err, the reason. The
// error is fatal if the session was tied to the backend.
func (ls *legs) loseParked(c *pool.Conn, err error) error {
	ls.s.held.siftParked(func(p *pool.Conn) bool { return p != c })
	tied := ls.s.held.isPinned(c) && ls.s.record.pins&^pinSessionMode != 0
	c.Discard()
	if !tied {
		return err
	}
	ls.s.record.pins.untie()
	fatal := *pgerr.From(err)
	fatal.Severity = pgerr.SeverityFatal
	return &fatal
}

// asRefused returns a shard's error as the client should hear it. If the home shard lets the
// client read the views of the statement, and a shard does not let it read the tables in them,
// then weft is the one that cannot: weft has taken the views apart.
func (x *gathering) asRefused(err error) error {
	e := (*pgerr.Error)(nil)
	if !x.g.Probe || !errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege || !strings.HasPrefix(e.Message, "permission denied for ") {
		return err
	}
	return pgerr.New(pgerr.FeatureNotSupported, "a view whose tables you may not read cannot be taken apart to be read over several shards").
		WithDetail("%s.", e.Message).
		WithHint("Grant SELECT on its tables, or make it a query that can run inside each shard: grouped by the shard key.")
}

// atFailed makes a participant whose transaction has failed the backend at hand. It returns
// false if there is none.
func (ls *legs) atFailed() bool {
	for i, c := range ls.s.held.parked {
		if c.Status() == wire.TxFailed {
			ls.s.held.switchTo(i)
			return true
		}
	}
	return false
}
