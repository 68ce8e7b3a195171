package pool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
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
	pauses        pauses
	share         atomic.Int64 // see SetShare

	// mu guards everything below and the idle lists of the lanes. It is never
	// held across the network.
	mu    sync.Mutex
	lanes map[Key]*Lane
	total int            // connections open or being dialled
	users map[string]int // connections open or being dialled, by user
	idle  int            // connections in the idle lists of the lanes
	queue fair           // sessions that wait for a connection
	loans span
	stall stall
	salt  salt
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
	// Asker knows more of what the connection is for. It is asked if the session has to wait, and may
	// be nil.
	Asker Asker
	// Cancel ends the wait for a connection when it delivers.
	Cancel <-chan struct{}
	// Waited, if not nil, is raised by the nanoseconds that the session had to wait.
	Waited *int64
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

// waiter is a session in the queue. Its channel ready delivers a connection, or nil for the right
// to dial one.
type waiter struct {
	lane  *Lane
	want  Want
	ready chan *Conn
	since time.Time
	place place
	to    loanee // set when the session is served
}

// patience is how long waiters with a fitting connection may overtake the head of the queue,
// before a connection of another lane is closed for the head.
const patience = 50 * time.Millisecond

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
			sh.mu.Unlock()
			if err := g.await(ctx, sh, want); err != nil {
				return nil, err
			}
			continue
		}
		if c, to, ok := l.take(&want); ok {
			sh.mu.Unlock()
			if c == nil {
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
		return w.wait(ctx)
	}
}

// usable reports whether a connection that was idle until now may be lent.
func (c *Conn) usable() bool {
	return !c.givenUp.Load() && (time.Since(c.idleFrom) <= freshFor || c.alive())
}

// wait waits in the queue for a connection, or for the right to dial one.
func (w *waiter) wait(ctx context.Context) (*Conn, error) {
	sh := w.lane.shard
	timeout := time.NewTimer(w.bound(w.waited()))
	defer timeout.Stop()
	sh.pool.stats.Waits.Add(1)
	defer sh.queued(w.want.Session, w.want.Waited, w.since)
	var nudges <-chan time.Time
	if w.want.Underway {
		sh.pool.rights.wait(w.want.Session, true)
		defer sh.pool.rights.wait(w.want.Session, false)
	}
	if every := w.every(); every > 0 {
		tick := time.NewTicker(every)
		defer tick.Stop()
		nudges = tick.C
	}
	var err error
	for waits := true; waits; {
		waits = false
		select {
		case c := <-w.ready:
			return w.got(ctx, c)
		case now := <-nudges:
			if w.nudge(now) {
				return w.lane.openFor(ctx, w.to, w.want.Cancel)
			}
			waits = true
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-w.want.Cancel:
			err = pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		case <-timeout.C:
			waited := w.waited()
			if waited >= sh.pool.conf().QueueTimeout {
				err = sh.exhausted(w.lane.key.User)
			} else if err = sh.overloaded(w, waited); err == nil {
				timeout.Reset(w.bound(waited))
				waits = true
				continue
			}
			sh.pool.stats.Timeouts.Add(1)
		}
	}
	sh.mu.Lock()
	left := sh.leave(w)
	sh.mu.Unlock()
	if left {
		return nil, err
	}
	// The session was served at the same moment: take what it was given.
	return w.got(ctx, <-w.ready)
}

// exhausted is the error of a session that has waited for a connection in vain.
func (sh *Shard) exhausted(user string) error {
	sh.mu.Lock()
	own := sh.userFull(user)
	sh.mu.Unlock()
	e := pgerr.New(pgerr.TooManyConnections, "no connection to shard %q became free within %s", sh.Name, sh.pool.conf().QueueTimeout)
	if own {
		return e.WithDetail("All connections this user may have to the shard are in use.").
			WithHint("Raise pool.max_per_user or the user's max_connections, or look for long transactions with SHOW CLIENTS in the admin database.")
	}
	return e.WithDetail("All connections of this proxy to the shard are in use.").
		WithHint("Raise pool.max_per_shard, or look for long transactions with SHOW CLIENTS in the admin database.")
}

// waited is how long the session has waited, for this connection and others before.
func (w *waiter) waited() time.Duration {
	if !w.want.began.IsZero() {
		return time.Since(w.want.began)
	}
	return time.Since(w.since)
}

// bound is how long a session that has waited goes on waiting until the next look at the
// strain, or until it gives up. A session in the middle of a transaction is not refused for the strain.
func (w *waiter) bound(waited time.Duration) time.Duration {
	conf := w.lane.shard.pool.conf()
	rest := conf.QueueTimeout - waited
	if w.want.Underway || conf.OverloadWait <= 0 {
		return rest
	}
	if waited < conf.OverloadWait {
		return min(rest, conf.OverloadWait-waited)
	}
	return min(rest, max(conf.OverloadWait/4, 10*time.Millisecond))
}

// overloaded is the error of a session that has waited long enough in overload; nil if the session may
// go on waiting.
func (sh *Shard) overloaded(w *waiter, waited time.Duration) error {
	wait := sh.pool.conf().OverloadWait
	sh.mu.Lock()
	defer sh.mu.Unlock()
	again, now := sh.loans.bound(wait), time.Now()
	if w.want.Underway || wait <= 0 || w.place.in == nil || waited < again {
		return nil
	}
	if sh.stall.stands(w.since, now, sh.loans) || now.Sub(sh.stall.since(w.since)) < again {
		return nil
	}
	slot, tenant := w.place.strains()
	if !slot.over && !tenant.over {
		return nil
	}
	slot.refuses(now)
	tenant.refuses(now)
	sh.pool.stats.Refusals.Add(1)
	return pgerr.New(pgerr.InsufficientResources, "shard %q is overloaded: no connection became free within %s", sh.Name, waited.Round(10*time.Millisecond)).
		WithDetail("%d sessions wait for a connection to the shard. Nothing was sent to it. retry_after_ms=%d", sh.queue.waiting, again.Milliseconds()).
		WithHint("Try again after %s, and less often. weft.hot_keys and weft.hot_statements say what keeps the shard busy; pool.overload_wait is how long clients wait meanwhile.", again.Round(10*time.Millisecond))
}

// got returns the connection a session was served, or dials if it was served the right to.
func (w *waiter) got(ctx context.Context, c *Conn) (*Conn, error) {
	if c != nil {
		return c, nil
	}
	return w.lane.openFor(ctx, w.to, w.want.Cancel)
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

// reserve takes the right to dial one connection for the lane. If the user's limit or the
// shard's is reached, it closes an idle connection that counts towards it. mu is held.
func (sh *Shard) reserve(l *Lane) bool {
	user := l.key.User
	if sh.userFull(user) {
		if !sh.evict(func(o *Lane) bool { return o.key.User == user }) {
			return false
		}
	} else if sh.total >= sh.Most() && !sh.evict(func(*Lane) bool { return true }) {
		return false
	}
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
	if err != nil {
		if e := pgerr.From(err); e.Code != pgerr.ConnectionFailure {
			l.welcome = nil // the server answered and refused
		}
		sh.forget(l)
		to.from = time.Time{} // nothing was lent
		sh.returned(l, to)
		sh.serveQueue()
		return nil, err
	}
	c.epoch, c.lentTo = epoch, to
	l.welcome = cloneParams(c.params)
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

// serveQueue gives waiters what has become free: connections of their lane, else the right to dial.
// mu is held.
func (sh *Shard) serveQueue() {
	if sh.queue.waiting == 0 {
		return
	}
	now := time.Now()
	for sh.queue.waiting > 0 && (sh.idle > 0 || sh.total < sh.Most()) {
		var c *Conn
		w := sh.queue.serve(func(w *waiter, claim bool) (out outcome) {
			c, out = sh.offer(w, claim, now)
			return out
		})
		if w == nil && sh.idle > 0 {
			// Nobody wants what is free. But a waiter does not wait for ever for a connection of its own
			// lane while others are idle.
			w = sh.queue.serve(func(w *waiter, _ bool) (out outcome) {
				c, out = sh.offer(w, now.Sub(w.since) >= patience, now)
				return out
			})
		}
		if w == nil {
			break
		}
		if sh.lendTo(w, now); c != nil {
			c.lentTo = w.to
		}
		w.ready <- c
	}
}

// offer takes what fits a waiter, and tells its slot and tenant if it is served. mu is held.
func (sh *Shard) offer(w *waiter, claim bool, now time.Time) (*Conn, outcome) {
	c, out := sh.fit(w, claim, now)
	if out == served {
		w.place.cost = w.lane.costs.of(w.place.slot, w.to.salt)
		sh.stall.serves(w.since, now, sh.loans)
		slot, tenant := w.place.strains()
		wait := now.Sub(sh.stall.since(w.since))
		slot.served(now, wait, sh.loans)
		tenant.served(now, wait, sh.loans)
	}
	return c, out
}

// fit takes what is free for a waiter: an idle connection of its lane, or the right to dial one,
// for which the connection is nil. With claim a connection of another lane may be closed for it. mu is
// held.
func (sh *Shard) fit(w *waiter, claim bool, now time.Time) (*Conn, outcome) {
	if !sh.admits(w.lane, &w.want) {
		return nil, blocked
	}
	if c := w.lane.takeIdle(w.want); c != nil {
		return c, served
	}
	// Where the lane has a free connection, it has custom parameters that the session has not set. Each that comes
	// back may have.
	other := len(w.lane.idle) > 0
	if sh.total >= sh.Most() && !claim && !w.starves(now) && !(other && now.Sub(w.since) >= patience) {
		if other {
			return nil, unlike
		}
		return nil, short
	}
	if sh.reserve(w.lane) {
		return nil, served
	}
	if sh.userFull(w.lane.key.User) {
		return nil, blocked
	}
	return nil, short
}

// starves reports whether a waiter is passed over for so long that a connection of another lane may
// be closed for it: nobody of its lane was served meanwhile, or it comes before the others that wait. mu is
// held.
func (w *waiter) starves(now time.Time) bool {
	return now.Sub(w.since) >= patience && (w.place.class < classNormal || now.Sub(w.lane.served) >= patience)
}

// Welcome returns the parameters that a fresh connection of the lane reports. It acquires a
// connection if the lane has none open, so that a wrong user, database or option is reported
// when the client connects.
func (l *Lane) Welcome(ctx context.Context) (map[string]string, error) {
	l.shard.mu.Lock()
	w, open := l.welcome, l.open
	l.shard.mu.Unlock()
	if w != nil && open > 0 {
		return w, nil
	}
	c, err := l.Acquire(ctx, Want{Login: true})
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
