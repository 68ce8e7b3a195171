package proxy

import (
	"errors"

	"weft/pgerr"
)

// A statement that writes on several shards takes its locks there in no order that others
// keep: it can wait in a circle with another single statement, such as ALTER TABLE, which on one
// PostgreSQL would wait for it and no more. If the statement is a transaction of its own, weft can
// do what its client would: carry it out again, after those that it made way for.

// mostKnots is how often a statement makes way before its client is told.
const mostKnots = 5

// makesWay reports whether a statement that is a transaction of its own was ended by a deadlock, and is to be
// carried out again.
func (re *reach) makesWay(err error) bool {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.DeadlockDetected || re.s.account.run.knots >= mostKnots {
		return false
	}
	re.s.account.run.knots++
	re.endGather() // what ended it is over
	return true
}

// mayAgain does what must be done before a statement that has failed is carried out again.
func (re *reach) mayAgain(err error) error {
	if isStray(err) == nil {
		re.calmDown() // its time has not come yet
		return nil
	}
	return re.s.route.letStray(err)
}
