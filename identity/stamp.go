package identity

import (
	"fmt"
	"regexp"

	"weft/quote"
)

// Stamp is what a database says it belongs to.
type Stamp struct {
	Cluster string // the cluster's id
	Shard   string // the shard's name
	System  string // pg_control_system().system_identifier when it was written
}

// stampText is a stamp as a person reads it, too.
var stampText = regexp.MustCompile(`^weft: cluster ([0-9a-zA-Z_-]+), shard ([a-z0-9_-]+), server ([0-9]+)$`)

// String returns the stamp as it is written.
func (s Stamp) String() string {
	return fmt.Sprintf("weft: cluster %s, shard %s, server %s", s.Cluster, s.Shard, s.System)
}

// Parse reads a stamp. Another text than a stamp's is none: the schema may have been
// given a comment by somebody.
func Parse(text string) (s Stamp, ok bool) {
	m := stampText.FindStringSubmatch(text)
	if m == nil {
		return Stamp{}, false
	}
	return Stamp{Cluster: m[1], Shard: m[2], System: m[3]}, true
}

// Write returns the statement that stamps the database it is run in. The schema weft must
// be there, and belong to the role.
func (s Stamp) Write() string {
	return "COMMENT ON SCHEMA weft IS " + quote.Literal(s.String())
}
