package throttle

import (
	"math"
	"slices"
	"time"
)

const (
	// fairShare is the share of a saturated shard that a hot target is brought down to, if the others go on
	// as they do.
	fairShare = 0.1
	// lowers bounds how far a rate is lowered at once: what a target is kept from doing others may not need.
	// raises is by how much a rate is raised at a time.
	lowers = 0.7
	raises = 1.3
	// lowerEvery and raiseEvery are how long a rate stays as it is at least.
	lowerEvery = time.Second
	raiseEvery = 5 * time.Second
	// leastRate is below any rate that is of use.
	leastRate = 1.0
)

// Auto says what becomes of automatic rules.
type Auto struct {
	// Mode is Observe or Enforce; "" for no rules.
	Mode Mode
	// Max is how many there may be at a time, and Lasts how long each lasts unless it is still needed.
	Max   int
	Lasts time.Duration
}

// Hot is a target that has much of the work of a saturated shard.
type Hot struct {
	Target Target
	Class  Class
	Share  float64 // of what clients ask of the shard, above 0
	Calls  float64 // statements per second that clients ask for
	// Pressing: the shard is saturated at this moment.
	Pressing bool
	Reason   string
}

// rate is the rate that would leave the target with fairShare of what the shard then does.
func (h *Hot) rate() float64 {
	s := min(max(h.Share, 1e-6), 1)
	return max(h.Calls*fairShare*(1-s)/((1-fairShare)*s), leastRate)
}

// InForce is an automatic rule in effect, with what clients ask for per second.
type InForce struct {
	Rule
	Demand float64
}

// Adjust returns the automatic rules that are to be stored in this second. A hot target on a pressed shard gets a
// lower rate, step by step. A rule that nobody needs any more is raised until it does not bind, and ends by itself.
func Adjust(auto Auto, rules []InForce, hot []Hot, now time.Time) (put []Rule) {
	if auto.Mode == "" {
		return nil
	}
	taken := make([]bool, len(rules))
	count := len(rules)
	for i := range hot {
		h := &hot[i]
		at := slices.IndexFunc(rules, func(r InForce) bool { return r.Target.Same(&h.Target) && r.Class == h.Class })
		switch {
		case at >= 0:
			taken[at] = true
			if r, ok := again(auto, &rules[at], h); ok {
				put = append(put, r)
			}
		case h.Pressing && count < auto.Max:
			count++
			put = append(put, Rule{
				Target: h.Target, Class: h.Class, Limit: Limit{Rate: tidy(max(h.rate(), lowers*h.Calls))}, MaxWait: UsualWait, Below: "high", Mode: auto.Mode, Origin: Automatic,
				Reason: h.Reason, Created: now, Lasts: auto.Lasts,
			})
		}
	}
	for i := range rules {
		if !taken[i] {
			if r, ok := again(auto, &rules[i], nil); ok {
				put = append(put, r)
			}
		}
	}
	return put
}

// again returns a rule as it is to be stored again, if it is. h is the target as it is now, nil if it is
// no longer hot.
func again(auto Auto, old *InForce, h *Hot) (Rule, bool) {
	r, age, due := old.Rule, old.Lasts-old.Left, old.Left < old.Lasts/2
	r.Mode, r.Lasts = auto.Mode, auto.Lasts
	if h != nil && h.Pressing {
		want := tidy(max(h.rate(), lowers*r.Limit.Rate))
		lower := want < 0.95*r.Limit.Rate && age >= lowerEvery && old.Demand > 0.9*r.Limit.Rate
		if lower {
			r.Limit.Rate, r.Reason = want, h.Reason
		}
		return r, lower || due || r.Mode != old.Mode
	}
	// Nobody is in need. A rule that binds is raised, the others end.
	if old.Demand < 0.9*r.Limit.Rate || age < raiseEvery && !due {
		return r, false
	}
	r.Limit.Rate = tidy(raises * r.Limit.Rate)
	return r, true
}

// tidy rounds a rate to three digits.
func tidy(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return max(math.Round(rate/unit)*unit, leastRate)
}
