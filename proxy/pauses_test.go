package proxy

import (
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	var p pauses
	key, now := ownKey{"shard", "database"}, time.Unix(1000, 0)
	if !p.due(key, now) {
		t.Error("what never failed waits")
	}
	long := time.Duration(0)
	for range 20 {
		p.failed(key, now)
		before := long
		for long = 0; !p.due(key, now.Add(long)); long += time.Second {
		}
		if want := min(max(2*before, firstPause), longestPause); long != want {
			t.Fatalf("a pause of %s after one of %s, want %s", long, before, want)
		}
	}
	if !p.due(ownKey{"shard", "other"}, now) {
		t.Error("another database waits, too")
	}
	p.done(key)
	p.failed(key, now)
	if !p.due(key, now.Add(firstPause)) {
		t.Error("the pause after a success is not the first")
	}
}
