package directory

import "time"

// MaxDrain is for how long a shard may be drained.
const MaxDrain = 10 * time.Minute

// Drain says that a shard is drained on all proxies: nothing new begins there, and what has begun goes on. It ends when a primary of a
// higher generation is entered, and when its time is over.
type Drain struct {
	// Key tells this drain from others.
	Key string `json:"key"`
	// For is for how long each proxy drains the shard, from the time when the proxy hears of it. So clocks do not matter.
	For time.Duration `json:"for"`
	// Shut says that no proxy has a connection to the shard that a session uses, or that the last ones are being waited for: no session gets a
	// connection, not even one whose transaction has begun on another shard.
	Shut bool `json:"shut,omitempty"`
}

// Same reports whether both are the same step of the same drain.
func (d *Drain) Same(other *Drain) bool {
	if d == nil || other == nil {
		return d == other
	}
	return *d == *other
}

// validateHandover checks what is said of a change of the primary.
func (sh *Shard) validateHandover(place string, bad func(place, format string, args ...any)) {
	if d := sh.Drain; d != nil && (d.Key == "" || d.For <= 0 || d.For > MaxDrain) {
		bad(place+".drain", "has no key, or is not longer than 0 and at most %s: %s", MaxDrain, d.For)
	}
}

// EndDrain ends the drain with a key, or any if key is "". It reports whether there was one.
func (sh *Shard) EndDrain(key string) bool {
	if sh.Drain == nil || key != "" && sh.Drain.Key != key {
		return false
	}
	sh.Drain = nil
	return true
}

// LetGo enters a fence: the timeline that the shard has now is over. It returns the timeline.
func (sh *Shard) LetGo() uint32 {
	sh.Fence = max(sh.Fence, sh.Timeline, 1)
	return sh.Fence
}
