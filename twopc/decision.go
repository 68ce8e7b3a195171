package twopc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"weft/pgerr"
	"weft/quote"
)

// Member is a participant as the decision lists it.
type Member struct {
	Shard string
	// Server is which server it was, and since which failover: weft.server().
	Server string
}

// Decision is a row of weft.decision.
type Decision struct {
	Key     string // of the transaction: Name without a participant
	Members []Member
	// Announced: it is in the directory too, because it changes schemas, and
	// must outlive its entry there.
	Announced bool
}

const announced = "!"

// Participants writes the members as the row has them.
func (d *Decision) Participants() string {
	var b strings.Builder
	if d.Announced {
		b.WriteString(announced)
	}
	for i, m := range d.Members {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(m.Shard)
		b.WriteByte('@')
		b.WriteString(m.Server)
	}
	return b.String()
}

// ParseDecision reads a row.
func ParseDecision(key, participants string) Decision {
	d := Decision{Key: key}
	participants, d.Announced = strings.CutPrefix(participants, announced)
	for _, f := range strings.Fields(participants) {
		shard, server, _ := strings.Cut(f, "@")
		d.Members = append(d.Members, Member{shard, server})
	}
	return d
}

// DecideSQL enters a decision, in the transaction that it is about.
const DecideSQL = "INSERT INTO weft.decision (gid, participants, proof) VALUES ($1, $2, $3)"

// Parameters are those of DecideSQL. secret is the database's own.
func (d *Decision) Parameters(secret string) []string {
	return []string{d.Key, d.Participants(), string(appendProof(nil, secret, d.Key))}
}

// appendProof appends what shows that a decision is weft's: which database it is
// for, and a hash that only those can make who know its secret. weft.proof makes the same.
func appendProof(b []byte, secret, key string) []byte {
	sum := sha256.Sum256([]byte("database " + secret))
	b = hex.AppendEncode(b, sum[:8])
	sum = sha256.Sum256([]byte(secret + key))
	return hex.AppendEncode(b, sum[:])
}

// genuine tells, of a row d of weft.decision and o of weft.own, whether weft has
// entered it.
const genuine = "COALESCE(d.proof = weft.proof(o.key, d.gid), false)"

// ArbitrateSQL asks the deciding shard how a transaction ended: by entering an abort in
// its place. If the row is there, it was committed. If it is not, the insert waits
// for the deciding transaction if that is open; that it succeeds proves that
// it is dead, as the row was entered before anybody prepared. Then it has done
// its work, and is rolled back: nothing stays that would have to be removed.
//
// To look for the row would be a guess: while COMMIT is on its way nothing is to
// be seen. Under REPEATABLE READ the insert would fail, not answer.
//
// Rows are unique with their proofs, and it enters one with the right proof: what others
// have entered under the same name, and may not have committed, is in nobody's way.
func ArbitrateSQL(key string, patienceMillis int64) string {
	return fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0; "+
		"INSERT INTO weft.decision (gid, participants, proof) SELECT %[2]s, 'abort', weft.proof(o.key, %[2]s) FROM weft.own o ON CONFLICT DO NOTHING RETURNING 'f'; "+
		"SELECT true FROM weft.decision d, weft.own o WHERE d.gid = %[2]s AND "+genuine+"; ROLLBACK", patienceMillis, quote.Literal(key))
}

// ReadArbitration reads the answer.
func ReadArbitration(rows [][]string, err error) (Outcome, error) {
	e := (*pgerr.Error)(nil)
	switch {
	case err == nil && len(rows) == 0:
		return Open, nil // it went between the two looks: all have confirmed, or somebody has removed a false one
	case err == nil && rows[0][0] == "t":
		return Committed, nil
	case err == nil:
		return Aborted, nil
	case errors.As(err, &e) && e.Code == pgerr.LockNotAvailable:
		return Open, nil
	}
	return Open, err
}
