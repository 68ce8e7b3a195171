package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/reshard"
)

// How a shard joins, and what is where when the proxy that runs the job dies:
//
//	step                                      dies after it
//	1 directory: the job, with the server     another proxy goes on with 2
//	2 the server is looked at                 the same
//	3 roles, databases, tables, rows of       the same: databases that bear the comment of a
//	  reference tables are made there         shard that has not joined are made anew
//	4 directory: a round that holds writes    any proxy lifts the round when it is late; another
//	  over several shards                     proxy goes on with 2
//	5 reference tables are locked on home,    the same; the lock ends with its connection
//	  compared, made equal
//	6 directory: the shard is one of the      another proxy goes on with 7
//	  shards, without buckets; the round is
//	  over; jobs that bring it buckets
//	7 the comments go; all jobs are over      another proxy goes on with 7
//	8 directory: the job goes                 it is done
//
// Commands that change schemas wait from 1 to 6, unless their transaction has begun already. If
// one of those commits after 3, the shard is equipped again: step 6 compares the schemas' versions.

// shardHold is how long a shard that joins or leaves holds statements at first. Each attempt that
// was not long enough doubles it, up to maxShardHold.
const (
	shardHold    = 2 * time.Second
	maxShardHold = 30 * time.Second
)

// clearPatience is how long the proxies are waited for before a job looks at its entry again.
const clearPatience = 10 * time.Second

// addShard starts the job by which a server joins as a shard, and returns its ID.
func (u *utility) addShard(ctx context.Context, args map[string]string) ([][]string, error) {
	srv := u.s.srv
	if err := srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	move := u.newMove(directory.MoveJoin)
	move.Database = ""
	spec, err := shardSpec(srv.cfg.Snapshot(), args)
	if err != nil {
		return nil, err
	}
	move.Shard, move.Join = spec.Name, spec
	if err := moveOptions(args, &move.Options); err != nil {
		return nil, err
	}
	move.Options.Stay = args["rebalance"] == "false"
	done := srv.moving.jobs.reserve(move.ID) // the job is not begun before the server has been looked at
	defer done()
	snap, err := srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if err := reshard.Unchanging(old); err != nil {
			return nil, err
		}
		next := old.Clone()
		return next, reshard.Join(next, move)
	})
	if err != nil {
		return nil, err
	}
	err = srv.keeper.spreadVersion(ctx, snap.Version)
	if err == nil {
		err = srv.mover.CheckJoin(ctx, snap, spec.Name)
	}
	if err != nil {
		return nil, errors.Join(err, srv.moving.jobs.endMove(context.WithoutCancel(ctx), move.ID, directory.MoveCancelled))
	}
	return [][]string{{move.ID}}, nil
}

// shardSpec reads the arguments of add_shard. Options of the connection are those of the home
// shard.
func shardSpec(snap *directory.Snapshot, args map[string]string) (*directory.Shard, error) {
	spec := &directory.Shard{Name: args["name"], Weight: 1, Options: maps.Clone(snap.HomeShard().Options)}
	for _, h := range strings.Split(args["hosts"], ",") {
		spec.Hosts = append(spec.Hosts, strings.TrimSpace(h))
	}
	if host, citus := args["host"]; citus {
		spec.Hosts = []string{host + ":" + args["port"]}
		for i := len(snap.Shards); spec.Name == ""; i++ {
			name := fmt.Sprintf("shard-%d", i)
			if _, taken := snap.Shard(name); !taken {
				spec.Name = name
			}
		}
	}
	if text := args["weight"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1000 {
			return nil, pgerr.New(pgerr.InvalidParameterValue, "weight %q is not a number from 0 to 1000", text)
		}
		spec.Weight = n
	}
	if v, given := args["rebalance"]; given && v != "true" && v != "false" {
		return nil, pgerr.New(pgerr.InvalidParameterValue, "rebalance %q is not true or false", v)
	}
	return spec, nil
}

// reserve keeps a job from being run by this process until done is called.
func (j *jobs) reserve(id string) (done func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running == nil {
		j.running = map[string]bool{}
	}
	j.running[id] = true
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.running, id)
	}
}

// endMove removes the entry of a job, and remembers what became of it.
func (j *jobs) endMove(ctx context.Context, id string, state directory.MoveState) error {
	_, err := j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.Conclude(id, state, time.Now())
		return next, nil
	})
	return err
}

// own returns a job of this proxy, nil if it is over or another's.
func (j *jobs) own(ctx context.Context, id string) (*directory.Snapshot, *directory.Move, error) {
	snap, err := j.s.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := snap.FindMove(id)
	if m == nil || m.Proxy != j.s.cfg.Proxy || m.State == directory.MoveFailed {
		return snap, nil, nil
	}
	return snap, m, nil
}

// join runs the job by which a shard joins.
func (j *jobs) join(ctx context.Context, id string) error {
	hold := shardHold
	for {
		snap, m, err := j.own(ctx, id)
		if err != nil || m == nil || m.State == directory.MovePaused {
			return err
		}
		if m.Options.MaxPause > 0 {
			hold = m.Options.MaxPause
		}
		if _, joined := snap.Shard(m.Shard); joined {
			return j.joined(ctx, snap, m)
		}
		err = j.tryJoin(ctx, snap, m, hold)
		var later *laterError
		switch {
		case ctx.Err() != nil:
			return err
		case errors.As(err, &later):
			if later.short {
				hold = min(2*hold, maxShardHold)
			}
			j.s.log.Info("a shard joins later", "shard", m.Shard, "job", id, "reason", later.reason)
			if !sleep(ctx, 200*time.Millisecond) {
				return context.Cause(ctx)
			}
		case err != nil:
			return j.failMove(ctx, id, err)
		}
	}
}

// laterError says that an attempt can be made again.
type laterError struct {
	reason error
	short  bool // it needed more time than it had
}

func (e *laterError) Error() string { return e.reason.Error() }
func (e *laterError) Unwrap() error { return e.reason }

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// failMove notes why a job cannot go on.
func (j *jobs) failMove(ctx context.Context, id string, reason error) error {
	_, err := j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil {
			return old, nil
		}
		m.State, m.Reason, m.Round = directory.MoveFailed, reason.Error(), nil
		return next, nil
	})
	return errors.Join(reason, err)
}

// tryJoin makes the server ready and lets it join.
func (j *jobs) tryJoin(ctx context.Context, snap *directory.Snapshot, m *directory.Move, hold time.Duration) error {
	if m := snap.Joining(); m == nil {
		return &laterError{reason: errors.New("another job carries rows")}
	}
	// From now on transactions note what they touch, and commands that change schemas wait.
	if err := j.cleared(ctx, snap.Version, clearPatience); err != nil {
		return &laterError{reason: fmt.Errorf("transactions from before are open: %w", err)}
	}
	base, err := j.s.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	if len(base.Pending) > 0 {
		return &laterError{reason: errors.New("a schema is being changed")}
	}
	if err := j.s.mover.CheckJoin(ctx, base, m.Shard); err != nil {
		return passing(err)
	}
	j.stopAt("join-checked")
	if err := j.s.mover.EquipShard(ctx, base, m.Shard); err != nil {
		return passing(err)
	}
	j.stopAt("join-equipped")
	return j.heldJoin(ctx, base, m, hold)
}

// passing marks an error that another attempt may not meet.
func passing(err error) error {
	var e *pgerr.Error
	if errors.As(err, &e) && (e.Code == pgerr.ObjectInUse || e.Code == pgerr.UndefinedTable || e.Code == pgerr.LockNotAvailable || e.Code == pgerr.DeadlockDetected) {
		return &laterError{reason: err}
	}
	return err
}

// cleared waits until no proxy has anything in flight that the version's rounds wait for.
func (j *jobs) cleared(ctx context.Context, version int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return j.s.cfg.Directory.Cleared(ctx, version)
}

// heldJoin lets the shard join while writes over several shards are held. base is the cluster by
// which the server was equipped.
func (j *jobs) heldJoin(parent context.Context, base *directory.Snapshot, m *directory.Move, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(parent, hold)
	defer cancel()
	key := "join " + reshard.NewJobID()
	live, err := j.fence(ctx, base)
	if err != nil {
		return &laterError{reason: err}
	}
	held, err := j.hold(ctx, m.ID, &directory.Round{Key: key, Phase: directory.HoldWrites, Pause: hold}, func(now *directory.Snapshot) error { return unchangedSince(base, now) })
	if err == nil {
		defer j.lift(context.WithoutCancel(parent), m.ID, key)
		j.stopAt("join-held")
		err = j.clearedBy(ctx, held.Version, live)
	}
	if err != nil {
		return &laterError{reason: err, short: ctx.Err() != nil}
	}
	release, err := j.s.mover.MatchReferences(ctx, base, m.Shard)
	if err != nil {
		if ctx.Err() != nil {
			return &laterError{reason: err, short: true}
		}
		return passing(err)
	}
	defer release()
	j.stopAt("join-matched")
	next, err := j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		own := old.FindMove(m.ID)
		if own == nil || own.Round == nil || own.Round.Key != key {
			return nil, errors.New("the hold has been lifted")
		}
		if err := unchangedSince(base, old); err != nil {
			return nil, err
		}
		next := reshard.WithShard(old, own.Join)
		own = next.FindMove(m.ID)
		own.Round, own.State = nil, directory.MoveRunning
		reshard.BringBuckets(next, own)
		return next, nil
	})
	if err != nil {
		return &laterError{reason: err, short: ctx.Err() != nil}
	}
	j.stopAt("join-entered")
	// Whoever writes a reference table meanwhile waits for its lock no longer than this.
	return j.s.keeper.spreadVersion(parent, next.Version)
}

// fence keeps proxies that are not alive out of all shards: they would go on without the shard that
// joins, or with the one that leaves.
func (j *jobs) fence(ctx context.Context, snap *directory.Snapshot) (live directory.Live, err error) {
	if live, err = j.s.cfg.Directory.Live(ctx); err != nil {
		return live, err
	}
	var shards, databases []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	for i := range snap.Tables {
		if d := snap.Tables[i].Database; !slices.Contains(databases, d) {
			databases = append(databases, d)
		}
	}
	for _, database := range databases {
		now, err := j.s.mover.Fence(ctx, database, shards, j.s.cfg.Directory.Live)
		if err != nil {
			return live, err
		}
		if !now.Same(live) {
			return live, errComings
		}
	}
	return live, nil
}

// errComings ends an attempt during which a proxy has come or gone.
var errComings = errors.New("a proxy has come or gone")

// clearedBy waits until all proxies that the shards let in have nothing in flight that the version's
// rounds wait for.
func (j *jobs) clearedBy(ctx context.Context, version int64, live directory.Live) error {
	for {
		if err := j.s.cfg.Directory.Cleared(ctx, version); err != nil {
			return err
		}
		now, err := j.s.cfg.Directory.Live(ctx)
		switch {
		case err != nil:
			return err
		case !now.Same(live):
			return errComings
		case now.Cleared(version):
			return nil
		}
	}
}

// hold enters a round that holds statements of all databases, if nothing else moves and check
// agrees.
func (j *jobs) hold(ctx context.Context, id string, r *directory.Round, check func(*directory.Snapshot) error) (*directory.Snapshot, error) {
	return j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil || m.State == directory.MovePaused {
			return nil, errors.New("the job has been ended")
		}
		for i := range next.Moves {
			if o := &next.Moves[i]; o.Carries() {
				return nil, fmt.Errorf("job %s carries rows of database %s", o.ID, o.Database)
			}
		}
		if check != nil {
			if err := check(old); err != nil {
				return nil, err
			}
		}
		m.Round = r
		return next, nil
	})
}

// lift ends the round of a job that changes the set of shards, if it is still the one of that key.
func (j *jobs) lift(ctx context.Context, id, key string) {
	_, err := j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		m := old.FindMove(id)
		if m == nil || m.Round == nil || m.Round.Key != key {
			return old, nil
		}
		next := old.Clone()
		next.FindMove(id).Round = nil
		return next, nil
	})
	if err != nil && ctx.Err() == nil {
		j.s.log.Warn("statements are held for a shard that does not join", "job", id, "err", err)
	}
}

// unchangedSince returns an error if schemas or declarations have changed between two snapshots.
func unchangedSince(base, now *directory.Snapshot) error {
	if len(now.Pending) > 0 || !maps.Equal(base.Schemas, now.Schemas) || !sameTables(base.Tables, now.Tables) || len(base.Functions) != len(now.Functions) {
		return errors.New("a schema has been changed meanwhile")
	}
	return nil
}

// joined waits for the jobs that bring a shard its buckets, and ends the job by which it joined.
func (j *jobs) joined(ctx context.Context, snap *directory.Snapshot, m *directory.Move) error {
	if err := j.s.mover.JoinShard(ctx, snap, m.Shard); err != nil {
		return err
	}
	for {
		busy := false
		for i := range snap.Moves {
			if o := &snap.Moves[i]; o.Carries() && o.Shard == m.Shard {
				busy = true
				if o.State == directory.MoveFailed {
					return j.failMove(ctx, m.ID, fmt.Errorf("the shard has joined, and job %s, which brings it buckets of database %s, has failed: %s", o.ID, o.Database, o.Reason))
				}
			}
		}
		if !busy {
			return j.endMove(ctx, m.ID, directory.MoveDone)
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return context.Cause(ctx)
		}
		var err error
		if snap, m, err = j.own(ctx, m.ID); err != nil || m == nil {
			return err
		}
	}
}

// awaitShards makes a command that changes schemas wait while a shard is being made ready: the
// shard would have to be made ready again. A transaction that is open already does not wait.
func (cm *commit) awaitShards() error {
	if snap := cm.s.srv.cfg.Snapshot(); snap == nil || snap.Joining() == nil || cm.s.tx.isOpen() {
		return nil
	}
	for began := time.Now(); time.Since(began) < changeTimeout; {
		if cm.s.srv.cfg.Snapshot().Joining() == nil {
			return nil
		}
		select {
		case <-cm.s.reach.cancelled:
			return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		case <-cm.s.srv.ctx.Done():
			return pgerr.New(pgerr.AdminShutdown, "weft is shutting down")
		case <-time.After(10 * time.Millisecond):
		}
	}
	m := cm.s.srv.cfg.Snapshot().Joining()
	if m == nil {
		return nil
	}
	return pgerr.New(pgerr.ObjectInUse, "schemas cannot be changed while shard %q joins", m.Shard).
		WithHint("Wait for it with weft.wait_move(%s), or end it with weft.cancel_move(%s).", quote.Literal(m.ID), quote.Literal(m.ID))
}

func (j *jobs) stopAt(point string) { j.config().StopAt(point) }
