package halt

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weft/directory"
)

// Config is what Halts needs.
type Config struct {
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	// Changed returns a channel that is closed when the snapshot changes. Nil for a proxy whose cluster never changes.
	Changed func() <-chan struct{}
	// End takes the halt of a key out of the directory.
	End func(ctx context.Context, key string) error
}

// Halts says for how long this proxy takes no message. Its methods may be called by several goroutines.
type Halts struct {
	cfg Config

	mu    sync.Mutex
	key   string    // of the last halt
	since time.Time // when this proxy heard of that
}

// New returns Halts that have heard of none.
func New(cfg Config) *Halts { return &Halts{cfg: cfg} }

// Left returns for how long a halt lasts on this proxy, 0 if it is nil or over.
func (h *Halts) Left(halt *directory.Halt, now time.Time) time.Duration {
	if halt == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.key != halt.Key {
		h.key, h.since = halt.Key, now
	}
	return max(0, halt.For-now.Sub(h.since))
}

// again is how long after a failure the directory is asked once more to end a halt.
const again = time.Second

// Run follows the snapshots until ctx ends, and ends halts whose time is over.
func (h *Halts) Run(ctx context.Context) {
	if h.cfg.Changed == nil {
		return
	}
	for {
		changed := h.cfg.Changed()
		var wait <-chan time.Time
		if snap := h.cfg.Snapshot(); snap != nil && snap.Halt != nil {
			left := h.Left(snap.Halt, time.Now())
			if left == 0 {
				h.cfg.Log.Warn("the time of a halt for a backup point is over: clients go on", "for", snap.Halt.For.String())
				if h.cfg.End(ctx, snap.Halt.Key) != nil {
					left = again
				}
			}
			if left > 0 {
				wait = time.After(left)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-wait:
		}
	}
}
