package proxy

import "weft/pool"

// transaction is the open transaction block, with what is known of all its participants
// together. The zero transaction has no open block.
type transaction struct {
	s *Session

	block
	// crowded: the block has several participants, or waits for a second one; see party.
	crowded bool
}

// noteCrowd notes that the block has several participants, or waits for another;
// noteDispersed, that it has none left.
func (t *transaction) noteCrowd()     { t.crowded = true }
func (t *transaction) noteDispersed() { t.crowded = false }

// The events of a block.

// startPiped opens a block for messages without a Sync that have written on c. What they have
// set stays, and if that was too much to remember, no shard can join.
func (b *block) startPiped(c *pool.Conn) {
	replay, sets, before := b.replay, b.sets, b.state
	b.start(plainBegin)
	b.replay, b.sets, b.state = replay, sets, before.after(blockWidens)
	b.writer, b.clock = c, c
}

// end closes the block and forgets everything about it.
func (b *block) end() {
	state := b.state.after(blockEnds)
	*b = block{state: state}
}

// seal makes sure that no shard can join.
func (b *block) seal() { b.state = b.state.after(blockSeals) }

// noteJoined notes a participant: the first one's now() is the block's.
func (b *block) noteJoined(c *pool.Conn) {
	if b.clock == nil {
		b.clock = c
	}
}

// noteFirstUsed notes the participant that runs the first statement of the block.
func (b *block) noteFirstUsed(c *pool.Conn) { b.clock = c }

// noteNow notes the value of now() in the block.
func (b *block) noteNow(now string) { b.now = now }

// noteChain notes whether the block is about to end with AND CHAIN.
func (b *block) noteChain(chain bool) { b.chain = chain }

// noteTag notes the tag of the last command, or how the block has ended.
func (b *block) noteTag(tag string) { b.tag = tag }

// noteError notes the SQLSTATE of an error in the block.
func (b *block) noteError(code string) {
	if code == barredCode {
		b.barred = true
	}
}

// noteCursor notes where a cursor of the block is.
func (b *block) noteCursor(name string, at cursor) {
	if b.cursors == nil {
		b.cursors = map[string]cursor{}
	}
	b.cursors[name] = at
}

// noteCarrier notes that a participant leaves notes of its notifications.
func (b *block) noteCarrier() { b.carries = true }

// bePatient makes weft enforce idle_in_transaction_session_timeout.
func (b *block) bePatient() { b.patient = true }

// noteEverywhere notes that the block changes schemas, on all shards alike.
func (b *block) noteEverywhere() { b.everywhere = true }

// takeBefore returns the old values of parameters that have changed in the block, once.
func (b *block) takeBefore() map[string]string {
	before := b.before
	b.before = nil
	return before
}
