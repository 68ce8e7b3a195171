package job

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/reshard/carrier"
	"weft/schema"
	"weft/twopc"
)

// Directory is the part of the directory's store that a Runner uses.
type Directory interface {
	carrier.Directory
}

// Shards prepares the servers of shards for joining, and remembers rounds. *schema.Mover does.
type Shards interface {
	CheckJoin(ctx context.Context, snap *directory.Snapshot, shard string) error
	EquipShard(ctx context.Context, snap *directory.Snapshot, shard string) error
	MatchReferences(ctx context.Context, snap *directory.Snapshot, shard string) (release func(), err error)
	JoinShard(ctx context.Context, snap *directory.Snapshot, shard string) error
	NoteRounds(ctx context.Context, home, database, job string, rounds []schema.MoveRound) error
}

// Left knows which proxies are alive, and ends transactions that were left over.
// *leftover.Keeper does.
type Left interface {
	Alive(ctx context.Context, proxy string) bool
	Resolver() *twopc.Resolver
	Take(nonce string)
	Drop(nonce string)
}

// Config is what a Runner needs. All fields must be set, except where it says otherwise.
type Config struct {
	Proxy     string // the ID of this proxy
	Log       *slog.Logger
	Directory Directory // nil for a proxy whose cluster never changes, which has no jobs
	Snapshot  func() *directory.Snapshot
	// Reach waits until this proxy serves a version of the directory. It may be nil.
	Reach func(ctx context.Context, version int64) error
	// Spread waits until all proxies serve a version of the directory.
	Spread func(ctx context.Context, version int64) error
	Rows   carrier.Rows
	// Declare declares the tables of a job that follows another one, see directory.Then.
	Declare func(ctx context.Context, m directory.Move) error
	Shards  Shards
	Left    Left
	// Dial opens a connection to a database of a shard, as the service user.
	Dial func(ctx context.Context, shard, database string) (twopc.Conn, error)
	// Install makes weft's own tables in a database of a shard.
	Install func(ctx context.Context, shard, database string) error
	// Load tells the work that the buckets of a database have now, as far as it is known.
	Load func(ctx context.Context, database string) map[int32]float64
	// Enroll is called before jobs are looked for: proxies must be able to fence off all backends of
	// this proxy when a job begins.
	Enroll func(ctx context.Context, snap *directory.Snapshot)
	// StopAt is called at the points of a job, for tests that end the process there.
	StopAt func(twopc.Point)
	// Spawn runs f on a goroutine of its own, which the proxy waits for before it ends.
	Spawn func(work string, f func())
}

// Runner runs the jobs of this proxy, adopts those of proxies that are gone, and ends rounds whose
// process does not.
type Runner struct {
	cfg     Config
	history *history

	// carry works on a job that carries rows, settle ends its round. Tests replace them.
	carry  func(ctx context.Context, id string) error
	settle func(ctx context.Context, m *directory.Move) error

	mu      sync.Mutex
	running map[string]bool      // by the job's ID
	seen    map[string]time.Time // since when a round is in the directory, by its key
}

// New returns a runner that has begun nothing yet.
func New(cfg Config) *Runner {
	r := &Runner{cfg: cfg, running: map[string]bool{}, history: newHistory(cfg)}
	r.carry = func(ctx context.Context, id string) error {
		return carrier.New(r.carrier(ctx)).Run(ctx, id, cfg.Proxy)
	}
	r.settle = func(ctx context.Context, m *directory.Move) error {
		return carrier.Settle(ctx, r.carrier(ctx), m, twopc.Force)
	}
	return r
}

// interval is how often jobs, and late rounds, are looked for.
const interval = 250 * time.Millisecond

// Run looks after jobs until ctx ends, with which the jobs end, too.
func (r *Runner) Run(ctx context.Context) { r.every(ctx, r.look) }

// every calls f with the cluster four times a second until ctx ends, if the cluster can have jobs.
func (r *Runner) every(ctx context.Context, f func(context.Context, *directory.Snapshot)) {
	if r.cfg.Directory == nil {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if snap := r.cfg.Snapshot(); snap != nil && snap.Foreign == nil {
			f(ctx, snap)
		}
	}
}

// look begins the jobs of a snapshot that this proxy has to run and does not.
func (r *Runner) look(ctx context.Context, snap *directory.Snapshot) {
	r.cfg.Enroll(ctx, snap)
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if m.State == directory.MovePaused || m.State == directory.MoveFailed {
			continue
		}
		if !m.Carries() && snap.ChangingShards() != m {
			continue // shards join and leave one after the other
		}
		if slices.ContainsFunc(directory.Grouped(snap, m.Database, m.Group), func(t directory.Table) bool { return t.State == directory.Declaring }) {
			continue // its tables are not declared yet
		}
		if m.Proxy != r.cfg.Proxy && !r.adopt(ctx, m) {
			continue
		}
		r.start(ctx, m)
	}
}

// errTaken ends the attempt to adopt a job that another proxy has adopted, or that is over.
var errTaken = errors.New("the job is no longer that proxy's")

// adopt takes a job over from a proxy that is gone.
func (r *Runner) adopt(ctx context.Context, m *directory.Move) bool {
	if r.cfg.Left.Alive(ctx, m.Proxy) {
		return false
	}
	gone, id := m.Proxy, m.ID
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil || m.Proxy != gone {
			return nil, errTaken
		}
		m.Proxy = r.cfg.Proxy
		return next, nil
	})
	if err != nil {
		return false
	}
	r.cfg.StopAt("move-adopted")
	return true
}

// again is how long a job that has stopped waits until it is begun again.
const again = time.Second

// start runs a job unless it runs already.
func (r *Runner) start(ctx context.Context, m *directory.Move) {
	job := *m
	id := job.ID
	done, free := r.reserve(id)
	if !free {
		return
	}
	r.cfg.Spawn("move of rows", func() {
		defer done()
		err := r.run(ctx, job)
		r.history.flush(ctx, id)
		if err != nil && !errors.Is(err, carrier.ErrPaused) && ctx.Err() == nil {
			r.cfg.Log.Warn("a move of rows has stopped", "job", id, "err", err)
			sleep(ctx, again)
		}
	})
}

// reserve keeps a job from being begun by this process until done is called. It reports whether
// the job was free.
func (r *Runner) reserve(id string) (done func(), free bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[id] {
		return nil, false
	}
	r.running[id] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.running, id)
	}, true
}

// run works on a job.
func (r *Runner) run(ctx context.Context, m directory.Move) error {
	switch {
	case m.Kind == directory.MoveJoin:
		return r.join(ctx, m.ID)
	case m.Kind == directory.MoveLeave && m.Drain:
		return r.retire(ctx, m.ID)
	case m.Kind == directory.MoveLeave:
		// Leave removes a shard by itself. If its proxy is gone, the shard stays.
		return r.end(ctx, m.ID, directory.MoveCancelled)
	case m.Declares():
		return r.declare(ctx, m.ID)
	}
	return r.carry(ctx, m.ID)
}

// declare declares the tables of a job that follows another one. Look begins the job again when its rows can move. If the
// tables cannot be declared, the job fails, and they stay at home.
func (r *Runner) declare(ctx context.Context, id string) error {
	_, m, err := r.own(ctx, id)
	if err != nil || m == nil || !m.Declares() || m.State == directory.MovePaused {
		return err
	}
	err = r.cfg.Declare(ctx, *m)
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case carrier.MayPass(err):
		r.waits(ctx, m, err)
		return err
	}
	return r.fail(ctx, id, err)
}

// carrier is what a carrier needs. Rounds are noted until ctx ends.
func (r *Runner) carrier(ctx context.Context) carrier.Config {
	return carrier.Config{
		Directory: r.cfg.Directory, Resolver: r.cfg.Left.Resolver(), Log: r.cfg.Log, Load: r.cfg.Load,
		Rows:    remembered{r.cfg.Rows, func(job string) { r.history.save(ctx, job) }},
		Observe: func(round carrier.Report) { r.history.note(ctx, &round) },
		StopAt:  func(point string) { r.cfg.StopAt(twopc.Point(point)) },
		InHand: func(nonce string, yes bool) {
			if yes {
				r.cfg.Left.Take(nonce)
			} else {
				r.cfg.Left.Drop(nonce)
			}
		},
	}
}

// sleep waits, and reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
