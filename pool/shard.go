package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/loop"
	"weft/pgerr"
	"weft/tally"
)

// Shard holds the connections to one shard, all lanes together, because the
// server's max_connections is one number.
type Shard struct {
	Name string
	pool *Pool
	spec atomic.Pointer[directory.Shard]
	// Times is how long the shard takes to answer, as measured by the callers that use it, and
	// Queued is how long sessions have waited for a connection to the shard.
	Times, Queued *tally.Histogram
	Stats         Stats
	pauses        pauses
	lead          lead
	ahead         ahead
	standbys      standbys
	standby       *standby     // set if this is one of the shard's standbys, see Standby
	share         atomic.Int64 // see SetShare
	limit         atomic.Int64 // see SetLimit

	// mu guards everything below and the idle lists of the lanes. It is never
	// held across the network.
	mu    sync.Mutex
	lanes map[Key]*Lane
	total int            // connections open or being dialled
	users map[string]int // connections open or being dialled, by user
	idle  int            // connections in the idle lists of the lanes
	kept  int            // connections that sessions keep between transactions
	dials int            // connections being dialled for sessions
	ramp  time.Time      // when the last search for a primary was over; zero after rampFor
	queue fair           // sessions that wait for a connection
	loans span
	stall stall
	admission
}

// Lane holds the connections of one key to one shard.
type Lane struct {
	shard *Shard
	key   Key

	// Guarded by shard.mu.
	idle    []*Conn // the most recently used is last
	open    int
	refs    int
	epoch   uint64 // connections dialled under an earlier epoch are not used again
	welcome map[string]string
	waiting int               // sessions in the queue
	lines   [classes][2]*flow // of the queue, by class and Want.Grows; nil where nobody waits
	costs   *costs            // nil until a session had to wait
	served  time.Time         // when a session in the queue was last served
}

// Want says which connection a session would like, and what for.
type Want struct {
	Session      int32
	Prefer       *Conn           // the connection the session used last, if still idle
	Placeholders map[string]bool // custom parameters the session has set itself
	Settings     *Settings       // settings the session needs
	// Underway says that the connection is for something that began when the count of drains was
	// Since. The session must not wait for a shard that is being paused: the pause waits for the
	// session.
	Underway bool
	Since    uint64
	// Grows says that this is the first connection of something that may need connections to
	// further shards before it gives this one back.
	Grows bool
	// Login says that a client logs in, and is to be told at once when a limit of its role or
	// database is reached.
	Login bool
	// Waits says that a client that logs in waits while the shard has no primary, as others do.
	Waits bool
	// Patient says that the wait for a primary is as long as outside of transactions, also with Underway.
	Patient bool
	// Asker knows more of what the connection is for. It is asked if the session has to wait, and may
	// be nil.
	Asker Asker
	// Task leaves its loop before it waits. It may be nil.
	Task *loop.Task
	// Cancel ends the wait for a connection when it delivers.
	Cancel <-chan struct{}
	// Waited, if not nil, is raised by the nanoseconds that the session had to wait.
	Waited *int64
	// search, if not nil, is what the session knows of a shard without a primary.
	search *search
	// heeds says that the limit of SetLimit holds, though the session holds connections.
	heeds bool
	// began, if set, is when the session began to wait, for other connections before this one.
	began time.Time
}

// Asker tells the queue what a session wants a connection for.
type Asker interface {
	// Ask returns a hash of the key that the statement is about, 0 if there is none, and how urgent
	// the statement is.
	Ask() (key uint64, priority Priority)
}

// queued counts the time that a session has waited for a connection to the shard.
func (sh *Shard) queued(session int32, waited *int64, since time.Time) {
	t := int64(time.Since(since))
	sh.Queued.Add(session, t)
	if waited != nil {
		*waited += t
	}
}

// freshFor is how long an idle connection is trusted without checking its socket. On a busy shard
// no connection is idle for longer, so the check costs nothing.
const freshFor = 5 * time.Millisecond

// OpenLane returns the lane for a key. CloseLane undoes it.
func (sh *Shard) OpenLane(key Key) *Lane {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.lanes[key]
	if l == nil {
		l = &Lane{shard: sh, key: key}
		sh.lanes[key] = l
	}
	l.refs++
	return l
}

// CloseLane says that the caller will not acquire from the lane any more.
func (l *Lane) CloseLane() {
	l.shard.mu.Lock()
	l.refs--
	l.shard.mu.Unlock()
}

// Key returns the key of the lane.
func (l *Lane) Key() Key { return l.key }

// Epoch changes whenever the lane's existing connections are not used any more because they may
// have begun with other settings.
func (l *Lane) Epoch() uint64 {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	return l.epoch
}

// Shard returns the shard of the lane.
func (l *Lane) Shard() *Shard { return l.shard }

// LoginRole returns the session_authorization of a fresh connection of the lane.
func (l *Lane) LoginRole() string {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	if r, ok := l.welcome["session_authorization"]; ok {
		return r
	}
	return l.shard.pool.conf().loginName(l.key.User)
}

// acquire is Acquire, but fails if the server has no connection left.
func (l *Lane) acquire(ctx context.Context, want Want) (*Conn, error) {
	sh := l.shard
	for {
		sh.mu.Lock()
		if g := sh.pauses.gate.Load(); g.stops(want) {
			yield := g.yield(want, time.Now())
			sh.mu.Unlock()
			want.Task.Leave()
			if want.seek(g); want.refuses(g) {
				return nil, sh.unled(want)
			}
			if err := g.await(ctx, sh, want, yield); err != nil {
				return nil, err
			}
			if yield > 0 {
				want.Since = 0 // passes now, unless the drain has ended
			}
			continue
		}
		if c, to, ok := l.take(&want); ok {
			sh.mu.Unlock()
			if c == nil {
				want.Task.Leave()
				return l.openFor(ctx, to, want.Cancel)
			}
			if !c.usable() {
				c.Discard()
				continue
			}
			return c, nil
		}
		w := &waiter{lane: l, want: want, ready: make(chan *Conn, 1), since: time.Now()}
		sh.enqueue(w)
		sh.mu.Unlock()
		want.Task.Leave()
		return w.wait(ctx)
	}
}

// usable reports whether a connection that was idle until now may be lent.
func (c *Conn) usable() bool {
	return !c.givenUp.Load() && (time.Since(c.idleFrom) <= freshFor || c.alive())
}

// takeIdle takes the best idle connection of the lane: the one the session used last, else one
// with the session's settings, else the most recently used. mu is held.
func (l *Lane) takeIdle(want Want) *Conn {
	n := len(l.idle)
	if n == 0 {
		return nil
	}
	at := -1
	if p := want.Prefer; p != nil && p.inIdle && p.lane == l && p.compatible(want.Placeholders) {
		for i := n - 1; i >= 0; i-- {
			if l.idle[i] == p {
				at = i
				break
			}
		}
	}
	// The most recently used connection is the warmest; but one that has the settings already
	// saves a round trip, so look a little further for it.
	const far = 8
	for i, fit := n-1, -1; at < 0; i-- {
		if i < 0 || (i < n-far && fit >= 0) {
			at = fit
			break
		}
		if c := l.idle[i]; c.compatible(want.Placeholders) {
			if c.settings.Equal(want.Settings) {
				at = i
			} else if fit < 0 {
				fit = i
			}
		}
	}
	if at < 0 {
		return nil
	}
	c := l.idle[at]
	copy(l.idle[at:], l.idle[at+1:])
	l.idle[n-1] = nil
	l.idle = l.idle[:n-1]
	l.shard.idle--
	c.inIdle = false
	return c
}

// reserve takes the right to dial one connection for the lane, unless as many are being dialled as may be at a time. If the user's limit or the
// shard's is reached, it closes an idle connection that counts towards it. mu is held.
func (sh *Shard) reserve(l *Lane) bool {
	if sh.dials >= sh.mostDials() {
		return false
	}
	user := l.key.User
	if sh.userFull(user) {
		if !sh.evict(func(o *Lane) bool { return o.key.User == user }) {
			return false
		}
	} else if sh.total >= sh.Most() && !sh.evict(func(*Lane) bool { return true }) {
		return false
	}
	sh.dials++
	sh.total++
	sh.users[user]++
	l.open++
	return true
}

// userFull reports whether a user has all connections it may have. mu is held.
func (sh *Shard) userFull(user string) bool {
	limit := sh.UserMost(user)
	return limit > 0 && sh.users[user] >= limit
}

// evict closes the idle connection unused for longest among the lanes that match. It reports
// false if there is none. mu is held.
func (sh *Shard) evict(match func(*Lane) bool) bool {
	var oldest *Conn
	for _, l := range sh.lanes {
		if len(l.idle) > 0 && match(l) && (oldest == nil || l.idle[0].idleFrom.Before(oldest.idleFrom)) {
			oldest = l.idle[0]
		}
	}
	if oldest == nil {
		return false
	}
	l := oldest.lane
	l.idle = append(l.idle[:0], l.idle[1:]...)
	sh.idle--
	oldest.inIdle = false
	sh.forget(l)
	oldest.hangUpLater() // not while the lock is held
	return true
}

// forget takes one connection of the lane off the books. mu is held.
func (sh *Shard) forget(l *Lane) {
	sh.total--
	l.open--
	if sh.users[l.key.User]--; sh.users[l.key.User] <= 0 {
		delete(sh.users, l.key.User)
	}
}

// openFor is open1, but gives up when cancel delivers.
func (l *Lane) openFor(ctx context.Context, to loanee, cancel <-chan struct{}) (*Conn, error) {
	if cancel == nil {
		return l.open1(ctx, to)
	}
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-cancel:
			stop(pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request"))
		case <-ctx.Done():
		}
	})
	c, err := l.open1(ctx, to)
	stop(nil)
	wg.Wait()
	if cause := (*pgerr.Error)(nil); errors.As(context.Cause(ctx), &cause) {
		if err == nil {
			c.Release()
		}
		return nil, cause
	}
	return c, err
}

// open1 dials with a right to dial that the shard has counted, and gives the right back if
// dialling fails.
func (l *Lane) open1(ctx context.Context, to loanee) (*Conn, error) {
	sh := l.shard
	sh.mu.Lock()
	epoch := l.epoch
	sh.mu.Unlock()
	c, err := l.dial(ctx, false)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.dials--
	if err != nil {
		if !suspicious(err) {
			l.welcome = nil // the server answered and refused
		}
		sh.forget(l)
		to.from = time.Time{} // nothing was lent
		sh.returned(l, to)
		sh.serveQueue()
		return nil, err
	}
	if c.epoch, c.lentTo = epoch, to; !c.stays() {
		c.epoch-- // not lent again
	}
	l.welcome = cloneParams(c.params)
	sh.serveQueue() // another may dial now
	return c, nil
}

// Open is how many connections within the limits are open or being dialled.
func (sh *Shard) Open() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.total
}

// Dedicated dials a connection that is outside the limits and never lent to another session: for
// work that waiting sessions wait for.
func (l *Lane) Dedicated(ctx context.Context) (*Conn, error) { return l.dedicated(ctx, false) }

func (l *Lane) dedicated(ctx context.Context, own bool) (*Conn, error) {
	c, err := l.dial(ctx, own)
	if err != nil {
		return nil, err
	}
	c.dedicated = true
	return c, nil
}

// release puts a clean connection back or hands it to a waiting session.
func (sh *Shard) release(c *Conn) {
	if c.dedicated {
		c.hangUp()
		return
	}
	now := time.Now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := c.lane
	sh.takeBack(c)
	if sh.above(l) || c.epoch != l.epoch || now.Sub(c.created) > sh.pool.conf().MaxLifetime {
		sh.forget(l)
		c.hangUpLater()
		sh.serveQueue()
		return
	}
	c.idleFrom, c.inIdle = now, true
	l.idle = append(l.idle, c)
	sh.idle++
	sh.serveQueue()
}

// closed takes a discarded connection off the books.
func (sh *Shard) closed(c *Conn) {
	if c.dedicated {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.takeBack(c)
	sh.forget(c.lane)
	sh.serveQueue()
}

// Welcome returns the parameters that a fresh connection of the lane reports. It acquires a
// connection if the lane has none open, so that a wrong user, database or option is reported
// when the client connects. While the shard has no primary, the last one's parameters count. If they are not known, Welcome fails, or
// with waits it waits for a primary.
func (l *Lane) Welcome(ctx context.Context, waits bool) (map[string]string, error) {
	l.shard.mu.Lock()
	w, open := l.welcome, l.open
	l.shard.mu.Unlock()
	if w != nil && (open > 0 || l.shard.Sought()) {
		return w, nil
	}
	c, err := l.Acquire(ctx, Want{Login: true, Waits: waits})
	if err != nil {
		return nil, err
	}
	if err := c.Apply(nil); err != nil {
		c.Discard()
		return nil, err
	}
	fresh := cloneParams(c.params)
	c.Release()
	return fresh, nil
}

func cloneParams(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
