package job

import (
	"context"
	"time"

	"weft/directory"
	"weft/reshard/carrier"
)

const (
	// grace is how long after its job's max_pause a round may stand before any proxy ends it.
	grace = time.Second
	// lateTimeout bounds one attempt to end a round.
	lateTimeout = 10 * time.Second
)

// WatchRounds ends late rounds until ctx ends. It does nothing else: what Run does may wait for etcd
// or for a shard, and clients wait for the end of a round.
func (r *Runner) WatchRounds(ctx context.Context) { r.every(ctx, r.endLate) }

// endLate ends rounds that have stood for too long: their process has died, or does not answer.
func (r *Runner) endLate(ctx context.Context, snap *directory.Snapshot) {
	for _, m := range r.late(snap, time.Now()) {
		if !m.Carries() {
			r.cfg.Spawn("late hold of a shard", func() { r.lift(ctx, m.ID, m.Round.Key) })
			continue
		}
		r.cfg.Spawn("late round of a move", func() {
			ctx, cancel := context.WithTimeout(ctx, lateTimeout)
			defer cancel()
			if err := r.settle(ctx, m); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn("a round of a move cannot be ended", "job", m.ID, "err", err)
			}
		})
	}
}

// late returns the jobs of a snapshot whose round has stood for too long since this proxy saw it
// first. A round that is returned is returned again after as long.
func (r *Runner) late(snap *directory.Snapshot, now time.Time) []*directory.Move {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.seen
	r.seen = map[string]time.Time{}
	var out []*directory.Move
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if m.Round == nil {
			continue
		}
		since, ok := known[m.Round.Key]
		if !ok {
			since = now
		}
		if now.Sub(since) >= carrier.LongestPause(m)+grace {
			since = now
			late := *m
			out = append(out, &late)
		}
		r.seen[m.Round.Key] = since
	}
	return out
}
