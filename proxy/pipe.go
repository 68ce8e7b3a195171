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
	ops    opQueue // the answers that are due, in order
	// skipping: an error has been answered, so messages are skipped up to Sync.
	skipping bool
	// pushed: messages have been sent whose answers the session has not waited for.
	pushed bool
	// unsynced: extended messages have been sent, their Sync has not.
	unsynced bool
	// pending is a Parse message that has not been sent, if hasPending is set.
	pending    []byte
	hasPending bool
	// parsedNow are the statements parsed since the last Sync.
	parsedNow []*statement
	// placed is the lane for a Bind whose Parse has just gone there; placedFree says that
	// another shard would do as well.
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

// skipToSync makes the session skip the client's messages up to Sync: one message has
// failed, and the client is told so once.
func (p *pipe) skipToSync() { p.skipping = true }

// resume ends skipping.
func (p *pipe) resume() { p.skipping = false }

// awaitSync notes that extended messages go to the backend at hand, whose answer to the
// Sync tells the state of the transaction.
func (p *pipe) awaitSync() { p.unsynced = true }

// synced notes that nothing is left of the messages since the last Sync: the backend has
// answered the Sync, or is gone.
func (p *pipe) synced() {
	p.unsynced, p.pushed, p.s.implicit.piped = false, false, false
}

// holdFrame says that a message of the client stays in the client's buffer while weft works
// on it; leaveFrame says that it no longer does.
func (p *pipe) holdFrame()  { p.midFrame = true }
func (p *pipe) leaveFrame() { p.midFrame = false }
