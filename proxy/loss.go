package proxy

import "weft/pgerr"

// lossState is what a client's transaction has come to, as far as weft itself knows.
type lossState uint8

const (
	// intact: the shards know the state of the transaction, if there is one.
	intact lossState = iota
	// failedHere: weft made the transaction fail before any shard took part.
	failedHere
	// backendGone: a backend of the transaction died. What it did is undone.
	backendGone
)

// loss is an open transaction that can only be rolled back, and no backend knows of it.
// The client believes to be inside: to it the transaction has failed.
//
//	           fail          lose            end
//	intact     failedHere    backendGone     intact
//	failedHere failedHere    failedHere      intact
//	backendGone failedHere   backendGone     intact
type loss struct {
	s *Session

	state lossState
	cause *pgerr.Error // how the backend was lost, until the client has heard
	bound boundEnd
}

// boundEnd is what the portal that was bound during a loss does.
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

// lose notes that a backend of the open transaction is gone. cause is nil if the client
// is told at once.
func (l *loss) lose(cause *pgerr.Error) {
	if l.state == intact {
		l.state = backendGone
	}
	if cause != nil {
		l.cause = cause
	}
}

// end says that the client is in no transaction any more. It returns the cause that the
// client has not heard of.
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
