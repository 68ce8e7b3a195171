package proxy

import (
	"context"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
)

// A statement is planned by one snapshot of the cluster and sent a moment later,
// or much later: it waits for a connection, its client takes its time between
// Bind and Sync, the process stands still. If its table is declared meanwhile it
// would go where the rows used to be. So a session looks again right before it
// sends; then it plans anew if it still can, or refuses.

const (
	// standstill is how long this process may stand still without looking at
	// the directory before it goes on: less than others wait for a proxy that
	// gives no sign of life, which is two thirds of its lease.
	standstill = 3 * time.Second
	// pulseInterval is how often the process feels its own pulse.
	pulseInterval = 100 * time.Millisecond
	// lookTimeout bounds the look. An etcd that is away does not keep weft from
	// serving.
	lookTimeout = 2 * time.Second
)

// beat notes that the process runs. After a standstill it first looks at the
// directory: others may have changed it without waiting for us.
func (s *Server) beat(ctx context.Context) {
	tick := time.NewTicker(pulseInterval)
	defer tick.Stop()
	for {
		if s.stoodStill() {
			s.lookAgain(ctx)
		}
		s.pulse.Store(time.Now().UnixNano())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// stoodStill reports whether the process has missed its beats. The clock on the
// wall also runs while a whole machine sleeps.
func (s *Server) stoodStill() bool {
	d := time.Duration(time.Now().UnixNano() - s.pulse.Load())
	return d > standstill || d < -standstill
}

// lookAgain waits until this proxy serves what the directory says now.
func (s *Server) lookAgain(ctx context.Context) {
	if s.cfg.Directory == nil || s.cfg.Reach == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	snap, err := s.cfg.Directory.Load(ctx)
	if err == nil {
		_, err = s.cfg.Reach(ctx, snap.Version)
	}
	s.log.Warn("stood still: looked at the directory before going on", "err", err)
}

// awake waits for the look after a standstill.
func (s *Server) awake(ctx context.Context) {
	for s.stoodStill() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// overtaken reports whether what has been planned but not sent was planned by
// declarations that hold no more.
func (s *Session) overtaken() bool {
	if s.srv.stoodStill() {
		s.srv.awake(s.ctx)
	}
	return s.outdated || !sameDeclared(s.srv.cfg.Snapshot(), s.snap, s.db.Name)
}

func sameDeclared(a, b *directory.Snapshot, database string) bool {
	return a == b || a == nil || b == nil || sameTables(a.Declared(database), b.Declared(database))
}

// boundUnsent reports whether a portal waits to be sent: it cannot go to another
// shard any more. A Parse or a BEGIN does no harm wherever it goes.
func (s *Session) boundUnsent() bool {
	for i := s.ops.head; i < len(s.ops.ops); i++ {
		if o := &s.ops.ops[i]; !o.injected && o.kind == opBind {
			return true
		}
	}
	return false
}

// mayGo is asked right before planned statements are sent. Its error gives the
// backend up: what others sent to it before cannot be told from what was not.
func (s *Session) mayGo() error {
	if !s.unsent {
		return nil
	}
	s.unsent = false
	if !s.overtaken() {
		return nil
	}
	s.outdated = false
	return pgerr.New(pgerr.SerializationFailure, "a table was declared, or its declaration taken back, while the statement was on its way").
		WithHint("Run the transaction again.").WithCause(pool.ErrLost)
}
