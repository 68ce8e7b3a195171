package proxy

import (
	"testing"
	"time"

	"weft/proxy/vigil"
)

// TestPulse: a pulse is unsteady for a while after a beat that came late, and says when the
// process stood still, whichever way the clock jumped.
func TestPulse(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name          string
		beats         []time.Duration // since start
		now           time.Duration
		steady, still bool
	}{
		{"first beat", []time.Duration{0}, 0, true, false},
		{"in time", []time.Duration{0, pulseInterval, 2*pulseInterval + pulseLate}, 3 * pulseInterval, true, false},
		{"late", []time.Duration{0, pulseInterval + pulseLate + 1}, time.Second, false, false},
		{"not yet steady", []time.Duration{0, time.Second, time.Second + vigil.SteadyFor}, time.Second + vigil.SteadyFor, false, false},
		{"steady again", append(regular(0, time.Second), regular(2*time.Second, 5*time.Second)...), 2*time.Second + vigil.SteadyFor + 1, true, false},
		{"no beat", []time.Duration{0}, standstill + 1, true, true},
		{"clock put back", append(regular(0, time.Second), 3*time.Second), 2 * time.Second, true, false},
		{"clock put far back", []time.Duration{time.Hour}, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p pulse
			for _, at := range c.beats {
				p.beat(start.Add(at))
			}
			now := start.Add(c.now)
			if p.steady(now) != c.steady || p.stoodStill(now) != c.still {
				t.Errorf("steady %t, stood still %t", p.steady(now), p.stoodStill(now))
			}
		})
	}
}

// regular returns beats that come in time.
func regular(from, to time.Duration) (beats []time.Duration) {
	for ; from <= to; from += pulseInterval {
		beats = append(beats, from)
	}
	return beats
}
