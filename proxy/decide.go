package proxy

import (
	"weft/parser"
	"weft/wire"
)

// situation is the state of the client's transaction, as far as it decides what becomes
// of a statement.
type situation uint8

const (
	// noBlock: no transaction block is open.
	noBlock situation = iota
	// inBlock: the client's block is open.
	inBlock
	// inOwn: a block of weft's is open, for extended messages without a Sync.
	inOwn
	// inFailed: the transaction of the backend at hand has failed.
	inFailed
	// inLost: the transaction has failed, and no backend knows of it.
	inLost
)

// situation says what state the client's transaction is in.
func (s *Session) situation() situation {
	switch {
	case s.lost.is():
		return inLost
	case s.held.conn != nil && s.held.conn.Status() == wire.TxFailed:
		return inFailed
	case s.implicit.isOpen():
		return inOwn
	case s.tx.isOpen():
		return inBlock
	}
	return noBlock
}

// act is what is to be done with a statement. Both protocols decide by the same function,
// decide, and carry the act out in their own way.
type act uint8

const (
	// planIt: the statement is planned, and its plan says where it goes.
	planIt act = iota
	// answerLost: weft answers as PostgreSQL does in a failed transaction.
	answerLost
	// askFailed: the backend at hand says that its transaction has failed. endFailed ends
	// that transaction, and backTo goes back to a savepoint on all participants.
	askFailed
	endFailed
	backTo
	// controlOwn: the statement is about a block, and the one that is open is weft's.
	controlOwn
	// openBlock: the block is noted, and shards join it with their first statement.
	openBlock
	// endBlock: all participants end the block. endNothing: there is no block to end.
	endBlock
	endNothing
	// importSnapshot and exportSnapshot are about snapshots of all shards.
	importSnapshot
	exportSnapshot
	// runOnAll: every participant runs the statement.
	runOnAll
)

// decide says what is to be done with a statement in a situation.
func decide(in situation, text []byte, f *parser.Facts) act {
	switch in {
	case inLost:
		return answerLost
	case inFailed:
		switch {
		case endsTx(f):
			return endFailed
		case rollsBackTo(text, f):
			return backTo
		}
		return askFailed
	case inOwn:
		if pipeOnly(f) {
			return controlOwn
		}
	}
	open := in != noBlock
	switch {
	case opensBlock(f) && !open:
		return openBlock
	case f.Effects&parser.ImportsSnapshot != 0 && open:
		return importSnapshot
	case f.Effects&parser.ExportsSnapshot != 0 && open:
		return exportSnapshot
	case endsTx(f) && open:
		return endBlock
	case endsTx(f):
		return endNothing
	case toAll(f), opensBlock(f) && joinable(text) != nil: // as SET TRANSACTION, BEGIN with options changes the block
		return runOnAll
	}
	return planIt
}
