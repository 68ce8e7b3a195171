package proxy

import (
	"weft/catalog"
	"weft/plan"
	"weft/pool"
)

// portals is the portals that the client has bound, by where each of them is.
type portals struct {
	s *Session

	local map[string]*localPortal // those that weft answers itself
	lane  *pool.Lane              // where the unnamed portal is
	lanes map[string]*pool.Lane   // where the named ones are
	rows  *catalog.Rows           // how the rows of the portal bound last are translated
	// everywhere are the portals whose execution goes to every shard, forAll those
	// whose execution is for all participants of the block.
	everywhere map[string]*spread
	forAll     map[string]forAll
	// columns are the RowDescriptions of portals that were weft's own.
	columns map[string][]byte
	// gathered are the cursors over rows of several shards, and fetches what is known of
	// those that portals fetch from.
	gathered  map[string]gatheredCursor
	fetches   map[string]*plan.Description
	copyNext  *boundCopy // the portal to be executed next, if it is a COPY
	executing *gathering // the portal that is being executed
	// unexecuted: the portal bound last on the backend at hand waits for its Execute.
	unexecuted bool
	// ending: the portal bound last ends the block.
	ending bool
}
