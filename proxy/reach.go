package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/pool"
)

// reach is what other goroutines may touch of a session: to cancel its statement, to
// end it, to wake it, to see whom it waits for.
type reach struct {
	s *Session

	// mu guards the fields up to cancelled.
	mu        sync.Mutex
	current   *pool.Conn    // the backend to cancel
	legs      []*pool.Conn  // those of a gathered statement
	legsBegan time.Time     // since when legs work
	party     party         // what takes part in a block of several shards
	interrupt interrupt     // of the gathered statement
	settling  *pool.Conn    // the backend that weft itself is asking
	patience  patience      // how long the session waits for shards
	cancelled chan struct{} // ends the wait for a backend

	turn    atomic.Int64 // counts the client's messages in blocks
	victim  atomic.Pointer[victim]
	woke    atomic.Bool // wake was called
	waiting atomic.Bool // the session waits for its client, with a backend in hand
	killed  atomic.Pointer[pgerr.Error]
	named   atomic.Bool               // a statement of another session names this one
	doomed  atomic.Pointer[pool.Conn] // the backend that such a statement may have terminated
	pins    atomic.Uint32             // the record's pins, for others to read
	inbox   inbox
}
