package seek

import (
	"context"
	"slices"
	"time"

	"weft/primary"
)

// lookPauses are the pauses before the looks at a shard that has ended a connection. A server that was killed takes some milliseconds until
// the last of its processes has noticed, and may answer until then.
var lookPauses = [...]time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond}

// lookLimit bounds all looks together.
const lookLimit = 2 * time.Second

// Lost has the servers of a shard looked at because a connection to its primary has ended, and reports whether the shard has no primary
// now. It takes as long as it takes to be sure: no time if another server has been promoted since the generation of the connection. A generation of
// zero is that of now.
func (s *Seeker) Lost(ctx context.Context, shard string, of primary.Generation) bool {
	v := s.View(shard)
	if v == nil {
		return false
	}
	if of.Timeline == 0 {
		of = v.Generation
	}
	over := func(v *primary.View) bool { return v.Open() && v.Generation.Above(of) }
	return !over(v) && s.looks(ctx, shard, func(v *primary.View) bool { return !v.Open() }, over)
}

// LostStandby is Lost for a connection to a standby, and reports whether the standby does not follow any more.
func (s *Seeker) LostStandby(ctx context.Context, shard, address string) bool {
	return s.looks(ctx, shard, func(v *primary.View) bool {
		return !slices.ContainsFunc(v.Servers, func(o primary.Server) bool { return o.Address == address && o.Role == primary.Follows })
	}, func(*primary.View) bool { return false })
}

// looks has the servers of a shard looked at until they are gone, or over is true, or nothing has come of some looks. It reports whether they are gone.
func (s *Seeker) looks(ctx context.Context, shard string, gone, over func(*primary.View) bool) bool {
	w := s.find(shard)
	if w == nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	for _, pause := range lookPauses {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if v := w.Suspect(ctx); gone(v) {
			return true
		} else if over(v) {
			return false
		}
	}
	return false
}
