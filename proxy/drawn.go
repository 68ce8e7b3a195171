package proxy

import "weft/sequence"

// drawn is the sequence values that weft drew for the session.
type drawn struct {
	s *Session

	values map[string]int64 // the last value, by sequence
	last   string           // the sequence drawn from last
	// unentitled are the sequences that the session's role may not draw from.
	unentitled map[sequence.Name]bool
	fresh      [][]byte // values drawn for the Bind that follows
	loans      []loan
}
