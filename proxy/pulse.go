package proxy

import (
	"sync/atomic"
	"time"

	"weft/proxy/vigil"
)

const (
	// standstill is how long this process may stand still before it must look at the
	// directory again: less than the two thirds of a lease after which other proxies no
	// longer wait for a silent proxy.
	standstill = 3 * time.Second
	// pulseInterval is how often the process notes that it runs, pulseLate how late a beat may come.
	pulseInterval = 100 * time.Millisecond
	pulseLate     = 300 * time.Millisecond
)

// pulse tells whether this process gets the processor when it wants it. A process that was
// stopped, or whose machine has too much to do, has a late beat. A pulse compares wall clocks
// because those also run while a whole machine sleeps.
type pulse struct {
	last atomic.Int64 // when the last beat came, in nanoseconds
	late atomic.Int64 // when the last beat came that was late, 0 if none was
}

// beat notes that the process runs.
func (p *pulse) beat(now time.Time) {
	last := p.last.Swap(now.UnixNano())
	if d := now.UnixNano() - last; last != 0 && time.Duration(d) > pulseInterval+pulseLate {
		p.late.Store(now.UnixNano())
	}
}

// stoodStill reports whether the last beat is so old that the directory must be looked at again.
func (p *pulse) stoodStill(now time.Time) bool {
	d := time.Duration(now.UnixNano() - p.last.Load())
	return d > standstill || d < -standstill
}

// steady reports whether no beat was late for as long as a proxy must be well that judges another one.
func (p *pulse) steady(now time.Time) bool {
	d := time.Duration(now.UnixNano() - p.late.Load())
	return d > vigil.SteadyFor || d < 0 // the clock was put back
}
