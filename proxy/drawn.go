package proxy

import "weft/sequence"

// drawn has the sequence values that weft drew for the session.
type drawn struct {
	s *Session

	values map[string]int64 // the last value drawn, by sequence
	last   string           // the sequence from which the last value was drawn
	// unentitled are the sequences that the session's role may not draw from.
	unentitled map[sequence.Name]bool
	fresh      [][]byte // values drawn for the next Bind
	loans      []loan
}
