package twopc

import "strings"

// Name is what a prepared transaction is called on its server: enough to find
// out how it must end. Names are unique on a server, which may be several
// shards, so the participant is part of it.
type Name struct {
	Cluster     string // the directory's id of the cluster
	ID          string // of the transaction
	XID         string // of the deciding shard's part of it
	Decider     string // the deciding shard
	Participant string // the shard that has prepared
}

const prefix = "weft"

// String returns the name in PostgreSQL's form, of at most 199 bytes: shards'
// names have up to 63.
func (n Name) String() string {
	return strings.Join([]string{prefix, n.Cluster, n.ID, n.XID, n.Decider, n.Participant}, ":")
}

// ParseName reads what String has written; false if it is somebody else's.
func ParseName(gid string) (Name, bool) {
	p := strings.Split(gid, ":")
	if len(p) != 6 || p[0] != prefix {
		return Name{}, false
	}
	return Name{p[1], p[2], p[3], p[4], p[5]}, true
}
