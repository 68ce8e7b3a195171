package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Current is the newest snapshot this process has seen. Reading it costs one
// atomic load and never waits for the store.
type Current struct {
	store Store
	log   *slog.Logger
	snap  atomic.Pointer[Snapshot]
	first chan struct{} // closed when snap is first set

	mu      sync.Mutex
	err     error         // why the watch is not running; nil while it runs
	changed chan struct{} // closed and replaced when snap, cleared or epoch changes
	// cleared is what Clear was told last. follows says that Clear is never called, so that every
	// version counts as cleared.
	cleared int64
	follows bool

	epoch atomic.Int64
}

// NewCurrent returns a holder that is empty until Run has loaded a snapshot.
func NewCurrent(store Store, log *slog.Logger) *Current {
	return &Current{store: store, log: log, first: make(chan struct{}), changed: make(chan struct{}), err: errors.New("not loaded yet"), follows: true}
}

// Snapshot returns the newest snapshot, or nil before the first was loaded.
func (c *Current) Snapshot() *Snapshot { return c.snap.Load() }

// Wait returns the snapshot as soon as there is one.
func (c *Current) Wait(ctx context.Context) (*Snapshot, error) {
	select {
	case <-c.first:
		return c.snap.Load(), nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), c.Err())
	}
}

// Serving returns the version of the newest snapshot, 0 before the first, the version up to
// which this process is clear, and a channel that is closed when one of them changes.
func (c *Current) Serving() (Served, <-chan struct{}) {
	c.mu.Lock()
	served, changed, follows := Served{Cleared: c.cleared}, c.changed, c.follows
	c.mu.Unlock()
	if s := c.snap.Load(); s != nil {
		served.Version = s.Version
	}
	if follows {
		served.Cleared = served.Version
	}
	return served, changed
}

// Changed returns a channel that is closed when the snapshot changes.
func (c *Current) Changed() <-chan struct{} {
	_, changed := c.Serving()
	return changed
}

// ClearByHand says that this process has transactions: from now on a version counts as cleared
// when Clear has been called with it.
func (c *Current) ClearByHand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.follows = false
}

// Clear says that nothing is in flight that rounds of a version must wait for.
func (c *Current) Clear(version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version == c.cleared {
		return
	}
	c.cleared = version
	close(c.changed)
	c.changed = make(chan struct{})
}

// Epoch returns the epoch under which this process serves, 0 as long as it has none. The snapshot
// is at least as new as the epoch.
func (c *Current) Epoch() int64 { return c.epoch.Load() }

// ServeAs sets the epoch. The caller has reached the version that was stored when, or after, the
// epoch was given.
func (c *Current) ServeAs(epoch int64) {
	c.epoch.Store(epoch)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// Renewed waits until this process serves under another epoch than the one given, and reports whether it does. It does
// not wait while the store cannot be reached.
func (c *Current) Renewed(ctx context.Context, epoch int64) bool {
	for {
		_, changed := c.Serving()
		if c.Epoch() != epoch {
			return true
		}
		if c.Err() != nil {
			return false
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Reach returns the snapshot once its version is at least version: a change that this process made
// comes back through the watch like any other, a moment later.
func (c *Current) Reach(ctx context.Context, version int64) (*Snapshot, error) {
	for {
		_, changed := c.Serving()
		if s := c.snap.Load(); s != nil && s.Version >= version {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for version %d of the directory: %w", version, errors.Join(context.Cause(ctx), c.Err()))
		}
	}
}

// Err says why the snapshot may be out of date; nil while it is kept fresh.
func (c *Current) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Pauses between two attempts to watch a store that does not answer. The upper
// bound is also how long a change can stay unseen after the store came back.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 3 * time.Second
)

// Run keeps the snapshot fresh until ctx ends, through any outage of the store, and then returns
// nil. Before the first snapshot it also ends with ErrDenied, because there is nothing to serve
// from and trying again will not help.
func (c *Current) Run(ctx context.Context) error {
	retry := minRetry
	for {
		err := c.store.Watch(ctx, func(s *Snapshot) {
			retry = minRetry
			c.accept(s)
		})
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = errors.New("watch ended")
		}
		if c.snap.Load() == nil && errors.Is(err, ErrDenied) {
			return err
		}
		c.fail(err)
		select {
		case <-time.After(retry/2 + rand.N(retry)):
		case <-ctx.Done():
			return nil
		}
		retry = min(retry*2, maxRetry)
	}
}

func (c *Current) accept(s *Snapshot) {
	old := c.snap.Load()
	if old != nil && old.Cluster != s.Cluster {
		// Connections, prepared transactions and plans of this process belong
		// to the cluster it started with.
		c.bar(old, &ForeignError{Serving: old.Cluster, Found: s.Cluster})
		return
	}
	c.mu.Lock()
	back := c.err != nil && old != nil
	c.err = nil
	c.mu.Unlock()
	if back {
		c.log.Info("directory is back", "version", s.Version)
	}
	if old != nil && old.Version == s.Version {
		if old.Entries != s.Entries || old.Foreign != nil { // a new watch has its own Entries
			c.snap.Store(s)
		}
		return
	}
	if old != nil && s.Version < old.Version {
		c.log.Warn("directory went back to an older version, as after a restore", "from", old.Version, "to", s.Version)
	}
	c.snap.Store(s)
	if old == nil {
		close(c.first)
	}
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	c.log.Info("directory snapshot", "version", s.Version, "cluster", s.Cluster, "shards", len(s.Shards))
}

// ForeignError says that the directory describes another cluster than the one that this process
// began with.
type ForeignError struct{ Serving, Found string }

func (e *ForeignError) Error() string {
	return "the directory now describes cluster " + e.Found + ", not " + e.Serving + ": nothing is routed until it is back; restart to serve the other"
}

// Foreign returns nil unless the directory is known to describe another cluster than the one that
// this process began with. An outage of the store changes nothing.
func (c *Current) Foreign() error {
	if s := c.snap.Load(); s != nil {
		return s.Foreign
	}
	return nil
}

// bar keeps statements from being routed until the right cluster is back.
func (c *Current) bar(old *Snapshot, err error) {
	if old.Foreign == nil || old.Foreign.Error() != err.Error() {
		foreign := *old
		foreign.Foreign = err
		c.snap.Store(&foreign)
		c.log.Error("the directory describes another cluster: nothing is routed", "version", old.Version, "err", err)
	}
	c.fail(err)
}

// fail records why the snapshot is not fresh. It logs once that the store has gone, whatever reasons follow: they change with every
// attempt. Before the first snapshot it logs each new reason, as nothing is served until the last of them is gone.
func (c *Current) fail(err error) {
	c.mu.Lock()
	away, same := c.err != nil, c.err != nil && c.err.Error() == err.Error()
	c.err = err
	c.mu.Unlock()
	s := c.snap.Load()
	switch {
	case same || s != nil && s.Foreign != nil: // bar has logged it as an error
	case s == nil:
		c.log.Warn("waiting for the directory", "err", err)
	case away:
		c.log.Debug("directory still not watched", "err", err)
	default:
		c.log.Warn("directory not watched, serving from the last snapshot", "version", s.Version, "err", err)
	}
}
