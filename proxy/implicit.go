package proxy

// implicit is the transaction that PostgreSQL gives to extended messages between two
// Syncs, see pipeline.go.
type implicit struct {
	s *Session

	// open says that weft itself has opened the block, for extended messages.
	open bool
	// piped says that messages without a Sync may have written or locked rows.
	piped bool
	// settled says that the backend has reported the end of a transaction since the last Sync.
	settled bool
	// begun says that a statement has been executed since the last Sync or COMMIT.
	begun bool
}
