package twopc

import (
	"strings"
	"testing"
)

// TestFateOf: which shards have their part of a transaction is read off decisions, parts and servers.
func TestFateOf(t *testing.T) {
	n := Name{Cluster: "c", Incarnation: "p", Nonce: "1", Decider: "d", Timeline: 1}
	d := Decision{Key: n.Key(), Members: []Member{{Shard: "a", Server: "7/00000001", Listed: true}}}
	n.Participant = "a"
	part := n.String()
	for _, c := range []struct {
		name       string
		decision   bool   // the decision is there
		decider    uint32 // timelines
		member     string // server
		part       bool
		prepared   bool
		kept, lost string
	}{
		{"no failover, and the decision is forgotten", false, 1, "7/00000001", false, false, "d a", ""},
		{"the participant has its part", true, 1, "7/00000002", true, false, "d a", ""},
		{"the participant has lost its part", true, 1, "7/00000002", false, false, "d", "a"},
		{"the decider has lost the decision, and the participant has followed", false, 2, "7/00000001", true, false, "a", "d"},
		{"the decider has lost the decision, and the participant was rolled back", false, 2, "7/00000001", false, false, "", "d a"},
		{"both have failed over and lost nothing", true, 2, "7/00000002", true, false, "d a", ""},
		{"both have lost it", false, 2, "7/00000002", false, false, "", "d a"},
		{"it is prepared", true, 1, "7/00000002", false, true, "d", "a"},
	} {
		has := map[string]*holding{
			"d": {timeline: c.decider, rows: map[string]bool{d.Key: c.decision}},
			"a": {server: c.member, rows: map[string]bool{part: c.part}, prepared: map[string]bool{part: c.prepared}},
		}
		f := fateOf(d, has)
		if strings.Join(f.Kept, " ") != c.kept || strings.Join(f.Lost, " ") != c.lost || f.Open != c.prepared {
			t.Errorf("%s: %+v", c.name, f)
		}
		if state := f.State(); (state == "") != (c.lost == "") || (state == StateLost) != (c.kept == "") {
			t.Errorf("%s: %q", c.name, state)
		}
	}
}
