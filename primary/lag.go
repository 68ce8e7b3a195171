package primary

import "time"

// maxMarks bounds the memory of Lag: two minutes of two probes per second.
const maxMarks = 256

// Lag measures how far standbys are behind, on the clock of this process. PostgreSQL's own measure, the age of the last
// transaction that was replayed, grows while a primary has nothing to do, and needs equal clocks.
//
// A standby that has replayed an LSN has all that the primary had committed when a probe found that LSN, so it is no further behind than the
// age of that probe.
type Lag struct {
	marks []mark // the oldest first, with growing LSNs
}

// mark is where a primary was.
type mark struct {
	at  time.Time
	lsn LSN
}

// Mark notes how far the primary was when a probe was sent.
func (l *Lag) Mark(at time.Time, lsn LSN) {
	if n := len(l.marks); n > 0 && l.marks[n-1].lsn >= lsn {
		// Nothing was written since: who has replayed it has all that there is at the later time.
		if l.marks[n-1].lsn == lsn {
			l.marks[n-1].at = at
		}
		return
	}
	if len(l.marks) == maxMarks {
		l.marks = append(l.marks[:0], l.marks[1:]...)
	}
	l.marks = append(l.marks, mark{at, lsn})
}

// Fork notes that a new primary goes on from an LSN: what the old one wrote beyond it is lost.
func (l *Lag) Fork(at LSN) {
	for n := len(l.marks); at != 0 && n > 0 && l.marks[n-1].lsn > at; n-- {
		l.marks = l.marks[:n-1]
	}
}

// Fresh returns a time before which everything that the primary had committed is there on a standby that has replayed up to an LSN. The
// time is zero if the standby is behind all marks.
func (l *Lag) Fresh(replayed LSN) time.Time {
	for i := len(l.marks) - 1; i >= 0; i-- {
		if l.marks[i].lsn <= replayed {
			return l.marks[i].at
		}
	}
	return time.Time{}
}

// Of returns how far a standby is behind that has replayed up to an LSN, in time and bytes. If it is behind all marks, it is at least that far
// behind. ok is false if nothing is known of the primary.
func (l *Lag) Of(replayed LSN, now time.Time) (behind time.Duration, bytes uint64, ok bool) {
	n := len(l.marks)
	if n == 0 {
		return 0, 0, false
	}
	last := l.marks[n-1]
	if replayed >= last.lsn {
		return 0, 0, true
	}
	from := l.marks[0].at
	for i := n - 2; i >= 0; i-- {
		if l.marks[i].lsn <= replayed {
			from = l.marks[i].at
			break
		}
	}
	return now.Sub(from), uint64(last.lsn - replayed), true
}

// Last returns the last mark: how far the primary had written, and when. It is zero if there is none.
func (l *Lag) Last() (time.Time, LSN) {
	if n := len(l.marks); n > 0 {
		return l.marks[n-1].at, l.marks[n-1].lsn
	}
	return time.Time{}, 0
}

// Before returns the last time at which the primary had written no further than an LSN: all that was committed by then is before the LSN. It is
// zero if that is not known.
func (l *Lag) Before(lsn LSN) time.Time {
	for i := len(l.marks) - 1; i >= 0; i-- {
		if l.marks[i].lsn <= lsn {
			return l.marks[i].at
		}
	}
	return time.Time{}
}
