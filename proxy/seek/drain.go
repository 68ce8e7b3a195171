package seek

import (
	"context"
	"sync"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/primary"
)

// drain is the part of this proxy in a drain of a shard. Its methods may be called by several goroutines.
type drain struct {
	// tell tells the pool how far the shard is to be drained.
	tell func(pool.Drain)

	mu  sync.Mutex
	now *directory.Drain // nil: the shard is not drained, as far as the directory says
	// since is when this proxy heard of the drain, and before is the timeline that the shard had then.
	since  time.Time
	before uint32
	// over says that the drain has ended here: its time has passed, or a server was promoted.
	over bool
}

// follow does what the directory says of a drain of the shard, and reports whether that is news.
func (d *drain) follow(next *directory.Drain, timeline uint32, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now.Same(next) {
		return false
	}
	if next != nil && (d.now == nil || d.now.Key != next.Key) {
		d.since, d.before, d.over = now, timeline, false
	}
	d.now = next
	d.tell(d.step())
	return true
}

// raised ends the drain if the shard has a primary of a higher timeline than when the drain began, and reports whether it does.
func (d *drain) raised(timeline uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return timeline > max(1, d.before) && d.end()
}

// expires ends the drain if its time is over, and reports whether it does.
func (d *drain) expires(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now != nil && now.Sub(d.since) >= d.now.For && d.end()
}

// end ends the drain, and reports whether there was one. mu is held.
func (d *drain) end() bool {
	if d.now == nil || d.over {
		return false
	}
	d.over = true
	d.tell(d.step())
	return true
}

// step is how far the shard is to be drained. mu is held.
func (d *drain) step() pool.Drain {
	switch {
	case d.now == nil || d.over:
		return pool.DrainNone
	case d.now.Shut:
		return pool.DrainShut
	}
	return pool.DrainBegun
}

// does reports whether the shard is drained as the directory says, and whether that has not ended yet.
func (d *drain) does(want *directory.Drain) (same, drains bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.Same(want), d.step() != pool.DrainNone
}

// ended returns the key of the drain if it has ended here and the directory still has it, and "" otherwise.
func (d *drain) ended() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == nil || !d.over {
		return ""
	}
	return d.now.Key
}

// handOver does what the directory says of a change of the primary. mu is held.
func (s *Seeker) handOver(w *watched, spec *directory.Shard) {
	if w.drain.follow(spec.Drain, w.View().Generation.Timeline, time.Now()) {
		switch {
		case spec.Drain == nil:
			s.cfg.Log.Info("a shard is not drained any more", "shard", w.name)
		case !spec.Drain.Shut:
			s.cfg.Log.Info("a shard is drained: clients wait", "shard", w.name, "for", spec.Drain.For.String())
		}
	}
	if w.fence != spec.Fence {
		w.shard.Fence(spec.Fence)
		w.Watcher.Fence(spec.Fence)
		w.fence = spec.Fence
	}
}

// handedOver notes that a shard has a primary.
func (s *Seeker) handedOver(w *watched, now *primary.View) {
	if now.State == primary.Steady && w.drain.raised(now.Generation.Timeline) {
		s.cfg.Log.Info("a shard is not drained any more: it has another primary", "shard", w.name)
	}
}

// expire ends the drains whose time is over.
func (s *Seeker) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.shards {
		if w.drain.expires(now) {
			s.cfg.Log.Warn("the time of a drain is over, and the shard has the primary that it had: clients go on", "shard", w.name)
		}
	}
}

// endDrains takes the drains out of the directory that have ended here.
func (s *Seeker) endDrains(ctx context.Context) error {
	ended := map[string]string{}
	s.mu.Lock()
	for name, w := range s.shards {
		if key := w.drain.ended(); key != "" {
			ended[name] = key
		}
	}
	s.mu.Unlock()
	var failed error
	for name, key := range ended {
		if err := s.cfg.EndDrain(ctx, name, key); err != nil {
			failed = err
		}
	}
	return failed
}

// Cleared reports whether this proxy has done what a snapshot asks of it: it uses no backend of a shard that is drained, and has closed those
// of timelines that are fenced, and of primaries that an operator has decided against.
func (s *Seeker) Cleared(snap *directory.Snapshot) bool {
	for i := range snap.Shards {
		spec := &snap.Shards[i]
		if (spec.Drain != nil || spec.Fence != 0 || spec.Ruling.Number != 0) && !s.clearedOf(spec) {
			return false
		}
	}
	return true
}

// clearedOf is Cleared for one shard.
func (s *Seeker) clearedOf(spec *directory.Shard) bool {
	s.mu.Lock()
	w := s.shards[spec.Name]
	follows := w != nil && w.fence == spec.Fence && w.View().Ruling == spec.Ruling
	s.mu.Unlock()
	if !follows {
		return false // the snapshot has not been followed yet
	}
	same, drains := w.drain.does(spec.Drain)
	return same && (!drains || w.shard.Empty())
}
