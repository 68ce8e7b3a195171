package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A shard that stands still ends no statement, despite statement_timeout, lock_timeout and
// cancel requests. So weft counts, too. One goroutine looks at all sessions (see watch),
// and closes the backend under a session that has waited for it past the time at which the
// statement should have ended. What that backend does then is unknown, but its answer finds
// no reader when it wakes up. A statement pays for this with a few counters: when sessions
// begin to wait, and when they end (see wire.Stream.Waiting).

const (
	// giveUpAfter is how long a shard gets to end a statement by itself, after its time or
	// after a cancel request has reached it. A shard that has taken long to take the request
	// gets slowness times as long as that took: it is slow, and does not hang.
	giveUpAfter = 600 * time.Millisecond
	slowness    = 4
	// takeAfter is how long a shard gets to take a cancel request.
	takeAfter = 900 * time.Millisecond
	// stuckAfter is how long a session has waited for the same answer before it counts as
	// waiting for a silent shard, and not for the next of many answers.
	stuckAfter = 300 * time.Millisecond
	// deafAfter is how long a shard may take to answer weft's own question before it counts
	// as hung.
	deafAfter = 500 * time.Millisecond
	// absentAfter is how long a session has waited before weft looks whether its client has
	// left.
	absentAfter = 400 * time.Millisecond
)

// Values of a timeout that are not durations.
const (
	timeoutOfLogin = -1 // the value that the backend's login has
	timeoutUnknown = 0  // no timeout, or weft does not know it: only the shard counts
)

// patience bounds how long a session waits for shards.
type patience struct {
	// queues is odd while the session waits for a connection.
	queues atomic.Uint32
	// stirred: due or given has been set since the client's last message.
	stirred atomic.Bool
	// timeouts are the statement_timeout and lock_timeout that hold for all statements that
	// have been sent. statements is the number of these statements: a shard applies a
	// timeout to each of them.
	timeouts   [2]atomic.Int64
	statements atomic.Int64
	// moot: nothing that the session does would last if its client were gone.
	moot atomic.Bool

	// What the timeouts were computed from. Only the session touches these fields.
	known      bool // the timeouts have been computed
	settings   *pool.Settings
	sets       int
	flux       bool // the transaction might have changed settings in ways that only its backend knew
	savepoints bool // a command about savepoints may have taken settings back since

	// Guarded by the session's mu.
	lent  []*pool.Conn // backends that the session has borrowed; some may have been given back
	due   time.Time    // when the session's work must have ended; zero: no limit
	why   *pgerr.Error // why the session's work must end
	given *pgerr.Error // why a backend was closed

	// Only the watcher, and the goroutine that suspect starts, touch these fields.
	seen  any // the backend that the session waits for
	wait  wire.Wait
	queue uint32
	since time.Time
	asked atomic.Bool // a goroutine finds out whether the shard hangs
}

// saw notes that a text sets, releases or rolls back savepoints: a rollback takes settings
// back.
func (p *patience) saw(f *parser.Facts) {
	if f != nil && f.Effects&parser.Savepoint != 0 {
		p.savepoints = true
	}
}

// heedTimeouts notes the timeouts that hold for the messages that are about to be sent.
func (re *reach) heedTimeouts() {
	p, d := &re.patience, &re.s.record.done
	flux := d.bits&(parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll) != 0
	if !p.known || p.settings != re.s.record.settings || p.sets != len(d.sets) || p.flux != flux || p.savepoints {
		p.known, p.settings, p.sets, p.flux = true, re.s.record.settings, len(d.sets), flux
		for i, name := range parser.TimeoutSettings {
			p.timeouts[i].Store(int64(re.timeout(name, flux)))
		}
		p.savepoints = p.savepoints && (len(d.sets) > 0 || flux)
	}
	if n := re.underWay(); n != p.statements.Load() {
		p.statements.Store(n)
	}
	if moot := re.isMoot(); moot != p.moot.Load() {
		p.moot.Store(moot)
	}
}

// isMoot reports whether the session's work would come to nothing without its client: it
// only reads, or is in a transaction that would not be committed.
func (re *reach) isMoot() bool {
	if re.s.commit.underway || len(re.s.client.Buffered()) > 0 {
		return false // the client may have sent more to do
	}
	return re.s.tx.isOpen() && !re.s.implicit.isOpen() || re.s.held.conn != nil && re.s.held.conn.Status() == wire.TxActive || !re.s.lost.mayHaveWritten(true)
}

// timeout returns a timeout that is in effect, as far as the session knows.
func (re *reach) timeout(name string, flux bool) time.Duration {
	if flux {
		return timeoutUnknown
	}
	for _, set := range slices.Backward(re.s.record.done.sets) {
		switch {
		case set.Name != name:
		case set.Reset && !re.patience.savepoints:
			return timeoutOfLogin
		case set.Value == "" || re.patience.savepoints:
			return timeoutUnknown
		default:
			return gucDuration(strings.ReplaceAll(set.Value, " ", ""))
		}
	}
	if value, set := re.s.record.settings.Get(name); set {
		return gucDuration(strings.ReplaceAll(value, " ", ""))
	}
	return timeoutOfLogin
}

// underWay counts the statements that the session waits for at once.
func (re *reach) underWay() int64 {
	n := int64(0)
	for i := re.s.pipe.ops.head; i < len(re.s.pipe.ops.ops); i++ {
		switch o := &re.s.pipe.ops.ops[i]; {
		case o.kind == opExecute:
			n++
		case o.kind == opQuery && re.s.account.run.facts != nil:
			n += int64(re.s.account.run.facts.Statements)
		}
	}
	return max(n, 1)
}

// noteBorrowed notes a backend that the session has borrowed.
func (re *reach) noteBorrowed(c *pool.Conn) {
	const many = 8
	re.mu.Lock()
	defer re.mu.Unlock()
	p := &re.patience
	if slices.Contains(p.lent, c) {
		return
	}
	if len(p.lent) >= many {
		p.lent = slices.DeleteFunc(p.lent, func(c *pool.Conn) bool { return c.Borrower() != re.s.id })
	}
	p.lent = append(p.lent, c)
}

// endsSoon sets the time by which the session's work must end, and why: shards are about to be
// told. It returns that time, zero if it was set before. The session's mu is held.
func (p *patience) endsSoon(why *pgerr.Error) (due time.Time) {
	if !p.due.IsZero() {
		return time.Time{}
	}
	p.due, p.why = time.Now().Add(takeAfter), why
	p.stirred.Store(true)
	return p.due
}

// told notes that shards have been told to end the session's work, which was due at a time that
// endsSoon has set. What they do from now on is up to them.
func (re *reach) told(due time.Time) {
	re.mu.Lock()
	defer re.mu.Unlock()
	if p := &re.patience; !due.IsZero() && p.due.Equal(due) {
		p.due = time.Now().Add(max(giveUpAfter, slowness*(takeAfter-time.Until(due))))
	}
}

// calmDown forgets what concerned an earlier message of the client.
func (re *reach) calmDown() {
	re.mu.Lock()
	defer re.mu.Unlock()
	p := &re.patience
	p.due, p.why, p.given = time.Time{}, nil, nil
	p.stirred.Store(false)
}

// gaveUp reports whether weft closed a backend that the session waited for.
func (re *reach) gaveUp() bool {
	if !re.patience.stirred.Load() {
		return false
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	return re.patience.given != nil
}

// asGivenUp returns an error as the client is to hear it: if a backend is lost because weft
// has closed it, the reason for closing it. What the backend may have done stays in doubt.
func (re *reach) asGivenUp(e *pgerr.Error) *pgerr.Error {
	if !re.patience.stirred.Load() || e.Code != pgerr.QueryCanceled && e.Code != pgerr.ConnectionFailure {
		return e
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	cause := re.patience.given
	if cause == nil && e.Code == pgerr.ConnectionFailure {
		// A backend that does not take a cancel request is closed by the request's sender.
		cause = re.patience.why
	}
	if cause == nil {
		return e
	}
	told := *cause
	if e.IsFatal() {
		told.Severity = e.Severity
	}
	return told.WithCause(e)
}

// whyGivenUp is asGivenUp for any error.
func (re *reach) whyGivenUp(err error) error {
	e := pgerr.From(err)
	if told := re.asGivenUp(e); told != e {
		return told
	}
	return err
}

// hurry gives up on shards that sessions have waited for past their time. It is called every
// watchInterval. Time in which weft itself stood still, because its machine is too busy, does not
// count as waiting: the answers may have come meanwhile.
func (r *register) hurry(now time.Time) {
	stood := now.Sub(r.looked) - watchInterval
	if r.looked.IsZero() || stood < watchInterval {
		stood = 0
	}
	r.looked = now
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sess := range r.sessions {
		sess.reach.mu.Lock()
		sess.reach.patience.excuse(stood)
		sess.reach.lookAround(now)
		sess.reach.mu.Unlock()
	}
}

// excuse puts off what is due by the time that weft stood still. The session's mu is held.
func (p *patience) excuse(stood time.Duration) {
	if stood == 0 {
		return
	}
	p.since = p.since.Add(stood)
	if !p.due.IsZero() {
		p.due = p.due.Add(stood)
	}
}

// awaited returns the backend that the session waits for. mu is held.
func (re *reach) awaited() (*pool.Conn, wire.Wait) {
	for _, c := range re.patience.lent {
		if w := c.Waiting(); w != (wire.Wait{}) && c.Borrower() == re.s.id {
			return c, w
		}
	}
	for _, c := range re.legs { // a backend that puts rows together is not borrowed
		if w := c.Waiting(); w != (wire.Wait{}) {
			return c, w
		}
	}
	return nil, wire.Wait{}
}

// lookAround gives up on the shard that the session waits for, if its time is over. mu is
// held.
func (re *reach) lookAround(now time.Time) {
	p := &re.patience
	c, w := re.awaited()
	queue := p.queues.Load()
	if c == nil && queue%2 == 0 {
		p.seen = nil
		return
	}
	if any(c) != p.seen || w != p.wait || queue != p.queue {
		p.seen, p.wait, p.queue, p.since = c, w, queue, now
		return
	}
	stuck := now.Sub(p.since)
	if stuck < stuckAfter {
		return
	}
	statement, lock, n := p.limit(0, c), p.limit(1, c), time.Duration(p.statements.Load())
	switch {
	case !p.due.IsZero() && now.After(p.due):
		re.giveUpOn(c, p.why)
	case statement > 0 && stuck > statement*n+giveUpAfter:
		re.giveUpOn(c, errStatementTimeout())
	case statement > 0 && stuck > statement+stuckAfter && n > 1:
		// The shard may be at a later statement: it may hold answers back until all is done.
		re.suspect(c, errStatementTimeout())
	case lock > 0 && stuck > lock+stuckAfter:
		re.suspect(c, errLockTimeout())
	case stuck > absentAfter && p.due.IsZero() && absent(re.s.client.Conn()):
		if p.moot.Load() {
			re.s.srv.crew.Go(re.s.srv.guarded("cancel", re.cancel))
			return
		}
		re.suspect(c, errCancelled())
	}
}

// limit returns the i-th timeout as it holds for a statement on a backend.
func (p *patience) limit(i int, c *pool.Conn) time.Duration {
	d := time.Duration(p.timeouts[i].Load())
	if d == timeoutOfLogin {
		if d = 0; c != nil {
			d = gucDuration(c.Timeout(i))
		}
	}
	return d
}

// errLockTimeout is the error of a statement that has waited too long for a lock.
func errLockTimeout() *pgerr.Error {
	e := pgerr.New(pgerr.LockNotAvailable, "canceling statement due to lock timeout")
	e.File, e.Routine = "postgres.c", "ProcessInterrupts"
	return e
}

// giveUpOn closes the backend that the session waits for, and those legs that do not take a
// cancel request either; or ends the wait for a connection. mu is held.
func (re *reach) giveUpOn(c *pool.Conn, why *pgerr.Error) {
	p := &re.patience
	p.given, p.seen = why, nil
	p.stirred.Store(true)
	if c == nil {
		select {
		case re.cancelled <- struct{}{}:
		default:
		}
		return
	}
	re.s.log.Warn("a shard does not end a statement, connection given up", "shard", c.Shard(), "pid", c.PID(), "why", why.Message)
	c.GiveUp()
	for _, other := range re.legs {
		if other != c && other.Cancelling() {
			other.GiveUp()
		}
	}
}

// suspect finds out whether a shard hangs, or the backend there that the session waits for,
// and gives up on the backend if so. mu is held.
func (re *reach) suspect(c *pool.Conn, why *pgerr.Error) {
	p := &re.patience
	if c == nil || !p.asked.CompareAndSwap(false, true) {
		return
	}
	wait, lock := p.wait, why.Code == pgerr.LockNotAvailable
	re.s.srv.crew.Go(re.s.srv.guarded("hung shard", func() {
		defer p.asked.Store(false)
		if !re.s.srv.hangs(c, lock) {
			return
		}
		re.mu.Lock()
		defer re.mu.Unlock()
		if p.seen == any(c) && p.wait == wait {
			re.giveUpOn(c, why)
		}
	}))
}

// hangs reports whether a shard does not answer, or, with lock, whether the backend there
// still waits for a lock: the backend should have given up by itself.
func (s *Server) hangs(c *pool.Conn, lock bool) bool {
	ctx, stop := context.WithTimeout(s.ctx, deafAfter)
	defer stop()
	own, err := s.dialService(ctx, c.Shard(), c.Lane().Key().Database)
	if err != nil {
		return ctx.Err() != nil && s.ctx.Err() == nil
	}
	defer own.Terminate()
	defer context.AfterFunc(ctx, own.(*pool.Spare).Abandon)()
	rows, err := own.Exec("SELECT wait_event_type = 'Lock' FROM pg_catalog.pg_stat_activity WHERE pid = " + strconv.Itoa(int(c.PID())))
	if err != nil {
		return ctx.Err() != nil && s.ctx.Err() == nil
	}
	return lock && len(rows) == 1 && rows[0][0] == "t"
}

// absent reports whether the client has closed its connection.
func absent(conn net.Conn) bool {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) {
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(fds[:], 0)
		gone = err == nil && n > 0
	})
	return gone
}
