package proxy

import "weft/wire"

// answers is what is on its way to the client.
type answers struct {
	s *Session

	wire.Out     // whole messages, not yet written
	rem      int // bytes of a row that are still to be passed on from the backend
	// reported are the parameters as last told to the client. The map is shared
	// with other sessions until ownsRep says that it is a copy.
	reported map[string]string
	ownsRep  bool
	// fatal: the backend said FATAL; the session ends once the client has heard.
	fatal bool
	// quiet: the statement that runs is a part of the client's statement, so the
	// client is not told that weft is ready. failed: that part has failed.
	quiet  bool
	failed bool
	// overheard takes the answers to a statement that the client has not sent.
	overheard *overheard
}
