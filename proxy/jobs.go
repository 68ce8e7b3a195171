package proxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/reshard/carrier"
	"weft/schema"
	"weft/twopc"
)

// moving is this proxy's part in rows that change shards.
type moving struct {
	jobs   jobs
	holds  holds
	fences fences
}

// jobs runs the moves of this proxy, adopts those of proxies that are gone, and ends rounds whose
// process does not.
type jobs struct {
	s *Server

	history roundLog

	mu      sync.Mutex
	running map[string]bool      // by the job's ID
	seen    map[string]time.Time // since when a round is in the directory, by its key
}

const (
	// jobInterval is how often jobs are looked for.
	jobInterval = 250 * time.Millisecond
	// roundGrace is how long after its job's max_pause a round may stand before any proxy ends it.
	roundGrace = time.Second
	// lateTimeout bounds one attempt to end a round.
	lateTimeout = 10 * time.Second
)

// work looks after jobs until ctx ends.
func (j *jobs) work(ctx context.Context) {
	j.s.every(ctx, jobInterval, func(snap *directory.Snapshot) {
		if j.s.cfg.Directory == nil || snap.Foreign != nil {
			return
		}
		j.s.moving.fences.renew(snap)
		j.s.moving.fences.enroll(ctx, snap)
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
			if m.Proxy != j.s.cfg.Proxy && !j.adopt(ctx, m) {
				continue
			}
			j.start(m)
		}
	})
}

// watchRounds ends late rounds until ctx ends. It does nothing else: what work does may wait for etcd
// or for a shard, and clients wait for the end of a round.
func (j *jobs) watchRounds(ctx context.Context) {
	j.s.every(ctx, jobInterval, func(snap *directory.Snapshot) {
		if j.s.cfg.Directory != nil && snap.Foreign == nil {
			j.watch(ctx, snap)
		}
	})
}

// update changes the directory, and returns when this proxy has heard of the change: who asks for a job
// and then for weft.moves finds the job there.
func (j *jobs) update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) error {
	snap, err := j.s.cfg.Directory.Update(ctx, fn)
	if err == nil && snap != nil && j.s.cfg.Current != nil {
		_, err = j.s.cfg.Current.Reach(ctx, snap.Version)
	}
	return err
}

// adopt takes a job over from a proxy that is gone.
func (j *jobs) adopt(ctx context.Context, m *directory.Move) bool {
	if j.s.left.Alive(ctx, m.Proxy) {
		return false
	}
	gone, id := m.Proxy, m.ID
	_, err := j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil || m.Proxy != gone {
			return nil, errMoved
		}
		m.Proxy = j.s.cfg.Proxy
		return next, nil
	})
	if err != nil {
		return false
	}
	j.s.keeper.stopAt("move-adopted")
	return true
}

// start runs a job unless it runs already.
func (j *jobs) start(m *directory.Move) {
	id, kind, drain := m.ID, m.Kind, m.Drain
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running[id] {
		return
	}
	if j.running == nil {
		j.running = map[string]bool{}
	}
	j.running[id] = true
	j.s.wg.Go(j.s.guarded("move of rows", func() {
		defer func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			delete(j.running, id)
		}()
		err := j.run(id, kind, drain)
		j.history.flush(id)
		if err != nil && !errors.Is(err, carrier.ErrPaused) && j.s.ctx.Err() == nil {
			j.s.log.Warn("a move of rows has stopped", "job", id, "err", err)
			select { // the job is begun again soon, but not at once
			case <-time.After(time.Second):
			case <-j.s.ctx.Done():
			}
		}
	}))
}

// run works on a job.
func (j *jobs) run(id string, kind directory.MoveKind, drain bool) error {
	switch {
	case kind == directory.MoveJoin:
		return j.join(j.s.ctx, id)
	case kind == directory.MoveLeave && drain:
		return j.retire(j.s.ctx, id)
	case kind == directory.MoveLeave:
		// Whoever removes a shard does so itself. If it is gone, the shard stays.
		return j.endMove(j.s.ctx, id, directory.MoveCancelled)
	}
	return carrier.New(j.config()).Run(j.s.ctx, id, j.s.cfg.Proxy)
}

// config is what a carrier needs.
func (j *jobs) config() carrier.Config {
	return carrier.Config{
		Directory: j.s.cfg.Directory, Rows: declaring{remembered{j.s.mover, &j.history}, schema.NewOnline(j.s.mover)}, Resolver: j.s.left.Resolver(), Log: j.s.log, Observe: j.history.note,
		Load:   j.bucketLoad,
		StopAt: func(point string) { j.s.keeper.stopAt(twopc.Point(point)) },
		InHand: func(nonce string, yes bool) {
			if yes {
				j.s.left.Take(nonce)
			} else {
				j.s.left.Drop(nonce)
			}
		},
	}
}

// askForOrder bounds how long a job waits to hear which buckets are hot: it is for their order only.
const askForOrder = time.Second

// bucketLoad is the work that the buckets of a database have now, as far as proxies say so at once.
func (j *jobs) bucketLoad(ctx context.Context, database string) map[int32]float64 {
	ctx, stop := context.WithTimeout(ctx, askForOrder)
	defer stop()
	r, _ := j.s.heatOfAll(ctx, heat.AllParts, false)
	out := map[int32]float64{}
	for b, l := range r.Databases[database].Buckets {
		out[b] = l.Cost()
	}
	return out
}

// watch ends rounds that have stood for too long: their process has died, or does not answer.
func (j *jobs) watch(ctx context.Context, snap *directory.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known := j.seen
	j.seen = map[string]time.Time{}
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if m.Round == nil {
			continue
		}
		since, ok := known[m.Round.Key]
		if !ok {
			since = time.Now()
		}
		j.seen[m.Round.Key] = since
		if time.Since(since) < maxPause(m)+roundGrace {
			continue
		}
		late := *m
		j.seen[m.Round.Key] = time.Now() // tries again after as long
		if !m.Carries() {
			j.s.wg.Go(j.s.guarded("late hold of a shard", func() { j.lift(ctx, late.ID, late.Round.Key) }))
			continue
		}
		j.s.wg.Go(j.s.guarded("late round of a move", func() {
			ctx, cancel := context.WithTimeout(ctx, lateTimeout)
			defer cancel()
			if err := carrier.Settle(ctx, j.config(), &late, twopc.Force); err != nil && ctx.Err() == nil {
				j.s.log.Warn("a round of a move cannot be ended", "job", late.ID, "err", err)
			}
		}))
	}
}
