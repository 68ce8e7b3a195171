package proxy

import (
	"weft/pool"
	"weft/wire"
)

// pipe is the dialogue with the backend at hand: what is to be sent, which answers
// are due, and how far the client's messages have come between two Syncs.
type pipe struct {
	s *Session

	unsent wire.Out
	ops    opQueue // what is due, in order
	// skipping: an error has been answered, so messages are skipped up to Sync.
	skipping bool
	// pushed: messages have been sent whose answers nobody has waited for.
	pushed bool
	// unsynced: extended messages have been sent, their Sync has not.
	unsynced bool
	// pending is a Parse message that has not been sent; it counts if hasPending.
	pending    []byte
	hasPending bool
	// parsedNow are the statements parsed since the last Sync.
	parsedNow []*statement
	// placed is where the Bind goes whose Parse has just gone there; placedFree says
	// that another shard would do as well.
	placed     *pool.Lane
	placedFree bool
	// copied: a COPY in the extended protocol awaits its Sync.
	copied bool
	// copying: the relay met a CopyInResponse.
	copying bool
	// loading: shards read COPY data, so no backend can be asked anything.
	loading bool
	// midFrame: a message of the client is still in the client's buffer.
	midFrame bool
	// calls: a weft.* function has been parsed, or a statement about roles.
	calls bool
}

// skipToSync passes over the client's messages up to Sync: one of them has failed, and
// the client is told so once.
func (p *pipe) skipToSync() { p.skipping = true }

// resume takes messages again.
func (p *pipe) resume() { p.skipping = false }

// awaitSync notes that extended messages go to the backend at hand, which answers for the
// state of the transaction at the Sync.
func (p *pipe) awaitSync() { p.unsynced = true }

// synced notes that nothing is left of the messages since the last Sync: the backend has
// answered it, or is gone.
func (p *pipe) synced() {
	p.unsynced, p.pushed, p.s.implicit.piped = false, false, false
}

// holdFrame says that a message of the client stays in the client's buffer while weft
// works on it, and leaveFrame that it no longer does.
func (p *pipe) holdFrame()  { p.midFrame = true }
func (p *pipe) leaveFrame() { p.midFrame = false }
