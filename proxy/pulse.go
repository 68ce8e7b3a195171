package proxy

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// pulseEvery is how often a pulse beats, pulseLate how late a beat may come.
	pulseEvery = 100 * time.Millisecond
	pulseLate  = 300 * time.Millisecond
	// steadyFor is how long a pulse must have been steady: long enough that a proxy misses
	// silentAfter answers.
	steadyFor = silentAfter*listenTimeout + listenEvery
)

// pulse tells whether this process gets the processor when it wants it. A process that was
// stopped, or whose machine has too much to do, has a late beat. The zero value has had none.
type pulse struct {
	late atomic.Pointer[time.Time] // when the last late beat came
}

// beat keeps the pulse going until ctx ends.
func (p *pulse) beat(ctx context.Context) {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		p.note(last, now)
		last = now
	}
}

// note takes a beat and the one before.
func (p *pulse) note(last, now time.Time) {
	if now.Sub(last) > pulseEvery+pulseLate {
		p.late.Store(&now)
	}
}

// steady reports whether no beat was late for the last while.
func (p *pulse) steady() bool {
	late := p.late.Load()
	return late == nil || time.Since(*late) > steadyFor
}
