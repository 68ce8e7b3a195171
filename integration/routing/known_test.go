package routing

import (
	"flag"
	"testing"
)

var knownFlag = flag.Bool("known", false, "run what is known to fail, too")

// known are tests that fail, and why. Whoever mends one takes its line out.
var known = map[string]string{
	"TestScripts/transaction/text":     refusal,
	"TestScripts/transaction/binary":   refusal,
	"TestScripts/transaction/prepared": refusal,
	"TestRandomBlocks":                 refusal,
	"TestSequences":                    "nextval of one sequence makes weft forget the others' last values",
}

const refusal = "a write on a second shard, by the extended protocol inside a block, is refused as a lost connection"

func skipKnown(t *testing.T) {
	t.Helper()
	if why := known[t.Name()]; why != "" && !*knownFlag {
		t.Skip("known to fail: " + why)
	}
}
