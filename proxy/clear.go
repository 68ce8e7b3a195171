package proxy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/reshard"
)

// holds is this proxy's part in the rounds of moves: it holds statements, and says when nothing
// is in flight that a round waits for.
type holds struct {
	s *Server

	mu   sync.Mutex
	snap *directory.Snapshot // the snapshot that made belongs to
	made map[string]*reshard.Barrier
	// leaving are sessions that are no longer listed and may still hold backends.
	leaving map[*Session]bool
}

// leave notes that a session is being taken apart, gone that it holds no backend any more.
func (r *holds) leave(sess *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving == nil {
		r.leaving = map[*Session]bool{}
	}
	r.leaving[sess] = true
}

func (r *holds) gone(sess *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaving, sess)
}

// barrier returns the barrier of a database, nil if no job carries its rows. It is made once for
// each snapshot.
func (r *holds) barrier(snap *directory.Snapshot, database string) *reshard.Barrier {
	if len(snap.Moves) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snap != snap {
		r.snap, r.made = snap, map[string]*reshard.Barrier{}
	}
	b, ok := r.made[database]
	if !ok {
		b = reshard.BarrierOf(snap, database)
		r.made[database] = b
	}
	return b
}

// clearInterval is how often sessions that a round waits for are looked at.
const clearInterval = time.Millisecond

// clear tells the directory, until ctx ends, up to which version nothing is in flight that holds
// wait for.
func (r *holds) clear(ctx context.Context) {
	if r.s.cfg.Current == nil {
		return
	}
	for {
		changed := r.s.cfg.Current.Changed()
		again := (<-chan time.Time)(nil)
		if snap := r.s.cfg.Snapshot(); snap != nil {
			if r.isClear(snap) {
				r.s.cfg.Current.Clear(snap.Version)
			} else {
				again = time.After(clearInterval)
			}
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// isClear reports whether no session has anything in flight that a round of the snapshot waits
// for.
func (r *holds) isClear(snap *directory.Snapshot) bool {
	if len(snap.Moves) == 0 {
		return true
	}
	clear := true
	look := func(sess *Session) bool {
		if sess.db != nil {
			b := r.barrier(snap, sess.db.Name)
			clear = b == nil || !sess.route.touch.awaited(b)
		}
		return clear
	}
	// In this order: a session that leaves is among the leaving before it is not listed any more.
	if r.s.register.each(look); !clear {
		return false
	}
	r.mu.Lock()
	left := slices.Collect(maps.Keys(r.leaving))
	r.mu.Unlock()
	for _, sess := range left {
		if !look(sess) {
			return false
		}
	}
	return true
}
