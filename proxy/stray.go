package proxy

import (
	"context"
	"errors"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A shard refuses an id that names another bucket than its row's, because weft would look
// for the row elsewhere. That rule is weft's own, and no client's business: weft stops
// trusting the ids up to this one (schema/ids_raise.go), and carries the statement out
// again. If it cannot, because the statement is part of a transaction, or its data or its
// rows have passed by, the client is asked to run it again.

var idConstraint = []byte(directory.IDConstraint)

// strayTime bounds how long letStray may take.
const strayTime = 30 * time.Second

// isStray returns the error of a shard that has met the constraint on ids, nil for other
// errors.
func isStray(err error) *pgerr.Error {
	e := (*pgerr.Error)(nil)
	if err == nil || !errors.As(err, &e) || e.Code != pgerr.CheckViolation || e.Constraint != directory.IDConstraint {
		return nil
	}
	return e
}

// holdsBack reports whether a statement that has failed will be carried out again after its
// transaction has been rolled back: then the client is not told of the failure. A statement that has
// not failed is not held back, even if it was interrupted too late.
func (rt *routing) holdsBack(x *gathering, err error) bool {
	x.repeat.stray = nil
	if err == nil || !x.repeat.possible() {
		return false
	}
	if isStray(err) == nil && !rt.s.drawn.triesLots(err) && !rt.s.lookups.looksAgain(x, err) {
		if err = rt.s.reach.asInterrupted(err); !rt.s.reach.makesWay(err) {
			return false
		}
	}
	x.repeat.stray = err
	rt.s.out.fail()
	rt.s.legs.atFailed()
	return true
}

// carryOutAgain carries out a portal once more.
func (rt *routing) carryOutAgain(x *gathering) error {
	r := rt.s.srv.memory.routers.Get().(*router)
	err := rt.s.write.planAnew(r, x)
	rt.s.srv.memory.routers.Put(r)
	if err != nil {
		return err
	}
	x.progress.restart()
	x.rounds.later = nil
	return rt.s.write.carryOutBound(x)
}

// letStray makes room for an id that a shard has refused. It returns the refusal if there
// is no room to be made, and another error if the client must run its transaction again.
func (rt *routing) letStray(err error) error {
	e := isStray(err)
	table, ok := rt.strayTable(e)
	if !ok {
		return err
	}
	ctx, stop := context.WithTimeout(rt.s.srv.ctx, strayTime)
	defer stop()
	raised, failed := rt.s.srv.mover.RaiseIDs(ctx, rt.s.db.Name, table)
	if failed != nil {
		rt.s.log.Warn("an id that names another bucket cannot be stored yet", "table", table.Name, "raised", raised, "err", failed)
	}
	if !raised {
		return err
	}
	if snap, err := rt.s.srv.cfg.Directory.Load(ctx); err == nil && rt.s.srv.cfg.Current != nil {
		// If this proxy does not reach the version now, the statement is planned again later.
		_, _ = rt.s.srv.cfg.Current.Reach(ctx, snap.Version)
		rt.refresh()
	}
	if failed != nil {
		return runAgain(e)
	}
	return nil
}

// strayTable is the declared table that an error is about: the table of the error, or the
// one that it is a partition of.
func (rt *routing) strayTable(e *pgerr.Error) (catalog.Name, bool) {
	name := catalog.Name{Schema: e.Schema, Name: e.Table}
	if rt.s.srv.cfg.Directory == nil || rt.snap == nil {
		return name, false
	}
	if t := rt.snap.Table(rt.s.db.Name, name.Schema, name.Name); t != nil {
		return name, t.IDs.Column != ""
	}
	if rt.env == nil || rt.env.Schema == nil {
		return name, false
	}
	for rel := rt.env.Schema.Relation(name); rel != nil; rel = rel.Parent {
		if t := rt.snap.Table(rt.s.db.Name, rel.Name.Schema, rel.Name.Name); t != nil {
			return rel.Name, t.IDs.Column != ""
		}
	}
	return name, false
}

// runAgain is the error that asks a client to run its transaction again.
func runAgain(e *pgerr.Error) *pgerr.Error {
	return pgerr.New(pgerr.SerializationFailure, "an id of %q names another bucket than its row's", e.Table).
		WithDetail("From now on weft does not rely on such ids.").
		WithHint("Run the transaction again.").WithCause(e)
}

// refuseStray returns what a client is told of an error after which its statement is not
// carried out again. The transaction fails on all shards first: its locks would be in the
// way.
func (rt *routing) refuseStray(err error) error {
	e := isStray(err)
	if e == nil && !rt.s.drawn.isDry(err) {
		return err
	}
	if rt.s.legs.atFailed() {
		if err := rt.s.tx.failAll(); err != nil {
			return err
		}
	}
	if e == nil {
		return rt.s.drawn.refilled(err, "")
	}
	if err := rt.letStray(err); err != nil {
		return err
	}
	return runAgain(e)
}

// strayedBody is refuseStray for an error that is on its way to the client.
func (rt *routing) strayedBody(body []byte) []byte {
	err := pool.ServerError(body)
	if isStray(err) == nil {
		return body
	}
	told := error(runAgain(err))
	if failed := rt.letStray(err); failed != nil {
		told = failed
	}
	return wire.AppendError(nil, pgerr.From(told))[wire.HeaderLen:]
}
