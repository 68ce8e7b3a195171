package carrier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard"
	"weft/schema"
	"weft/twopc"
)

// Directory is the part of the directory that jobs need.
type Directory interface {
	Load(ctx context.Context) (*directory.Snapshot, error)
	Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	// Cleared waits until no proxy has anything in flight that rounds of the version wait for.
	Cleared(ctx context.Context, version int64) error
	// Live lists the proxies that are alive.
	Live(ctx context.Context) (directory.Live, error)
}

// Rows opens the transactions that carry rows, and makes what they need. *schema.Mover is one.
type Rows interface {
	PrepareMove(ctx context.Context, snap *directory.Snapshot, m directory.Move) (*schema.MoveSizes, error)
	// Fence keeps all proxies out of a database of some shards that are not in the list.
	Fence(ctx context.Context, database string, shards []string, list func(context.Context) (directory.Live, error)) (directory.Live, error)
	OpenCarriage(ctx context.Context, snap *directory.Snapshot, m directory.Move, pairs []directory.Pair) (*schema.Carriage, error)
	FinishMove(ctx context.Context, snap *directory.Snapshot, m directory.Move) error
}

// Config configures a Carrier.
type Config struct {
	Directory Directory
	Rows      Rows
	Resolver  *twopc.Resolver
	Log       *slog.Logger
	// Observe is told of every round. It may be nil.
	Observe func(Report)
	// StopAt is called at the points of a round, for tests that stop the process there. It may be
	// nil.
	StopAt func(point string)
	// Load tells the work that the buckets of a database have now, in any unit, as far as it is known.
	// It may be nil.
	Load func(ctx context.Context, database string) map[int32]float64
	// InHand is told whether this process is at work on the transaction of a nonce. It may be nil.
	InHand func(nonce string, yes bool)
}

// Report is what became of a round.
type Report struct {
	Job     string
	Pairs   []directory.Pair
	Rows    int64
	Bytes   int64
	Writes  time.Duration // how long writers were held
	Reads   time.Duration // how long readers were held
	Outcome string        // schema.Carried, or why the round gave way
}

// Carrier runs jobs.
type Carrier struct {
	cfg    Config
	pace   reshard.Pace
	failed map[int]int // rounds that gave way, by bucket
	// fenced are the proxies that were alive when a shard was last fenced, by shard.
	fenced map[string]directory.Live
}

// New returns a carrier for one job.
func New(cfg Config) *Carrier {
	return &Carrier{cfg: cfg, failed: map[int]int{}, fenced: map[string]directory.Live{}}
}

// The defaults of a job's options.
const (
	DefaultMaxPause    = 500 * time.Millisecond
	DefaultPauseTarget = 150 * time.Millisecond
	DefaultDuty        = 50
)

// errGone says that the job has been cancelled, or belongs to another proxy.
var errGone = errors.New("the job is no longer this proxy's")

// ErrPaused is returned by Run for a job that was paused.
var ErrPaused = errors.New("the job is paused")

// Run works on a job until all its buckets are at their target, and removes its entry. It
// returns early if the job is paused, cancelled or cannot go on. It may be called again for a job
// that another process has begun.
func (c *Carrier) Run(ctx context.Context, id, proxy string) error {
	snap, m, err := c.find(ctx, id, proxy)
	if err != nil {
		return err
	}
	if m.Round != nil {
		if err := Settle(ctx, c.cfg, m, twopc.Force); err != nil {
			return c.wait(ctx, m, err)
		}
	}
	if m.State == directory.MovePreparing {
		// From now on proxies note what transactions touch. Older ones must end first.
		if err := c.cfg.Directory.Cleared(ctx, snap.Version); err != nil {
			return err
		}
	}
	sizes, err := c.cfg.Rows.PrepareMove(ctx, snap, *m)
	if err != nil && MayPass(err) {
		return c.wait(ctx, m, err)
	}
	if err != nil {
		return c.fail(ctx, m, err)
	}
	warmth := c.warmth(ctx, snap, m)
	if err := c.begun(ctx, id, proxy); err != nil {
		return err
	}
	for {
		if snap, m, err = c.find(ctx, id, proxy); err != nil {
			return err
		}
		switch m.State {
		case directory.MovePaused:
			return ErrPaused
		case directory.MovePreparing: // it was paused and resumed meanwhile
			if err := c.begun(ctx, id, proxy); err != nil {
				return err
			}
		}
		left := reshard.Parcels(snap, m, func(b int) int64 { return sizes.Rows[b] }, func(b int) int { return c.failed[b] }, warmth)
		if len(left) == 0 {
			break
		}
		if until := m.Options.Until; until > 0 && (sizes.Buckets-int64(len(left)))*100 >= sizes.Buckets*int64(until) {
			return c.pauseAt(ctx, id, proxy, until)
		}
		if err := c.next(ctx, snap, m, left); err != nil {
			return err
		}
	}
	return c.finish(ctx, snap, m)
}

// warmth says which buckets of a job are hot when it begins: they move last. Tables that have a
// placement of their own are declared just now, and what is hot in them is not known.
func (c *Carrier) warmth(ctx context.Context, snap *directory.Snapshot, m *directory.Move) reshard.Warmth {
	if c.cfg.Load == nil || m.Group != "" {
		return reshard.Warmth{}
	}
	return reshard.NewWarmth(c.cfg.Load(ctx, m.Database), len(snap.PlacementOf(m.Database, "")))
}

// begun notes that a job makes rounds from now on.
func (c *Carrier) begun(ctx context.Context, id, proxy string) error {
	return c.changeOwn(ctx, id, proxy, func(_ *directory.Snapshot, m *directory.Move) {
		if m.State == directory.MovePreparing {
			m.State = directory.MoveRunning
		}
		m.Waits = ""
	})
}

// MayPass reports whether an error says that a server or the directory is away or busy: a job that meets
// such an error waits and goes on.
func MayPass(err error) bool { return pgerr.MayPass(err) || errors.Is(err, directory.ErrUnavailable) }

// wait notes what a job waits for, and returns it: the job is begun again.
func (c *Carrier) wait(ctx context.Context, m *directory.Move, reason error) error {
	if m.Waits == reason.Error() || ctx.Err() != nil {
		return reason
	}
	err := c.changeOwn(ctx, m.ID, m.Proxy, func(_ *directory.Snapshot, m *directory.Move) { m.Waits = reason.Error() })
	return errors.Join(reason, err)
}

// pauseAt pauses a job that was to come this far by itself. When it is resumed, it goes to its end.
func (c *Carrier) pauseAt(ctx context.Context, id, proxy string, percent int) error {
	err := c.changeOwn(ctx, id, proxy, func(_ *directory.Snapshot, m *directory.Move) {
		m.State, m.Reason, m.Options.Until = directory.MovePaused, fmt.Sprintf("%d %% of the buckets have moved, as the option until says", percent), 0
	})
	if err != nil {
		return err
	}
	return ErrPaused
}

// find reads a job.
func (c *Carrier) find(ctx context.Context, id, proxy string) (*directory.Snapshot, *directory.Move, error) {
	snap, err := c.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := snap.FindMove(id)
	if m == nil || m.Proxy != proxy {
		return nil, nil, errGone
	}
	return snap, m, nil
}

// changeOwn changes the entry of a job that is this proxy's.
func (c *Carrier) changeOwn(ctx context.Context, id, proxy string, fn func(*directory.Snapshot, *directory.Move)) error {
	_, err := c.change(ctx, id, func(next *directory.Snapshot, m *directory.Move) error {
		if m.Proxy != proxy {
			return errGone
		}
		fn(next, m)
		return nil
	})
	return err
}

// change changes the entry of a job.
func (c *Carrier) change(ctx context.Context, id string, fn func(*directory.Snapshot, *directory.Move) error) (*directory.Snapshot, error) {
	return c.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil {
			return nil, errGone
		}
		return next, fn(next, m)
	})
}

// next makes one round, and rests after it so that others get their turn.
func (c *Carrier) next(ctx context.Context, snap *directory.Snapshot, m *directory.Move, left []reshard.Parcel) error {
	pairs := reshard.Batch(left, c.pace.Rows(orDefault(m.Options.PauseTarget, DefaultPauseTarget)))
	r := &round{Carrier: c, move: *m, pairs: pairs, report: Report{Job: m.ID, Pairs: pairs}, pause: maxPause(m.Options, c.tries(pairs))}
	began := time.Now()
	err := r.run(ctx, snap)
	if c.cfg.Observe != nil {
		c.cfg.Observe(r.report)
	}
	var way *gaveWay
	switch {
	case err == nil:
		ways := int64(len(pairs)) // they go at the same time
		c.pace.Carried(r.report.Rows/ways, r.report.Bytes/ways, r.carrying, r.report.Writes)
	case errors.As(err, &way):
		c.pace.GaveWay()
		for _, p := range pairs {
			for _, b := range p.Buckets {
				c.failed[b]++
			}
		}
		c.cfg.Log.Info("a round of a move gave way", "job", m.ID, "reason", way.reason)
	default:
		return err
	}
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.DataCorrupted {
		return c.fail(ctx, m, e)
	}
	return c.rest(ctx, m, &r.report, began)
}

// tries returns the most rounds that gave way with one of the buckets.
func (c *Carrier) tries(pairs []directory.Pair) (most int) {
	for _, p := range pairs {
		for _, b := range p.Buckets {
			most = max(most, c.failed[b])
		}
	}
	return most
}

// LongestPause is how long the round of a job may hold a statement before it gives way.
func LongestPause(m *directory.Move) time.Duration {
	if m.Round != nil && m.Round.Pause > 0 {
		return m.Round.Pause
	}
	return orDefault(m.Options.MaxPause, DefaultMaxPause)
}

// mostStretched is how long a round may hold statements whose buckets gave way again and again.
const mostStretched = 32 * time.Second

// maxPause is how long a round may hold statements with buckets that gave way a number of times.
func maxPause(o directory.MoveOptions, tries int) time.Duration {
	d := orDefault(o.MaxPause, DefaultMaxPause)
	if !o.Stretch {
		return d
	}
	for ; tries >= 2 && d < mostStretched; tries -= 2 {
		d *= 2
	}
	return d
}

// lookAgain is how often a job that rests looks whether it has become another's business, or has
// got other options.
const lookAgain = time.Second

// rest rests after a round that began at a time, so that others get their turn.
func (c *Carrier) rest(ctx context.Context, m *directory.Move, r *Report, began time.Time) error {
	over := time.Now()
	for options := m.Options; ; {
		left := pause(r, over.Sub(began), options) - time.Since(over)
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(min(left, lookAgain)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if left <= lookAgain {
			return nil
		}
		_, now, err := c.find(ctx, m.ID, m.Proxy)
		if err != nil || now.State == directory.MovePaused {
			return err
		}
		options = now.Options
	}
}

// afterGivingWay is how long a job rests at least after a round that came to nothing.
const afterGivingWay = 100 * time.Millisecond

// pause is how long a job rests after a round that took a time altogether: so long that statements
// are held for at most the job's share of time, and that the job's rate is not exceeded.
func pause(r *Report, took time.Duration, o directory.MoveOptions) time.Duration {
	duty := o.Duty
	if duty <= 0 || duty > 100 {
		duty = DefaultDuty
	}
	d := r.Writes * time.Duration(100-duty) / time.Duration(duty)
	if r.Outcome != schema.Carried {
		d = max(d, afterGivingWay)
	}
	if o.Rate > 0 {
		d = max(d, time.Duration(float64(r.Bytes)/float64(o.Rate)*float64(time.Second))-took)
	}
	return d
}

// finish ends a job whose buckets are all at their target.
func (c *Carrier) finish(ctx context.Context, snap *directory.Snapshot, m *directory.Move) error {
	id, over := m.ID, false
	err := c.changeOwn(ctx, id, m.Proxy, func(next *directory.Snapshot, now *directory.Move) {
		if over = directory.Arrived(next, now); over {
			now.State = directory.MoveFinishing
		}
	})
	if err != nil || !over {
		return err // it is begun again
	}
	c.cfg.stopAt("move-finishing")
	if err := c.cfg.Rows.FinishMove(ctx, snap, *m); err != nil {
		return c.wait(ctx, m, err)
	}
	c.cfg.Log.Info("a move of rows is done", "job", id, "database", m.Database)
	return c.changeOwn(ctx, id, m.Proxy, func(next *directory.Snapshot, now *directory.Move) {
		if m.Group != "" && (now.Back != m.Back || !now.GoesHome() && !directory.Merge(next, now)) {
			now.State = directory.MovePreparing // it has another target now, and goes on
			return
		}
		directory.Succeed(next, id)
	})
}

// fail notes why a job cannot go on, and returns the reason.
func (c *Carrier) fail(ctx context.Context, m *directory.Move, reason error) error {
	if ctx.Err() != nil {
		return reason
	}
	err := c.changeOwn(ctx, m.ID, m.Proxy, func(_ *directory.Snapshot, m *directory.Move) {
		m.State, m.Reason = directory.MoveFailed, reason.Error()
	})
	return errors.Join(reason, err)
}

func (c *Config) stopAt(point string) {
	if c.StopAt != nil {
		c.StopAt(point)
	}
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// gaveWay says that a round was rolled back because it would have held others for too long.
type gaveWay struct{ reason error }

func (g *gaveWay) Error() string { return fmt.Sprintf("the round gave way: %s", g.reason) }
func (g *gaveWay) Unwrap() error { return g.reason }
