package proxy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/wire"
)

// With weft.read = 'atomic' a query over several shards sees all of a
// transaction or nothing. There is a gate on every shard: the empty table
// weft.gate. Each shard on which a transaction of several shards writes goes
// through it, in the transaction, before it prepares (enterGate): the lock stays
// until it is committed there, prepared or not, whatever dies. A reader shuts the
// gates of the shards it reads, which takes until those who are in it have come
// out, takes its snapshots, and opens them again (shutGate). So between the first
// snapshot and the last nobody's commits were under way. docs/decisions/0024 has
// the proof.

const (
	// enterGate is what a writing participant runs before it prepares, and the
	// deciding one before any other does.
	enterGate = "LOCK TABLE ONLY weft.gate IN ROW EXCLUSIVE MODE"

	// shutGate waits for those inside and keeps others out; the savepoint is how
	// it is opened again. LOCK takes no snapshot.
	shutGate = "SAVEPOINT weft_gate;SET LOCAL lock_timeout = %d;LOCK TABLE ONLY weft.gate IN SHARE MODE"

	// openGate gives the lock back and keeps the snapshot.
	openGate = "ROLLBACK TO SAVEPOINT weft_gate;RELEASE SAVEPOINT weft_gate"

	// takeSnapshot is the cheapest statement that makes a REPEATABLE READ
	// transaction take its snapshot.
	takeSnapshot = "SELECT 1"
)

const (
	// gateFirst is how long a reader waits that shuts all gates at once, before it opens all of them
	// again: whoever is inside one gate and before another that the reader has shut waits for the
	// reader, and the reader for it.
	gateFirst = 4 * time.Millisecond
	// gateBound is how long it waits for each when it shuts one after the other, as writers go
	// through them. Nobody waits in a circle then, but somebody inside may have died.
	gateBound = 250 * time.Millisecond
	// gateTries is how often it tries.
	gateTries = 8
)

// Values of weft.read.
const (
	readShard  = "shard"
	readAtomic = "atomic"
)

// passage is what a writing participant runs before it promises to commit: nothing
// if the gate is not in use.
func (s *Session) passage() string {
	if s.snap.Gate == directory.GateOff {
		return ""
	}
	if s.mayGiveUpLocks() {
		return ownPatience.SQL + ";" + enterGate + ";" // readers are soon done
	}
	return enterGate + ";"
}

// mayGiveUpLocks reports whether the client may have set lock_timeout.
func (s *Session) mayGiveUpLocks() bool {
	_, set := s.settings.Get("lock_timeout")
	return set || s.block.sets
}

// mayReadAtomically refuses weft.read = 'atomic' where it could not be kept.
func (s *Session) mayReadAtomically(locks bool) error {
	if s.inEffect.read != readAtomic {
		return nil
	}
	if s.snap.Gate != directory.GateOn {
		return gateIsOff()
	}
	if !s.block.open && locks {
		return pgerr.New(pgerr.FeatureNotSupported, "locking rows on several shards is not supported by itself with weft.read = 'atomic'").
			WithHint("BEGIN ISOLATION LEVEL REPEATABLE READ, or SET weft.read = 'shard'.")
	}
	if !s.block.open || s.block.gated {
		return nil
	}
	if s.isolation() != "" && !s.block.snapped && !s.block.sealed {
		return nil // it is about to
	}
	if s.isolation() == "" {
		return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is not supported in a READ COMMITTED transaction block").
			WithDetail("Each of its statements sees what has been committed on each shard when it begins.").
			WithHint("BEGIN ISOLATION LEVEL REPEATABLE READ, send the query by itself, or SET LOCAL weft.read = 'shard'.")
	}
	return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' was set after the snapshots of this transaction were taken").
		WithHint("Set it before the first query of the transaction.")
}

func gateIsOff() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is switched off in this cluster").
		WithDetail("Transactions do not take the locks on weft.gate that it needs.").
		WithHint("Set atomic_reads to true in cluster.yaml and run weft apply, or SET weft.read = 'shard'.")
}

// readsAtomically reports whether a query outside of a block, for which these
// legs are open, must see all of a transaction or nothing.
func (s *Session) readsAtomically(x *gathering) bool {
	return s.inEffect.read == readAtomic && x.write == nil && !s.block.open && len(x.legs) > 1
}

// snapLegs opens a transaction of weft's own on every leg whose snapshots no
// transaction of several shards lies between. What the legs are sent next follows
// the opening of the gate.
func (s *Session) snapLegs(legs []*leg) error {
	for _, l := range legs {
		l.opened = true
	}
	err := s.shutGates(legs, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"+shutGate+";"+takeSnapshot, "ROLLBACK")
	if err != nil {
		return err
	}
	for _, l := range legs {
		l.out = wire.AppendQuery(l.out, openGate)
		l.begins, l.over = true, false
	}
	return nil
}

// beginAnew takes those out of the block that have joined it already. They have run
// nothing of the client's but what those run that join later; but weft may have
// asked them something, or had a text parsed, and that took a snapshot.
func (s *Session) beginAnew() error {
	for _, c := range s.parked {
		if c.Status == wire.TxIdle {
			continue
		}
		if err := s.execBeside(c, "ROLLBACK"); err != nil {
			return err
		}
	}
	return nil
}

// snapBlock makes all participants of the block take such snapshots. The locks
// come first and alone: what has a snapshot cannot try again.
func (s *Session) snapBlock(legs []*leg) error {
	if s.snap.Gate != directory.GateOn {
		return gateIsOff()
	}
	if err := s.shutGates(legs, shutGate, openGate); err != nil {
		return err
	}
	err := s.onLegs(legs, takeSnapshot+";"+openGate)
	s.block.gated = err == nil
	return err
}

// shutGates runs a text with shutGate on all legs until it has succeeded on all
// at the same time. back is what undoes it.
func (s *Session) shutGates(legs []*leg, text, back string) error {
	for _, l := range legs {
		if _, err := s.srv.own(s.ctx, l.conn.Shard(), s.db.Name); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		var tried []*leg
		var err error
		if try == 1 {
			tried, err = legs, s.onLegs(legs, fmt.Sprintf(text, gateFirst.Milliseconds()))
		} else {
			tried, err = s.inTurn(legs, fmt.Sprintf(text, gateBound.Milliseconds()))
		}
		if err == nil && s.srv.cfg.Snapshot().Gate != directory.GateOn {
			// Since it was looked at. Whoever commits by the new setting does so
			// after all proxies have said that they know it.
			err = gateIsOff()
		}
		if err == nil {
			return nil
		}
		if undone := s.onLegs(tried, back); undone != nil {
			return undone // a shard is lost: that weighs more than that a gate was not free
		}
		e := (*pgerr.Error)(nil)
		switch {
		case !errors.As(err, &e):
			return err
		case e.Code == barredCode:
			return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is not supported on standby servers").
				WithDetail("%s.", e.Message).WithHint("Connect weft to primaries, or SET weft.read = 'shard'.").WithCause(err)
		case e.Code != pgerr.LockNotAvailable:
			return err
		}
		if try == gateTries {
			return pgerr.New(pgerr.SerializationFailure, "could not read all shards at one moment between transactions").
				WithDetail("Transactions of several shards were being committed at each of %d attempts.", gateTries).
				WithHint("Try again, or SET weft.read = 'shard'. SELECT * FROM weft.transactions shows what is in doubt.").WithCause(err)
		}
		if err := s.interrupted(); err != nil {
			return err
		}
		if try > 1 { // not all readers at once again
			time.Sleep(time.Duration(rand.Int64N(int64(gateBound / 10))))
		}
	}
}

// inTurn runs a text that shuts the gate on one leg after the other, and returns those that it has
// come to. A transaction of several shards goes through the gate of the first of its shards before
// it comes to any other (see ender), so one that has to wait for this reader at a later shard is behind
// the reader at its first, and keeps nobody. The server lets nobody in who comes after
// the reader, so the reader waits for those that are inside, and for no others.
func (s *Session) inTurn(legs []*leg, text string) (tried []*leg, err error) {
	ordered := slices.SortedFunc(slices.Values(legs), func(a, b *leg) int { return s.gateOrder(a.conn) - s.gateOrder(b.conn) })
	for i, l := range ordered {
		if err := s.onLegs(ordered[i:i+1], text); err != nil || l.lost() {
			return ordered[:i+1], err
		}
	}
	return ordered, nil
}

// onLegs runs a text on all legs and waits for all. What waits to be sent goes
// first. It returns the first error; the legs can be used again but for those that
// are lost.
func (s *Session) onLegs(legs []*leg, text string) error {
	for _, l := range legs {
		if l.conn.Status == wire.TxIdle && !l.begins && text == "ROLLBACK" {
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
