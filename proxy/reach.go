package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/pool"
)

// reach is the part of a session that other goroutines may touch: to cancel its statement,
// to end it, to wake it, to see whom it waits for.
type reach struct {
	s *Session

	// mu guards the fields up to cancelled.
	mu        sync.Mutex
	current   *pool.Conn    // the backend to cancel
	legs      []*pool.Conn  // the backends of a gathered statement
	legsBegan time.Time     // since when legs work
	party     party         // the participants of a block on several shards
	interrupt interrupt     // how a gathered statement is interrupted
	errand    errand        // how a program is interrupted
	settling  *pool.Conn    // the backend that weft itself is asking
	patience  patience      // how long the session waits for shards
	cancelled chan struct{} // ends the wait for a backend

	turn    atomic.Int64 // counts the client's messages in blocks
	victim  atomic.Pointer[victim]
	woke    atomic.Bool // wake was called
	waiting atomic.Bool // the session waits for its client, with a backend in hand
	killed  atomic.Pointer[pgerr.Error]
	named   atomic.Bool               // a statement of another session names this session
	doomed  atomic.Pointer[pool.Conn] // the backend that another session may have terminated
	pins    atomic.Uint32             // a copy of the record's pins, for other goroutines
	inbox   inbox
}

// aim makes c, nil for none, the backend that cancel requests reach. It returns the one that
// they reached before.
func (re *reach) aim(c *pool.Conn) (before *pool.Conn) {
	re.mu.Lock()
	before, re.current = re.current, c
	re.mu.Unlock()
	return before
}

// shield keeps cancel requests from all backends while weft itself asks c. It returns the backend
// that they reached before, for unshield.
func (re *reach) shield(c *pool.Conn) (before *pool.Conn) {
	re.mu.Lock()
	before, re.current, re.settling = re.current, nil, c
	re.mu.Unlock()
	return before
}

// unshield ends what shield began.
func (re *reach) unshield(before *pool.Conn) {
	re.mu.Lock()
	re.current, re.settling = before, nil
	re.mu.Unlock()
}

// addLeg lets cancel requests reach one more backend of a gathered statement.
func (re *reach) addLeg(c *pool.Conn) {
	re.mu.Lock()
	re.legs = append(re.legs, c)
	re.mu.Unlock()
}

// forgetLegs notes that the legs of a gathered statement are over. Their memory is kept for the
// next statement.
func (re *reach) forgetLegs() {
	re.mu.Lock()
	re.legs = re.legs[:0]
	re.mu.Unlock()
}

// takeLegs returns the backends of a gathered statement, which the caller closes.
func (re *reach) takeLegs() []*pool.Conn {
	re.mu.Lock()
	legs := re.legs
	re.legs = nil
	re.mu.Unlock()
	return legs
}
