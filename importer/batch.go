package importer

import "time"

// Position is how far changes have been applied.
type Position struct {
	// At is the commit position of the last transaction of which something was applied.
	At LSN
	// Part is how many of its changes were; whole: all.
	Part int64
}

// whole says that nothing of a transaction is left.
const whole = -1

// passes returns how many of a transaction's first changes have been applied, or whole.
func (p Position) passes(commit LSN) int64 {
	switch {
	case commit < p.At:
		return whole
	case commit == p.At:
		return p.Part
	}
	return 0
}

// Limits of a batch. A transaction of the source is applied whole unless it is larger than a batch can be.
const (
	batchRows  = 1_000
	batchTime  = 50 * time.Millisecond
	mostRows   = 10_000
	mostBytes  = 16 << 20
	retryFor   = 15 * time.Second
	pollEvery  = 200 * time.Millisecond
	statusEach = 5 * time.Second
)

// batch collects what is applied in one transaction of the target. It is fed with the events of the stream, in
// their order.
type batch struct {
	position Position // after it
	confirm  LSN      // what the source may forget then; 0: nothing new
	at       time.Time
	changes  []*Change
	bytes    int
	opened   time.Time // zero: it is empty

	commit LSN   // of the transaction that the stream is in; 0: none
	skip   int64 // changes of that transaction that were applied before
	seen   int64 // changes of that transaction so far
}

// begin notes that a transaction begins.
func (b *batch) begin(commit LSN) {
	b.commit, b.skip, b.seen = commit, b.position.passes(commit), 0
}

// wants reports whether the next change has not been applied yet, and counts it.
func (b *batch) wants() bool {
	b.seen++
	return b.skip != whole && b.seen > b.skip
}

// add takes a change that it wants.
func (b *batch) add(c *Change, now time.Time) {
	if b.opened.IsZero() {
		b.opened = now
	}
	b.changes = append(b.changes, c)
	b.bytes += c.size()
	b.position = Position{b.commit, b.seen}
}

// end notes that the transaction has ended.
func (b *batch) end(after LSN, at time.Time) {
	if b.position.At <= b.commit {
		b.position = Position{b.commit, whole}
	}
	b.confirm, b.at, b.commit = after, at, 0
}

// ready reports whether it should be applied now.
func (b *batch) ready(now time.Time) bool {
	switch {
	case len(b.changes) == 0:
		return false
	case len(b.changes) >= mostRows, b.bytes >= mostBytes:
		return true
	}
	return b.commit == 0 && (len(b.changes) >= batchRows || now.Sub(b.opened) >= batchTime)
}

// clear empties it after it was applied. Its place in the stream stays.
func (b *batch) clear() {
	b.changes, b.bytes, b.opened = nil, 0, time.Time{}
}
