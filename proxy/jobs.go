package proxy

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/reshard/carrier"
	"weft/twopc"
)

// moving is this proxy's part in rows that change shards.
type moving struct {
	jobs  jobs
	holds holds
}

// jobs runs the moves of this proxy, adopts those of proxies that are gone, and ends rounds whose
// process does not.
type jobs struct {
	s *Server

	mu      sync.Mutex
	running map[string]bool      // by the job's ID
	seen    map[string]time.Time // since when a round is in the directory, by its key
}

const (
	// jobInterval is how often jobs are looked for.
	jobInterval = 250 * time.Millisecond
	// roundGrace is how long after its job's max_pause a round may stand before any proxy ends it.
	roundGrace = time.Second
)

// work looks after jobs until ctx ends.
func (j *jobs) work(ctx context.Context) {
	j.s.every(ctx, jobInterval, func(snap *directory.Snapshot) {
		if j.s.cfg.Directory == nil || snap.Foreign != nil {
			return
		}
		j.watch(ctx, snap)
		for i := range snap.Moves {
			m := &snap.Moves[i]
			if m.State == directory.MovePaused || m.State == directory.MoveFailed || m.Kind == directory.MoveJoin || m.Kind == directory.MoveLeave {
				continue
			}
			if m.Proxy != j.s.cfg.Proxy && !j.adopt(ctx, m) {
				continue
			}
			j.start(m.ID)
		}
	})
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
	return err == nil
}

// start runs a job unless it runs already.
func (j *jobs) start(id string) {
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
		err := carrier.New(j.config()).Run(j.s.ctx, id, j.s.cfg.Proxy)
		if err != nil && !errors.Is(err, carrier.ErrPaused) && j.s.ctx.Err() == nil {
			j.s.log.Warn("a move of rows has stopped", "job", id, "err", err)
			select { // the job is begun again soon, but not at once
			case <-time.After(time.Second):
			case <-j.s.ctx.Done():
			}
		}
	}))
}

// config is what a carrier needs.
func (j *jobs) config() carrier.Config {
	return carrier.Config{
		Directory: j.s.cfg.Directory, Rows: j.s.mover, Resolver: j.s.left.Resolver(), Log: j.s.log,
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
		pause := m.Options.MaxPause
		if pause <= 0 {
			pause = carrier.DefaultMaxPause
		}
		if time.Since(since) < pause+roundGrace {
			continue
		}
		late := *m
		j.seen[m.Round.Key] = time.Now() // tries again after as long
		j.s.wg.Go(j.s.guarded("late round of a move", func() {
			if err := carrier.Settle(ctx, j.config(), &late, twopc.Force); err != nil && ctx.Err() == nil {
				j.s.log.Warn("a round of a move cannot be ended", "job", late.ID, "err", err)
			}
		}))
	}
}

// moveBuckets starts a job that takes buckets to a shard, and returns its ID.
func (u *utility) moveBuckets(ctx context.Context, args map[string]string) ([][]string, error) {
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	options, err := moveOptions(args)
	if err != nil {
		return nil, err
	}
	move := u.newMove(directory.MoveBuckets)
	move.Options = options
	_, err = u.s.srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		target := slices.Clone(old.PlacementOf(move.Database, ""))
		to := slices.IndexFunc(old.Shards, func(s directory.Shard) bool { return s.Name == args["to"] })
		if to < 0 {
			return nil, pgerr.New(pgerr.UndefinedObject, "shard %q does not exist", args["to"])
		}
		if err := mayTake(&old.Shards[to]); err != nil {
			return nil, err
		}
		buckets, err := readBuckets(args["buckets"], len(target))
		if err != nil {
			return nil, err
		}
		for _, b := range buckets {
			target[b] = uint16(to)
		}
		return withMove(old, move, target)
	})
	if err != nil {
		return nil, err
	}
	return [][]string{{move.ID}}, nil
}

// mayTake refuses a shard that is to get no buckets.
func mayTake(sh *directory.Shard) error {
	if sh.State == directory.ShardActive {
		return nil
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is %s and takes no buckets", sh.Name, sh.State).
		WithHint("Make it active first: SELECT weft.set_shard_state(%s, 'active').", quote.Literal(sh.Name))
}

// moveOptions reads the options of a job.
func moveOptions(args map[string]string) (o directory.MoveOptions, err error) {
	if text := args["max_pause"]; text != "" {
		if o.MaxPause, err = time.ParseDuration(text); err != nil || o.MaxPause <= 0 {
			return o, pgerr.New(pgerr.InvalidParameterValue, "max_pause %q is not a time such as '500ms'", text)
		}
	}
	return o, nil
}

// readBuckets reads a list of buckets and ranges of buckets, such as 0-63,70.
func readBuckets(text string, count int) ([]int, error) {
	bad := func(part string) error {
		return pgerr.New(pgerr.InvalidParameterValue, "%q is no bucket and no range of buckets", part).
			WithDetail("There are the buckets 0 to %d.", count-1).WithHint("Write '17', or '0-63,70'.")
	}
	var out []int
	for _, part := range strings.Split(text, ",") {
		first, last, both := strings.Cut(strings.TrimSpace(part), "-")
		if !both {
			last = first
		}
		a, err1 := strconv.Atoi(strings.TrimSpace(first))
		b, err2 := strconv.Atoi(strings.TrimSpace(last))
		if err1 != nil || err2 != nil || a < 0 || b < a || b >= count {
			return nil, bad(part)
		}
		for ; a <= b; a++ {
			out = append(out, a)
		}
	}
	return out, nil
}

// waitMove waits until a job is over.
func (u *utility) waitMove(ctx context.Context, args map[string]string) error {
	for {
		snap, err := u.s.srv.cfg.Directory.Load(ctx)
		if err != nil {
			return err
		}
		m := snap.FindMove(args["job"])
		if m == nil {
			return nil
		}
		if m.State == directory.MoveFailed {
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s has failed: %s", m.ID, m.Reason)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// cancelMove ends a job between two rounds. What it has carried stays where it is.
func (u *utility) cancelMove(ctx context.Context, args map[string]string) error {
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return err
	}
	id := args["job"]
	for {
		busy := false
		_, err := u.s.srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			m := next.FindMove(id)
			if m == nil {
				return nil, pgerr.New(pgerr.UndefinedObject, "there is no job %q", id)
			}
			if busy = m.Round != nil; busy {
				m.State = directory.MovePaused
				return next, nil
			}
			next.EndMove(id)
			return next, nil
		})
		if err != nil || !busy {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
