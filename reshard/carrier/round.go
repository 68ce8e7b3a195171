package carrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/schema"
	"weft/twopc"
)

// round is one attempt to carry some buckets.
type round struct {
	*Carrier
	move   directory.Move
	pairs  []directory.Pair
	report Report
	pause  time.Duration // how long the round may hold statements

	opened   *directory.Snapshot // the snapshot that the round was opened by
	carriage *schema.Carriage
	live     directory.Live // the proxies that take part
	began    time.Time      // when writers were held
	carrying time.Duration  // how long rows were on their way
	readers  time.Time      // when readers were held
}

// errMaxPause ends a round that takes too long.
var errMaxPause = errors.New("max_pause is over")

// errShards ends a round that another job is in the way of.
var errShards = errors.New("a shard is joining or leaving")

// run makes the round. It returns a *gaveWay if nothing has happened and the buckets can come
// again, another error if the job cannot go on now.
func (r *round) run(parent context.Context, snap *directory.Snapshot) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	r.opened = snap
	err := r.fence(ctx)
	if err != nil {
		return r.giveWay(parent, err)
	}
	r.cfg.stopAt("move-fenced")
	if r.carriage, err = r.cfg.Rows.OpenCarriage(ctx, snap, r.move, r.pairs); err != nil {
		return r.giveWay(parent, err)
	}
	defer r.carriage.Close()
	nonce := r.carriage.Name.Nonce
	r.inHand(nonce, true)
	defer r.inHand(nonce, false)
	r.cfg.stopAt("move-opened")

	r.began = time.Now()
	late := time.AfterFunc(r.pause, func() { cancel(errMaxPause) })
	defer late.Stop()
	if err := r.hold(ctx, directory.HoldWrites); err != nil {
		return r.undo(parent, err)
	}
	r.cfg.stopAt("move-writes-clear")
	if err := r.carry(ctx); err != nil {
		return r.undo(parent, err)
	}
	r.readers = time.Now()
	if err := r.hold(ctx, directory.HoldAll); err != nil {
		return r.undo(parent, err)
	}
	r.cfg.stopAt("move-all-clear")
	if !late.Stop() || ctx.Err() != nil {
		return r.undo(parent, errMaxPause)
	}
	return r.commit(parent)
}

// fence keeps proxies out of the round's shards that are not alive, unless nobody has come or gone
// since that was done.
func (r *round) fence(ctx context.Context) (err error) {
	if r.live, err = r.cfg.Directory.Live(ctx); err != nil {
		return err
	}
	shards := participants(&directory.Round{Pairs: r.pairs})
	if !slices.ContainsFunc(shards, func(shard string) bool { return !r.fenced[shard].Same(r.live) }) {
		return nil
	}
	for _, shard := range shards {
		delete(r.fenced, shard)
	}
	if r.live, err = r.cfg.Rows.Fence(ctx, r.move.Database, shards, r.cfg.Directory.Live); err != nil {
		return err
	}
	for _, shard := range shards {
		r.fenced[shard] = r.live
	}
	return nil
}

// errComings ends a round during which a proxy has come or gone: the shards must be fenced anew.
var errComings = errors.New("a proxy has come or gone")

// hold enters a phase in the directory, and returns when nothing is in flight that the phase
// waits for. All proxies that the shards let in have said so.
func (r *round) hold(ctx context.Context, phase directory.Phase) error {
	next, err := r.change(ctx, r.move.ID, func(next *directory.Snapshot, m *directory.Move) error {
		if err := mayHold(m, r.move.Proxy, r.carriage.Name.Key(), phase); err != nil {
			return err
		}
		if next.Holding() != nil {
			return errShards
		}
		if phase == directory.HoldWrites && !r.sameTables(next) {
			return errTables
		}
		m.Round = &directory.Round{Key: r.carriage.Name.Key(), Phase: phase, Pairs: r.pairs, Pause: r.pause}
		return nil
	})
	if err != nil {
		return err
	}
	r.cfg.stopAt("move-" + string(phase) + "-told")
	for {
		if err := r.cfg.Directory.Cleared(ctx, next.Version); err != nil {
			return err
		}
		live, err := r.cfg.Directory.Live(ctx)
		switch {
		case err != nil:
			return err
		case !live.Same(r.live):
			return errComings
		case live.Cleared(next.Version):
			return nil
		}
	}
}

// errOverruled ends a round that another proxy has ended: this one stood still.
var errOverruled = errors.New("another proxy has ended the round")

// mayHold says why a round of a proxy may not enter a phase. A proxy that stood still may have lost
// its job to another, which makes rounds of its own.
func mayHold(m *directory.Move, proxy, key string, phase directory.Phase) error {
	switch {
	case m.Proxy != proxy:
		return errGone
	case m.State == directory.MovePaused:
		return ErrPaused
	case m.Round == nil && phase == directory.HoldWrites, m.Round != nil && m.Round.Key == key:
		return nil
	}
	return errOverruled
}

// errTables ends a round that does not carry all tables of its buckets.
var errTables = errors.New("a table was declared, or its declaration taken back, meanwhile")

// sameTables reports whether no table has been declared since the round was opened. Those that are declared from
// now on get no rows in the round's buckets before it is over.
func (r *round) sameTables(now *directory.Snapshot) bool {
	return slices.EqualFunc(r.opened.Declared(r.move.Database), now.Declared(r.move.Database), func(a, b directory.Table) bool {
		return a.Schema == b.Schema && a.Name == b.Name && a.Group == b.Group && a.Kind == b.Kind
	})
}

// carry moves the rows and makes the shards promise to commit.
func (r *round) carry(ctx context.Context) error {
	if err := r.carriage.Guard(r.live); err != nil {
		clear(r.fenced)
		return err
	}
	if err := r.carriage.AwaitPrepared(); err != nil {
		return err
	}
	began := time.Now()
	if err := r.carriage.Carry(); err != nil {
		return err
	}
	r.carrying = time.Since(began)
	r.cfg.stopAt("move-rows-carried")
	if err := r.carriage.Prepare(); err != nil {
		return err
	}
	r.cfg.stopAt("move-prepared")
	return context.Cause(ctx)
}

// commit commits the round and publishes the placement. From here on the round is not given up:
// what is not known is found out.
func (r *round) commit(ctx context.Context) error {
	if err := r.carriage.Commit(); err != nil {
		var e *pgerr.Error
		if errors.As(err, &e) && !e.IsFatal() {
			return r.undo(ctx, err)
		}
		r.report.Outcome = "in doubt"
		return r.settle(ctx)
	}
	r.cfg.stopAt("move-committed")
	followed := r.carriage.Follow() == nil
	r.cfg.stopAt("move-followed")
	_, err := r.change(ctx, r.move.ID, func(next *directory.Snapshot, m *directory.Move) error {
		if m.Round == nil || m.Round.Key != r.carriage.Name.Key() {
			return nil // another proxy has published it
		}
		return next.Transfer(m, followed)
	})
	r.report.Writes, r.report.Reads = time.Since(r.began), time.Since(r.readers)
	if err != nil {
		return err
	}
	r.report.Rows, r.report.Bytes, r.report.Outcome = r.carriage.Rows, r.carriage.Bytes, schema.Carried
	r.cfg.stopAt("move-published")
	if !followed {
		return r.settle(ctx)
	}
	return nil
}

// settle ends a round whose outcome is not known here.
func (r *round) settle(ctx context.Context) error {
	_, m, err := r.find(ctx, r.move.ID, r.move.Proxy)
	if err != nil || m.Round == nil {
		return err
	}
	return Settle(ctx, r.cfg, m, twopc.Force)
}

// undo rolls the round back and lets everybody go on. reason is why.
func (r *round) undo(ctx context.Context, reason error) error {
	r.carriage.Rollback()
	r.inHand(r.carriage.Name.Nonce, false) // a resolver may see to what could not be rolled back
	key := r.carriage.Name.Key()
	_, err := r.change(context.WithoutCancel(ctx), r.move.ID, func(_ *directory.Snapshot, m *directory.Move) error {
		if m.Round != nil && m.Round.Key == key {
			m.Round = nil
		}
		return nil
	})
	r.report.Writes = time.Since(r.began)
	if !r.readers.IsZero() {
		r.report.Reads = time.Since(r.readers)
	}
	if err != nil {
		return errors.Join(reason, fmt.Errorf("end the round: %w", err))
	}
	return r.giveWay(ctx, reason)
}

// giveWay turns an error that a later round may not meet into a *gaveWay.
func (r *round) giveWay(ctx context.Context, reason error) error {
	r.report.Outcome = reason.Error()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(reason, ErrPaused), errors.Is(reason, errGone):
		return reason
	}
	return &gaveWay{reason}
}

func (r *round) inHand(nonce string, yes bool) {
	if r.cfg.InHand != nil {
		r.cfg.InHand(nonce, yes)
	}
}

// Settle ends the round of a job whose process is gone or does not answer: the decision says
// whether the rows have moved. Any number of processes may call it at once.
func Settle(ctx context.Context, cfg Config, m *directory.Move, u twopc.Urgency) error {
	key := m.Round.Key
	name, ok := twopc.ParseName(key)
	if !ok {
		return fmt.Errorf("round %q of job %s is not named by weft", key, m.ID)
	}
	outcome := twopc.Committed
	var err error
	if m.Round.Phase != directory.Carried {
		if outcome, err = cfg.Resolver.Decide(ctx, m.Database, name, u); err != nil {
			return err
		}
	}
	if outcome == twopc.Open {
		return twopc.ErrUndecided
	}
	cfg.stopAt("move-arbitrated")
	var errs []error
	for _, shard := range participants(m.Round) {
		if shard == name.Decider {
			continue
		}
		part := name
		part.Participant = shard
		errs = append(errs, cfg.Resolver.Finish(ctx, twopc.InDoubt{Name: part, Shard: shard, Database: m.Database, Owner: ""}, outcome))
	}
	followed := errors.Join(errs...)
	_, err = cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(m.ID)
		if m == nil || m.Round == nil || m.Round.Key != key {
			return old, nil // the round has been settled
		}
		if outcome == twopc.Committed {
			return next, next.Transfer(m, followed == nil)
		}
		m.Round = nil
		return next, nil
	})
	if err == nil {
		cfg.stopAt("move-lifted")
	}
	return errors.Join(followed, err)
}

// participants lists the shards of a round.
func participants(r *directory.Round) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range r.Pairs {
		for _, shard := range []string{p.From, p.To} {
			if !seen[shard] {
				seen[shard] = true
				out = append(out, shard)
			}
		}
	}
	return out
}
