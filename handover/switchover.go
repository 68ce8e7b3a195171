package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weft/directory"
)

// Manager is what decides which server of a shard is the primary.
type Manager interface {
	// Check returns why no other server can become the primary now.
	Check(ctx context.Context) error
	// Switch makes another server the primary, and may return before that is so.
	Switch(ctx context.Context) error
}

// Result is what a switchover has done.
type Result struct {
	// Before and Now are what the directory says of the shard.
	Before, Now *directory.Shard
	// Drained is how long the drain took, and Paused for how long the shard could not be used at all.
	Drained, Paused time.Duration
}

// Switchover makes another server the primary of the shard. Clients wait meanwhile. If transactions there do not end in time, nothing is
// switched, unless forced is set. The drain ends in any case.
func (s *Shard) Switchover(ctx context.Context, m Manager, o Options, forced bool) (r Result, err error) {
	if r.Before, err = s.Load(ctx); err != nil {
		return r, err
	}
	if err := m.Check(ctx); err != nil {
		return r, err
	}
	defer func() {
		if err == nil {
			return // the new generation has ended it
		}
		// Also if ctx has ended: clients wait.
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer stop()
		if _, failed := s.EndDrain(end); failed != nil {
			err = errors.Join(err, fmt.Errorf("the drain was not ended, and ends by itself: %w", failed))
		}
	}()
	began := time.Now()
	if err := s.Drain(ctx, o); err != nil && (!forced || ctx.Err() != nil) {
		return r, err
	}
	drained := time.Now()
	r.Drained = drained.Sub(began)
	limit, stop := context.WithTimeout(ctx, o.For-r.Drained)
	defer stop()
	if err := m.Switch(limit); err != nil {
		return r, fmt.Errorf("switch: %w", err)
	}
	r.Now, err = s.awaitAbove(limit, r.Before.Timeline)
	r.Paused = time.Since(drained)
	return r, err
}

// endTimeout bounds the end of a drain.
const endTimeout = 5 * time.Second

// lookInterval is how often the directory is asked for a new generation.
const lookInterval = 25 * time.Millisecond

// awaitAbove waits until the directory has a higher timeline of the shard.
func (s *Shard) awaitAbove(ctx context.Context, timeline uint32) (*directory.Shard, error) {
	for {
		sh, err := s.Load(ctx)
		if err == nil && sh.Timeline > timeline {
			return sh, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no proxy has seen another primary of shard %s: %w", s.Name, errors.Join(context.Cause(ctx), err))
		case <-time.After(lookInterval):
		}
	}
}
