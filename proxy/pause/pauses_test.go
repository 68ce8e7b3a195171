package pause

import (
	"testing"
	"time"
)

// TestPauses: a pause is twice as long as the one before, up to the longest, and the first after a success is short.
func TestPauses(t *testing.T) {
	var p Pauses[string]
	key, now := "database", time.Unix(1000, 0)
	if !p.Due(key, now) {
		t.Error("what never failed waits")
	}
	long := time.Duration(0)
	for i := range 20 {
		if news := p.Failed(key, now); news != (i == 0) {
			t.Errorf("failure %d is news: %v", i, news)
		}
		before := long
		for long = 0; !p.Due(key, now.Add(long)); long += time.Second {
		}
		if want := min(max(2*before, first), longest); long != want {
			t.Fatalf("a pause of %s after one of %s, want %s", long, before, want)
		}
	}
	if !p.Due("other", now) {
		t.Error("another database waits, too")
	}
	p.Done(key)
	p.Failed(key, now)
	if !p.Due(key, now.Add(first)) {
		t.Error("the pause after a success is not the first")
	}
}
