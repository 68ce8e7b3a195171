package server

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run runs a server until ctx ends, then drains it for at most the configured
// time and closes it. It returns nil if it was asked to end and every session
// ended in time.
func Run(ctx context.Context, opt Options) error { return run(ctx, opt, newProxy) }

func run(ctx context.Context, opt Options, front maker) error {
	s, err := start(ctx, opt, front)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil // asked to end before it began
		}
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Wait() }()
	for over := false; !over; {
		select {
		case err := <-failed:
			return errors.Join(err, s.Close())
		case <-opt.Hup:
			_, _ = s.Reload(ctx) // it is logged
		case <-s.place.handed:
			err, over = s.outlast(ctx, failed), true
		case <-ctx.Done():
			err, over = s.leave(failed), true
		}
	}
	if err != nil {
		return err
	}
	limit := s.config.Load().Limits.DrainTimeout
	s.log.Info("draining: running transactions may finish, no new ones begin", "limit", limit)
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := s.Drain(dctx); err != nil {
		return errors.Join(fmt.Errorf("drain: sessions that still ran after %v were ended: %w", limit, err), s.Close())
	}
	s.log.Info("drained")
	return s.Close()
}

// leave makes /readyz fail, and goes on taking clients until load balancers have noticed.
func (s *Server) leave(failed <-chan error) error {
	s.leaving.Store(true)
	delay := s.config.Load().Limits.DrainDelay
	if delay == 0 {
		return nil
	}
	s.log.Info("leaving: not ready any more, clients are still taken", "for", delay)
	select {
	case err := <-failed:
		return errors.Join(err, s.Close())
	case <-time.After(delay):
		return nil
	}
}
