package limiter

import (
	"context"
	"time"

	"weft/heat"
	"weft/heat/limit"
	"weft/heat/throttle"
	"weft/heat/verdict"
)

// every is how often this proxy takes its part.
const every = time.Second

// Config is what a Limiter needs. All fields are required.
type Config struct {
	// Mode says what becomes of limits.
	Mode func() limit.Mode
	// Known returns the limits that the proxy that judges has found last, nil if they are too old.
	Known func() limit.Limits
	// Rooms says how this proxy uses its connections.
	Rooms func() map[string]heat.Room
	// Set limits how many connections to a shard this proxy lends; 0: as many as it may have.
	Set func(shard string, n int)
}

// Limiter holds a proxy to its part of the limits of shards.
type Limiter struct {
	cfg Config
	set map[string]bool // the shards that are limited; Second alone uses it
}

// New returns a Limiter that limits nothing.
func New(cfg Config) *Limiter { return &Limiter{cfg: cfg, set: map[string]bool{}} }

// Judged returns the limits after so many seconds more, nil if none are to be found.
func (l *Limiter) Judged(before limit.Limits, facts *verdict.Facts, seconds float64) limit.Limits {
	mode := l.cfg.Mode()
	if mode == "" {
		return nil
	}
	out := limit.Limits{}
	for i := range facts.Servers {
		s := &facts.Servers[i]
		room, known := facts.Rooms[s.Name]
		if !known {
			continue // no proxy has been there
		}
		f := limit.Facts{
			Lent: float64(room.Lent), Waiting: float64(room.Waiting), Fixed: float64(room.Most), Proxies: max(1, facts.Proxies), Paces: facts.Paces[s.Name], Observed: mode != limit.Auto,
		}
		if s.Word.Known {
			f.Active, f.CPU, f.Locks, f.Cores = s.Word.Active(), s.Word.CPU, s.Word.Lock, s.Word.Cores
		}
		out[s.Name] = before[s.Name].Next(&f, seconds)
	}
	return out
}

// Run works until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.Second()
		}
	}
}

// Second takes this proxy's part of each limit.
func (l *Limiter) Second() {
	var limits limit.Limits
	if l.cfg.Mode() == limit.Auto {
		limits = l.cfg.Known()
	}
	for shard := range l.set {
		if x, ok := limits[shard]; !ok || x.Open() {
			l.cfg.Set(shard, 0)
			delete(l.set, shard)
		}
	}
	if len(limits) == 0 {
		return
	}
	rooms := l.cfg.Rooms()
	for shard, x := range limits {
		if !x.Open() {
			l.cfg.Set(shard, Part(&x, rooms[shard]))
			l.set[shard] = true
		}
	}
}

// Part is how many of the backends of a limit one proxy may lend. All parts together are no more than the limit, unless there are
// more proxies.
func Part(l *limit.Limit, r heat.Room) int {
	own := float64(r.Lent + r.Waiting)
	return max(1, int(l.Most*throttle.Part(l.Proxies, own, max(own, l.Demand))))
}
