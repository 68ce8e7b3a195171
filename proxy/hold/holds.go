package hold

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

// Session is a client's session of this proxy. Sessions are compared with ==.
type Session interface {
	// Database returns the database of the session, "" if rounds do not concern it.
	Database() string
	// Awaited reports whether a barrier must wait for the session, and for which bucket: -1 for all.
	Awaited(b *reshard.Barrier) (yes bool, bucket int)
	// Blocker describes the session, without job, proxy and bucket. It reports false for a session that
	// has ended, or has no transaction that a round could wait for.
	Blocker() (peer.Blocker, bool)
}

// Current follows the directory.
type Current interface {
	// Changed returns a channel that is closed when the snapshot changes.
	Changed() <-chan struct{}
	// Clear says that nothing is in flight that rounds of a version must wait for.
	Clear(version int64)
}

// Config is what Holds needs. All fields are required, except where it says otherwise.
type Config struct {
	// Proxy is the id of this proxy.
	Proxy    string
	Snapshot func() *directory.Snapshot
	// Current is nil for a proxy whose cluster never changes.
	Current Current
	// Each calls look for each session that is listed, until look returns false.
	Each func(look func(Session) bool)
	// Complete reports whether all backends of a database are registered.
	Complete func(snap *directory.Snapshot, database string) bool
	// Cleared reports whether this proxy has let go of the shards that a snapshot says are drained or fenced. Nil: it always has.
	Cleared func(snap *directory.Snapshot) bool
}

// Holds says what rounds hold, and when nothing is in flight that a round waits for. Its methods may be
// called by several goroutines.
type Holds struct {
	cfg  Config
	ages ages

	mu   sync.Mutex
	snap *directory.Snapshot // the snapshot that made belongs to
	made map[string]*reshard.Barrier
	// blamed are the sessions that rounds have last waited for, by job.
	blamed map[string]blamed
	// leaving are sessions that are no longer listed and may still hold backends.
	leaving map[Session]bool
}

// New returns Holds without sessions.
func New(cfg Config) *Holds {
	return &Holds{cfg: cfg, blamed: map[string]blamed{}, leaving: map[Session]bool{}}
}

// Leave notes that a session is being taken apart. It is called before the session is no longer listed.
func (h *Holds) Leave(sess Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving[sess] = true
}

// Gone notes that a session that was being taken apart holds no backend any more.
func (h *Holds) Gone(sess Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leaving, sess)
}

// Barrier returns the barrier of a database, nil if no job carries its rows. A barrier is made once for
// each snapshot.
func (h *Holds) Barrier(snap *directory.Snapshot, database string) *reshard.Barrier {
	if len(snap.Moves) == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.snap != snap {
		h.snap, h.made = snap, map[string]*reshard.Barrier{}
		h.ages.follow(snap, time.Now())
	}
	b, ok := h.made[database]
	if !ok {
		b = reshard.BarrierOf(snap, database)
		h.made[database] = b
	}
	return b
}

// holdGrace is how long after its job's max_pause a round may hold statements: a little less than
// the two seconds that clients are promised. Any proxy ends a round before that, see job.Runner.WatchRounds,
// unless etcd or the deciding shard does not answer.
const holdGrace = 1900 * time.Millisecond

// Overdue returns the error of a statement that a round holds which should have ended: it is not known
// now whether its rows have moved. Overdue returns nil while the round has time.
func (h *Holds) Overdue(b *reshard.Barrier) error {
	if h.ages.of(b.Round.Key, time.Now()) <= carrier.LongestPause(b.Move)+holdGrace {
		return nil
	}
	return pgerr.New(pgerr.CannotConnectNow, "rows of the statement are on their way to another shard, and it is not known yet whether they have arrived").
		WithHint("This proxy does not reach etcd, or shards of job %s do not answer. Try again, or connect to another proxy.", b.Job)
}

// clearInterval is how often sessions that a round waits for are looked at.
const clearInterval = time.Millisecond

// Run tells the directory, until ctx ends, up to which version nothing is in flight that rounds
// wait for.
func (h *Holds) Run(ctx context.Context) {
	if h.cfg.Current == nil {
		return
	}
	for {
		changed := h.cfg.Current.Changed()
		again := (<-chan time.Time)(nil)
		if snap := h.cfg.Snapshot(); snap != nil {
			if h.isClear(snap) {
				h.cfg.Current.Clear(snap.Version)
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
// for, and all backends are registered: what this proxy sends could not be fenced off otherwise. Drains and fences of shards count, too.
func (h *Holds) isClear(snap *directory.Snapshot) bool {
	if h.cfg.Cleared != nil && !h.cfg.Cleared(snap) {
		return false
	}
	if len(snap.Moves) == 0 {
		return true
	}
	for i := range snap.Moves {
		if !h.cfg.Complete(snap, snap.Moves[i].Database) {
			return false
		}
	}
	clear := true
	look := func(sess Session) bool {
		if name := sess.Database(); name != "" {
			// A session of a database without declared tables uses no other shard than home.
			if b := h.Barrier(snap, name); b != nil && (snap.Carrying(name) != nil || len(snap.Declared(name)) > 0) {
				awaited, bucket := sess.Awaited(b)
				if clear = !awaited; awaited {
					h.blame(b.Job, sess, bucket)
				}
			}
		}
		return clear
	}
	// In this order: a session that leaves is among the leaving before it is not listed any more.
	if h.cfg.Each(look); !clear {
		return false
	}
	h.mu.Lock()
	left := slices.Collect(maps.Keys(h.leaving))
	h.mu.Unlock()
	for _, sess := range left {
		if !look(sess) {
			return false
		}
	}
	return true
}
