package pool

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/identity"
	"weft/pgerr"
	"weft/primary"
	"weft/tally"
)

// Sessions may read the standbys of a shard. Each standby is a Shard of its own beside the primary's: it has lanes, limits and a queue of its
// own, because it is a server with its own max_connections. A session asks the primary's Shard for a standby that is fit for a
// read, and then borrows from a lane there as usual. A standby is never waited for: if it cannot be reached, the session
// looks for another one.

// standbys are the standbys of a shard.
type standbys struct {
	// view returns what is known of the servers of the shard, nil if they are not watched.
	view atomic.Pointer[func() *primary.View]

	mu        sync.Mutex
	byAddress map[string]*Shard
}

// standby is what a Shard that is a standby has beside other shards.
type standby struct {
	of        *Shard // the shard of the primary
	address   string
	ejections atomic.Int64 // how often the standby was ejected

	mu    sync.Mutex
	eject ejection
	slack bool // the standby was too far behind, and has not caught up yet
}

// Read says how up to date a standby has to be for a read.
type Read struct {
	Now time.Time
	// After is a time: what the primary had committed before it must be there. Zero: no such time.
	After time.Time
	// LSN is a place in the log of the timeline that must have been replayed. 0: no such place.
	LSN      primary.LSN
	Timeline uint32
	// MaxLag and MaxBytes are how far a standby may be behind. 0: any distance. A standby that was further behind is not fit before
	// it is within half the distance.
	MaxLag   time.Duration
	MaxBytes uint64
	// Zone is that of the proxy. Standbys there come first. Empty: no zone.
	Zone string
	// Not is a standby that has just failed, nil for none.
	Not *Shard
}

// Watched says where to learn what is known of the servers of the shard.
func (sh *Shard) Watched(view func() *primary.View) { sh.standbys.view.Store(&view) }

// View returns what is known of the servers of the shard, nil if they are not watched.
func (sh *Shard) View() *primary.View {
	if view := sh.standbys.view.Load(); view != nil {
		return (*view)()
	}
	return nil
}

// IsStandby reports whether the connections of the shard are to one of its standbys.
func (sh *Shard) IsStandby() bool { return sh.standby != nil }

// Address returns the address of a standby, and "" for a primary.
func (sh *Shard) Address() string {
	if sh.standby == nil {
		return ""
	}
	return sh.standby.address
}

// Standby returns a standby of the shard that is fit for a read, nil if there is none. Of two that are chosen at random the one with less
// work is returned.
func (sh *Shard) Standby(r *Read) *Shard {
	v := sh.View()
	if v == nil {
		return nil
	}
	var pick picked
	spec := sh.spec.Load()
	for i := range v.Servers {
		s := &v.Servers[i]
		if s.Role != primary.Follows {
			continue
		}
		if at := spec.Server(s.Address); !at.NoReads && v.Has(s) {
			if c := sh.standbyAt(s.Address); c != r.Not && c.standby.fit(s, r) {
				pick.add(c, at, r.Zone)
			}
		}
	}
	return pick.choose(r.Now)
}

// Unfit says why no standby of the shard is fit for a read.
func (sh *Shard) Unfit(r *Read) string {
	v := sh.View()
	if v == nil {
		return "its servers are not watched"
	}
	var said []string
	spec := sh.spec.Load()
	for i := range v.Servers {
		s := &v.Servers[i]
		if s.Role == primary.Leads {
			continue
		}
		why := s.Seen.Kind.String()
		if s.Role == primary.Follows {
			why = sh.why(v, s, spec.Server(s.Address), r)
		}
		said = append(said, s.Address+" "+why)
	}
	if len(said) == 0 {
		return "it has no standby"
	}
	return strings.Join(said, "; ")
}

// why says why a standby is not fit for a read.
func (sh *Shard) why(v *primary.View, s *primary.Server, at directory.Server, r *Read) string {
	switch {
	case at.NoReads:
		return "is not for reads"
	case v.Ruling.Accepts(v.Generation.Timeline):
		return "may follow a primary that an operator has decided against: standbys are read after the next promotion"
	case !v.Has(s):
		return fmt.Sprintf("is on timeline %d, not %d", s.Seen.Generation.Timeline, v.Generation.Timeline)
	case sh.standbyAt(s.Address).standby.left():
		return "was ejected by an operator"
	case sh.standbyAt(s.Address).standby.ejected(r.Now):
		return "could not be reached several times"
	case s.Fresh.IsZero():
		return "has replayed less than any probe has seen of the primary"
	case s.Fresh.Before(r.After) || s.Seen.LSN < r.LSN:
		return fmt.Sprintf("has replayed up to %s, which is too little for this read", s.Seen.LSN)
	case r.Now.Sub(s.Fresh) > r.MaxLag/2 && r.MaxLag > 0:
		return fmt.Sprintf("is up to %s behind", r.Now.Sub(s.Fresh).Round(time.Millisecond))
	case s.LagBytes > 0:
		return fmt.Sprintf("is %d bytes behind", s.LagBytes)
	}
	return "cannot be reached"
}

// standbyAt returns the connections to the standby at an address.
func (sh *Shard) standbyAt(address string) *Shard {
	sb := &sh.standbys
	sb.mu.Lock()
	defer sb.mu.Unlock()
	c := sb.byAddress[address]
	if c == nil {
		c = &Shard{
			Name: sh.Name, pool: sh.pool, lanes: map[Key]*Lane{}, users: map[string]int{}, standby: &standby{of: sh, address: address},
			Times: tally.NewHistogram(tally.Durations), Queued: tally.NewHistogram(tally.Durations),
		}
		c.spec.Store(sh.spec.Load())
		c.pauses.all = sh.pool.allPaused()
		c.pauses.set()
		if sb.byAddress == nil {
			sb.byAddress = map[string]*Shard{}
		}
		sb.byAddress[address] = c
	}
	return c
}

// Standbys returns the standbys of the shard that were read.
func (sh *Shard) Standbys() []*Shard {
	sh.standbys.mu.Lock()
	defer sh.standbys.mu.Unlock()
	var out []*Shard
	for _, c := range sh.standbys.byAddress {
		out = append(out, c)
	}
	return out
}

// fit reports whether a standby is up to date enough for a read, and can be reached as far as is known.
func (b *standby) fit(s *primary.Server, r *Read) bool {
	if s.Fresh.IsZero() || s.Fresh.Before(r.After) || s.Seen.LSN < r.LSN {
		return false
	}
	if b.ejected(r.Now) {
		return false
	}
	behind := r.Now.Sub(s.Fresh)
	within := func(part int64) bool {
		return (r.MaxLag == 0 || behind <= r.MaxLag/time.Duration(part)) && (r.MaxBytes == 0 || s.LagBytes <= r.MaxBytes/uint64(part))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !within(1):
		b.slack = true
	case within(2):
		b.slack = false
	}
	return !b.slack
}

// ejected reports whether a standby is left alone because it could not be reached.
func (b *standby) ejected(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.eject.is(now)
}

// left reports whether an operator has said that a standby is left alone.
func (b *standby) left() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.eject.byHand
}

// Eject lets no transaction read the standby at an address of the shard, until Admit. Connections that are free are closed, the others when their
// transactions have ended.
func (sh *Shard) Eject(address string) {
	c := sh.standbyAt(address)
	c.standby.mu.Lock()
	c.standby.eject.byHand = true
	c.standby.mu.Unlock()
	c.retire(everyKey)
}

// Admit undoes Eject, and ends the pause of a standby that could not be reached.
func (sh *Shard) Admit(address string) {
	c := sh.standbyAt(address)
	c.standby.mu.Lock()
	defer c.standby.mu.Unlock()
	c.standby.eject.admit()
}

// Ejected reports whether the standby at an address is left alone at a time.
func (sh *Shard) Ejected(address string, now time.Time) bool {
	sh.standbys.mu.Lock()
	c := sh.standbys.byAddress[address]
	sh.standbys.mu.Unlock()
	return c != nil && c.standby.ejected(now)
}

// Failed notes that a standby could not be reached, or was lost in the middle of a read.
func (sh *Shard) Failed() {
	if b := sh.standby; b != nil {
		b.mu.Lock()
		ejects := b.eject.failed(time.Now())
		b.mu.Unlock()
		if ejects {
			b.ejections.Add(1)
			sh.pool.conf().Log.Warn("a standby is not read for a while", "shard", sh.Name, "address", b.address)
		}
	}
}

// Ejections is how often standbys of the shard were left alone because they could not be reached.
func (sh *Shard) Ejections() (n int64) {
	for _, c := range sh.Standbys() {
		n += c.standby.ejections.Load()
	}
	return n
}

// answered notes that a login to a standby has succeeded.
func (b *standby) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.eject.answered()
}

// busy is how much work a standby has: the connections that sessions have or wait for.
func (sh *Shard) busy() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.lent() + sh.queue.waiting
}

// maxCandidates bounds the standbys that one read looks at.
const maxCandidates = 16

// candidate is a standby that is fit for a read.
type candidate struct {
	sh     *Shard
	weight float64
	near   bool
}

// picked are the standbys that are fit for a read.
type picked struct {
	list [maxCandidates]candidate
	n    int
	near int // how many are in the proxy's zone
}

func (p *picked) add(c *Shard, at directory.Server, zone string) {
	if p.n == maxCandidates {
		return
	}
	near := zone != "" && at.Zone == zone
	if near {
		p.near++
	}
	p.list[p.n] = candidate{c, float64(max(1, at.Weight)), near}
	p.n++
}

// nearLoad is how many times as much work a standby of the proxy's zone may have before others are read.
const nearLoad = 2

// choose returns the better one of two standbys, nil if there is none.
func (p *picked) choose(now time.Time) *Shard {
	switch {
	case p.n == 0:
		return nil
	case p.n == 1:
		return p.list[0].sh
	case p.near == 0 || p.near == p.n:
		c, _ := p.ofTwo(now, p.near > 0)
		return c
	}
	near, here := p.ofTwo(now, true)
	far, there := p.ofTwo(now, false)
	if here > nearLoad*there+1 {
		return far
	}
	return near
}

// ofTwo returns the one with less work of two standbys in the proxy's zone, or of two elsewhere, and its work.
func (p *picked) ofTwo(now time.Time, near bool) (*Shard, float64) {
	var at [maxCandidates]int
	n := 0
	for i := range p.n {
		if p.list[i].near == near {
			at[n] = i
			n++
		}
	}
	first := rand.N(n)
	c := &p.list[at[first]]
	least := c.load(now)
	if n > 1 {
		other := &p.list[at[(first+1+rand.N(n-1))%n]]
		if load := other.load(now); load < least {
			c, least = other, load
		}
	}
	return c.sh, least
}

// load is how much work a standby has for its weight. A standby that has just come back counts as a small one.
func (c *candidate) load(now time.Time) float64 {
	b := c.sh.standby
	b.mu.Lock()
	weight := c.weight * b.eject.trust(now)
	b.mu.Unlock()
	return float64(c.sh.busy()+1) / weight
}

// verifyStandby refuses a backend whose server is not a standby of the shard. The server has limit to answer.
func (c *Conn) verifyStandby(limit time.Duration) error {
	_, err := c.identify(c.lane.shard.pool.conf(), "", limit)
	return err
}

// mayRead refuses a server that is read as a standby and is a primary, or belongs to another system.
func (c *Conn) mayRead(found identity.Found) error {
	if !found.Recovery {
		return c.promoted()
	}
	if c.lane.shard.standby.of.Generation().Foreign(found.Generation()) {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "server %s is not a standby of shard %q: it belongs to another system", c.host, c.Shard()).WithCause(errNoStandby)
	}
	return nil
}

// promoted is the error for a server that is read as a standby and is none.
func (c *Conn) promoted() error {
	return pgerr.New(pgerr.CannotConnectNow, "server %s of shard %q is not a standby any more", c.host, c.Shard()).WithCause(errNoStandby)
}
