package twopc

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/pgerr"
	"weft/quote"
)

// Member is a participant as the decision lists it.
type Member struct {
	Shard string
	// Server identifies the participant's server and its last failover, as weft.server() does.
	Server string
	// Replicated says that PREPARE TRANSACTION waits until a synchronous standby has it: a standby that takes over has
	// the prepared transaction, or has followed.
	Replicated bool
	// Listed says that the participant enters a row of weft.part. All members of a decision do, or none.
	Listed bool
}

// keptBy reports whether a server that has taken the place of the member's has all that the member had prepared.
func (m Member) keptBy(server string) bool {
	was, _, ok := strings.Cut(m.Server, "/")
	is, _, _ := strings.Cut(server, "/")
	return m.Replicated && ok && was == is
}

// replicated follows the server of a member that is Replicated, and listed follows all members if they are Listed. Proxies of versions without weft.part skip
// the space.
const (
	replicated = "+"
	listed     = " "
)

// Decision is a row of weft.decision.
type Decision struct {
	Key     string // key of the transaction: Name without a participant
	Members []Member
	// Decider is the deciding shard as a member. It is not in the row.
	Decider Member
	// Announced says that the transaction changes schemas and is in the directory too. The
	// decision must outlive the directory's entry.
	Announced bool
	// Age is how long ago the decision was entered, for Resolver.Sweep.
	Age time.Duration
}

// adopt notes that a participant's transaction is prepared on a server. It reports whether that changes the decision.
func (d *Decision) adopt(participant, server string) (changed bool) {
	for i := range d.Members {
		m := &d.Members[i]
		if m.Shard == participant && m.Server != server && !m.keptBy(server) {
			m.Server, m.Replicated, changed = server, false, true
		}
	}
	return changed
}

// announced begins the participants of a decision that is Announced.
const announced = "!"

// Participants writes the members in the form of the row's column participants.
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
		if m.Replicated {
			b.WriteString(replicated)
		}
	}
	if d.listed() {
		b.WriteString(listed)
	}
	return b.String()
}

// listed reports whether the members are Listed.
func (d *Decision) listed() bool { return len(d.Members) > 0 && d.Members[0].Listed }

// ParseDecision reads a row of weft.decision.
func ParseDecision(key, participants string) Decision {
	d := Decision{Key: key}
	participants, d.Announced = strings.CutPrefix(participants, announced)
	enters := strings.HasSuffix(participants, listed)
	for _, f := range strings.Fields(participants) {
		shard, server, _ := strings.Cut(f, "@")
		server, waited := strings.CutSuffix(server, replicated)
		d.Members = append(d.Members, Member{shard, server, waited, enters})
	}
	return d
}

// DecideSQL enters a decision, in the deciding transaction itself.
const DecideSQL = "INSERT INTO weft.decision (gid, participants, proof) VALUES ($1, $2, $3)"

// Parameters returns the parameters of DecideSQL. secret is the secret of the database.
func (d *Decision) Parameters(secret string) []string {
	return []string{d.Key, d.Participants(), string(appendProof(nil, secret, d.Key))}
}

// appendProof appends the proof that weft has entered a decision: a hash that names the database,
// and a hash that takes the database's secret to make. weft.proof makes the same.
func appendProof(b []byte, secret, key string) []byte {
	sum := sha256.Sum256([]byte("database " + secret))
	b = hex.AppendEncode(b, sum[:8])
	sum = sha256.Sum256([]byte(secret + key))
	return hex.AppendEncode(b, sum[:])
}

// genuine is an SQL condition: weft has entered the row d of weft.decision. o is the row of
// weft.own.
const genuine = "COALESCE(d.proof = weft.proof(o.key, d.gid), false)"

// ArbitrateSQL asks the deciding shard how a transaction ended, by entering an abort in the place
// of its decision. If the decision's row is there, the transaction was committed. If the row is
// not there, the insert waits for the deciding transaction while that is open. If the insert
// succeeds, the deciding transaction is dead, because it enters the row before any participant
// prepares. The abort is then rolled back, so that nothing has to be removed later.
//
// Only looking for the row would be a guess: while COMMIT is on its way the row is not visible.
// Under REPEATABLE READ the insert would fail instead of answering.
//
// The unique key of a row includes its proof, and the abort has the right proof: rows that others
// have entered under the same name, committed or not, do not conflict with it.
func ArbitrateSQL(key string, patienceMillis int64) string {
	return fmt.Sprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0; "+
		"INSERT INTO weft.decision (gid, participants, proof) SELECT %[2]s, 'abort', weft.proof(o.key, %[2]s) FROM weft.own o ON CONFLICT DO NOTHING RETURNING 'f'; "+
		"SELECT true FROM weft.decision d, weft.own o WHERE d.gid = %[2]s AND "+genuine+"; ROLLBACK", patienceMillis, quote.Literal(key))
}

// ReadArbitration reads the answer to ArbitrateSQL.
func ReadArbitration(rows [][]string, err error) (Outcome, error) {
	e := (*pgerr.Error)(nil)
	switch {
	case err == nil && len(rows) == 0:
		return Open, nil // the row was deleted between the two statements: all have confirmed, or the row was forged
	case err == nil && rows[0][0] == "t":
		return Committed, nil
	case err == nil:
		return Aborted, nil
	case errors.As(err, &e) && e.Code == pgerr.LockNotAvailable:
		return Open, nil
	}
	return Open, err
}
