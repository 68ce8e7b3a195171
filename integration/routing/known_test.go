package routing

import (
	"flag"
	"testing"
)

var knownFlag = flag.Bool("known", false, "run what is known to fail, too")

// known are tests that fail, and why. Whoever mends one takes its line out.
var known = map[string]string{
	"TestScripts/cursor":               "a cursor WITH HOLD outside a block is looked for on the home shard",
	"TestScripts/home/text":            extendedSet,
	"TestScripts/home/binary":          extendedSet,
	"TestScripts/home/prepared":        extendedSet,
	"TestScripts/types/text":           extendedSet,
	"TestScripts/types/binary":         extendedSet,
	"TestScripts/types/prepared":       extendedSet,
	"TestScripts/transaction/simple":   "a savepoint command that failed is repeated on shards that join later",
	"TestScripts/transaction/text":     extendedRefusal,
	"TestScripts/transaction/binary":   extendedRefusal,
	"TestScripts/transaction/prepared": extendedRefusal,
	"TestScripts/sequence/text":        extendedRefusal,
	"TestScripts/sequence/binary":      extendedRefusal,
	"TestScripts/sequence/prepared":    extendedRefusal,
	"TestRandomBlocks":                 extendedRefusal,
	"TestSequences":                    "nextval of one sequence makes weft forget the others' last values",
	"TestEtcdAway":                     "DDL is not refused while etcd is away",
}

const (
	extendedSet     = "SET by the extended protocol after a statement on another shard finds no portal"
	extendedRefusal = "a refusal in the extended protocol inside a block loses the connection to the shard"
)

func skipKnown(t *testing.T) {
	t.Helper()
	if why := known[t.Name()]; why != "" && !*knownFlag {
		t.Skip("known to fail: " + why)
	}
}
