package proxy

import (
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/wire"
)

// Until two-phase commit a block that has changed every shard can end in
// halves: the home shard's COMMIT decides, and the others follow. What can be
// known before is found out before, and the client hears of the rest.

// agree asks the participants of such a block, right before COMMIT, whether
// they can: who is gone is found out, and what was deferred is checked.
func (s *Session) agree() error {
	if !s.block.everywhere || s.conn == nil || s.conn.Status != wire.TxActive {
		return nil
	}
	for _, c := range s.parked {
		if c.Status != wire.TxActive {
			continue
		}
		if err := s.execBeside(c, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
			return err
		}
	}
	if !s.done.schema {
		return nil
	}
	return s.intend()
}

// halfCommitted tells of shards that have not followed.
func halfCommitted(shards []string, err error) *pgerr.Error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the transaction is committed, but not for certain on shard %s", strings.Join(shards, ", ")).
		WithDetail("%s", pgerr.From(err).Message).
		WithHint("The schema may differ there. When the shard is back, run the commands again with IF NOT EXISTS or IF EXISTS.").WithCause(err)
}

// commits reports whether a text that ends a block means to commit it.
func commits(text string) bool {
	w := words(text)
	return len(w) > 0 && (w[0] == "commit" || w[0] == "end")
}

// noteEnding remembers whether the simple query that is about to be sent ends a
// transaction: should its answer get lost, nobody knows how.
func (s *Session) noteEnding(text []byte, f *parser.Facts) {
	s.committing = s.conn.Status == wire.TxActive && endsTx(f) && commits(string(text))
}

// unknownEnd is what the client hears when the answer to a COMMIT is lost.
func unknownEnd(err error) error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the connection to the shard was lost during COMMIT").
		WithDetail("The transaction may or may not have been committed.").
		WithHint("Look whether its changes are there before doing it again.").WithCause(err)
}
