package proxy

// implicit is the transaction that PostgreSQL gives to extended messages between two
// Syncs, see pipeline.go.
type implicit struct {
	s *Session

	// open: the open block is weft's own, for such messages.
	open bool
	// piped: messages without a Sync may have written or locked rows.
	piped bool
	// settled: since the last Sync the backend has said how a transaction ended.
	settled bool
	// begun: a statement has been executed since the last Sync or COMMIT.
	begun bool
}
