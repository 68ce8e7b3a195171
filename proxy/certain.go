package proxy

import (
	"weft/parser"
	"weft/plan"
)

// With weft.commit = 'certain' a transaction of one shard is committed as one of several: a decision is entered in the transaction, before COMMIT. If the
// answer to COMMIT is lost, the shard's new primary tells whether the decision is there, and so how the transaction ended. A statement that writes outside of
// a block gets a block of weft's own, because its COMMIT must follow the decision.

// certain reports whether the end of a transaction must be known although one shard alone has written.
func (cm *commit) certain() bool {
	return cm.s.record.inEffect.certain && cm.s.tx.writer != nil && !cm.s.tx.decides()
}

// ends reports whether COMMIT is not the business of one backend alone.
func (cm *commit) ends() bool { return cm.s.tx.decides() || cm.certain() }

// wrote reports whether the transaction of the backend at hand has written. A READ ONLY transaction has not, and could not enter a decision.
func (cm *commit) wrote() (bool, error) {
	rows, err := cm.askBeside(cm.s.held.conn, hasWritten)
	return err == nil && rows[0][0] != "on" && rows[0][1] == "t", err
}

// changesNothing reports whether the transaction of a session that wants certainty has written nothing: its outcome does not matter.
func (cm *commit) changesNothing() bool {
	return cm.s.record.inEffect.certain && cm.s.route.hasTables && cm.s.tx.isOpen() && (cm.idle || cm.s.tx.writer == nil)
}

// wantsBlock reports whether a statement needs a block of weft's own, so that its client can be told how it ended. A procedure may commit by itself, and is left
// alone.
func (cm *commit) wantsBlock(f *parser.Facts) bool {
	return cm.s.record.inEffect.certain && f.Whole && !f.Reads && !cm.s.tx.isOpen() && !cm.s.lost.is() && cm.s.record.pins&^pinSessionMode == 0
}

// openFor opens a block of weft's own for extended messages that are about to write.
func (cm *commit) openFor(p *plan.Plan, f *parser.Facts) error {
	if !cm.wantsBlock(f) || p == nil || !p.Writes && f.Effects&parser.Writes == 0 {
		return nil
	}
	return cm.s.implicit.openPipe()
}
