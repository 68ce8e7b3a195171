package throttle

import (
	"math"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"weft/pgerr"
)

// Leave is what the rules say to a transaction that is about to begin.
type Leave struct {
	// Wait is how long it has to wait first. Refusal, if not nil, is what it is told then: nothing of it
	// may be done.
	Wait    time.Duration
	Refusal *pgerr.Error
	By      *Live // the rule that makes it wait, or refuses it
	// Enters are the rules that have places for so many transactions. The transaction asks each for a
	// Slot after the wait.
	Enters []*Live

	taken []taken
}

type taken struct {
	rule *Live
	what []*rate.Reservation
}

// Ask asks all rules that concern a transaction for leave. The transaction visits these shards. Of several rules the
// one with the longest wait decides; each rule counts the transaction.
func Ask(rules []*Live, shards []string, now time.Time) Leave {
	var out Leave
	var by *Live
	var longest time.Duration
	for _, l := range rules {
		if l.Over(now) {
			continue
		}
		l.state.demand.Add(1)
		if l.Limit.Concurrency != 0 {
			out.Enters = append(out.Enters, l)
			continue
		}
		delay, what := l.reserve(shards, now)
		refused := delay > l.MaxWait
		switch {
		case refused:
			l.count(actRefused)
		case delay > 0:
			l.count(actDelayed)
		default:
			l.count(actPassed)
		}
		if l.Mode == Observe {
			continue
		}
		if delay > 0 && !refused {
			l.delayed(delay)
		}
		out.taken = append(out.taken, taken{l, what})
		if refused && (by == nil || delay > longest) {
			by, longest = l, delay
		}
		if wait := min(delay, l.MaxWait); wait > out.Wait {
			out.Wait, out.By = wait, l
		}
	}
	if by != nil {
		out.Wait, out.Enters, out.By = by.MaxWait, nil, by
		out.Refusal = by.refusal(longest-by.MaxWait, now.Add(by.MaxWait))
		out.Cancel(now)
	}
	return out
}

// Cancel says that the transaction does not begin: it has ended while it waited.
func (l *Leave) Cancel(now time.Time) {
	for _, t := range l.taken {
		t.rule.state.mu.Lock()
		giveBack(t.what, now)
		t.rule.state.mu.Unlock()
	}
	l.taken = nil
}

// delayed notes for how long a transaction waits.
func (l *Live) delayed(d time.Duration) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.delays.Add(int64(d), 1)
}

// Enter asks for a place of a rule with places. A rule that is observed gives one to everybody, and counts
// who would have had to wait.
func (l *Live) Enter() *Slot {
	if l.Mode == Observe {
		s := &l.state.slots
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.used >= s.limit {
			l.count(actDelayed)
		} else {
			l.count(actPassed)
		}
		s.used++
		x := &Slot{of: s, granted: make(chan struct{})}
		close(x.granted)
		return x
	}
	return l.state.slots.enter()
}

// Entered notes that a transaction got its place after so long.
func (l *Live) Entered(waited time.Duration) {
	switch {
	case l.Mode == Observe:
	case waited <= 0:
		l.count(actPassed)
	default:
		l.count(actDelayed)
		l.delayed(waited)
	}
}

// Refused notes that a transaction got no place, and returns what its client is told.
func (l *Live) Refused(now time.Time) *pgerr.Error {
	l.count(actRefused)
	return l.refusal(max(l.MaxWait, 100*time.Millisecond), now)
}

// refusal is what a client is told at a time, if trying again makes sense after so long.
func (l *Live) refusal(again time.Duration, now time.Time) *pgerr.Error {
	left := l.left(now)
	again = max(min(again, left), time.Millisecond)
	l.state.mu.Lock()
	demand := l.state.perSec
	l.state.mu.Unlock()
	why := string(l.Origin)
	if l.Reason != "" {
		why += ": " + l.Reason
	}
	end := "ends in " + duration(left)
	if l.Ends.IsZero() {
		end = "has no end"
	}
	e := pgerr.New(pgerr.ConfigurationLimitExceeded, "%s", l.sentence()).
		WithDetail("Demand is %s per second. Throttle %d (%s) %s. retry_after_ms=%d",
			strconv.FormatFloat(math.Round(demand), 'f', -1, 64), l.ID, why, end, again.Milliseconds()).
		WithHint("Try again after %s, and less often. weft.throttles has the limits in effect.", duration(again))
	return e
}

// duration writes a time for people, to two digits or so.
func duration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(max(math.Round(d.Seconds()*10)/10, 0.1), 'f', -1, 64) + " s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + " days"
}
