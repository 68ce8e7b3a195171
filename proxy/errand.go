package proxy

import (
	"time"

	"weft/pgerr"
)

// A program is many statements to the shards and one to the client: a cancel request or statement_timeout may come while no shard works
// on any of them. So the request is noted here, and the program looks for it before each statement. Until the program
// has seen it, the request is repeated, as for a gathered statement.

// errand is why the program that runs must stop. Its fields are guarded by the session's reach.mu.
type errand struct {
	depth int // how many programs run, one inside the other
	// round counts programs, so that a late timer can tell that its program is over.
	round uint64
	cause *pgerr.Error // why the program must stop; nil if it may go on
	// limit goes off at statement_timeout, again when a request is repeated.
	limit, again *time.Timer
}

// beginProgram says that a program runs from now on, until the returned function is called.
func (re *reach) beginProgram() (end func()) {
	re.mu.Lock()
	defer re.mu.Unlock()
	e := &re.errand
	if e.depth++; e.depth > 1 {
		return re.endProgram // the statement of the client is that of the outer program
	}
	select {
	case <-re.cancelled: // meant for an earlier statement
	default:
	}
	e.round++
	if d := re.s.record.inEffect.statementTimeout; d > 0 {
		round := e.round
		e.limit = time.AfterFunc(d, func() { re.stopErrand(round, errStatementTimeout()) })
	}
	return re.endProgram
}

// endProgram ends what beginProgram began.
func (re *reach) endProgram() {
	re.mu.Lock()
	defer re.mu.Unlock()
	e := &re.errand
	if e.depth--; e.depth > 0 {
		return
	}
	for _, t := range []*time.Timer{e.limit, e.again} {
		if t != nil {
			t.Stop()
		}
	}
	e.cause, e.limit, e.again = nil, nil, nil
	select {
	case <-re.cancelled:
	default:
	}
}

// stopErrand is stopBusy for the program of one round, if it still runs.
func (re *reach) stopErrand(round uint64, cause *pgerr.Error) {
	re.mu.Lock()
	if re.errand.depth == 0 || re.errand.round != round {
		re.mu.Unlock()
		return
	}
	re.stopBusy(cause)
}

// note notes that the program must stop, and has the request repeated until the program has seen it. The session's mu is held.
func (e *errand) note(re *reach, cause *pgerr.Error) {
	if e.depth == 0 {
		return
	}
	if e.cause == nil {
		e.cause = cause
	}
	if e.again != nil {
		e.again.Stop()
	}
	round := e.round
	e.again = time.AfterFunc(repeatCancel, func() { re.stopErrand(round, cause) })
}

// programStopped returns, once, why the program must stop, or nil. A program may catch the error, and goes on then. met: a shard has ended a
// statement already, and statement_timeout does not go off twice.
func (re *reach) programStopped(met bool) error {
	re.mu.Lock()
	defer re.mu.Unlock()
	e := &re.errand
	if met && e.limit != nil {
		e.limit.Stop()
		e.limit = nil
	}
	cause := e.cause
	if cause == nil {
		return nil
	}
	e.again.Stop()
	e.cause, e.again = nil, nil
	select {
	case <-re.cancelled:
	default:
	}
	told := *cause // programs add to errors
	return &told
}
