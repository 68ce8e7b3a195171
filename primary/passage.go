package primary

import (
	"slices"
	"time"
)

// passage is a change from one timeline to the next.
type passage struct {
	from, to uint32
	// kept is a time before which all that was answered on from is on to, zero if none is known.
	kept time.Time
}

// maxPassages bounds how many changes are remembered. What happened before them is asked about for a minute only.
const maxPassages = 8

// pass notes that a primary of another generation takes the place of the last one, which is led. parent is the timeline that the generation
// says to have left. l is where the last primary was, and when.
func pass(passages []passage, led, next Generation, parent uint32, l *Lag) []passage {
	p := passage{from: led.Timeline, to: next.Timeline}
	if next.Fork != 0 && parent == led.Timeline {
		p.kept = l.Before(next.Fork)
	}
	if len(passages) == maxPassages {
		passages = passages[1:]
	}
	return append(slices.Clone(passages), p) // views have the old ones
}

// Survived returns a time before which everything that a primary of an earlier timeline has answered is on the present primary. It is zero
// if none is known.
func (v *View) Survived(timeline uint32) time.Time {
	var least time.Time
	next := v.Generation.Timeline
	for _, p := range slices.Backward(v.passages) {
		if p.to != next || p.kept.IsZero() {
			break
		}
		if least.IsZero() || p.kept.Before(least) {
			least = p.kept
		}
		if p.from == timeline {
			return least
		}
		next = p.from
	}
	return time.Time{}
}
