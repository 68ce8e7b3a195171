package chronicle

import (
	"context"
	"sync"
	"time"

	"weft/heat"
)

// every is how often the work is recorded: twice for each column of the hour, so that no column is left out
// when a recording is late.
const every = 5 * time.Second

// Config is what a Chronicle needs. All fields are required.
type Config struct {
	// On reports whether the work is recorded at all.
	On func() bool
	// Own is the work that this proxy sees, Others that which the other proxies see.
	Own    func() heat.Instant
	Others func(context.Context) []heat.Instant
	// Strips are the rows of the maps of a database, by the shards on which buckets are now.
	Strips func(database string) []heat.Strip
}

// Chronicle is a history that is written and read by several goroutines.
type Chronicle struct {
	cfg Config

	mu      sync.Mutex
	history *heat.History
}

// New returns an empty chronicle.
func New(cfg Config) *Chronicle { return &Chronicle{cfg: cfg, history: heat.NewHistory()} }

// Run records until ctx ends.
func (c *Chronicle) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if c.cfg.On() {
				c.record(ctx, now)
			}
		}
	}
}

func (c *Chronicle) record(ctx context.Context, now time.Time) {
	in := c.cfg.Own()
	for _, other := range c.cfg.Others(ctx) {
		in.Join(other)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history.Record(now.Unix(), in, c.cfg.Strips)
}

// Databases lists the databases of which something is known, those with the latest work first.
func (c *Chronicle) Databases() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.Databases()
}

// Strips returns the rows of the maps of a database, and a number that changes when the rows do.
func (c *Chronicle) Strips(database string) ([]heat.Strip, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.Strips(database) // rows are made anew, never changed
}

// Map returns the columns of a database from a column on, up to now.
func (c *Chronicle) Map(database string, span heat.Span, m heat.Metric, from int64) heat.Map {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.Map(database, span, m, from)
}

// Series returns the amounts of each shard over the last hour: one for each column from first on.
func (c *Chronicle) Series(m heat.Metric) (first int64, out map[string][]float32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.history.Series(m)
}
