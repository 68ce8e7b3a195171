package proxy

// transaction is the open transaction block, with what is known of all its participants
// together. The zero transaction has no open block.
type transaction struct {
	s *Session

	block
	// crowded: the block has several participants, see party.
	crowded bool
}
