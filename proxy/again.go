package proxy

import (
	"errors"

	"weft/pgerr"
)

// A statement that writes on several shards takes its locks there in no fixed order. So it can
// wait in a circle with another single statement, such as ALTER TABLE, which on one PostgreSQL
// would just wait for the first to end. If the statement is a transaction by itself, weft can do
// what its client would do: carry it out again, after the statements that it made way for.

// mostKnots is how often a statement makes way before its client is told of the deadlock.
const mostKnots = 5

// makesWay reports whether a statement was ended by a deadlock and may be carried out again. It
// counts the attempts. The statement must be a transaction by itself.
func (re *reach) makesWay(err error) bool {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.DeadlockDetected || re.s.account.run.knots >= mostKnots {
		return false
	}
	re.s.account.run.knots++
	re.endGather() // the deadlock that interrupted the statement is over
	return true
}

// mayAgain does what must be done before a failed statement is carried out again.
func (re *reach) mayAgain(err error) error {
	if isStray(err) == nil {
		re.calmDown() // the failed attempt had to end soon, the next one need not
		if re.s.drawn.isDry(err) {
			_, err = re.s.drawn.refill("")
			return err
		}
		return nil
	}
	return re.s.route.letStray(err)
}
