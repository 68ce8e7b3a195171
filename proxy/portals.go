package proxy

import (
	"weft/catalog"
	"weft/plan"
	"weft/pool"
)

// portals is the portals that the client has bound, by where each portal is.
type portals struct {
	s *Session

	local map[string]*localPortal // portals that weft answers itself
	lane  *pool.Lane              // where the unnamed portal is
	lanes map[string]*pool.Lane   // where the named portals are
	rows  *catalog.Rows           // how the rows of the portal bound last are translated
	// everywhere are the portals whose execution goes to every shard; forAll are the
	// portals whose execution is for all participants of the block.
	everywhere map[string]*spread
	forAll     map[string]forAll
	// columns are the RowDescriptions of portals that weft answered itself.
	columns map[string][]byte
	// gathered are the cursors over rows of several shards; fetches describes the cursors
	// that portals fetch from.
	gathered  map[string]gatheredCursor
	fetches   map[string]*plan.Description
	copyNext  *boundCopy // the portal to be executed next, if it is a COPY
	executing *gathering // the portal that is being executed
	// unexecuted: the portal bound last on the backend at hand waits for its Execute.
	unexecuted bool
	// ending: the portal bound last ends the block.
	ending bool
}
