package proxy

import "weft/pgerr"

// loss is an open transaction that can only be rolled back, because a backend of it
// is gone or because weft made it fail.
type loss struct {
	s *Session

	// tx: the transaction's backend is gone, so that only ROLLBACK helps.
	tx bool
	// here: weft made the transaction fail before any shard took part.
	here  bool
	cause *pgerr.Error // how the backend was lost, if the client has not heard
	// ends: the portal that is bound ends the lost transaction; commits: by COMMIT.
	ends    bool
	commits bool
}
