package proxy

import (
	"testing"

	"weft/directory"
)

// TestNewID: the sessions of as many proxies as there are blocks have no number in common, and one
// proxy more still gets an ID.
func TestNewID(t *testing.T) {
	var others []directory.Proxy
	seen := map[int32]string{}
	for range blocks {
		id := NewID(others)
		block := blockOf(id)
		if was := seen[block]; was != "" {
			t.Fatalf("proxies %s and %s both have block %d", was, id, block)
		}
		if block < firstID || int64(block)+firstID > 1<<31 {
			t.Fatalf("block %d is out of bounds", block)
		}
		seen[block] = id
		others = append(others, directory.Proxy{ID: id})
	}
	if NewID(others) == "" {
		t.Error("no ID for one proxy more")
	}
}
