package reshard

import "time"

// Pace tells how many rows a round should carry, from what the last rounds took. Part of a round's time does
// not depend on its rows: to tell all proxies, to wait for open statements, to prepare, to commit. A
// smaller round is not shorter by that part, so the pace is taken from the other one.
type Pace struct {
	perMillisecond float64 // rows, while rows were carried; 0 before the first round
	rest           float64 // milliseconds in which writers were held and no row was carried
	bytes          float64 // of a row
	cut            int     // halves the next rounds, after some that gave way
}

const (
	// first is the pace that is assumed before anything was carried, in rows per millisecond: so low that the
	// first round is short.
	first = 5
	// leastBytes is what a round carries at least, unless that is more rows than the first round would: each
	// table takes a few messages, and less would make the round hardly shorter.
	leastBytes = 256 << 10
	// newest is what the last round counts for, of 1.
	newest = 0.3
)

// Carried notes a round. It has held writers for a time, and carried rows for a part of that time.
func (p *Pace) Carried(rows, bytes int64, carrying, held time.Duration) {
	p.cut = max(0, p.cut-1)
	if rows < 1 || held <= 0 {
		return
	}
	ms := max(1, milliseconds(carrying))
	weight := newest
	if p.perMillisecond == 0 {
		weight = 1
	}
	for value, seen := range map[*float64]float64{
		&p.perMillisecond: float64(rows) / ms,
		&p.rest:           max(0, milliseconds(held)-ms),
		&p.bytes:          float64(bytes) / float64(rows),
	} {
		*value += weight * (seen - *value)
	}
}

// GaveWay notes a round that was not through in time.
func (p *Pace) GaveWay() { p.cut = min(p.cut+1, 6) }

// Rows is how many rows a round should carry on one way to hold writers for the target time. Half of
// the target is for rows even if the rest takes longer than the other half.
func (p *Pace) Rows(target time.Duration) int64 {
	ms := milliseconds(target)
	rows := first * ms
	if p.perMillisecond > 0 {
		rows = max(p.perMillisecond*max(ms-p.rest, ms/2), min(rows, leastBytes/max(1, p.bytes)))
	}
	return max(1, int64(rows)>>p.cut)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
