package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPatienceCounts: a shard gets its time from the moment at which it was told, more if it was slow to be told, and the time in
// which weft itself stood still does not count.
func TestPatienceCounts(t *testing.T) {
	for _, test := range []struct{ takes, gets time.Duration }{
		{0, giveUpAfter}, {100 * time.Millisecond, giveUpAfter}, {500 * time.Millisecond, slowness * 500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			re := &reach{}
			due := re.patience.endsSoon(errCancelled())
			if d := time.Until(due); d != takeAfter {
				t.Errorf("a shard may take %s to be told", d)
			}
			if again := re.patience.endsSoon(errCancelled()); !again.IsZero() {
				t.Errorf("a second request counts from %s on", again)
			}
			time.Sleep(test.takes)
			re.told(due)
			if d := time.Until(re.patience.due); d != test.gets {
				t.Errorf("told after %s, it may take %s", test.takes, d)
			}
			re.told(due)
			re.patience.excuse(0)
			re.patience.excuse(time.Second)
			if d := time.Until(re.patience.due); d != test.gets+time.Second {
				t.Errorf("weft stood still for a second: it may take %s", d)
			}
			re.calmDown()
			re.told(due)
			if !re.patience.due.IsZero() {
				t.Error("an earlier request counts")
			}
		})
	}
}
