package seek

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/primary"
)

// gate is what sessions wait at while a shard has no primary, or one that is being settled.
type gate struct {
	begin func(settle func(context.Context)) // begins to settle, on a goroutine that ends before Seeker.Run does

	// mu guards what follows, and is held while the pool is told of it.
	mu sync.Mutex
	// round counts the times that the gate was shut or opened. A settlement opens the gate if it is of the last round.
	round uint64
}

// becomes reports whether a shard gets a primary: it had none, or has another one from now on.
func becomes(was, now *primary.View) bool {
	return now.State == primary.Steady && (!was.Open() || was.Generation.Timeline != 0 && now.Generation.Above(was.Generation) || was.Ruling != now.Ruling)
}

// shut lets sessions wait for a shard, unless they never wait. If the shard is split, they are refused.
func (s *Seeker) shut(w *watched, split bool) {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	w.gate.round++
	if split {
		w.shard.Split()
		return
	}
	w.shard.Seek(s.cfg.Waits())
}

// open lets sessions go on.
func (s *Seeker) open(w *watched) {
	w.gate.mu.Lock()
	defer w.gate.mu.Unlock()
	w.gate.round++
	w.letGo()
}

// letGo lets sessions go on. The gate's mu is held.
func (w *watched) letGo() {
	w.shard.Seek(false)
	w.journal.opened(time.Now())
}

// settleLimit is how long sessions wait until the transactions in doubt have ended.
const settleLimit = 2 * time.Second

// settle ends the transactions in doubt of a shard that has a primary again, and then lets sessions go on, unless the shard has lost its primary
// meanwhile.
func (s *Seeker) settle(w *watched) {
	if s.cfg.Settle == nil {
		s.open(w)
		return
	}
	w.gate.mu.Lock()
	round := w.gate.round
	w.gate.mu.Unlock()
	w.gate.begin(func(ctx context.Context) {
		defer func() { // also after a panic
			w.gate.mu.Lock()
			defer w.gate.mu.Unlock()
			if w.gate.round == round {
				w.letGo()
			}
		}()
		ctx, stop := context.WithTimeout(ctx, settleLimit)
		defer stop()
		s.cfg.Settle(ctx, w.name)
	})
}

// Paused returns how long clients have waited for a shard the last time, from the first suspicion until they went on, and whether they go on now.
func (s *Seeker) Paused(shard string) (pause time.Duration, over bool) {
	if w := s.find(shard); w != nil {
		return w.journal.paused()
	}
	return 0, true
}

// Away reports whether a shard is known to have no primary.
func (s *Seeker) Away(shard string) bool {
	w := s.find(shard)
	return w != nil && !w.View().Open()
}

// Kept reports whether no failover of a shard takes back what a server has answered, but not what began it: see primary.Horizon. Where the server is not
// the shard's primary any more, the present one must be known to have what was answered. Where no primary is known, Kept reports false.
func (s *Seeker) Kept(shard, server string, began, answered time.Time) bool {
	w := s.find(shard)
	if w == nil {
		return true
	}
	v := w.View()
	if v.State == primary.Unknown {
		return true // servers cannot be asked
	}
	if v.State != primary.Steady || !v.Horizon.Keeps(began, answered) {
		return false
	}
	system, text, _ := strings.Cut(server, "/")
	timeline, err := strconv.ParseUint(text, 16, 32)
	if err != nil || system != v.Generation.System {
		return false
	}
	return uint32(timeline) == v.Generation.Timeline || answered.Before(v.Survived(uint32(timeline)))
}
