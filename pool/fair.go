package pool

import "time"

// A shard that has more work than connections makes sessions wait. If they waited in one line, whoever
// sends most would get most: a user with a thousand clients leaves a hundredth to a user with ten. So
// they wait in a tree of lines, and connections go round:
//
//	class    underway before high before normal before low; the lower ones get a few of a hundred turns
//	tenant   user and database: each gets the same time of backends, whatever the number of its clients
//	line     lane, and whether the session may need further shards: what fits one of a line fits all
//	key      what the statement is about: one key does not take all of its tenant
//	waiter   in order of arrival; the newest first in an overload in which some are refused
//
// Tenants, lines and keys take turns by deficit round robin: each has a balance in nanoseconds of
// a backend. It is raised by the same amount in every round, and lowered by what a loan is expected to
// take.

// class is the rank of a waiter.
type class uint8

const (
	classUnderway class = iota // holds connections that others may wait for: see admission
	classHigh
	classNormal
	classLow
	classes
)

const (
	// mostKeys is how many keys of a line take turns of their own. Further ones share sharedKeys turns, so that memory and the
	// time of a look around the ring are bounded.
	mostKeys   = 1024
	sharedKeys = 256
	// mostSpares and mostSpareLines bound the flows that are kept for later.
	mostSpares, mostSpareLines = 1024, 64
)

// The cost of a loan is kept within these bounds, and is usualCost as long as nothing is known.
const (
	leastCost = int64(10 * time.Microsecond)
	usualCost = int64(time.Millisecond)
	mostCost  = int64(10 * time.Second)
)

// outcome says what came of an offer to a waiter.
type outcome uint8

const (
	// blocked: the waiter may have no connection now, and nothing that is free changes this.
	blocked outcome = iota
	// short: the waiter's lane has no free connection, and closing one of another lane would help.
	short
	// unlike: the free connections of the lane do not suit this waiter, but may suit others.
	unlike
	served
)

// tenant is who shares the shard with others.
type tenant struct {
	class          class
	user, database string
}

// flow is a node of the tree: a class, a tenant, a line or a key.
type flow struct {
	up         *flow
	prev, next *flow // in the ring of up
	turn       *flow // the child that is next
	kids       int   // children
	waiting    int   // waiters below
	balance    int64
	tried      uint64 // the offer that was last made below
	passed     uint64 // the offer that last went to another because the lane was short
	strain     strain // of a tenant or a key

	tenant tenant
	// lane, grows and keys are set in a line.
	lane  *Lane
	grows bool
	keys  map[uint64]*flow
	// key, first and last are set in the flow of a key.
	key         uint64
	first, last *waiter
}

// fair is the queue of a shard. Adding, removing and serving a waiter take a time that does not
// depend on how many wait. The zero value is an empty queue.
type fair struct {
	tops    [classes]flow
	tenants map[tenant]*flow
	waiting int
	mean    int64 // of the costs of those who were served: what a round adds to each balance
	turns   uint64
	offers  uint64
	// spares are flows that are not in use: lines have maps, and others have none.
	spares, spareLines spares
}

// spares are flows that are not in use, linked by next.
type spares struct {
	first *flow
	count int
}

// place says where in the queue a waiter is.
type place struct {
	in         *flow // nil: not in the queue
	prev, next *waiter
	class      class
	key        uint64 // 0 for a statement without one
	cost       int64
}

// strains returns what is known of the key and the tenant of a waiter that is in the queue.
func (p *place) strains() (key, tenant *strain) { return &p.in.strain, &p.in.up.up.strain }

// add puts a waiter in the queue, with its lane, class and key.
func (q *fair) add(w *waiter) {
	p := &w.place
	line := q.line(p.class, w.lane, w.want.Grows)
	key := line.turnOf(p.key)
	s := line.keys[key]
	if s == nil {
		s = q.attach(line, &q.spares)
		s.key = key
		line.keys[key] = s
	}
	p.in, p.prev, p.next = s, s.last, nil
	if s.last != nil {
		s.last.place.next = w
	} else {
		s.first = w
	}
	s.last = w
	for f := s; f != nil; f = f.up {
		f.waiting++
	}
	q.waiting++
	w.lane.waiting++
}

// turnOf returns the key whose turns a key of the line has: its own, unless many others wait.
func (f *flow) turnOf(key uint64) uint64 {
	if len(f.keys) >= mostKeys && f.keys[key] == nil {
		return mix(key) % sharedKeys
	}
	return key
}

// line returns the line of a lane in a class, and makes it if nobody waits there.
func (q *fair) line(c class, l *Lane, grows bool) *flow {
	way := &l.lines[c][0]
	if grows {
		way = &l.lines[c][1]
	}
	if *way != nil {
		return *way
	}
	key := tenant{c, l.key.User, l.key.Database}
	t := q.tenants[key]
	if t == nil {
		if q.tenants == nil {
			q.tenants = map[tenant]*flow{}
		}
		t = q.attach(&q.tops[c], &q.spares)
		t.tenant = key
		q.tenants[key] = t
	}
	f := q.attach(t, &q.spareLines)
	f.lane, f.grows = l, grows
	if f.keys == nil {
		f.keys = map[uint64]*flow{}
	}
	*way = f
	return f
}

// attach makes a flow below another one. Its turn comes when all others there had theirs.
func (q *fair) attach(up *flow, from *spares) *flow {
	f := from.first
	if f == nil {
		f = &flow{}
	} else {
		from.first = f.next
		from.count--
	}
	if up.turn == nil {
		up.turn, f.prev, f.next = f, f, f
	} else {
		f.next, f.prev = up.turn, up.turn.prev
		f.prev.next, f.next.prev = f, f
	}
	f.up = up
	up.kids++
	return f
}

// remove takes a waiter out of the queue. It reports false if the waiter is not in the queue.
func (q *fair) remove(w *waiter) bool {
	p := &w.place
	s := p.in
	if s == nil {
		return false
	}
	if p.prev != nil {
		p.prev.place.next = p.next
	} else {
		s.first = p.next
	}
	if p.next != nil {
		p.next.place.prev = p.prev
	} else {
		s.last = p.prev
	}
	p.in, p.prev, p.next = nil, nil, nil
	q.waiting--
	w.lane.waiting--
	for f := s; f != nil; {
		up := f.up
		if f.waiting--; f.waiting == 0 && up != nil {
			q.detach(f)
		}
		f = up
	}
	return true
}

// detach takes a flow in which nobody waits out of the tree.
func (q *fair) detach(f *flow) {
	up := f.up
	if up.kids--; up.kids == 0 {
		up.turn = nil
	} else {
		f.prev.next, f.next.prev = f.next, f.prev
		if up.turn == f {
			up.turn = f.next
		}
	}
	to, most := &q.spares, mostSpares
	switch {
	case f.lane != nil:
		to, most = &q.spareLines, mostSpareLines
		for i := range f.lane.lines {
			for j, l := range f.lane.lines[i] {
				if l == f {
					f.lane.lines[i][j] = nil
				}
			}
		}
	case up.lane != nil:
		delete(up.keys, f.key)
	default:
		delete(q.tenants, f.tenant)
	}
	// The map of a line is empty, and is kept for the next line.
	*f = flow{keys: f.keys}
	if to.count < most {
		f.next, to.first = to.first, f
		to.count++
	}
}

// serve offers what is free to the waiters, in their order, until one takes it. The waiter is taken
// out of the queue; nil if nobody can use what is free. The function offer tries to serve a waiter, and
// sets its cost: many may have come before it was known what their loans take. claim
// says that it is the waiter's turn for so long that a connection of another lane may be closed for it.
func (q *fair) serve(offer func(w *waiter, claim bool) outcome) *waiter {
	var passed [classes]uint64
	for _, c := range q.order() {
		if q.tops[c].waiting == 0 {
			continue
		}
		q.offers++
		w, out := q.among(&q.tops[c], offer, false)
		if out == served {
			q.turns++
			for o, at := range passed[:c] {
				if at > 0 { // a lower class was served in its stead
					q.credit(&q.tops[o], nil, at, w.place.cost)
				}
			}
			return w
		}
		if out >= short {
			passed[c] = q.offers
		}
	}
	return nil
}

// order returns the classes in the order in which they are served this time. Of twenty turns one
// begins with the lowest class and one with the normal one, so that none starves.
func (q *fair) order() [classes]class {
	switch q.turns % 20 {
	case 9:
		return [classes]class{classUnderway, classNormal, classHigh, classLow}
	case 19:
		return [classes]class{classUnderway, classLow, classNormal, classHigh}
	}
	return [classes]class{classUnderway, classHigh, classNormal, classLow}
}

// fewTries bounds the waiters of one line that are offered a connection which does not suit the first.
const fewTries = 8

// among serves one of the waiters below a flow. claim is as for serve.
func (q *fair) among(f *flow, offer func(w *waiter, claim bool) outcome, claim bool) (*waiter, outcome) {
	if f.kids == 0 {
		return q.head(f, offer, claim)
	}
	if k := f.turn; f.kids == 1 {
		w, out := q.among(k, offer, claim || q.owed(k))
		switch {
		case out == served && f.kids > 0:
			k.balance = 0 // there is nobody to be fair to
		case out == short || out == unlike:
			k.passed = q.offers
		}
		return w, out
	}
	worst, passed := blocked, 0
	for pass := 0; ; pass++ {
		debtors := 0
		for n := f.kids; n > 0; n-- {
			k := f.turn
			f.turn = k.next
			if k.tried == q.offers {
				continue
			}
			if k.balance <= 0 {
				k.balance += q.quantum()
			}
			if k.balance <= 0 && pass < 2 {
				debtors++
				continue
			}
			k.tried = q.offers
			w, out := q.among(k, offer, claim || q.owed(k))
			if out == served {
				q.charge(f, k, w, passed)
				return w, out
			}
			worst = max(worst, out)
			switch {
			case f.lane != nil && out != unlike:
				f.turn = k // the same holds for the whole line
				return nil, out
			case f.lane != nil:
				if passed++; passed == fewTries {
					return nil, short
				}
			case out >= short:
				k.passed = q.offers
				passed++
			}
		}
		if debtors == 0 {
			if f.lane != nil {
				worst = short
			}
			return nil, worst
		}
		q.forgive(f)
	}
}

// owed reports whether a tenant or line was passed over so often that it may have a connection of
// another lane.
func (q *fair) owed(f *flow) bool { return f.up.lane == nil && f.balance > int64(patience) }

// head serves the waiter of a key whose turn it is, or one of the next if the connection does not
// suit it.
func (q *fair) head(s *flow, offer func(w *waiter, claim bool) outcome, claim bool) (*waiter, outcome) {
	w, back := s.first, s.strain.newest || s.up.up.strain.newest
	if back {
		w = s.last
	}
	out := blocked
	for n := 0; w != nil && n < fewTries; n++ {
		if out = offer(w, claim); out == served {
			cost := min(max(w.place.cost, leastCost), mostCost)
			w.place.cost = cost
			q.mean += (cost - q.mean) / 16
			q.remove(w)
			return w, out
		}
		if out != unlike {
			return nil, out
		}
		if back {
			w = w.place.prev
		} else {
			w = w.place.next
		}
	}
	return nil, out
}

// charge notes that a waiter below k, a child of f, was served. Children that were passed over, because
// their lanes were short of connections, get a credit.
func (q *fair) charge(f, k *flow, w *waiter, passed int) {
	if k.up == f { // somebody still waits there
		if k.balance -= w.place.cost; k.balance > 0 {
			f.turn = k
		}
	}
	if passed == 0 || f.lane != nil || f.kids == 0 {
		return
	}
	q.credit(f, k, q.offers, w.place.cost/int64(f.kids))
}

// credit raises the balances of those below f, except k, that were passed over in an offer.
func (q *fair) credit(f, k *flow, at uint64, amount int64) {
	for o, n := f.turn, f.kids; n > 0; o, n = o.next, n-1 {
		if o != k && o.passed == at {
			o.balance = min(o.balance+amount, max(4*int64(patience), q.quantum()))
		}
	}
}

// forgive lets so many rounds pass in which nobody could have been served that one of the flows below
// f that have not been tried is out of debt.
func (q *fair) forgive(f *flow) {
	best := -mostCost
	for o, n := f.turn, f.kids; n > 0; o, n = o.next, n-1 {
		if o.tried != q.offers {
			best = max(best, o.balance)
		}
	}
	for o, n := f.turn, f.kids; n > 0; o, n = o.next, n-1 {
		if o.tried != q.offers && best < 0 {
			o.balance -= best
		}
	}
}

// quantum is what a round adds to each balance.
func (q *fair) quantum() int64 {
	if q.mean == 0 {
		q.mean = usualCost
	}
	return max(q.mean, leastCost)
}
