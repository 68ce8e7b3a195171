package proxy

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/proxy/gate"
	"weft/schema"
	"weft/wire"
)

// With weft.read = 'atomic' a query over several shards sees all of a transaction or nothing.
// There is a gate on every shard: an empty table in a schema that only weft may use. A
// transaction that writes on several shards goes through the gate of each before it prepares
// there (enterGate): the gate stays locked on that shard until the transaction is committed
// there, prepared or not, whatever dies. For a reader the gatekeeper shuts the gates of the
// shards to be read, which takes until all transactions inside have come out; the reader takes
// its snapshots, and the gates are opened again. So no commit was under way between the first
// snapshot and the last. docs/decisions/0024 has the proof.

const (
	// enterGate is what a writing participant runs before it prepares, and the deciding
	// participant before any other prepares. It locks the gate in ROW EXCLUSIVE mode, for
	// callers that can prove that they are weft.
	enterGate = "SELECT weft.enter($1)"

	// takeSnapshot is the cheapest statement that makes a REPEATABLE READ
	// transaction take its snapshot.
	takeSnapshot = "SELECT 1"
)

// gateTries is how often a reader tries to shut the gates.
const gateTries = 8

// Values of weft.read.
const (
	readShard  = "shard"
	readAtomic = "atomic"
)

// passThrough makes a writing participant enter the gate before it promises to commit, or
// decides. It adds nothing if the gate is not in use.
func (t *transaction) passThrough(talk *ownTalk, own *schema.Own) {
	if t.s.route.snap.Gate == directory.GateOff {
		return
	}
	if t.mayGiveUpLocks() {
		talk.add(ownPatience) // readers keep the gate shut only briefly
	}
	talk.add(ownGate, own.Prove(talk.c.PID(), "enter"))
}

// mayGiveUpLocks reports whether the client may have set lock_timeout.
func (t *transaction) mayGiveUpLocks() bool {
	_, set := t.s.record.settings.Get("lock_timeout")
	return set || t.sets
}

// mayReadAtomically refuses a read that cannot keep the promise of weft.read = 'atomic'.
func (t *transaction) mayReadAtomically(locks bool) error {
	if t.s.record.inEffect.read != readAtomic {
		return nil
	}
	if t.s.route.snap.Gate != directory.GateOn {
		return gateIsOff()
	}
	if !t.isOpen() && locks {
		return pgerr.New(pgerr.FeatureNotSupported, "locking rows on several shards is not supported by itself with weft.read = 'atomic'").
			WithHint("BEGIN ISOLATION LEVEL REPEATABLE READ, or SET weft.read = 'shard'.")
	}
	if !t.isOpen() || t.snapshots == snappedAtomically {
		return nil
	}
	if t.isolation() != "" && !t.isSnapped() && !t.isSealed() {
		return nil // the snapshots of the block are about to be taken
	}
	if t.isolation() == "" {
		return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is not supported in a READ COMMITTED transaction block").
			WithDetail("Each of its statements sees what has been committed on each shard when it begins.").
			WithHint("BEGIN ISOLATION LEVEL REPEATABLE READ, send the query by itself, or SET LOCAL weft.read = 'shard'.")
	}
	return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' was set after the snapshots of this transaction were taken").
		WithHint("Set it before the first query of the transaction.")
}

func gateIsOff() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is switched off in this cluster").
		WithDetail("Transactions do not take the locks that it needs.").
		WithHint("Set atomic_reads to true in cluster.yaml and run weft apply, or SET weft.read = 'shard'.")
}

// readsAtomically reports whether a query outside of a block, over several legs, must see all of
// a transaction or nothing.
func (t *transaction) readsAtomically(x *gathering) bool {
	return t.s.record.inEffect.read == readAtomic && x.write == nil && !t.isOpen() && len(x.legs) > 1
}

// snapLegs opens weft's own transaction on every leg. No transaction of several shards commits
// between their snapshots.
func (t *transaction) snapLegs(legs []*leg) error {
	for _, l := range legs {
		l.opened = true
	}
	if err := t.snapBetween(legs, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"+takeSnapshot); err != nil {
		return err
	}
	for _, l := range legs {
		l.over = false
	}
	return nil
}

// beginAnew rolls back the participants that have already joined the block, so that they join
// again. They have run nothing of the client's that a shard joining later would not run too; but
// weft may have asked them something, or had them parse a text, and that took a snapshot.
func (t *transaction) beginAnew() error {
	for _, c := range t.s.held.parked {
		if c.Status() == wire.TxIdle {
			continue
		}
		if err := t.s.every.execBeside(c, "ROLLBACK"); err != nil {
			return err
		}
	}
	t.s.route.touch.anew()
	return nil
}

// snapBlock makes all participants of the block take their snapshots between the transactions of
// several shards.
func (t *transaction) snapBlock(legs []*leg) error {
	if t.s.route.snap.Gate != directory.GateOn {
		return gateIsOff()
	}
	err := t.snapBetween(legs, takeSnapshot)
	if err == nil {
		t.noteSnapshots(snapshotsGated)
	}
	return err
}

// snapBetween runs a text that takes the legs' snapshots, while all their gates are shut.
func (t *transaction) snapBetween(legs []*leg, text string) error {
	held, err := t.shutGates(legs)
	if err != nil {
		return err
	}
	err = t.onLegs(legs, text)
	stayedShut := t.s.srv.gates.LeaveAll(held)
	if err != nil {
		return err
	}
	if t.s.srv.cfg.Snapshot().Gate != directory.GateOn {
		// The setting has changed since mayReadAtomically or snapBlock looked at it.
		// Transactions commit without the gate only after all proxies have said that they know
		// the new setting.
		return gateIsOff()
	}
	if err := stayedShut(); err != nil {
		return missedMoment(legs, err, pgerr.New(pgerr.SerializationFailure, "could not read all shards at one moment between transactions").
			WithDetail("A shard has let transactions through before all shards had been looked at.").
			WithHint("Try again, or SET weft.read = 'shard'.").WithCause(err))
	}
	return nil
}

// shutGates has the gates of all legs' shards shut at the same time. The caller must leave them.
// A cancel request or a timeout of the client ends the wait.
func (t *transaction) shutGates(legs []*leg) (held []*gate.Shutting, err error) {
	for _, l := range legs {
		if _, err := t.s.srv.keeper.owns.Ensure(t.s.srv.ctx, l.conn.Shard(), t.s.db.Name); err != nil {
			return nil, err
		}
	}
	var gates []gate.Gate
	for _, l := range slices.SortedFunc(slices.Values(legs), func(a, b *leg) int { return t.gateOrder(a.conn) - t.gateOrder(b.conn) }) {
		gates = append(gates, gate.Gate{Shard: l.conn.Shard(), Database: t.s.db.Name})
	}
	// Cancel requests are not sent to the backends meanwhile: the backends do nothing.
	t.s.reach.trackConns(nil)
	defer t.s.reach.track(legs)
	ctx, done := t.s.util.cancellable()
	defer done()
	t.s.reach.heedTimeouts()
	t.s.reach.patience.queues.Add(1)
	defer t.s.reach.patience.queues.Add(1)
	for try := 1; ; try++ {
		if err := t.s.reach.interrupted(); err != nil {
			return nil, err
		}
		if try == 1 {
			held, err = t.s.srv.gates.Together(ctx, gates, gate.First)
		} else {
			held, err = t.s.srv.gates.InTurn(ctx, gates, gate.Bound)
		}
		e := (*pgerr.Error)(nil)
		switch {
		case err == nil:
			return held, nil
		case ctx.Err() != nil:
			return nil, cmp.Or(t.s.reach.interrupted(), err)
		case !errors.As(err, &e):
			return nil, err
		case e.Code == barredCode:
			return nil, pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is not supported on standby servers").
				WithDetail("%s.", e.Message).WithHint("Connect weft to primaries, or SET weft.read = 'shard'.").WithCause(err)
		case e.Code != pgerr.LockNotAvailable:
			return nil, missedShard(legs, err, e)
		case try == gateTries:
			e := pgerr.New(pgerr.SerializationFailure, "could not read all shards at one moment between transactions").
				WithDetail("Transactions of several shards were being committed at each of %d attempts.", gateTries).
				WithHint("Try again, or SET weft.read = 'shard'. SELECT * FROM weft.transactions shows what is in doubt.").WithCause(err)
			if seeks(t.s.srv.pool, t.s.route.snap) {
				return nil, missedMoment(legs, err, e) // a transaction cannot end before its shard has a primary
			}
			return nil, e
		}
		if try > 1 { // readers try again at different times
			select {
			case <-ctx.Done():
				return nil, cmp.Or(t.s.reach.interrupted(), context.Cause(ctx))
			case <-time.After(time.Duration(rand.Int64N(int64(gate.Bound / 10)))):
			}
		}
	}
}

// onLegs runs a text on all legs and waits for all of them. What is waiting to be sent goes
// first. It returns the first error, or that of a lost backend. All legs that are not lost can
// be used again.
func (t *transaction) onLegs(legs []*leg, text string) error {
	for _, l := range legs {
		if l.conn.Status() == wire.TxIdle && !l.begins && text == "ROLLBACK" {
			continue // nothing has begun here
		}
		l.over = false
		l.out = wire.AppendQuery(l.out, text)
		l.send()
	}
	var first error
	for _, l := range legs {
		l.drain()
		if l.err != nil && (first == nil || l.lost()) {
			first = l.err
		}
		if !l.lost() {
			l.err = nil
		}
	}
	return first
}
