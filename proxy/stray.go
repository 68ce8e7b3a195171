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

// A shard refuses an id that names another bucket than its row's, because it would
// be looked for elsewhere. That is weft's own rule, and no client's business: ids
// up to there are not trusted any more (schema/ids_raise.go), and the statement is
// carried out again. Where it cannot be, because it is part of a transaction, or
// its data or its rows have passed by, the client is asked to do it.

var idConstraint = []byte(directory.IDConstraint)

// strayTime bounds the raising of a limit.
const strayTime = 30 * time.Second

// isStray is the error of a shard that has met the constraint, nil for others.
func isStray(err error) *pgerr.Error {
	e := (*pgerr.Error)(nil)
	if err == nil || !errors.As(err, &e) || e.Code != pgerr.CheckViolation || e.Constraint != directory.IDConstraint {
		return nil
	}
	return e
}

// holdsBack reports whether a statement that has failed will be carried out again,
// when its transaction has been rolled back: the client is told nothing of it.
func (rt *routing) holdsBack(x *gathering, err error) bool {
	x.stray = nil
	if !x.alone || x.passed || x.told {
		return false
	}
	if isStray(err) == nil {
		if err = rt.s.reach.asInterrupted(err); !rt.s.reach.makesWay(err) {
			return false
		}
	}
	x.stray = err
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
	x.supplied, x.claims, x.returned, x.begun, x.later = nil, nil, nil, false, nil
	return rt.s.write.carryOutBound(x)
}

// letStray makes room for an id that a shard has refused. It returns that refusal
// if there is none to be made.
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
	if snap, err := rt.s.srv.cfg.Directory.Load(ctx); err == nil && rt.s.srv.cfg.Reach != nil {
		_, _ = rt.s.srv.cfg.Reach(ctx, snap.Version) // else it is planned anew later
		rt.refresh()
	}
	if failed != nil {
		return runAgain(e)
	}
	return nil
}

// strayTable is the declared table that an error is about: its own, or that which
// it is a partition of.
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

// runAgain is what a client hears that must run its transaction again.
func runAgain(e *pgerr.Error) *pgerr.Error {
	return pgerr.New(pgerr.SerializationFailure, "an id of %q names another bucket than its row's", e.Table).
		WithDetail("From now on weft does not rely on such ids.").
		WithHint("Run the transaction again.").WithCause(e)
}

// refuseStray is what a client is told of an error after which its statement is not
// carried out again. Its transaction fails on all shards first: its locks would be
// in the way.
func (rt *routing) refuseStray(err error) error {
	e := isStray(err)
	if e == nil {
		return err
	}
	if rt.s.legs.atFailed() {
		if err := rt.s.tx.failAll(); err != nil {
			return err
		}
	}
	if err := rt.letStray(err); err != nil {
		return err
	}
	return runAgain(e)
}

// strayedBody is strayed for an error that is on its way to the client.
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

// settleIDs finishes what whoever raised a limit has not.
func (k *keeper) settleIDs(ctx context.Context, t directory.Table) {
	if err := k.s.mover.SettleIDs(ctx, t); err != nil && ctx.Err() == nil {
		k.s.log.Warn("a shard still has an old constraint of routed ids", "table", t.Schema+"."+t.Name, "err", err)
	}
}
