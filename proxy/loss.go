package proxy

import "weft/pgerr"

// lossState is the state of a client's transaction, as far as weft itself knows it.
type lossState uint8

const (
	// intact means that the shards know the state of the transaction, if there is one.
	intact lossState = iota
	// failedHere means that weft made the transaction fail before any shard took part.
	failedHere
	// backendGone means that a backend of the transaction died, which undid its work.
	backendGone
)

// loss is an open transaction that can only be rolled back, and that no backend knows of. The
// client believes that the transaction is open: to the client it has failed.
//
//	           fail          lose            end
//	intact     failedHere    backendGone     intact
//	failedHere failedHere    failedHere      intact
//	backendGone failedHere   backendGone     intact
type loss struct {
	s *Session

	state lossState
	cause *pgerr.Error // how the backend was lost, until the client has been told
	bound boundEnd
	retry retry
}

// boundEnd is how the portal that was bound during a loss ends the transaction.
type boundEnd uint8

const (
	endsNothing boundEnd = iota
	endsByRollback
	endsByCommit
)

// is reports whether the client is in a transaction that is lost.
func (l *loss) is() bool { return l.state != intact }

// fail makes the transaction fail in weft.
func (l *loss) fail() { l.state = failedHere }

// lose notes that a backend of the open transaction is gone. cause is nil if the client is told
// at once.
func (l *loss) lose(cause *pgerr.Error) {
	if l.state == intact {
		l.state = backendGone
	}
	if cause != nil {
		l.cause = cause
	}
}

// end says that the client's transaction is over. It returns the cause if the client has not
// been told of it.
func (l *loss) end() (unheard *pgerr.Error) {
	unheard = l.cause
	l.state, l.cause = intact, nil
	return unheard
}

// takeCause returns how the transaction was lost, once, and nil afterwards.
func (l *loss) takeCause() *pgerr.Error {
	e := l.cause
	l.cause = nil
	return e
}
