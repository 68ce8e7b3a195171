package leftover

import (
	"fmt"
	"testing"
	"time"

	"weft/directory"
	"weft/twopc"
)

// TestDoubts: transactions in doubt are counted by age, and grow older while nothing is heard of their shard.
func TestDoubts(t *testing.T) {
	snap := directory.New(16, "a", []directory.Shard{{Name: "a", Hosts: []string{"a:1"}, Weight: 1}, {Name: "b", Hosts: []string{"b:1"}, Weight: 1}})
	now := time.Unix(1000, 0)
	of := func(participant string, age time.Duration) twopc.InDoubt {
		return twopc.InDoubt{Name: twopc.Name{Participant: participant}, Age: age}
	}
	var d doubts
	d.set("a", []twopc.InDoubt{of("a", time.Second), of("a", 30*time.Second), of("b", time.Hour)}, now)
	d.set("gone", []twopc.InDoubt{of("gone", time.Hour)}, now)
	if got := fmt.Sprint(d.count(snap, now)); got != "map[a:[{0s 2} {10s 1} {1m0s 0} {10m0s 0} {1h0m0s 0}] b:[{0s 0} {10s 0} {1m0s 0} {10m0s 0} {1h0m0s 0}]]" {
		t.Error(got)
	}
	if got := fmt.Sprint(d.count(snap, now.Add(time.Hour))["a"]); got != "[{0s 2} {10s 2} {1m0s 2} {10m0s 2} {1h0m0s 2}]" {
		t.Error(got)
	}
	d.set("a", nil, now)
	if got := fmt.Sprint(d.count(snap, now)["a"][0]); got != "{0s 0}" {
		t.Error(got)
	}
}
