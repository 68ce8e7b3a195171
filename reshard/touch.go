package reshard

import "slices"

// Access says what a statement does to the rows that it touches.
type Access uint8

// The kinds of access, in order: each includes the ones before it.
const (
	None Access = iota
	Read
	// Write changes or locks rows, or changes what rows can be stored.
	Write
)

// Touch is what one statement touches of a database's buckets. The zero value touches none.
type Touch struct {
	Access Access
	// All says that the statement may visit every bucket. Otherwise Buckets are those it
	// visits.
	All     bool
	Buckets []int
}

// Everything is the touch of a statement of which nothing is known.
func Everything() Touch { return Touch{Access: Write, All: true} }

// maxNoted bounds the buckets of a note; a transaction with more counts as touching all.
const maxNoted = 256

// buckets is a set of buckets, or all of them.
type buckets struct {
	all  bool
	list []int
}

// add puts the buckets of a touch into the set.
func (s *buckets) add(t Touch) {
	if s.all || t.Access == None {
		return
	}
	if t.All {
		s.all, s.list = true, s.list[:0]
		return
	}
	for _, b := range t.Buckets {
		if !slices.Contains(s.list, b) {
			s.list = append(s.list, b)
		}
	}
	if len(s.list) > maxNoted {
		s.all, s.list = true, s.list[:0]
	}
}

// clear empties the set and keeps its memory.
func (s *buckets) clear() { s.all, s.list = false, s.list[:0] }

// empty reports whether nothing is in the set.
func (s *buckets) empty() bool { return !s.all && len(s.list) == 0 }

// meets reports whether the set has a bucket of a barrier.
func (s *buckets) meets(b *Barrier) bool {
	return s.all || slices.ContainsFunc(s.list, b.has)
}

// Notes is what a session's transaction has touched. The zero value is that of an idle
// session. The caller guards it with a lock, which it holds from looking at the snapshot until
// the touch is noted: so a proxy that has a new snapshot, and then takes each session's lock
// once, knows of everything that was sent by an older one.
type Notes struct {
	// since is the version of the first snapshot that the transaction has gone by, 0 for an idle
	// session.
	since int64
	// unnoted says that statements of the transaction went by a snapshot without jobs: what they
	// have touched is not known.
	unnoted bool
	// repeatable says that all snapshots of the transaction have been taken, not only asked for, and
	// that it goes by the placement of that moment.
	repeatable bool
	reading    buckets // by statements that are not over
	written    buckets // by the transaction
}

// Unnoted notes a statement that goes by a snapshot without jobs.
func (n *Notes) Unnoted(version int64) {
	if n.since == 0 {
		n.since = version
	}
	n.unnoted = true
}

// Note notes what a statement touches.
func (n *Notes) Note(version int64, t Touch) {
	if n.since == 0 {
		n.since = version
	}
	switch t.Access {
	case Read:
		n.reading.add(t)
	case Write:
		n.written.add(t)
	}
}

// Repeatable notes that the transaction has taken all its snapshots, and goes by the placement
// of that moment from now on.
func (n *Notes) Repeatable() { n.repeatable = true }

// StatementOver notes that the session waits for its client, inside a transaction: what its
// statements have read does not concern a round any more.
func (n *Notes) StatementOver() { n.reading.clear() }

// Over notes that the transaction is over.
func (n *Notes) Over() {
	n.since, n.unnoted, n.repeatable = 0, false, false
	n.reading.clear()
	n.written.clear()
}

// Idle reports whether there is no transaction.
func (n *Notes) Idle() bool { return n.since == 0 }
