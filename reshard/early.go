package reshard

import (
	"slices"

	"weft/directory"
)

// Early is the placement by which some backend of a block may have taken its snapshot before the
// block took the others: weft has asked it what a setting is, or had it parse a text. Rows that
// move between such a snapshot and the others would be seen twice, or not at all. The zero value
// is that of a block without such a backend.
type Early struct {
	placement []uint16
	shards    int
	noted     bool
	unsure    bool // a round was carrying rows at that moment
}

// Note notes that a backend may take its snapshot now. The first one counts: PostgreSQL keeps the
// first snapshot of a transaction.
func (e *Early) Note(placement []uint16, shards int, b *Barrier) {
	if e.noted {
		return
	}
	*e = Early{placement: placement, shards: shards, noted: true}
	e.unsure = b != nil && b.Round != nil && b.Round.Phase != directory.HoldWrites
}

// Forget notes that no backend of the block has a snapshot.
func (e *Early) Forget() {
	if e.noted {
		*e = Early{}
	}
}

// Fits reports whether snapshots that are taken now, by a placement, see the same rows in the same
// places as the early one.
func (e *Early) Fits(placement []uint16, shards int) bool {
	return !e.noted || !e.unsure && e.shards == shards && slices.Equal(e.placement, placement)
}
