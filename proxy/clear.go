package proxy

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/proxy/peer"
	"weft/reshard"
	"weft/reshard/carrier"
)

// holds is this proxy's part in the rounds of moves: it holds statements, and says when nothing
// is in flight that a round waits for.
type holds struct {
	s *Server

	ages roundAges

	mu   sync.Mutex
	snap *directory.Snapshot // the snapshot that made belongs to
	made map[string]*reshard.Barrier
	// blamed are the sessions that rounds have last waited for, by job.
	blamed map[string]blamed
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
		r.ages.follow(snap, time.Now())
	}
	b, ok := r.made[database]
	if !ok {
		b = reshard.BarrierOf(snap, database)
		r.made[database] = b
	}
	return b
}

// holdGrace is how long after its job's max_pause a round may hold statements: a little less than
// the two seconds that clients are promised. Any proxy ends a round before that, see job.Runner.WatchRounds,
// unless etcd or the deciding shard does not answer.
const holdGrace = 1900 * time.Millisecond

// overdue returns the error of a statement that a round holds which should have ended: nobody
// can say now whether its rows have moved.
func (r *holds) overdue(b *reshard.Barrier) error {
	if r.ages.of(b.Round.Key, time.Now()) <= carrier.LongestPause(b.Move)+holdGrace {
		return nil
	}
	return pgerr.New(pgerr.CannotConnectNow, "rows of the statement are on their way to another shard, and it is not known yet whether they have arrived").
		WithHint("This proxy does not reach etcd, or shards of job %s do not answer. Try again, or connect to another proxy.", b.Job)
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
// for, and all backends are registered: what this proxy sends could not be fenced off otherwise.
func (r *holds) isClear(snap *directory.Snapshot) bool {
	if len(snap.Moves) == 0 {
		return true
	}
	for i := range snap.Moves {
		if !r.s.moving.fences.Complete(snap, snap.Moves[i].Database) {
			return false
		}
	}
	clear := true
	look := func(sess *Session) bool {
		if sess.db != nil {
			// A session of a database without declared tables uses no other shard than home.
			if b := r.barrier(snap, sess.db.Name); b != nil && (snap.Carrying(sess.db.Name) != nil || len(snap.Declared(sess.db.Name)) > 0) {
				awaited, bucket := sess.route.touch.awaited(b)
				if clear = !awaited; awaited {
					r.blame(b.Job, sess, bucket)
				}
			}
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

// blamed is a session that rounds of a job have waited for.
type blamed struct {
	sess   *Session
	bucket int // -1: any
	first  time.Time
	last   time.Time
}

const (
	// blameAfter is how long a round must have waited for a session before the session counts as
	// being in the way.
	blameAfter = 50 * time.Millisecond
	// blameFor is how long a session counts as being in the way after a round has waited for it:
	// the rounds after that one take other buckets first.
	blameFor = 30 * time.Second
)

// blame notes that a round of a job waits for a session.
func (r *holds) blame(job string, sess *Session, bucket int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blamed == nil {
		r.blamed = map[string]blamed{}
	}
	now := time.Now()
	b := r.blamed[job]
	if b.sess != sess || now.Sub(b.last) > blameFor {
		b = blamed{sess: sess, first: now}
	}
	b.bucket, b.last = bucket, now
	r.blamed[job] = b
}

// blockers lists the sessions of this proxy that are in the way of jobs.
func (r *holds) blockers() []peer.Blocker {
	r.mu.Lock()
	list := maps.Clone(r.blamed)
	maps.DeleteFunc(r.blamed, func(_ string, b blamed) bool { return time.Since(b.last) > blameFor })
	r.mu.Unlock()
	var out []peer.Blocker
	for job, b := range list {
		if time.Since(b.last) > blameFor || b.last.Sub(b.first) < blameAfter || b.sess.route.touch.idle() || !r.s.register.has(b.sess.id) {
			continue
		}
		c := b.sess.describe()
		out = append(out, peer.Blocker{
			Job: job, Proxy: r.s.cfg.Proxy, Session: c.ID, User: c.User, Application: c.Application, State: c.State, Since: c.Since, Bucket: b.bucket,
		})
	}
	return out
}
