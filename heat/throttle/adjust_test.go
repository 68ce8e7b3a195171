package throttle

import (
	"math"
	"testing"
	"time"
)

var auto = Auto{Mode: Enforce, Max: 2, Lasts: 10 * time.Second}

func hotUser(name string, share, calls float64, pressing bool) Hot {
	return Hot{Target: Target{Kind: User, Name: name}, Class: Any, Share: share, Calls: calls, Pressing: pressing, Reason: "why"}
}

// sim is a shard that can do so many statements per second, and targets that ask for more.
type sim struct {
	rules  map[string]*InForce
	asks   map[string]float64
	others float64 // asked for by those who are no targets
	can    float64
	puts   int
}

func (s *sim) served(name string) float64 {
	if r := s.rules[name]; r != nil {
		return min(s.asks[name], r.Limit.Rate)
	}
	return s.asks[name]
}

// second lets a second pass.
func (s *sim) second(a Auto) {
	all, done := s.others, s.others
	for name, n := range s.asks {
		all, done = all+n, done+s.served(name)
	}
	var hot []Hot
	for name, n := range s.asks {
		if n/all > 0.1 {
			hot = append(hot, hotUser(name, n/all, n, done > s.can))
		}
	}
	var rules []InForce
	for name, r := range s.rules {
		if r.Left -= time.Second; r.Left <= 0 {
			delete(s.rules, name)
			continue
		}
		r.Demand = s.asks[name]
		rules = append(rules, *r)
	}
	for _, r := range Adjust(a, rules, hot, start) {
		s.puts++
		r.Left = r.Lasts
		s.rules[r.Target.Name] = &InForce{Rule: r}
	}
}

// A target that floods a shard is slowed down within seconds until the shard is not saturated, not much further,
// and let go when the flood is over.
func TestAdjust(t *testing.T) {
	s := &sim{rules: map[string]*InForce{}, asks: map[string]float64{"flood": 5000, "small": 50}, others: 500, can: 2000}
	for range 8 {
		s.second(auto)
	}
	if n := s.served("flood"); n > 1500 || n < 500 {
		t.Errorf("the flood gets %v per second after 8 seconds", n)
	}
	if s.served("small") != 50 {
		t.Error("the small one is limited")
	}
	low, high := math.Inf(1), 0.0
	for range 120 {
		s.second(auto)
		low, high = min(low, s.served("flood")), max(high, s.served("flood"))
	}
	if low < 700 || high > 2300 {
		t.Errorf("the flood gets %v to %v", low, high)
	}
	s.asks["flood"] = 100
	for range 12 {
		s.second(auto)
	}
	if len(s.rules) != 0 {
		t.Errorf("%+v", s.rules["flood"])
	}
	s.asks["flood"], s.puts = 1400, 0
	for range 60 {
		s.second(auto)
	}
	if s.puts != 0 {
		t.Error("a shard that is not saturated limits a target")
	}
}

// What is limited and asks for much is let go step by step if the shard has room again.
func TestRaise(t *testing.T) {
	s := &sim{rules: map[string]*InForce{}, asks: map[string]float64{"flood": 3000}, others: 1500, can: 2000}
	for range 20 {
		s.second(auto)
	}
	before := s.served("flood")
	s.others, s.can = 100, 4000
	for range 10 {
		s.second(auto)
	}
	if after := s.served("flood"); after <= 1.2*before || after > 2.3*before {
		t.Errorf("%v after %v", after, before)
	}
	for range 120 {
		s.second(auto)
	}
	if s.served("flood") != 3000 {
		t.Errorf("the flood gets %v", s.served("flood"))
	}
}

func TestAdjustBounds(t *testing.T) {
	hot := []Hot{hotUser("a", 0.3, 1000, true), hotUser("b", 0.3, 1000, true), hotUser("c", 0.3, 1000, true), hotUser("d", 0.3, 1000, false)}
	put := Adjust(auto, nil, hot, start)
	if len(put) != 2 || put[0].Limit.Rate != 700 || put[0].Origin != Automatic || put[0].Below != "high" || put[0].Validate() != nil {
		t.Errorf("%+v", put)
	}
	if put := Adjust(Auto{}, nil, hot, start); put != nil {
		t.Errorf("%+v", put)
	}
	if put := Adjust(Auto{Mode: Observe, Max: 2, Lasts: time.Second}, nil, hot, start); len(put) != 2 || put[0].Mode != Observe {
		t.Errorf("%+v", put)
	}
	// What the formula of the share says.
	h := hotUser("a", 0.5, 900, true)
	if got := h.rate(); math.Abs(got-100) > 1e-9 {
		t.Errorf("%v", got)
	}
	// A rule is stored again before it ends, and not each second.
	old := InForce{Rule: put[0], Demand: 5000}
	old.ID, old.Left, old.Limit.Rate = 4, 9500*time.Millisecond, 11.1
	at := hotUser("a", 0.9, 1000, true)
	if put := Adjust(auto, []InForce{old}, []Hot{at}, start); len(put) != 0 {
		t.Errorf("%+v", put)
	}
	old.Left = 4 * time.Second
	if put := Adjust(auto, []InForce{old}, []Hot{at}, start); len(put) != 1 || put[0].ID != 4 || put[0].Lasts != auto.Lasts {
		t.Errorf("%+v", put)
	}
}
