package main

import (
	"errors"
	"strings"
	"testing"

	"weft/directory"
	"weft/primary"
	"weft/server"
)

// TestWarnings: weft check names what servers of a shard lack.
func TestWarnings(t *testing.T) {
	shard := &directory.Shard{Name: "s", Hosts: []string{"a:1", "b:1", "c:1"}, System: "7", Timeline: 1}
	seen := func(kind primary.Kind) primary.Sighting {
		return primary.Sighting{Kind: kind, Generation: primary.Generation{System: "7", Timeline: 1}}
	}
	hosts := server.Hosts{
		{Shard: "s", Address: "a:1", Seen: seen(primary.Primary), Prepared: 100},
		{Shard: "s", Address: "b:1", Seen: seen(primary.Standby), Standby: true, Prepared: 10},
		{Shard: "s", Address: "c:1", Err: errors.New("refused"), Seen: primary.Sighting{Kind: primary.Refused}},
	}
	got := strings.Join(warnings(shard, "sync", hosts), "\n")
	for _, want := range []string{"the cluster has durability sync, and s at a:1 lacks it: synchronous_standby_names is empty", "max_prepared_transactions is 10 at b:1, a standby of s, and 100 at its primary"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	hosts[1].Prepared = 100
	if got := warnings(shard, "", hosts); got != nil {
		t.Errorf("%q", got)
	}
	hosts[0].Seen = primary.Sighting{Kind: primary.Refused}
	if got := warnings(shard, "sync", hosts); got != nil {
		t.Errorf("without a primary: %q", got)
	}
}
