package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// Functions of schema weft that change what weft keeps are called on the backends of clients, in
// their transactions and by their roles. So every role may call them, and a proof shows that weft
// makes the call: a hash over the function, its arguments and the backend's process, which takes
// the database's secret to make. The proof travels as a parameter, which pg_stat_activity does not
// show to other sessions of the role. A proof that leaks all the same is good for the same call on
// the same backend alone. weft.prove (sql/prove.sql) checks it.

// Prove makes the proof of a call on a backend.
func (o *Own) Prove(pid int32, call ...string) string {
	sum := func(text string) string {
		h := sha256.Sum256([]byte(o.Key + text))
		return hex.EncodeToString(h[:])
	}
	return sum(sum(strconv.Itoa(int(pid)) + "\n" + strings.Join(call, "\n")))
}
