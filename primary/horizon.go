package primary

import "time"

// Horizon says which commits of a shard's primary are on all servers that may be promoted.
type Horizon struct {
	// Alone says that no other server is known that could be promoted.
	Alone bool
	// Safe is a time before which all that was answered is on those servers, zero if none is known.
	Safe time.Time
	// Beyond is a time after which all that began is not on the server that is furthest behind, if that one stands still; else zero.
	Beyond time.Time
}

// Keeps reports whether a failover cannot take back the second half of something and keep the first: what began and was answered at these times is on
// all servers that may be promoted, or nothing of it is on the one that lacks some.
func (h Horizon) Keeps(began, answered time.Time) bool {
	return h.Alone || answered.Before(h.Safe) || !h.Beyond.IsZero() && began.After(h.Beyond)
}

// stillAfter is how long a standby has flushed nothing while the primary went on, before it counts as standing still.
const stillAfter = time.Minute

// behind is the server that is furthest behind, of those that may be promoted.
type behind struct {
	any   bool
	lsn   LSN
	since time.Time // when it was first seen there
	// beyond is when the primary had written more than lsn for certain, zero if it was not seen to.
	beyond time.Time
}

// see notes how far the server is at a time, and where the primary was.
func (b *behind) see(lsn LSN, now time.Time, l *Lag) {
	if !b.any || b.lsn != lsn {
		*b = behind{any: true, lsn: lsn, since: now}
	}
	if !b.beyond.IsZero() {
		return
	}
	// A mark is older than what it says. The one after it was sent when that was known.
	for i := 1; i < len(l.marks); i++ {
		if l.marks[i-1].lsn > lsn {
			b.beyond = l.marks[i].at
			return
		}
	}
}

// horizon returns what is on all servers that may be promoted.
func (b *behind) horizon(now time.Time, l *Lag) Horizon {
	h := Horizon{Alone: !b.any}
	for _, m := range l.marks {
		if m.lsn <= b.lsn {
			h.Safe = m.at
		}
	}
	if now.Sub(b.since) >= stillAfter {
		h.Beyond = b.beyond
	}
	return h
}
