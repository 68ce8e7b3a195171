package proxy

import (
	"slices"

	"weft/pool"
	"weft/wire"
)

// A statement that fails ends the transaction on its own shard: PostgreSQL releases all locks
// there, or those taken since the last savepoint, without waiting for the client's ROLLBACK.
// The other participants must release theirs too: other transactions may be waiting for these
// locks, above all if the error is a deadlock.

// failAll makes the other participants fail when the backend at hand has failed. An error means
// that a participant is lost.
func (t *transaction) failAll() error {
	if !t.isOpen() || len(t.s.held.parked) == 0 || t.s.held.conn == nil || t.s.held.conn.Status() != wire.TxFailed {
		return nil
	}
	text := "ROLLBACK"
	if t.savepoints() {
		text = provoke // fail the transactions, so that ROLLBACK TO can still reach the savepoint
	}
	var active []*pool.Conn
	for _, c := range t.s.held.parked {
		if c.Status() == wire.TxActive {
			active = append(active, c)
		}
	}
	for _, c := range active {
		if _, err := c.Write(wire.AppendQuery(nil, text)); err != nil {
			return c.Lost(err)
		}
	}
	for _, c := range active {
		c.UnnamedGone()
		if err := c.UntilReady(func(byte, []byte) {}); err != nil {
			return err
		}
	}
	return nil
}

// savepoints reports whether the block has set any savepoint.
func (b *block) savepoints() bool {
	return slices.ContainsFunc(b.replay, func(text string) bool {
		w := words(text)
		return len(w) > 0 && w[0] == "savepoint"
	})
}
