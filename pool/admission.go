package pool

import (
	"sync"
	"time"
)

// A transaction on several shards holds a connection to one shard while it waits for a
// connection to another. Transactions that visit shards in different orders could wait for
// each other in a circle, which only a timeout would break, and long before that most
// connections would belong to transactions that wait. Three rules prevent this:
//
//  1. A session that already holds a connection comes before newcomers in every queue.
//  2. Once such a session had to wait for a shard, newcomers that may need further shards
//     get only a part of the shard's connections, for a while.
//  3. A session that still waits gets the right of way: a connection above the limits, on
//     this shard and on the shards that its transaction comes to later. So the session does
//     not wait for another transaction's connection, and no circle closes. Few sessions have
//     the right at a time. A connection above the limits is closed when it is given back.

const (
	// pressedFor is how long a shard keeps newcomers out after a session that holds
	// connections had to wait for it.
	pressedFor = 10 * time.Second
	// rightAfter is how long a session waits before it may get the right of way. The wait is
	// stuckAfter if all holders of the shard's connections wait for connections themselves.
	rightAfter = 500 * time.Millisecond
	stuckAfter = 20 * time.Millisecond
	// rightPause is how long no other session gets the right after one session got it: its
	// holder may be waiting for a lock of a session that waits for a connection.
	rightPause = 100 * time.Millisecond
	// nudgeAfter is how often a newcomer that was kept out checks whether it is let in now.
	nudgeAfter = 100 * time.Millisecond
)

// admission is what one shard knows of the sessions whose transactions hold, or may come to
// need, connections to several shards. The shard's mu guards it.
type admission struct {
	// firsts counts the connections lent to newcomers that may need further ones, userFirsts
	// counts the same by user.
	firsts     int
	userFirsts map[string]int
	// holders counts the shard's connections lent to each such session.
	holders map[int32]int
	pressed time.Time // when a session that holds connections last had to wait
}

// part is how many of the connections under a limit newcomers get under pressure.
func part(limit int) int { return max(1, limit-limit/2) }

// admits reports whether the session that sent want may be lent a connection of the lane.
// mu is held.
func (sh *Shard) admits(l *Lane, want *Want) bool {
	if (!want.Underway || want.heeds) && sh.full() {
		return false
	}
	a := &sh.admission
	if !want.Grows || a.pressed.IsZero() {
		return true
	}
	if time.Since(a.pressed) > pressedFor {
		a.pressed = time.Time{}
		return true
	}
	if a.firsts >= part(sh.Most()) {
		return false
	}
	limit := sh.UserMost(l.key.User)
	return limit <= 0 || a.userFirsts[l.key.User] < part(limit)
}

// lend counts a connection that is lent, or a granted right to dial one. mu is held.
func (sh *Shard) lend(l *Lane, want *Want) loanee {
	if !want.Grows && !want.Underway {
		return loanee{}
	}
	a := &sh.admission
	if a.holders == nil {
		a.holders, a.userFirsts = map[int32]int{}, map[string]int{}
	}
	a.holders[want.Session]++
	if want.Grows {
		a.firsts++
		a.userFirsts[l.key.User]++
	}
	return loanee{session: want.Session, first: want.Grows, counted: true}
}

// loanee is the session that a connection is lent to, if admission counts the loan.
type loanee struct {
	session int32
	counted bool
	first   bool // the connection is the first of a newcomer's transaction
	right   bool // the connection was got by the right of way
	// key and from say what the time of the loan is charged to, and when it began. They are set if the
	// session had to wait.
	key  uint64
	from time.Time
}

// lendTo is lend for a session in the queue. mu is held.
func (sh *Shard) lendTo(w *waiter, now time.Time) {
	w.to = sh.lend(w.lane, &w.want)
	w.to.key, w.to.from = w.place.key, now
	w.lane.served = now
}

// returned undoes lend. mu is held.
func (sh *Shard) returned(l *Lane, to loanee) {
	if !to.from.IsZero() {
		took := time.Since(to.from)
		sh.loans.lasted(took)
		if l.costs == nil {
			l.costs = &costs{}
		}
		l.costs.took(to.key, int64(took))
	}
	if !to.counted {
		return
	}
	a := &sh.admission
	less(a.holders, to.session)
	if to.first {
		a.firsts--
		less(a.userFirsts, l.key.User)
	}
	if to.right {
		sh.pool.rights.leave(to.session)
	}
}

// less lowers the count of a key by one, and drops the key at zero.
func less[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// takeBack notes that a connection is no longer lent. mu is held.
func (sh *Shard) takeBack(c *Conn) {
	sh.returned(c.lane, c.lentTo)
	c.lentTo = loanee{}
	if c.kept {
		c.kept = false
		sh.kept--
	}
}

// stuck reports whether all sessions that hold connections to the shard wait for other
// connections themselves. mu is held.
func (sh *Shard) stuck() bool {
	n := 0
	for session, held := range sh.admission.holders {
		if !sh.pool.rights.waits(session) {
			return false
		}
		n += held
	}
	return n >= sh.total
}

// enqueue puts a session in the queue. mu is held.
func (sh *Shard) enqueue(w *waiter) {
	p := &w.place
	priority := sh.pool.conf().Users[w.lane.key.User].Priority
	if a := w.want.Asker; a != nil {
		var most Priority
		p.key, most = a.Ask()
		priority = min(priority, most)
	}
	p.class = priority.class()
	if w.want.Underway {
		// Sessions that hold connections come first, in order of arrival.
		if sh.dials < sh.mostDials() { // else it waits for a login, not for other sessions
			sh.admission.pressed = w.since
		}
		p.class, p.key = classUnderway, 0
	}
	sh.queue.add(w)
}

// leave takes a session out of the queue. It reports false if the session is not in the
// queue any more. mu is held.
func (sh *Shard) leave(w *waiter) bool { return sh.queue.remove(w) }

// nudge serves the queue, and gives a session that has waited long enough the right of way.
// It reports true if the session may now dial a connection above the limits.
func (w *waiter) nudge(now time.Time) bool {
	sh := w.lane.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.serveQueue()
	if waited := now.Sub(w.since); !w.want.Underway || waited < stuckAfter || waited < rightAfter && !sh.stuck() {
		return false
	}
	if !sh.pool.rights.take(w.want.Session, now, max(1, sh.Most()/8)) {
		return false
	}
	if !sh.leave(w) {
		sh.pool.rights.leave(w.want.Session)
		return false
	}
	sh.admission.pressed = now
	sh.dials++ // also above MaxDials
	sh.total++
	sh.users[w.lane.key.User]++
	w.lane.open++
	w.to = sh.lend(w.lane, &w.want)
	w.to.right = true
	return true
}

// every is how often a waiting session is nudged; 0 for never.
func (w *waiter) every() time.Duration {
	switch {
	case w.want.Underway:
		return stuckAfter
	case w.want.Grows:
		return nudgeAfter
	}
	return 0
}

// above reports whether the shard or the lane's user has more connections than the limits
// allow. mu is held.
func (sh *Shard) above(l *Lane) bool {
	limit := sh.UserMost(l.key.User)
	return sh.total > sh.Most() || limit > 0 && sh.users[l.key.User] > limit
}

// rights holds the sessions that have the right of way, with the number of connections that
// each got by the right.
type rights struct {
	mu   sync.Mutex
	held map[int32]int
	last time.Time
	// waiting holds the sessions that wait for a connection and hold others.
	waiting map[int32]bool
}

// wait notes whether a session that holds connections waits for another one.
func (r *rights) wait(session int32, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !waits {
		delete(r.waiting, session)
		return
	}
	if r.waiting == nil {
		r.waiting = map[int32]bool{}
	}
	r.waiting[session] = true
}

// waits reports whether a session that holds connections waits for another one.
func (r *rights) waits(session int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[session]
}

// take lets a session have one more connection by the right of way: always if the session has
// the right already, else if fewer than most sessions have it and rightPause has passed.
func (r *rights) take(session int32, now time.Time, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = map[int32]int{}
	}
	n, has := r.held[session]
	if !has && len(r.held) > 0 && (len(r.held) >= most || now.Sub(r.last) < rightPause) {
		return false
	}
	if !has {
		r.last = now
	}
	r.held[session] = n + 1
	return true
}

// leave notes that a session gave back a connection that it got by the right of way. The
// right ends with the last such connection.
func (r *rights) leave(session int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	less(r.held, session)
}
