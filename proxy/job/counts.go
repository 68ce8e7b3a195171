package job

import (
	"maps"
	"sync"

	"weft/reshard/carrier"
	"weft/schema"
	"weft/tally"
)

// Counts is what was counted of the rounds that this proxy has run.
type Counts struct {
	Rows, Bytes   int64
	Outcomes      map[string]int64
	Writes, Reads *tally.Histogram // how long writers and readers were held
}

// counts counts rounds.
type counts struct {
	mu  sync.Mutex
	sum Counts
}

func newCounts() counts {
	return counts{sum: Counts{
		Outcomes: map[string]int64{"carried": 0, "gave_way": 0},
		Writes:   tally.NewHistogram(tally.Durations), Reads: tally.NewHistogram(tally.Durations),
	}}
}

// add counts a round.
func (c *counts) add(r *carrier.Report) {
	outcome := "gave_way"
	if r.Outcome == schema.Carried {
		outcome = "carried"
	}
	c.mu.Lock()
	c.sum.Rows += r.Rows
	c.sum.Bytes += r.Bytes
	c.sum.Outcomes[outcome]++
	c.mu.Unlock()
	c.sum.Writes.Add(0, int64(r.Writes))
	if r.Reads > 0 {
		c.sum.Reads.Add(0, int64(r.Reads))
	}
}

// Counts returns what was counted of rounds.
func (r *Runner) Counts() Counts {
	c := &r.history.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.sum
	sum.Outcomes = maps.Clone(sum.Outcomes)
	return sum
}
