package heat

import "math/rand/v2"

// Handful holds a few of the keys that a statement uses, when there are many, such as those of the rows of a COPY. Each use has the same
// chance to be held, so a key that half of the uses are of is half of the handful on average.
type Handful struct {
	keys [MaxKeys]Key
	uses int64
	slot int
}

// Holds counts a use, and reports whether its key is to be held: Hold comes next then.
func (h *Handful) Holds() bool {
	h.uses++
	if h.uses <= MaxKeys {
		h.slot = int(h.uses) - 1
		return true
	}
	at := rand.Int64N(h.uses)
	h.slot = int(min(at, MaxKeys))
	return at < MaxKeys
}

// Hold holds the key of the use that Holds has counted.
func (h *Handful) Hold(k Key) { h.keys[h.slot] = k }

// Keys returns the keys that are held.
func (h *Handful) Keys() []Key { return h.keys[:min(h.uses, MaxKeys)] }

// Uses is how many uses have been counted.
func (h *Handful) Uses() int64 { return h.uses }
