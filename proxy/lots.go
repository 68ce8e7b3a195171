package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/proxy/lot"
	"weft/wire"
)

// Triggers draw from the shards' own copies of sequences, which must have lots. A statement waits until all shards
// have some. If a lot is used up while the statement runs, the shard gets another one; then the statement is
// carried out again, or the client is asked to run its transaction again.

// lotTime bounds how long a shard may take to get another lot.
const lotTime = 30 * time.Second

func newLots(s *Server) *lot.Lots {
	return lot.New(lot.Config{
		Snapshot: s.cfg.Snapshot, Epoch: epochOf,
		Dial: func(ctx context.Context, shard, database string) (lot.Conn, error) {
			if _, err := s.keeper.owns.Ensure(ctx, shard, database); err != nil {
				return nil, err
			}
			c, err := s.awaitService(ctx, shard, database)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Draw: source{s}.drawRun,
		Spawn: func(f func(context.Context)) {
			s.crew.Go(s.guarded("lots of sequences", func() {
				ctx, stop := context.WithTimeout(s.ctx, lotTime)
				defer stop()
				f(ctx)
			}))
		},
	})
}

// voidLots ends the lots of a database whose sequences have been set to other values. If a transaction is in the way, that goes on in the
// background: whoever has locked a sequence keeps triggers from drawing. held says that the session's own transaction may still be open
// on other shards.
func (k *keeper) voidLots(ctx context.Context, database string, held bool) {
	if !held && k.lots.Void(ctx, k.s.cfg.Snapshot(), database) == nil {
		return
	}
	k.s.crew.Go(k.s.guarded("lots of sequences", func() {
		for {
			err := k.lots.Void(k.s.ctx, k.s.cfg.Snapshot(), database)
			var e *pgerr.Error
			if err == nil || errors.Is(err, errNoShard) || errors.As(err, &e) && e.Code == pgerr.InvalidCatalogName || len(k.s.cfg.Snapshot().Declared(database)) == 0 {
				return
			}
			k.s.log.Info("shards may have values from before a sequence was set", "database", database, "err", err)
			select {
			case <-k.s.ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}))
}

// ensureLots returns when all shards have lots of the sequences that triggers draw from.
func (d *drawn) ensureLots(p *plan.Plan) error {
	lots := d.s.srv.keeper.lots
	for _, seq := range p.Lots {
		if !slices.Contains(d.lots, seq) {
			d.lots = append(d.lots, seq)
		}
		if lots.Sure(d.s.route.snap, d.s.db.Name, seq) {
			continue
		}
		if err := d.waitForLots(seq); err != nil {
			return err
		}
	}
	return nil
}

func (d *drawn) waitForLots(seq string) error {
	d.s.reach.heedTimeouts()
	d.s.reach.patience.queues.Add(1)
	defer d.s.reach.patience.queues.Add(1)
	ctx, done := d.s.util.cancellable()
	defer done()
	err := d.s.srv.keeper.lots.Ensure(ctx, d.s.route.snap, d.s.db.Name, seq, d.s.tx.isOpen())
	var e *pgerr.Error
	switch {
	case errors.As(err, &e) && e.Code == pgerr.UndefinedTable:
		return nil // the plan is old: either the statement is planned again, or the shard reports what is missing
	case errors.As(err, &e) && e.Code == pgerr.LockNotAvailable && d.madeSequences():
		return notYet(err)
	case errors.As(err, &e) && e.Code == pgerr.LockNotAvailable:
		return pgerr.New(pgerr.SerializationFailure, "a trigger draws from sequence %s, which was set to another value while transactions were using it", seq).
			WithHint("Run the transaction again.").WithCause(err)
	case errors.As(err, &e) && e.Code == pgerr.InsufficientPrivilege:
		return pgerr.New(pgerr.FeatureNotSupported, "a trigger draws from sequence %s, and weft may not give shards values of it", seq).WithDetail("%s", e.Message).
			WithHint("weft's service user (service.user in weft.yaml) must be a superuser.").WithCause(err)
	}
	return err
}

// madeSequences reports whether a transaction is open that may have made or set sequences, which others do not see yet.
func (d *drawn) madeSequences() bool {
	return d.s.tx.isOpen() && (d.s.record.done.schema || d.s.record.done.resequence)
}

func notYet(err error) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "a trigger draws from a sequence that this transaction has made or set: shards cannot be given values of it yet").
		WithHint("COMMIT first.").WithCause(err)
}

// isDry reports whether an error says that a lot is used up from which triggers of the session's statements draw.
func (d *drawn) isDry(err error) bool {
	var e *pgerr.Error
	return len(d.lots) > 0 && errors.As(err, &e) && e.Code == pgerr.SequenceLimit
}

// mostDry is how often a statement is carried out again because a lot was used up.
const mostDry = 3

// triesLots reports whether a statement may be carried out again because a lot was used up. It counts the attempts.
func (d *drawn) triesLots(err error) bool {
	if !d.isDry(err) || d.s.account.run.dry >= mostDry {
		return false
	}
	d.s.account.run.dry++
	return true
}

// refill gives shards other lots of the sequences from which triggers of the session's statements draw, where the ones
// they have are used up. An empty name stands for all shards. The transaction that has used up a lot must have failed.
func (d *drawn) refill(shard string) (given bool, err error) {
	ctx, stop := context.WithTimeout(d.s.srv.ctx, lotTime)
	defer stop()
	snap := d.s.srv.cfg.Snapshot()
	for _, seq := range slices.Clone(d.lots) {
		news, err := d.s.srv.keeper.lots.Refill(ctx, snap, d.s.db.Name, seq, shardsNamed(snap, shard))
		var e *pgerr.Error
		if errors.As(err, &e) && e.Code == pgerr.UndefinedTable { // it has another name by now, or is gone
			d.lots = slices.DeleteFunc(d.lots, func(s string) bool { return s == seq })
			continue
		}
		if err != nil {
			return given, err
		}
		given = given || news
	}
	return given, nil
}

// shardsNamed returns a shard, or all, but the home shard: there the sequence itself is.
func shardsNamed(snap *directory.Snapshot, name string) (out []string) {
	for i := range snap.Shards {
		if s := snap.Shards[i].Name; s != snap.Home && (name == "" || name == s) {
			out = append(out, s)
		}
	}
	return out
}

// refilled returns what a client is told whose transaction has used up a lot, which is filled again.
func (d *drawn) refilled(err error, shard string) error {
	if d.madeSequences() {
		return notYet(err) // the sequence may be one that a lot cannot be given of, however often the client tries
	}
	given, failed := d.refill(shard)
	switch {
	case failed != nil:
		return failed
	case !given:
		return err // it was the home shard, where the sequence itself has come to its end
	}
	return pgerr.New(pgerr.SerializationFailure, "a shard had no values of a sequence left for triggers").
		WithDetail("It has been given more.").WithHint("Run the transaction again.").WithCause(err)
}

// evadesDry returns the loss of a backend whose shard had no values left for triggers, if the messages will be handled again.
// Else it returns the body of the error that the client is told.
func (d *drawn) evadesDry(c *pool.Conn, body []byte) ([]byte, error) {
	err := error(pool.ServerError(body))
	if code, _ := wire.ErrorField(body, 'C'); code != pgerr.SequenceLimit || !d.isDry(err) {
		return body, nil
	}
	told := d.refilled(err, c.Shard())
	if pgerr.From(told).Code == pgerr.SerializationFailure {
		if lost := c.Lost(pool.ErrUnfit); d.s.lost.retry.takes(lost, true) {
			return nil, lost
		}
	}
	return wire.AppendError(nil, pgerr.From(told))[wire.HeaderLen:], nil
}
