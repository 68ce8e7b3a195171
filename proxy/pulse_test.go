package proxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPulse: a pulse is unsteady for a while after a beat that came late.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		ctx, stop := context.WithCancel(t.Context())
		go p.beat(ctx)
		time.Sleep(10 * time.Second)
		if !p.steady() {
			t.Error("a pulse without late beats is not steady")
		}
		stop()
		synctest.Wait()

		now := time.Now()
		p.note(now.Add(-pulseEvery-pulseLate), now)
		if !p.steady() {
			t.Error("a pulse is not steady after a beat that came in time")
		}
		p.note(now.Add(-pulseEvery-pulseLate-1), now)
		time.Sleep(steadyFor)
		if p.steady() {
			t.Error("a pulse is steady too early after a late beat")
		}
		time.Sleep(time.Nanosecond)
		if !p.steady() {
			t.Error("a pulse does not become steady again")
		}
	})
}
