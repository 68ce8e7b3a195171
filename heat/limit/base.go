package limit

import (
	"cmp"
	"math"
	"slices"

	"weft/heat"
)

const (
	// low is which of a statement's medians is its base: one in ten is below.
	low = 0.1
	// learns is by how much a base may follow a median. The first few medians count more.
	learns = 0.02
	// known is how many medians must have been seen for a base to count.
	known = 5.0
	// mostBases bounds the statements that are remembered.
	mostBases = 24
)

// Base is how long a statement takes while its shard has room.
type Base struct {
	Time float64 `json:"t"` // in nanoseconds
	Seen float64 `json:"n"` // medians of seconds
	Age  float64 `json:"a"` // seconds in which others were learnt since
}

// measure is how a shard does in one second.
type measure struct {
	slowdown float64 // 0 if too little is known
	work     float64 // nanoseconds that the statements of a second would have taken without slowdown
	pace     float64 // nanoseconds that statements take, by cost
}

// measure compares statements with their bases.
func (l *Limit) measure(paces []heat.Pace) (m measure) {
	type one struct{ ratio, cost float64 }
	var list []one
	all, compared := 0.0, 0.0
	for i := range paces {
		p := &paces[i]
		median := p.Times.Quantile(0.5)
		cost := p.Calls * median
		all += cost
		m.pace += cost * median
		if b, ok := l.Bases[p.ID]; ok && b.Seen >= known && b.Time > 0 {
			list = append(list, one{median / b.Time, cost})
			compared += cost
			m.work += p.Calls * b.Time
		}
	}
	if all <= 0 {
		return measure{}
	}
	m.pace /= all
	if compared < all/2 {
		return m
	}
	slices.SortFunc(list, func(a, b one) int { return cmp.Compare(a.ratio, b.ratio) })
	left := compared / 2
	for _, x := range list {
		if left -= x.cost; left <= 0 {
			m.slowdown = x.ratio
			break
		}
	}
	return m
}

// learn lets bases follow what statements take now. A base goes down fast and up slowly, and so comes to rest where
// one median in ten is below it.
func (l *Limit) learn(paces []heat.Pace, seconds float64) {
	if l.Bases == nil {
		l.Bases = map[uint64]Base{}
	}
	for id, b := range l.Bases {
		b.Age += seconds
		l.Bases[id] = b
	}
	for i := range paces {
		median := paces[i].Times.Quantile(0.5)
		if median <= 0 {
			continue
		}
		b := l.Bases[paces[i].ID]
		step := max(learns, 1/(b.Seen+1)) * min(seconds, 2)
		switch {
		case b.Time == 0:
			b.Time = median
		case median < b.Time:
			b.Time = max(median, b.Time*math.Exp(-(1-low)*step))
		default:
			b.Time = min(median, b.Time*math.Exp(low*step))
		}
		b.Seen, b.Age = b.Seen+1, 0
		l.Bases[paces[i].ID] = b
	}
	for len(l.Bases) > mostBases {
		oldest, age := uint64(0), -1.0
		for id, b := range l.Bases {
			if b.Age > age || b.Age == age && id < oldest {
				oldest, age = id, b.Age
			}
		}
		delete(l.Bases, oldest)
	}
}
