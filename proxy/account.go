package proxy

import (
	"sync/atomic"

	"weft/parser"
	"weft/pool"
	"weft/span"
	"weft/tally"
)

// account counts the session's statements, see run.go.
type account struct {
	s *Session

	owner     tally.Owner
	run       run
	shard     *pool.Shard // the one shard that works on run, if run is a simple query
	shards    []string    // the shards of run's legs
	allowance allowance   // the session's part of the memory for all clients' messages
	traced    *span.Session
	parent    string        // the traceparent of the last text
	parts     []span.Part   // the parts of the running statement, if it is traced
	bound     bound1        // the text that was bound or parsed last
	unnamed   *parser.Facts // of the unnamed portal; nil: not known
	portals   map[string]*namedPortal
	warm      warming
	tape      *tape // what is recorded of the transaction; nil while nothing is recorded
	answered  int64 // when the last Execute was answered
	// shown is the statement that ran last, and shownAt since when it runs; negative
	// once it has ended. Other goroutines read them.
	shown   atomic.Pointer[parser.Facts]
	shownAt atomic.Int64
}

// traceAs makes the session's statements spans of t.
func (a *account) traceAs(t *span.Session) { a.traced = t }

// forgetParent notes that the client's request is over, with the traceparent that its text named.
func (a *account) forgetParent() { a.parent = "" }
