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
	// A step lowers a limit by a factor between these.
	farStep, nearStep = 0.7, 0.9
	// settleFor is after how many seconds a step has had its effect, and longestSettle the same for long statements.
	settleFor     = 3.0
	longestSettle = 30.0
	// A step that was taken back is tried again after restFor seconds, and later each time, up to longestRest.
	restFor, longestRest = 20.0, 160.0
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
	// Slow and Loose are for how many seconds statements have been too slow, and the limit has not mattered. Rest is how many
	// seconds must pass before the next step, and Rested how many had to after the step before.
	Slow   float64 `json:"slow,omitempty"`
	Loose  float64 `json:"loose,omitempty"`
	Rest   float64 `json:"rest,omitempty"`
	Rested float64 `json:"rested,omitempty"`
}

// Limits are the limits of shards, by name. They are never changed.
type Limits map[string]Limit

// Step is a lowering of a limit.
type Step struct {
	From float64 `json:"from"` // the limit before
	Lent float64 `json:"lent"` // backends that worked before
	Work float64 `json:"work"` // what was done before
	Age  float64 `json:"age"`  // in seconds
}

// Open reports whether nothing but the fixed number limits the shard.
func (l *Limit) Open() bool { return l.Most >= l.Fixed }

// Next returns the limit after another second, or so many.
func (l Limit) Next(f *Facts, seconds float64) Limit {
	l = l.within(f)
	l.Bases = maps.Clone(l.Bases)
	now := l.measure(f.Paces)
	l.Slowdown = now.slowdown
	l.Rest = max(0, l.Rest-seconds)
	locked := f.Active > 0 && f.Locks >= manyLocks*f.Active
	if f.Waiting == 0 && f.Lent <= l.Most/2 && !locked && (f.Cores == 0 || f.CPU <= f.Cores) {
		l.learn(f.Paces, seconds)
	}
	matters := f.Waiting >= 1 || f.Lent >= binds*l.Most || f.Observed
	if l.Loose += seconds; matters {
		l.Loose = 0
	}
	switch {
	case locked:
		l.Slow, l.Step = 0, nil
	case l.Step != nil:
		l.look(f, now, seconds)
	case now.slowdown > tooSlow:
		if l.Slow += seconds; l.Slow < slowFor || l.Rest > 0 {
			break
		}
		if l.lower(f, now); f.Observed {
			l.Most, l.Step = min(l.Most, l.guess(f, now)), nil
		}
	case now.slowdown < wellSlow && (matters || l.Loose > forgetAfter): // or nothing is known
		l.Slow, l.Rest, l.Rested = 0, 0, 0
		l.raise(seconds)
	default:
		l.Slow = 0
	}
	return l
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

// lower takes a step down from what is lent, or from the limit.
func (l *Limit) lower(f *Facts, now measure) {
	lent := min(f.Lent, l.Most)
	to := max(math.Floor(lent*min(max(wellSlow/now.slowdown, farStep), nearStep)), f.least())
	if to < lent {
		l.Step = &Step{From: l.Most, Lent: lent, Work: now.work}
		l.Most = to
	}
}

// guess is the limit under which the same work would be done with little slowdown, if it can be done at all.
func (l *Limit) guess(f *Facts, now measure) float64 {
	return max(math.Ceil(wellSlow*now.work/1e9), f.least())
}

// look judges a step once it has had its effect. Half as many backends that do half as much have not been too many: the
// step is good if less than that is lost, in proportion.
func (l *Limit) look(f *Facts, now measure, seconds float64) {
	s := *l.Step
	s.Age += seconds
	l.Step = &s
	settle, above := min(max(settleFor, 2*now.pace/1e9), longestSettle), f.Lent > 1.2*l.Most+1
	if s.Age < settle || above && s.Age < longestSettle {
		return
	}
	l.Step = nil
	if now.work < s.Work*math.Sqrt(l.Most/s.Lent) || above {
		l.Most = s.From
		l.Rested = min(max(2*l.Rested, restFor), longestRest)
		l.Slow, l.Rest = 0, l.Rested
		return
	}
	if now.slowdown > tooSlow {
		l.lower(f, now)
	}
}
