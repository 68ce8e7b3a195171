package seek

import (
	"testing"
	"time"

	"weft/primary"
)

// TestLost: a lost connection has the servers looked at for as long as the primary may still be dying, and not at all if another one has been
// promoted since.
func TestLost(t *testing.T) {
	w := newWorld(t)
	w.await("a:1 leads", func() bool { return w.lead == "a:1" })
	first := primary.Generation{System: "7", Timeline: 1}
	all := time.Duration(0)
	for _, pause := range lookPauses {
		all += pause
	}
	// lost returns the shortest time of several tries: the machine may be busy.
	lost := func(of primary.Generation) (gone bool, least time.Duration) {
		least = time.Hour
		for range 5 {
			began := time.Now()
			gone = w.Lost(t.Context(), "s", of)
			least = min(least, time.Since(began))
		}
		return gone, least
	}
	for _, of := range []primary.Generation{first, {}} {
		if gone, took := lost(of); gone || took < all {
			t.Errorf("the primary is well: gone %v after %v", gone, took)
		}
	}
	w.set(func() { w.servers["a:1"] = "refuses" })
	if gone, took := lost(first); !gone || took >= all {
		t.Errorf("the primary refuses: gone %v after %v", gone, took)
	}
	w.set(func() { w.servers["b:1"] = "primary 2" })
	w.await("b:1 leads", func() bool { return w.lead == "b:1" })
	if gone, took := lost(first); gone || took >= all {
		t.Errorf("another server is the primary: gone %v after %v", gone, took)
	}
	if gone, took := lost(primary.Generation{System: "7", Timeline: 2}); gone || took < all {
		t.Errorf("a connection to the new primary: gone %v after %v", gone, took)
	}
	if w.Lost(t.Context(), "unknown", first) {
		t.Error("a shard that nobody watches is gone")
	}
}
