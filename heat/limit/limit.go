package limit

import (
	"maps"
	"math"

	"weft/heat"
)

// Mode says what becomes of limits. The zero value: none are found.
type Mode string

// The modes.
const (
	Observe Mode = "observe" // limits are shown
	Auto    Mode = "auto"    // limits are obeyed
)

const (
	// tooSlow is the slowdown from which on a limit is lowered, after slowFor seconds. Below wellSlow it is raised.
	tooSlow  = 2.0
	wellSlow = 1.5
	slowFor  = 4.0
	// A step lowers a limit by this factor, or raises it by one over it. The effect of smaller steps is not seen among what
	// changes from second to second anyway.
	stride = 0.7
	// Work is expected to follow the number of backends with this exponent where all of them are needed: a limit of half as many
	// may cost 13 percent. On a shard whose work approaches its maximum slowly, steps end where about a fifth would be lost.
	worth = 0.2
	// plain is the exponent from which on one look is enough to say that a step has cost too much.
	plain = 0.5
	// tightFor is for how many seconds a limit must have kept clients waiting, on a shard that is neither too slow nor well, to be
	// raised by a step.
	tightFor = 4.0
	// settleFor is after how many seconds a step has had its effect, longestSettle the same for long statements, and looks how
	// many times work is measured then.
	settleFor     = 3.0
	longestSettle = 30.0
	looks         = 3
	// A step that was taken back is tried again after restFor seconds, and later each time, up to longestRest.
	restFor, longestRest = 20.0, 160.0
	// otherwise is by which factor the slowdown must have changed since a step was taken back for the rest to end: what the step has
	// shown does not hold any more.
	otherwise = 1.5
	// manyLocks is the part of the active backends that must wait for locks to leave a limit as it is.
	manyLocks = 0.3
	// binds is the part of a limit that must be lent for the limit to matter.
	binds = 0.9
	// forgetAfter is for how many seconds a limit must not have mattered to rise by itself.
	forgetAfter = 60.0
	// fewest is the lower bound of limits of shards whose cores are not known.
	fewest = 4.0
)

// Facts are what is known of one shard in one second, of all proxies together.
type Facts struct {
	// Lent is how many backends work for clients, not counting those that sessions keep between transactions, and Waiting is
	// how many clients wait for one.
	Lent, Waiting float64
	// Fixed is how many backends all proxies may have by their configuration, and Proxies how many proxies there are.
	Fixed   float64
	Proxies int
	// Paces are the heaviest statements of the last moment.
	Paces []heat.Pace
	// Active is how many backends the shard says are active, CPU and Locks how many of them use a core and wait for locks.
	// All are 0 if the shard says nothing, and so is Cores.
	Active, CPU, Locks, Cores float64
	// Observed: limits are not obeyed, so that steps have no effect that could be judged.
	Observed bool
}

// Limit is how many backends of a shard may work for clients, and what that rests on. It is never changed: Next returns
// a new one. The zero value knows nothing.
type Limit struct {
	// Most is the limit for all proxies together. It is Fixed if nothing is limited.
	Most  float64 `json:"most"`
	Fixed float64 `json:"fixed"`
	// Slowdown is how many times as long statements take as usual, 0 if that is not known.
	Slowdown float64 `json:"slowdown,omitempty"`
	// Demand is how many clients have a backend or wait for one, through so many Proxies.
	Demand  float64 `json:"demand"`
	Proxies int     `json:"proxies"`

	Bases map[uint64]Base `json:"bases,omitempty"`
	Step  *Step           `json:"step,omitempty"` // the step whose effect is awaited
	// Work is what was done in the last few seconds, and Lately the slowdown. Tried is Lately when a step was last taken back.
	Work   float64 `json:"work,omitempty"`
	Lately float64 `json:"lately,omitempty"`
	Tried  float64 `json:"tried,omitempty"`
	// Slow, Tight and Loose are for how many seconds statements have been too slow, the limit has kept clients waiting though they
	// were not, and the limit has not mattered. Rest is how many seconds must pass before the next step, and Rested how many had to
	// after the step before.
	Slow   float64 `json:"slow,omitempty"`
	Tight  float64 `json:"tight,omitempty"`
	Loose  float64 `json:"loose,omitempty"`
	Rest   float64 `json:"rest,omitempty"`
	Rested float64 `json:"rested,omitempty"`
	Up     bool    `json:"up,omitempty"` // the last step was one down and was taken back: the next goes up
}

// Limits are the limits of shards, by name. They are never changed.
type Limits map[string]Limit

// Step is a change of a limit whose effect is looked at.
type Step struct {
	From float64 `json:"from"` // the limit before
	Lent float64 `json:"lent"` // backends that worked before
	Work float64 `json:"work"` // what was done before
	Age  float64 `json:"age"`  // in seconds
	// Done is the sum of what was done in each of so many seconds since the step has had its effect.
	Done  float64 `json:"done,omitempty"`
	Looks float64 `json:"looks,omitempty"`
}

// Open reports whether nothing but the fixed number limits the shard.
func (l *Limit) Open() bool { return l.Most >= l.Fixed }

// Next returns the limit after another second, or so many.
func (l Limit) Next(f *Facts, seconds float64) Limit {
	l = l.within(f)
	l.Bases = maps.Clone(l.Bases)
	now := l.measure(f.Paces)
	l.Slowdown = now.slowdown
	l.smooth(now, seconds)
	locked := f.Active > 0 && f.Locks >= manyLocks*f.Active
	if f.Waiting == 0 && f.Lent <= l.Most/2 && !locked && (f.Cores == 0 || f.CPU <= f.Cores) {
		l.learn(f.Paces, seconds)
	}
	matters := f.Waiting >= 1 || f.Lent >= binds*l.Most || f.Observed
	if l.Loose += seconds; matters {
		l.Loose = 0
	}
	tight := l.Tight + seconds
	l.Tight = 0
	switch {
	case locked:
		l.Slow, l.Step, l.Up = 0, nil, false
	case l.Step != nil:
		l.look(f, now, seconds)
	case now.slowdown > tooSlow:
		if l.Slow += seconds; l.Slow < slowFor || l.Rest > 0 {
			break
		}
		switch {
		case f.Observed:
			l.Most = min(l.Most, l.guess(f, now))
		case l.Up && l.binds(f):
			l.widen(l.Work)
		default:
			l.lower(f, l.Work)
		}
	case now.slowdown < wellSlow && (matters || l.Loose > forgetAfter): // or nothing is known
		l.Slow, l.Rest, l.Rested, l.Tried, l.Up = 0, 0, 0, 0, false
		l.raise(seconds)
	case l.binds(f) && !f.Observed:
		if l.Slow, l.Tight = 0, tight; tight >= tightFor && l.Rest == 0 {
			l.widen(l.Work)
		}
	default:
		l.Slow = 0
	}
	return l
}

// smooth notes what was done in the last few seconds, and lets time pass until the next step.
func (l *Limit) smooth(now measure, seconds float64) {
	part := 1 - math.Exp2(-seconds)
	l.Work += (now.work - l.Work) * part
	l.Lately += (now.slowdown - l.Lately) * part
	l.Rest = max(0, l.Rest-seconds)
	if l.Tried > 0 && (l.Lately > otherwise*l.Tried || l.Lately < l.Tried/otherwise) {
		l.Up = l.Lately < l.Tried // there may be room for more
		l.Rest, l.Rested, l.Tried = 0, 0, 0
	}
}

// within returns the limit between the bounds of this second.
func (l Limit) within(f *Facts) Limit {
	if l.Most >= l.Fixed { // nothing was limited, nor is it now
		l.Most = f.Fixed
	}
	l.Fixed, l.Demand, l.Proxies = f.Fixed, f.Lent+f.Waiting, f.Proxies
	l.Most = min(max(l.Most, f.least()), l.Fixed)
	return l
}

// least is the lower bound of the limit.
func (f *Facts) least() float64 {
	if f.Cores > 0 {
		return max(f.Cores, float64(f.Proxies))
	}
	return max(fewest, float64(f.Proxies))
}

// raise raises the limit, by more if it is high.
func (l *Limit) raise(seconds float64) {
	l.Most = min(l.Fixed, l.Most+math.Ceil(math.Sqrt(l.Most)/2)*math.Ceil(min(seconds, 3)))
}

// lower takes a step down from what is lent, or from the limit, with which so much work was done.
func (l *Limit) lower(f *Facts, work float64) {
	lent := min(f.Lent, l.Most)
	to := max(math.Floor(lent*stride), f.least())
	if to < lent {
		l.Step = &Step{From: l.Most, Lent: lent, Work: work}
		l.Most = to
	}
}

// binds reports whether it is the limit that keeps clients waiting.
func (l *Limit) binds(f *Facts) bool {
	return f.Waiting >= 1 && f.Lent >= binds*l.Most && !l.Open()
}

// widen takes a step up from a limit that keeps clients waiting, with which so much work was done: more backends may do more.
func (l *Limit) widen(work float64) {
	l.Step = &Step{From: l.Most, Lent: l.Most, Work: work}
	l.Most, l.Tight = min(l.Fixed, math.Ceil(l.Most/stride)), 0
}

// guess is the limit under which the same work would be done with little slowdown, if it can be done at all.
func (l *Limit) guess(f *Facts, now measure) float64 {
	return max(math.Ceil(wellSlow*now.work/1e9), f.least())
}

// look judges a step once it has had its effect. A step down is good if little was lost, and a step up if more than that was won.
func (l *Limit) look(f *Facts, now measure, seconds float64) {
	s := *l.Step
	s.Age += seconds
	l.Step = &s
	settle, above := min(max(settleFor, 2*now.pace/1e9), longestSettle), f.Lent > 1.2*l.Most+1
	if s.Age < settle || above && s.Age < longestSettle {
		return
	}
	s.Done, s.Looks = s.Done+now.work, s.Looks+1
	work, ratio := s.Done/s.Looks, l.Most/s.Lent
	lost := above || ratio < 1 && work < s.Work*math.Pow(ratio, plain)
	if s.Looks < looks && !lost {
		return
	}
	l.Step = nil
	if lost || work < s.Work*math.Pow(ratio, worth) {
		l.Most = s.From
		l.Rested = min(max(2*l.Rested, restFor), longestRest)
		l.Slow, l.Rest, l.Up, l.Tried = 0, l.Rested, ratio < 1, l.Lately
		return
	}
	switch {
	case ratio > 1 && now.slowdown >= wellSlow && l.binds(f):
		l.widen(work)
	case ratio < 1 && now.slowdown > tooSlow:
		l.lower(f, work)
	}
}
