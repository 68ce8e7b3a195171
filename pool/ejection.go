package pool

import (
	"errors"
	"time"
)

// errNoStandby is the cause of errors about servers that are read as standbys and are none.
var errNoStandby = errors.New("the server is no standby of the shard")

// ejection says whether a standby is left alone because it could not be reached. It has no clock.
type ejection struct {
	failures int // in a row
	pause    time.Duration
	until    time.Time // the end of the pause
	byHand   bool      // an operator has said that the standby is left alone
}

const (
	// ejectAfter is how many failures in a row eject a standby.
	ejectAfter = 3
	// ejectFirst is how long a standby is left alone the first time. Each further time the pause doubles, up to ejectMost.
	ejectFirst = time.Second
	ejectMost  = time.Minute
	// trustAfter is how long after a pause a standby gets less work than others.
	trustAfter = 10 * time.Second
)

// failed notes a failure, and reports whether it ejects the standby.
func (e *ejection) failed(now time.Time) bool {
	if e.failures++; e.failures < ejectAfter || e.is(now) {
		return false
	}
	e.pause = min(max(2*e.pause, ejectFirst), ejectMost)
	e.until = now.Add(e.pause)
	return true
}

// answered notes that the standby has been reached.
func (e *ejection) answered() { e.failures, e.pause = 0, 0 }

// is reports whether the standby is left alone at a time.
func (e *ejection) is(now time.Time) bool { return e.byHand || now.Before(e.until) }

// admit ends a pause, and what an operator has said.
func (e *ejection) admit() { *e = ejection{} }

// trust is the part of its work that a standby gets after a pause, from a tenth up to the whole.
func (e *ejection) trust(now time.Time) float64 {
	if e.until.IsZero() {
		return 1
	}
	return min(1, max(0.1, float64(now.Sub(e.until))/float64(trustAfter)))
}
