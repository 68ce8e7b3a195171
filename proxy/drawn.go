package proxy

import (
	"slices"

	"weft/sequence"
)

// drawn has the sequence values that weft drew for the session.
type drawn struct {
	s *Session

	values map[string]int64 // the last value drawn, by sequence
	last   string           // the sequence from which the last value was drawn
	// unentitled are the sequences that the session's role may not draw from.
	unentitled map[sequence.Name]bool
	fresh      [][]byte // values drawn for the next Bind
	// lots are the sequences from which triggers of the session's statements draw on shards.
	lots  []string
	loans []loan
}

// keepFresh keeps a copy of the values that were drawn to place a Parse. The Bind that follows gets
// the same ones: a row is placed by one value of its key, not by two.
func (d *drawn) keepFresh(values [][]byte) { d.fresh = slices.Clone(values) }

// takeFresh appends the values that were kept, if there are n, to those of into, and forgets them.
func (d *drawn) takeFresh(into [][]byte, n int) ([][]byte, bool) {
	if len(d.fresh) != n {
		return into, false
	}
	into, d.fresh = append(into, d.fresh...), nil
	return into, true
}

// dropFresh forgets values that were kept for another Bind.
func (d *drawn) dropFresh() { d.fresh = nil }
