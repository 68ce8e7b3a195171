package twopc

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Name is what a prepared transaction is called on its server: enough to find
// out how it must end. Names are unique on a server, which may be several
// shards, so the participant is part of it.
type Name struct {
	Cluster     string // the directory's id of the cluster
	Incarnation string // the directory's id of the proxy that commits
	Nonce       string // which of its transactions: hexadecimal digits that nobody can guess
	Decider     string // the deciding shard
	Participant string // the shard that has prepared; empty in a decision
}

const prefix = "weft"

// NewNonce makes one of 128 bits: whoever could guess it could take the name of a
// transaction to come.
func NewNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// String returns the name in PostgreSQL's form, of at most 199 bytes: shards'
// names have up to 63. Without a participant it is the key of the decision.
func (n Name) String() string { return string(n.Append(nil, n.Participant)) }

// Append appends the name of one participant's part; without a participant, the
// key of the decision.
func (n Name) Append(b []byte, participant string) []byte {
	b = append(b, prefix...)
	for _, part := range [...]string{n.Cluster, n.Incarnation} {
		b = append(append(b, ':'), part...)
	}
	b = append(append(b, ':'), n.Nonce...)
	b = append(append(b, ':'), n.Decider...)
	if participant != "" {
		b = append(append(b, ':'), participant...)
	}
	return b
}

// Key returns the name without its participant: the key of the decision.
func (n Name) Key() string {
	n.Participant = ""
	return n.String()
}

// Prefix is what the names of a cluster begin with.
func Prefix(cluster string) string { return prefix + ":" + cluster + ":" }

// ParseName reads what String has written; false if it is somebody else's.
func ParseName(gid string) (Name, bool) {
	p := strings.Split(gid, ":")
	if len(p) == 5 {
		p = append(p, "")
	}
	if len(p) != 6 || p[0] != prefix || p[4] == "" || strings.HasSuffix(gid, ":") {
		return Name{}, false
	}
	if p[3] == "" || len(p[3]) > 32 || strings.Trim(p[3], "0123456789abcdef") != "" {
		return Name{}, false
	}
	return Name{p[1], p[2], p[3], p[4], p[5]}, true
}
