package proxy

import "weft/pool"

// blockState is whether a transaction block is open, and whether shards can join it.
type blockState uint8

const (
	// blockClosed means that no block is open.
	blockClosed blockState = iota
	// blockClosedSealed means that no block is open, and that messages without a Sync have set more
	// than weft remembers: no shard could join a block that is opened for them.
	blockClosedSealed
	// blockOpen means that a block is open, which any shard can join.
	blockOpen
	// blockSealed means that a block is open, and that no shard can join: weft does not know
	// what a joining shard would have to run.
	blockSealed
)

// blockEvent is what happens to a block.
type blockEvent uint8

const (
	blockStarts          blockEvent = iota // a block is opened
	blockWidens                            // a block is opened for messages that have written
	blockFound                             // a backend is found to be in a block that weft did not open
	blockSeals                             // something happens that a joining shard could not repeat
	blockChains                            // the block has ended with AND CHAIN, and the next has begun
	blockChainsUnsettled                   // as blockChains, and the block has settings that only one backend knows
	blockEnds                              // the block is over
)

// blockStates is the state after each event.
//
//	                  starts     widens       found        seals              chains       chains unsettled ends
//	blockClosed       blockOpen  blockOpen    blockSealed  blockClosedSealed  blockOpen    blockSealed      blockClosed
//	blockClosedSealed blockOpen  blockSealed  blockSealed  blockClosedSealed  blockSealed  blockSealed      blockClosed
//	blockOpen         blockOpen  blockOpen    blockSealed  blockSealed        blockOpen    blockSealed      blockClosed
//	blockSealed       blockOpen  blockSealed  blockSealed  blockSealed        blockSealed  blockSealed      blockClosed
var blockStates = [...][7]blockState{
	blockClosed:       {blockOpen, blockOpen, blockSealed, blockClosedSealed, blockOpen, blockSealed, blockClosed},
	blockClosedSealed: {blockOpen, blockSealed, blockSealed, blockClosedSealed, blockSealed, blockSealed, blockClosed},
	blockOpen:         {blockOpen, blockOpen, blockSealed, blockSealed, blockOpen, blockSealed, blockClosed},
	blockSealed:       {blockOpen, blockSealed, blockSealed, blockSealed, blockSealed, blockSealed, blockClosed},
}

// after is the state that follows when e happens.
func (s blockState) after(e blockEvent) blockState { return blockStates[s][e] }

// isOpen reports whether a block is open, the client's or weft's.
func (b *block) isOpen() bool { return b.state >= blockOpen }

// isSealed reports whether no shard can join.
func (b *block) isSealed() bool { return b.state == blockSealed || b.state == blockClosedSealed }

// snapshotState is what is known of the snapshots of a block.
type snapshotState uint8

const (
	// noSnapshot means that the snapshots are still to be taken.
	noSnapshot snapshotState = iota
	// snapped means that the snapshots have been taken, or are not needed.
	snapped
	// snappedAtomically means that all snapshots were taken between transactions of several
	// shards.
	snappedAtomically
	// heldToOne means that the block is SERIALIZABLE and may use one shard only.
	heldToOne
)

// snapshotEvent is what happens to the snapshots of a block.
type snapshotEvent uint8

const (
	snapshotsBegin  snapshotEvent = iota // snapshots are taken now, or found not to be needed
	snapshotsGated                       // snapshots have been taken while all gates were shut
	snapshotsSerial                      // the block is found to be SERIALIZABLE
	snapshotsFail                        // snapshots could not be taken
)

// snapshotStates is the state after each event.
//
//	                  begin    gated              serial      fail
//	noSnapshot        snapped  snappedAtomically  heldToOne  noSnapshot
//	snapped           snapped  snappedAtomically  heldToOne  noSnapshot
//	snappedAtomically snapped  snappedAtomically  heldToOne  noSnapshot
//	heldToOne        snapped  snappedAtomically  heldToOne  noSnapshot
var snapshotStates = [...]snapshotState{snapshotsBegin: snapped, snapshotsGated: snappedAtomically, snapshotsSerial: heldToOne, snapshotsFail: noSnapshot}

// after is the state that follows when e happens. It does not depend on the state before.
func (snapshotState) after(e snapshotEvent) snapshotState { return snapshotStates[e] }

// isSnapped reports whether the snapshots have been taken or are not needed.
func (b *block) isSnapped() bool { return b.snapshots != noSnapshot }

// noteSnapshots notes what has happened to the snapshots of the block.
func (b *block) noteSnapshots(e snapshotEvent) { b.snapshots = b.snapshots.after(e) }

// keepsTo reports whether the block may use a shard. A SERIALIZABLE block stays on the first
// shard it uses.
func (b *block) keepsTo(l *pool.Lane) bool {
	if b.snapshots != heldToOne {
		return true
	}
	if b.only == nil {
		b.only = l
	}
	return b.only == l
}

// notice is whether a participant has notified by itself.
type notice uint8

const (
	// noNotice means that no participant has notified.
	noNotice notice = iota
	// perhapsNotice means that functions may have notified, which is not certain.
	perhapsNotice
	// sureNotice means that a text of the client has notified.
	sureNotice
)

// noticeEvent is what a participant does.
type noticeEvent uint8

const (
	mayNotify      noticeEvent = iota // functions may have notified on a participant
	notifies                          // a text notifies on a participant, or on the same as before
	notifiesBeside                    // a text notifies on another participant than before
)

// noticeStep is the state after an event, and whether the event is refused.
type noticeStep struct {
	to      notice
	refused bool
}

// noticeSteps is what follows each event.
//
//	              mayNotify      notifies    notifiesBeside
//	noNotice      perhapsNotice  sureNotice  sureNotice
//	perhapsNotice perhapsNotice  sureNotice  sureNotice
//	sureNotice    perhapsNotice  sureNotice  sureNotice, refused
var noticeSteps = [...][3]noticeStep{
	noNotice:      {{to: perhapsNotice}, {to: sureNotice}, {to: sureNotice}},
	perhapsNotice: {{to: perhapsNotice}, {to: sureNotice}, {to: sureNotice}},
	sureNotice:    {{to: perhapsNotice}, {to: sureNotice}, {to: sureNotice, refused: true}},
}

// after is what follows when e happens.
func (n notice) after(e noticeEvent) noticeStep { return noticeSteps[n][e] }

// mayHaveNotifiedOn notes that functions may have notified on a participant.
func (b *block) mayHaveNotifiedOn(c *pool.Conn) {
	b.notice, b.notifier = b.notice.after(mayNotify).to, c
}

// notifiesOn notes that a text notifies on a participant. If another participant has surely
// notified, notifiesOn returns that one, and nothing is noted.
func (b *block) notifiesOn(c *pool.Conn) (before *pool.Conn) {
	e := notifies
	if b.notifier != nil && b.notifier != c {
		e = notifiesBeside
	}
	step := b.notice.after(e)
	if step.refused {
		return b.notifier
	}
	b.notice, b.notifier = step.to, c
	return nil
}
