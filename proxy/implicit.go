package proxy

import "weft/parser"

// implicit is the transaction that PostgreSQL gives to extended messages between two
// Syncs, see pipeline.go.
type implicit struct {
	s *Session

	block implicitBlock
	run   implicitRun
}

// implicitBlock is what has become of the transaction of messages without a Sync.
type implicitBlock uint8

const (
	// untouched means that nothing would have to be undone if a later message failed.
	untouched implicitBlock = iota
	// piped means that messages may have written or locked rows in the transaction of one
	// backend.
	piped
	// opened means that weft itself has opened a block that several shards can join.
	opened
	// widened means that weft has opened the block after messages had written.
	widened
)

// pipeEvent is what happens to an implicitBlock.
type pipeEvent uint8

const (
	pipeWrites  pipeEvent = iota // a message is about to write or lock rows, outside of a block
	pipeOpens                    // weft opens a block for the messages
	pipeClaimed                  // the client's BEGIN takes the block over
	pipeSyncs                    // nothing is left of the messages since the last Sync
	pipeCloses                   // the block that weft opened is over
)

// implicitBlocks is the state after each event.
//
//	          writes   opens    claimed    syncs      closes
//	untouched piped    opened   untouched  untouched  untouched
//	piped     piped    widened  piped      untouched  piped
//	opened    widened  opened   untouched  opened     untouched
//	widened   widened  widened  piped      opened     piped
var implicitBlocks = [...][5]implicitBlock{
	untouched: {piped, opened, untouched, untouched, untouched},
	piped:     {piped, widened, piped, untouched, piped},
	opened:    {widened, opened, untouched, opened, untouched},
	widened:   {widened, widened, piped, opened, piped},
}

// after is the state that follows when e happens.
func (b implicitBlock) after(e pipeEvent) implicitBlock { return implicitBlocks[b][e] }

// implicitRun is what has been executed since the last Sync.
type implicitRun uint8

const (
	// ranNothing means that no statement has been executed.
	ranNothing implicitRun = iota
	// begunRun means that a statement has been executed, and no COMMIT or ROLLBACK after it.
	begunRun
	// endedRun means that the backend has reported the end of a transaction, and that no
	// statement has followed.
	endedRun
	// begunAnew means that a statement has been executed, and that the backend has reported the
	// end of a transaction.
	begunAnew
)

// runEvent is what happens to an implicitRun.
type runEvent uint8

const (
	runsStatement runEvent = iota // a statement is executed
	runsCommand                   // BEGIN or a savepoint's command is executed
	runsEnd                       // COMMIT or ROLLBACK is executed, or a command that is committed at once
	runEnds                       // the backend reports the end of a transaction
	runSyncs                      // the client sends a Sync
)

// implicitRuns is the state after each event.
//
//	           statement  command     end         ends       syncs
//	ranNothing begunRun   ranNothing  ranNothing  endedRun   ranNothing
//	begunRun   begunRun   begunRun    ranNothing  begunAnew  ranNothing
//	endedRun   begunAnew  endedRun    endedRun    endedRun   ranNothing
//	begunAnew  begunAnew  begunAnew   endedRun    begunAnew  ranNothing
var implicitRuns = [...][5]implicitRun{
	ranNothing: {begunRun, ranNothing, ranNothing, endedRun, ranNothing},
	begunRun:   {begunRun, begunRun, ranNothing, begunAnew, ranNothing},
	endedRun:   {begunAnew, endedRun, endedRun, endedRun, ranNothing},
	begunAnew:  {begunAnew, begunAnew, endedRun, begunAnew, ranNothing},
}

// after is the state that follows when e happens.
func (r implicitRun) after(e runEvent) implicitRun { return implicitRuns[r][e] }

// isOpen reports whether weft itself has opened the block, for extended messages.
func (im *implicit) isOpen() bool { return im.block == opened || im.block == widened }

// isPiped reports whether messages without a Sync may have written or locked rows.
func (im *implicit) isPiped() bool { return im.block == piped || im.block == widened }

// seal keeps other shards out of the messages up to the Sync, for all of which the setting of setsFromRows holds.
func (im *implicit) seal() {
	im.noteWrite()
	im.s.tx.seal()
}

// hasEnded reports whether the backend has reported the end of a transaction since the last
// Sync.
func (im *implicit) hasEnded() bool { return im.run == endedRun || im.run == begunAnew }

// hasBegun reports whether a statement has been executed since the last Sync or COMMIT.
func (im *implicit) hasBegun() bool { return im.run == begunRun || im.run == begunAnew }

// noteWrite notes that a message outside of a block is about to write, or to lock rows that
// stay locked until a Sync.
func (im *implicit) noteWrite() { im.block = im.block.after(pipeWrites) }

// claim notes that the client's BEGIN takes over the block that weft has opened.
func (im *implicit) claim() { im.block = im.block.after(pipeClaimed) }

// forgetWrites notes that nothing is left of the messages since the last Sync.
func (im *implicit) forgetWrites() { im.block = im.block.after(pipeSyncs) }

// noteExecuted notes that a statement has been executed. f is nil if the statement is not known.
func (im *implicit) noteExecuted(f *parser.Facts) {
	e := runsStatement
	switch {
	case endsTx(f), f != nil && f.Alone != "": // what must be alone is committed at once
		e = runsEnd
	case f != nil && pipeOnly(f):
		e = runsCommand
	}
	im.run = im.run.after(e)
}

// noteEnded notes that the backend has reported the end of a transaction before a Sync. idle:
// no transaction has followed.
func (im *implicit) noteEnded(idle bool) {
	if idle {
		im.forgetWrites()
	}
	im.run = im.run.after(runEnds)
}

// noteSync notes that the client has sent a Sync, which has been answered.
func (im *implicit) noteSync() { im.run = im.run.after(runSyncs) }
