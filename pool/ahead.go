package pool

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/identity"
)

// ahead are logins to servers that may become the primary, made while the shard has none. A login costs the server a new process, which has to read the
// catalog first; where all clients wait for the first one, this is most of the time between a promotion and their first answer. A standby keeps its
// backends when it is promoted.
//
// A login made ahead only takes the place of the login: whatever a new backend is asked, it is asked when it is taken. See Lane.dialHost.
type ahead struct {
	mu sync.Mutex
	// dialled are the servers that were dialled since the shard lost its primary.
	dialled map[string]bool
	made    map[aheadKey][]early
	// underway are the logins that are being made.
	underway map[*under]bool
	// since is when the search was over; zero while it lasts.
	since time.Time
}

// aheadKey says what a login made ahead is good for.
type aheadKey struct {
	host string
	key  Key
	own  bool
}

// under is a login that is being made.
type under struct {
	aheadKey
	void bool // the login is not to be used: it is closed at its end
}

// early is a login made ahead.
type early struct {
	c    *Conn
	spec *directory.Shard // what the server was dialled by
}

const (
	// maxAhead bounds the logins made ahead to one server, and aheadPerLane those of one lane.
	maxAhead, aheadPerLane = 8, 4
	// aheadFor is for how long logins made ahead are kept when there is a primary again.
	aheadFor = 5 * time.Second
	// aheadLimit is how long one login may take, and how long its server may take to answer when the login is used.
	aheadLimit = 2 * time.Second
)

// Anticipate says that the shard has no primary, and which servers may be the next one. weft logs in to each of them, once in a search, as the
// sessions do that have used the shard. Anticipate does not wait for the logins.
func (sh *Shard) Anticipate(addresses []string) {
	if sh.Paused() {
		return // an operator wants no connection
	}
	for _, address := range sh.ahead.next(addresses) {
		p, plan := sh.pool, sh.foreseen(address)
		p.farewells.Go(p.conf().Guard("logins to a standby", func() {
			for _, k := range plan {
				if !sh.ahead.login(sh, k) {
					return
				}
			}
		}))
	}
}

// next returns the addresses that were not dialled in this search.
func (a *ahead) next(addresses []string) (fresh []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = time.Time{}
	for _, address := range addresses {
		if !a.dialled[address] {
			if a.dialled == nil {
				a.dialled = map[string]bool{}
			}
			a.dialled[address] = true
			fresh = append(fresh, address)
		}
	}
	return fresh
}

// foreseen lists the logins that will be wanted of a server: weft's own ones, which settle what is in doubt, and one for each lane that sessions use,
// the most used first; then another one for each, and so on.
func (sh *Shard) foreseen(address string) []aheadKey {
	type use struct {
		aheadKey
		refs int
	}
	var list []use
	for _, c := range sh.pool.processes.of(sh) {
		k := aheadKey{address, c.lane.key, true}
		if c.own && !slices.ContainsFunc(list, func(u use) bool { return u.aheadKey == k }) {
			list = append(list, use{k, 1})
		}
	}
	own := len(list)
	sh.mu.Lock()
	for key, l := range sh.lanes {
		if l.refs > 0 && l.welcome != nil {
			list = append(list, use{aheadKey{address, key, false}, l.refs})
		}
	}
	sh.mu.Unlock()
	slices.SortFunc(list[own:], func(a, b use) int { return cmp.Compare(b.refs, a.refs) })
	var out []aheadKey
	for n := range aheadPerLane {
		for _, u := range list {
			if u.refs > n {
				out = append(out, u.aheadKey)
			}
		}
	}
	return out[:min(len(out), maxAhead)]
}

// login makes one login ahead, and reports false if there is no use in making more.
func (a *ahead) login(sh *Shard, k aheadKey) bool {
	u := a.begin(k)
	if u == nil {
		return false
	}
	defer a.end(u)
	ctx, stop := context.WithTimeout(context.Background(), aheadLimit)
	defer stop()
	spec := sh.spec.Load()
	l := &Lane{shard: sh, key: k.key} // take has the lane of the session instead
	c, err := l.login(ctx, k.host, !k.own)
	if err != nil {
		return false
	}
	_ = c.Conn().SetDeadline(time.Now().Add(aheadLimit))
	_, err = c.Ask(askLogin, identity.Query) // reads the catalog
	_ = c.Conn().SetDeadline(time.Time{})
	if err != nil || !a.put(u, early{c, spec}) {
		c.hangUp()
		return false
	}
	return true
}

// begin notes that a login is being made, or returns nil if there is a primary again, or if the server has all logins that it may have: those of
// a search that has just been over stay.
func (a *ahead) begin(k aheadKey) *under {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for u := range a.underway {
		if u.host == k.host {
			n++
		}
	}
	for made, list := range a.made {
		if made.host == k.host {
			n += len(list)
		}
	}
	if !a.since.IsZero() || n >= maxAhead {
		return nil
	}
	if a.underway == nil {
		a.underway = map[*under]bool{}
	}
	u := &under{aheadKey: k}
	a.underway[u] = true
	return u
}

// end notes that a login is not being made any more.
func (a *ahead) end(u *under) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.underway, u)
}

// put keeps a login for whoever wants one, unless it is not to be used any more.
func (a *ahead) put(u *under, e early) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if u.void {
		return false
	}
	if a.made == nil {
		a.made = map[aheadKey][]early{}
	}
	a.made[u.aheadKey] = append(a.made[u.aheadKey], e)
	return true
}

// early returns a backend of the primary that was logged in to ahead, nil if there is none.
func (l *Lane) early(host string, own bool) *Conn {
	if p := l.shard.lead.primary.Load(); p == nil || *p != host {
		return nil // the server has not been promoted yet
	}
	return l.shard.ahead.take(l, host, own)
}

// take returns a backend that was logged in to ahead, nil if there is none.
func (a *ahead) take(l *Lane, host string, own bool) *Conn {
	k := aheadKey{host, l.key, own}
	for {
		a.mu.Lock()
		list := a.made[k]
		if len(list) == 0 {
			a.mu.Unlock()
			return nil
		}
		e := list[0]
		if a.made[k] = list[1:]; len(list) == 1 {
			delete(a.made, k)
		}
		a.mu.Unlock()
		if e.spec.ReachesAt(l.shard.spec.Load(), host) && e.c.alive() {
			e.c.lane = l
			return e.c
		}
		e.c.hangUp()
	}
}

// over says that there is a primary again. Logins are kept for a while: sessions come one after the other.
func (a *ahead) over(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dialled = nil
	if a.since.IsZero() {
		a.since = now
	}
}

// expire closes the logins that nobody has wanted, or all if an operator wants no connection.
func (a *ahead) expire(now time.Time, paused bool) {
	a.mu.Lock()
	late := len(a.made) > 0 && (paused || !a.since.IsZero() && now.Sub(a.since) > aheadFor)
	a.mu.Unlock()
	if late {
		a.drop(everyKey)
	}
}

// drop closes the logins of matching keys: a new one may be told something else, or be refused.
func (a *ahead) drop(match func(Key) bool) {
	a.dropAt(func(k aheadKey) bool { return match(k.key) })
}

// dropAt closes the logins that match.
func (a *ahead) dropAt(match func(aheadKey) bool) {
	var gone []early
	a.mu.Lock()
	for u := range a.underway {
		u.void = u.void || match(u.aheadKey)
	}
	for k, list := range a.made {
		if match(k) {
			gone = append(gone, list...)
			delete(a.made, k)
		}
	}
	a.mu.Unlock()
	for _, e := range gone {
		e.c.hangUp()
	}
}
