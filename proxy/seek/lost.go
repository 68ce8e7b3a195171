package seek

import (
	"context"
	"time"
)

// looks are the pauses before the looks at a shard that has ended a connection. A server that was killed takes some milliseconds until
// the last of its processes has noticed, and may answer until then.
var looks = [...]time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond}

// lookLimit bounds all looks together.
const lookLimit = 2 * time.Second

// Lost has the servers of a shard looked at because a connection to its primary has ended, and reports whether the shard has no primary
// now. It takes as long as it takes to be sure.
func (s *Seeker) Lost(ctx context.Context, shard string) bool {
	w := s.find(shard)
	if w == nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, lookLimit)
	defer stop()
	before := w.View().Generation
	for _, pause := range looks {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		if v := w.Suspect(ctx); !v.Open() {
			return true
		} else if v.Generation.Above(before) {
			return false // that is over already
		}
	}
	return false
}
