package reshard

import "weft/directory"

// Early is the placement by which some backend of a block may have taken its snapshot before the
// block took the others: weft has asked it what a setting is, or had it parse a text. Rows that
// move between such a snapshot and the others would be seen twice, or not at all. The zero value
// is that of a block without such a backend.
type Early struct {
	at     *directory.Snapshot // nil: there is none
	unsure bool                // a round was carrying rows at that moment
}

// Note notes that a backend may take its snapshot now, by a placement that directory.Snapshot.For has
// made for the block's database. The first one counts: PostgreSQL keeps the first snapshot of a
// transaction.
func (e *Early) Note(at *directory.Snapshot, b *Barrier) {
	if e.at != nil {
		return
	}
	e.at = at
	e.unsure = b != nil && b.Round != nil && b.Round.Phase != directory.HoldWrites
}

// Forget notes that no backend of the block has a snapshot.
func (e *Early) Forget() {
	if e.at != nil {
		*e = Early{}
	}
}

// Fits reports whether snapshots that are taken now see the same rows in the same places as the
// early one.
func (e *Early) Fits(now *directory.Snapshot) bool {
	return e.at == nil || !e.unsure && directory.PlacesIn(now).Same(e.at)
}
