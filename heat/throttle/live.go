package throttle

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"weft/heat"
)

const (
	// burst is how many seconds of its rate a target may use at once.
	burst = 0.1
	// maxDebt is how many seconds of its rate a target may be charged ahead, for statements that could
	// not wait.
	maxDebt = 5.0
	// usualCores is taken for the number of a shard's processors if the shard does not say.
	usualCores = 4
	// tick is the unit in which the time of a shard's processors is counted.
	tick = 100 * time.Microsecond
)

// Live is a rule in effect in this proxy. It is safe for concurrent use.
type Live struct {
	Rule
	// Ends is when the rule ends, by the clock of this proxy; zero for a rule without an end.
	Ends  time.Time
	state *state
}

// state is what this proxy knows of a rule. A rule that is replaced hands it on.
type state struct {
	demand, passed, delayed, refused atomic.Int64

	mu      sync.Mutex
	part    float64 // of the cluster's limit
	limiter *rate.Limiter
	shards  map[string]*rate.Limiter // for Limit.Share
	cores   map[string]float64
	mean    float64 // ticks of a statement
	delays  heat.Histogram
	slots   slots

	asked   int64   // demand at the last Tick
	perSec  float64 // demand per second
	ticked  time.Time
	metrics *Metric
}

// NewLive puts a rule into effect. before is the same rule as it was in effect so far, nil for none: what
// was counted goes on. The rule never ends later than before would, unless the directory has replaced it.
func NewLive(r Rule, before *Live, metrics *Metrics, now time.Time) *Live {
	l := &Live{Rule: r, Ends: now.Add(r.Left)}
	if r.Origin == Declared {
		l.Ends = time.Time{}
	}
	switch {
	case before == nil || before.ID != r.ID || !before.Target.Same(&r.Target):
		l.state = &state{part: 1, shards: map[string]*rate.Limiter{}, mean: 10, ticked: now, metrics: metrics.of(r.Origin, r.Target.Kind)}
	case before.Revision == r.Revision:
		l.state = before.state
		if !l.Ends.IsZero() && before.Ends.Before(l.Ends) {
			l.Ends = before.Ends
		}
	default:
		l.state = before.state
	}
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.resize(now)
	return l
}

// Over reports whether the rule has ended.
func (l *Live) Over(now time.Time) bool { return !l.Ends.IsZero() && !now.Before(l.Ends) }

// left is for how long the rule is in effect.
func (l *Live) left(now time.Time) time.Duration {
	if l.Ends.IsZero() {
		return MaxLasts
	}
	return max(l.Ends.Sub(now), 0)
}

// SetPart gives this proxy a part of the cluster's limit, and says how many cores shards have.
func (l *Live) SetPart(part float64, cores map[string]float64, now time.Time) {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	l.state.part, l.state.cores = part, cores
	l.resize(now)
}

// resize makes the limiters what the rule and the part say. The state's mu is held.
func (l *Live) resize(now time.Time) {
	s := l.state
	switch {
	case l.Limit.Rate != 0:
		if s.limiter == nil {
			s.limiter = rate.NewLimiter(rate.Limit(l.Limit.Rate*s.part), burstOf(l.Limit.Rate*s.part))
			s.limiter.AllowN(now, 0)
		}
		adjust(s.limiter, l.Limit.Rate*s.part, now)
	case l.Limit.Concurrency != 0:
		s.slots.resize(max(1, int(math.Round(float64(l.Limit.Concurrency)*s.part))))
	case l.Limit.Share != 0:
		for name, lim := range s.shards {
			adjust(lim, l.ticksOf(name), now)
		}
	}
}

func adjust(lim *rate.Limiter, perSecond float64, now time.Time) {
	if lim.Limit() != rate.Limit(perSecond) {
		lim.SetLimitAt(now, rate.Limit(perSecond))
		lim.SetBurstAt(now, burstOf(perSecond))
	}
}

func burstOf(perSecond float64) int { return max(1, int(math.Ceil(perSecond*burst))) }

// ticksOf is how many ticks per second a shard's processors may spend. The state's mu is held.
func (l *Live) ticksOf(shard string) float64 {
	cores := l.state.cores[shard]
	if cores <= 0 {
		cores = usualCores
	}
	return l.Limit.Share * l.state.part * cores * float64(time.Second/tick)
}

// ofShard is the limiter for the time of one shard. The state's mu is held.
func (l *Live) ofShard(name string) *rate.Limiter {
	lim := l.state.shards[name]
	if lim == nil {
		n := l.ticksOf(name)
		lim = rate.NewLimiter(rate.Limit(n), burstOf(n))
		l.state.shards[name] = lim
	}
	return lim
}

// reserve takes what one statement needs, and returns how long it has to wait for it. If that is longer
// than the rule allows, nothing is taken.
func (l *Live) reserve(shards []string, now time.Time) (delay time.Duration, taken []*rate.Reservation) {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case l.Limit.Refuse:
		return max(l.left(now), l.MaxWait) + time.Millisecond, nil
	case l.Limit.Rate != 0:
		taken = append(taken, s.limiter.ReserveN(now, 1))
	case l.Limit.Share != 0:
		for _, name := range shards {
			lim := l.ofShard(name)
			// Spent charges the rest, when it is known.
			taken = append(taken, lim.ReserveN(now, min(lim.Burst(), max(1, int(s.mean)))))
		}
	}
	for _, r := range taken {
		delay = max(delay, r.DelayFrom(now))
	}
	if delay > l.MaxWait {
		giveBack(taken, now)
		return delay, nil
	}
	return delay, taken
}

func giveBack(taken []*rate.Reservation, now time.Time) {
	for _, r := range taken {
		r.CancelAt(now)
	}
}

// Spent says that a statement which was let through has kept a backend of a shard busy for so long. What
// was not known before is charged now.
func (l *Live) Spent(shard string, busy time.Duration, now time.Time) {
	s, n := l.state, float64(busy)/float64(tick)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.mean
	s.mean = 0.9*s.mean + 0.1*n
	if l.Limit.Share != 0 {
		lim := l.ofShard(shard)
		charge(lim, int(n-min(before, float64(lim.Burst()))), now)
	}
}

// Mean is for how long a statement which was let through keeps a backend busy.
func (l *Live) Mean() time.Duration {
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	return time.Duration(l.state.mean * float64(tick))
}

// Charge counts a statement of a transaction that has begun: it passes, and later transactions wait for
// it.
func (l *Live) Charge(now time.Time) {
	if l.Over(now) {
		return
	}
	l.state.demand.Add(1)
	l.count(actPassed)
	if l.Limit.Rate == 0 {
		return
	}
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	charge(l.state.limiter, 1, now)
}

// charge takes so many tokens, and lets nobody wait longer than maxDebt for them.
func charge(lim *rate.Limiter, n int, now time.Time) {
	for n > 0 && lim.TokensAt(now) > -maxDebt*float64(lim.Limit()) {
		part := min(n, lim.Burst())
		lim.ReserveN(now, part)
		n -= part
	}
}

// action is what became of a statement.
type action int

const (
	actPassed action = iota
	actDelayed
	actRefused
)

// count notes what became of a statement, or what would have if the rule were enforced.
func (l *Live) count(a action) {
	s := l.state
	switch a {
	case actPassed:
		s.passed.Add(1)
		return
	case actDelayed:
		s.delayed.Add(1)
	case actRefused:
		s.refused.Add(1)
	}
	s.metrics.add(l.Mode, a)
}

// Tick measures the demand of the time since the last Tick.
func (l *Live) Tick(now time.Time) {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := now.Sub(s.ticked).Seconds()
	if elapsed < 0.1 {
		return
	}
	asked := s.demand.Load()
	last := float64(asked-s.asked) / elapsed
	f := math.Exp2(-elapsed)
	s.perSec, s.asked, s.ticked = f*s.perSec+(1-f)*last, asked, now
	s.delays.Decay(math.Exp2(-elapsed / 30))
}

// Figures is what a proxy has counted of a rule.
type Figures struct {
	ID      int64   `json:"id"`
	Demand  float64 `json:"demand"` // statements per second
	Passed  int64   `json:"passed"`
	Delayed int64   `json:"delayed"`
	Refused int64   `json:"refused"`
	// DelayP99 is how long one of a hundred statements that had to wait has waited, in milliseconds.
	DelayP99 float64 `json:"p99,omitempty"`
}

// Figures returns what this proxy has counted.
func (l *Live) Figures() Figures {
	s := l.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return Figures{l.ID, s.perSec, s.passed.Load(), s.delayed.Load(), s.refused.Load(), s.delays.Quantile(0.99) / 1e6}
}

// Plus adds what another proxy has counted of the same rule.
func (f Figures) Plus(o Figures) Figures {
	return Figures{f.ID, f.Demand + o.Demand, f.Passed + o.Passed, f.Delayed + o.Delayed, f.Refused + o.Refused, max(f.DelayP99, o.DelayP99)}
}

// Part is the part of a cluster's limit that one of so many proxies gets: half of it is the same for all,
// and half goes by demand.
func Part(proxies int, own, all float64) float64 {
	proxies = max(proxies, 1)
	if all <= 0 || own < 0 {
		return 1 / float64(proxies)
	}
	return 0.5/float64(proxies) + 0.5*min(own/all, 1)
}
