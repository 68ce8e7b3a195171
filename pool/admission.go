package pool

import (
	"sync"
	"time"
)

// A transaction of several shards holds a connection of one while it waits for that of
// another. Transactions that do so in different orders could wait for each other in a
// circle, which nobody but a timeout would break, and long before that most
// connections belong to transactions that wait. Three rules keep that from happening:
//
//  1. Whoever holds a connection already comes before newcomers in every queue.
//  2. Once such a one had to wait for a shard, newcomers that may need further shards
//     are let in only to a part of its connections, for a while.
//  3. If one waits nevertheless, it gets the right of way: a connection above the
//     limits, on this shard and on those that it comes to later. So it does not wait
//     for any other transaction's connection, and no circle closes. Few have the right
//     at a time. A connection above the limits is closed when it is given back.

const (
	// pressedFor is how long a shard keeps newcomers out after somebody who holds
	// connections had to wait for it.
	pressedFor = 10 * time.Second
	// rightAfter is how long one waits before it may get the right of way: stuckAfter if
	// all who have the shard's connections wait for others themselves.
	rightAfter = 500 * time.Millisecond
	stuckAfter = 20 * time.Millisecond
	// rightPause is how long nobody else gets the right while somebody has it: its
	// holder may wait for a lock of one that waits for a connection.
	rightPause = 100 * time.Millisecond
	// nudgeAfter is how often a newcomer that was kept out looks whether it still is.
	nudgeAfter = 100 * time.Millisecond
)

// admission is what one shard knows of those who hold connections of several. It is
// guarded by the shard's mu.
type admission struct {
	// firsts are the connections lent to newcomers that may need further ones, userFirsts
	// the same by user.
	firsts     int
	userFirsts map[string]int
	// holders are the sessions whose transactions hold connections, with how many.
	holders map[int32]int
	pressed time.Time // when somebody who holds connections had to wait last
}

// part is how many connections of a limit newcomers get under pressure.
func part(limit int) int { return max(1, limit-limit/2) }

// admits reports whether a connection of the lane may be lent to whoever wants one.
// mu is held.
func (sh *Shard) admits(l *Lane, want *Want) bool {
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

// lend counts a connection that is lent, or the right to dial one. mu is held.
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

// loanee is whom a connection is lent to, if others count who has it.
type loanee struct {
	session int32
	counted bool
	first   bool // it is the first one of a newcomer's
	right   bool // it was got by the right of way
}

// returned undoes lend. mu is held.
func (sh *Shard) returned(l *Lane, to loanee) {
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

// less counts one less.
func less[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// takeBack says that a connection is lent no more. mu is held.
func (sh *Shard) takeBack(c *Conn) {
	sh.returned(c.lane, c.lentTo)
	c.lentTo = loanee{}
}

// stuck reports whether all who have connections of the shard wait for others
// themselves. mu is held.
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

// enqueue puts a session in the queue: those who hold connections first, each in order
// of arrival. mu is held.
func (sh *Shard) enqueue(w *waiter) {
	if !w.want.Underway {
		sh.waiters = append(sh.waiters, w)
		return
	}
	sh.admission.pressed = w.since
	at := 0
	for at < len(sh.waiters) && sh.waiters[at].want.Underway {
		at++
	}
	sh.waiters = append(sh.waiters, nil)
	copy(sh.waiters[at+1:], sh.waiters[at:])
	sh.waiters[at] = w
}

// leave takes a session out of the queue. It reports false if it is not in it any more.
// mu is held.
func (sh *Shard) leave(w *waiter) bool {
	for i, o := range sh.waiters {
		if o == w {
			sh.waiters = append(sh.waiters[:i], sh.waiters[i+1:]...)
			return true
		}
	}
	return false
}

// nudge gives a session that has waited for a while what it may have by now: it reports
// true if that is a connection above the limits, which it has to dial.
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
	sh.total++
	sh.users[w.lane.key.User]++
	w.lane.open++
	w.to = sh.lend(w.lane, &w.want)
	w.to.right = true
	return true
}

// every is how often a session looks after itself while it waits; 0 for never.
func (w *waiter) every() time.Duration {
	switch {
	case w.want.Underway:
		return stuckAfter
	case w.want.Grows:
		return nudgeAfter
	}
	return 0
}

// above reports whether there are more connections than the limits allow. mu is held.
func (sh *Shard) above(l *Lane) bool {
	limit := sh.UserMost(l.key.User)
	return sh.total > sh.Most() || limit > 0 && sh.users[l.key.User] > limit
}

// rights are the sessions that have the right of way, with the number of connections
// that each got by it.
type rights struct {
	mu   sync.Mutex
	held map[int32]int
	last time.Time
	// waiting are the sessions that wait for a connection and hold others.
	waiting map[int32]bool
}

// wait says that a session which holds connections waits for another one, or no more.
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

// waits reports whether a session which holds connections waits for another one.
func (r *rights) waits(session int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting[session]
}

// take gives a session the right, if it has none and not too many others do.
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

// leave says that a session gave a connection back that it got by its right. With the
// last one the right ends.
func (r *rights) leave(session int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	less(r.held, session)
}
