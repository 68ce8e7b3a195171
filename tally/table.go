package tally

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Table keeps Statements, within a bound of memory. It is safe for concurrent
// use.
type Table struct {
	mu      sync.Mutex
	max     int64
	held    int64
	entries map[entryKey]*Statement
	dropped int64
	since   time.Time
}

type entryKey struct {
	owner Owner
	norm  string
}

// overhead is about what an entry takes beside its text: itself, its place in the
// map, and the links to it.
const overhead = int64(unsafe.Sizeof(Statement{})) + 2*int64(unsafe.Sizeof(entryKey{})) + 64

// NewTable returns a table that keeps at most about maxBytes.
func NewTable(maxBytes int64) *Table {
	return &Table{max: maxBytes, entries: map[entryKey]*Statement{}, since: time.Now()}
}

// Anchor is where the Statements of one text are found without a search. The zero
// value is ready.
type Anchor struct{ first atomic.Pointer[link] }

type link struct {
	st   *Statement
	next *link
}

// maxLinks bounds the owners that one anchor knows. Others are searched for.
const maxLinks = 16

// Find returns the Statement of an owner and a normalised text, which is that of
// the anchor. It is nil if the table has no room for the text at all.
func (t *Table) Find(a *Anchor, owner Owner, norm string) *Statement {
	for l := a.first.Load(); l != nil; l = l.next {
		if l.st.owner == owner && !l.st.gone.Load() {
			return l.st
		}
	}
	st := t.enter(owner, norm)
	if st != nil {
		a.add(st)
	}
	return st
}

// add leaves a Statement at the anchor, in the place of those that are gone. If
// two do so at once, one is searched for again.
func (a *Anchor) add(st *Statement) {
	old := a.first.Load()
	fresh := &link{st: st}
	n := 1
	for l := old; l != nil && n < maxLinks; l = l.next {
		if !l.st.gone.Load() {
			fresh.next = &link{st: l.st, next: fresh.next}
			n++
		}
	}
	a.first.CompareAndSwap(old, fresh)
}

// enter finds or makes a Statement.
func (t *Table) enter(owner Owner, norm string) *Statement {
	key := entryKey{owner, norm}
	t.mu.Lock()
	defer t.mu.Unlock()
	if st := t.entries[key]; st != nil {
		return st
	}
	size := overhead + int64(len(norm))
	if size > t.max {
		return nil
	}
	if t.held+size > t.max {
		t.makeRoom(size)
	}
	st := &Statement{owner: owner, norm: norm, size: size, since: time.Now()}
	st.used.Store(Now())
	t.entries[key] = st
	t.held += size
	return st
}

// makeRoom drops the Statements unused for longest: a twentieth of all bytes, so
// that the search for them is not made for each newcomer, and at least size. mu is
// held.
func (t *Table) makeRoom(size int64) {
	all := make([]*Statement, 0, len(t.entries))
	for _, st := range t.entries {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *Statement) int { return cmp.Compare(a.used.Load(), b.used.Load()) })
	goal := min(t.max-size, t.max-t.max/20)
	for _, st := range all {
		if t.held <= goal {
			return
		}
		t.drop(st)
		t.dropped++
	}
}

// drop takes a Statement out. mu is held.
func (t *Table) drop(st *Statement) {
	st.gone.Store(true)
	delete(t.entries, entryKey{st.owner, st.norm})
	t.held -= st.size
}

// Reset forgets what has been counted, for the owners that match.
func (t *Table) Reset(match func(Owner) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, st := range t.entries {
		if match(st.owner) {
			t.drop(st)
		}
	}
	t.since = time.Now()
}

// Resize changes the bound.
func (t *Table) Resize(maxBytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.max = maxBytes
	if t.held > t.max {
		t.makeRoom(0)
	}
}

// All returns what has been counted.
func (t *Table) All() []Counts {
	t.mu.Lock()
	all := make([]*Statement, 0, len(t.entries))
	for _, st := range t.entries {
		all = append(all, st)
	}
	t.mu.Unlock()
	out := make([]Counts, len(all))
	for i, st := range all {
		out[i] = st.read()
	}
	return out
}

// State is how full a table is.
type State struct {
	Statements int
	Bytes      int64
	Dropped    int64     // since the process began
	Since      time.Time // the last Reset, or the beginning
}

// State returns how full the table is.
func (t *Table) State() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return State{len(t.entries), t.held, t.dropped, t.since}
}
