package proxy

import (
	"regexp"
	"strings"

	"weft/pgerr"
	"weft/pool"
)

// barredCode is the error code for a write in a READ ONLY transaction.
const barredCode = "25006"

// hasWritten asks a participant whether its transaction is read-only, and whether it has
// written.
const hasWritten = "SELECT pg_catalog.current_setting('transaction_read_only'), pg_catalog.txid_current_if_assigned() IS NOT NULL"

// spare finds out, at COMMIT, which participants have written in a block in which a shard has
// refused a write as READ ONLY. After ROLLBACK TO such a block goes on, but participants noted
// as writers may not have written, and could not enter the decision of a two-phase commit
// either.
func (t *transaction) spare() error {
	b := &t.block
	if !b.barred || !b.decides() {
		return nil
	}
	var wrote []*pool.Conn
	for _, c := range append(t.s.held.parked[:len(t.s.held.parked):len(t.s.held.parked)], t.s.held.conn) {
		if !b.wroteOn(c) {
			continue
		}
		rows, err := t.s.commit.askBeside(c, hasWritten)
		if err != nil {
			return err
		}
		if rows[0][0] != "on" {
			return nil // the block was READ ONLY only up to a savepoint
		}
		if rows[0][1] == "t" {
			wrote = append(wrote, c)
		}
	}
	switch len(wrote) {
	case 0:
		b.writer, b.also, b.everywhere = nil, nil, false
	case 1:
		b.writer, b.also = wrote[0], nil
	default:
		return lateReadOnly()
	}
	t.chooseEnder()
	return nil
}

func lateReadOnly() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "a transaction that has written on several shards cannot commit as READ ONLY").
		WithHint("Do not set it READ ONLY after it has written.")
}

// isReadOnly reports whether the client's block is known to be READ ONLY. Where that is not
// known, a shard refuses the write when it executes.
func (t *transaction) isReadOnly() bool {
	if !t.isOpen() || t.plain && len(t.replay) == 0 {
		return false
	}
	only := false
	for _, text := range append([]string{t.begin}, t.replay...) {
		w := words(text)
		if len(w) == 0 || w[0] == "rollback" || len(w) > 2 && w[1] == "session" && w[2] == "characteristics" {
			return false // the mode is not known, or set for later transactions
		}
		for i := range w[1:] {
			if w[i] == "read" && (w[i+1] == "only" || w[i+1] == "write") {
				only = w[i+1] == "only"
			}
		}
	}
	return only
}

var lockClause = regexp.MustCompile(`(?i)\bfor\s+(no\s+key\s+update|update|key\s+share|share)\b`)

// lockingName is PostgreSQL's name for a query that locks rows, "" for any other text and for
// DECLARE.
func lockingName(text []byte) string {
	m := lockClause.FindSubmatch(text)
	if w := words(string(text)); m == nil || len(w) == 0 || w[0] == "declare" {
		return ""
	}
	return "SELECT FOR " + strings.ToUpper(strings.Join(strings.Fields(string(m[1])), " "))
}
