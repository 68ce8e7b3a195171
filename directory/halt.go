package directory

import "time"

// MaxHalt is for how long commits may be held.
const MaxHalt = 10 * time.Second

// Halt says that no proxy takes a message of a client: whoever has heard of a commit writes nothing before the halt is over. What proxies have taken
// goes on. A halt ends with another snapshot, and on each proxy when its time is over.
type Halt struct {
	// Key tells this halt from others.
	Key string `json:"key"`
	// For is for how long each proxy halts, from the time when the proxy hears of the halt. So clocks do not matter.
	For time.Duration `json:"for"`
}

// WithHalt returns s with another halt, nil for none.
func (s *Snapshot) WithHalt(h *Halt) *Snapshot {
	next := s.Clone()
	next.Halt = h
	return next
}

// WithoutHalt returns s without the halt of a key, and s itself if it has no such halt.
func (s *Snapshot) WithoutHalt(key string) *Snapshot {
	if s.Halt == nil || s.Halt.Key != key {
		return s
	}
	return s.WithHalt(nil)
}

// validateHalt checks the halt.
func (s *Snapshot) validateHalt(bad func(place, format string, args ...any)) {
	if h := s.Halt; h != nil && (h.Key == "" || h.For <= 0 || h.For > MaxHalt) {
		bad("halt", "has no key, or is not longer than 0 and at most %s: %s", MaxHalt, h.For)
	}
}
