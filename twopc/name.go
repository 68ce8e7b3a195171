package twopc

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// Name is the name of a prepared transaction on its server: enough to find out how the
// transaction must end. Names are unique on a server, which may hold several shards, so the
// participant is part of the name.
type Name struct {
	Cluster     string // the directory's id of the cluster
	Incarnation string // the directory's id of the proxy that commits
	Nonce       string // tells the proxy's transactions apart: hexadecimal digits that cannot be guessed
	Decider     string // the deciding shard
	// Timeline is that of the deciding shard's server. Servers of earlier timelines know nothing of the transaction. 0: not known.
	Timeline    uint32
	Participant string // the shard that has prepared; empty in a decision
}

const prefix = "weft"

// NewNonce makes a nonce of 96 bits: a client that could guess one could take the name of a
// transaction to come.
func NewNonce() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// String returns the name in PostgreSQL's form, of at most 199 bytes: the name of a shard has up
// to 63, and a timeline up to 7 digits. Without a participant the result is the key of the decision.
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
	if n.Timeline != 0 {
		b = strconv.AppendUint(append(b, '.'), uint64(n.Timeline), 16) // names of shards have no dots
	}
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

// Reserved reports whether weft could make a name, for whatever cluster: clients cannot use it.
func Reserved(gid string) bool { return strings.HasPrefix(gid, prefix+":") }

// Prefix is the beginning of all names of a cluster.
func Prefix(cluster string) string { return prefix + ":" + cluster + ":" }

// ParseName reads the result of String. It reports false if weft did not make the name.
func ParseName(gid string) (Name, bool) {
	p := strings.Split(gid, ":")
	if len(p) == 5 {
		p = append(p, "")
	}
	if len(p) != 6 || p[0] != prefix || p[4] == "" || strings.HasSuffix(gid, ":") {
		return Name{}, false
	}
	if digits := strings.TrimPrefix(p[3], pledged); digits == "" || len(p[3]) > 32 || strings.Trim(digits, "0123456789abcdef") != "" {
		return Name{}, false
	}
	n := Name{Cluster: p[1], Incarnation: p[2], Nonce: p[3], Participant: p[5]}
	var timeline string
	var later bool
	if n.Decider, timeline, later = strings.Cut(p[4], "."); later {
		t, err := strconv.ParseUint(timeline, 16, 32)
		if err != nil || t == 0 || n.Decider == "" {
			return Name{}, false
		}
		n.Timeline = uint32(t)
	}
	return n, true
}
