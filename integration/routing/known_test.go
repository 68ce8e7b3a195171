package routing

import (
	"flag"
	"testing"
)

var knownFlag = flag.Bool("known", false, "run what is known to fail, too")

// known are tests that fail, and why. Whoever mends one takes its line out.
var known = map[string]string{
	"TestScripts/cursor/text":          refusal,
	"TestScripts/cursor/binary":        refusal,
	"TestScripts/cursor/prepared":      refusal,
	"TestScripts/transaction/text":     stale,
	"TestScripts/transaction/binary":   stale,
	"TestScripts/transaction/prepared": refusal,
	"TestRandomBlocks":                 refusal,
	"TestSequences":                    "nextval of one sequence makes weft forget the others' last values",
}

const (
	refusal = "a refusal by the extended protocol inside a block loses the connection to the shard"
	stale   = "after a failure ROLLBACK TO by the extended protocol runs the text before it on the other shards"
)

func skipKnown(t *testing.T) {
	t.Helper()
	if why := known[t.Name()]; why != "" && !*knownFlag {
		t.Skip("known to fail: " + why)
	}
}
