package proxy

import (
	"weft/heat/limit"
	"weft/proxy/judge"
	"weft/proxy/limiter"
)

// newLimiter returns what holds this proxy to its part of the limits of shards.
func newLimiter(s *Server) *limiter.Limiter {
	return limiter.New(limiter.Config{
		Mode: func() limit.Mode { return s.conf().Heat.Limit }, Known: s.knownLimits, Rooms: s.pool.Rooms, Set: s.pool.SetLimit,
	})
}

// knownLimits returns the limits of shards, nil if they were found too long ago.
func (s *Server) knownLimits() limit.Limits {
	state := s.keeper.verdicts.judge.State()
	if state.Age > judge.StaleAfter.Seconds() {
		return nil
	}
	return state.Limits
}

// limit returns how many times as long statements of a shard take as usual, and how many of its backends should work for
// clients; nil for what is not known.
func (v *heatView) limit(shard string) (slowdown *float64, allows *int64) {
	l, ok := v.limits[shard]
	if !ok {
		return nil, nil
	}
	if l.Slowdown > 0 {
		slowdown = &l.Slowdown
	}
	n := int64(l.Most)
	return slowdown, &n
}
