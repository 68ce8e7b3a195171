package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/pgerr"
)

// Gates are shut by connections of weft's own, not by the backends of readers: so nobody
// else needs the right to a lock that keeps transactions out. Readers ask the gatekeeper to shut the gates of their
// shards, take their snapshots, and leave. Those who come together share one shutting: a
// proxy uses one connection for each gate, however many read.
//
//	ask ──▶ keep: BEGIN, LOCK ──▶ shut ──▶ readers take snapshots ──▶ leave ──▶ keep: COMMIT ──▶ over
//
// A lock may be lost while a reader relies on it: its connection breaks, or somebody ends it. So whoever
// leaves hears from the same transaction that it has held the lock until then.

const (
	// shutGate waits for those inside and keeps others out. A proxy that stands still
	// lets them in again when its time in the transaction is over.
	shutGate = "BEGIN;SET LOCAL lock_timeout = %d;SET LOCAL idle_in_transaction_session_timeout = %d;LOCK TABLE ONLY weft_gate.gate IN SHARE MODE"
	// stillShut is answered as long as the lock is held.
	stillShut = "SELECT 1"
	// openGate lets them in again.
	openGate = "COMMIT"
)

const (
	// gateJoin is for how long readers may join others at a gate that is shut. Each of them makes writers wait
	// for longer.
	gateJoin = 2 * time.Millisecond
	// gateRest is for how long a gate is left alone after somebody inside has outlasted gateBound: who waits for the
	// lock keeps others out, too.
	gateRest = 100 * time.Millisecond
	// gateDeaf is how long a shard may take to answer, beside the time that it waits for the lock.
	gateDeaf = time.Second
	// gateLongest is how long a gate stays shut, whatever its readers do: one of their shards may hang.
	gateLongest = 3 * time.Second
	// gateStuck is when the shard opens it, as the proxy has not.
	gateStuck = gateLongest + time.Second
)

var errGateOpened = errors.New("the gate was open again before all snapshots were taken")

// gateConn is the connection that holds a gate's lock.
type gateConn interface {
	Exec(sql string) ([][]string, error)
	// Abandon makes Exec return. Anybody may call it.
	Abandon()
	// Terminate gives the connection back.
	Terminate()
}

// gatekeeper shuts gates. There is one per proxy.
type gatekeeper struct {
	dial  func(gate ownKey) (gateConn, error)
	spawn func(f func()) // runs it beside the caller

	mu    sync.Mutex
	gates map[ownKey]*shutting // those that are not open
}

// shutting is one time that a gate is shut, from the first reader that asks for it to the last that leaves.
type shutting struct {
	bound time.Duration // for the lock

	shut chan struct{} // closed when it is shut or could not be
	err  error         // why not; valid when shut is closed
	over chan struct{} // closed when the gate may be shut again
	wake chan struct{} // somebody has left

	// Guarded by the gatekeeper's mu.
	readers int
	since   time.Time    // when it was shut
	ends    bool         // nobody may join any more
	left    []chan error // readers that want to know whether it is still shut
	broken  error        // it is not
}

// together shuts gates all at once and waits that long for each. Either all are shut, or none is held.
func (k *gatekeeper) together(ctx context.Context, gates []ownKey, bound time.Duration) ([]*shutting, error) {
	asked, in := make([]*shutting, len(gates)), make([]bool, len(gates))
	for i, gate := range gates {
		asked[i], in[i] = k.ask(gate, bound)
	}
	var first error
	until := time.Now().Add(bound)
	var held []*shutting
	for i, gate := range gates {
		if first != nil {
			if in[i] {
				k.leave(asked[i])
			}
			continue
		}
		sh, err := k.await(ctx, gate, asked[i], in[i], bound, until)
		if first = err; err == nil {
			held = append(held, sh)
		}
	}
	if first != nil {
		k.leaveAll(held)
		return nil, first
	}
	return held, nil
}

// inTurn shuts one gate after the other and waits that long for each. A transaction of several shards goes through the gate of
// the first of its shards before it comes to any other (see ender), so one that has to wait for this reader at a
// later shard is behind the reader at its first, and keeps nobody. The server lets nobody in who comes after
// the reader, so the reader waits for those that are inside, and for no others.
func (k *gatekeeper) inTurn(ctx context.Context, gates []ownKey, bound time.Duration) (held []*shutting, err error) {
	for _, gate := range gates {
		sh, in := k.ask(gate, bound)
		if sh, err = k.await(ctx, gate, sh, in, bound, time.Now().Add(bound)); err != nil {
			k.leaveAll(held)
			return nil, err
		}
		held = append(held, sh)
	}
	return held, nil
}

// ask begins to shut a gate, or joins those who do. It returns false if the gate has to be opened first.
func (k *gatekeeper) ask(gate ownKey, bound time.Duration) (sh *shutting, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh = k.gates[gate]
	if sh != nil && (sh.ends || !sh.since.IsZero() && time.Since(sh.since) > gateJoin) {
		return sh, false
	}
	if sh == nil {
		sh = &shutting{bound: bound, shut: make(chan struct{}), over: make(chan struct{}), wake: make(chan struct{}, 1)}
		if k.gates == nil {
			k.gates = map[ownKey]*shutting{}
		}
		k.gates[gate] = sh
		k.spawn(func() { k.keep(gate, sh) })
	}
	sh.readers++
	return sh, true
}

// await waits until a gate is shut for somebody who has asked for it, with that bound, and waits until then.
func (k *gatekeeper) await(ctx context.Context, gate ownKey, sh *shutting, in bool, bound time.Duration, until time.Time) (*shutting, error) {
	for {
		event, patience, own := sh.over, time.Until(until), false
		if in {
			// One that waits for longer may wait for somebody who waits for this reader at another gate.
			if event, own = sh.shut, sh.bound <= bound; own {
				patience += gateDeaf
			}
		}
		timer := time.NewTimer(patience)
		var err error
		select {
		case <-event:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timer.C:
			if err = errLockTimeout(); own {
				err = deaf(gate.shard)
			}
		}
		timer.Stop()
		switch {
		case err != nil:
			if in {
				k.leave(sh)
			}
			return nil, err
		case in && sh.err == nil:
			return sh, nil
		case in && (!isBusy(sh.err) || !time.Now().Before(until)):
			return nil, sh.err
		}
		sh, in = k.ask(gate, max(time.Until(until), time.Millisecond))
	}
}

// leave says that a reader is through with a gate. The answer, which need not be waited for, is
// nil if the gate has been shut until then.
func (k *gatekeeper) leave(sh *shutting) <-chan error {
	answer := make(chan error, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.readers--
	if sh.broken != nil {
		answer <- sh.broken
		return answer
	}
	sh.left = append(sh.left, answer)
	select {
	case sh.wake <- struct{}{}:
	default:
	}
	return answer
}

// leaveAll leaves gates. Who wants to know whether all have been shut until then asks stayedShut.
func (k *gatekeeper) leaveAll(held []*shutting) (stayedShut func() error) {
	answers := make([]<-chan error, len(held))
	for i, sh := range held {
		answers[i] = k.leave(sh)
	}
	return func() error {
		var first error
		for _, answer := range answers {
			if err := <-answer; first == nil {
				first = err
			}
		}
		return first
	}
}

// keep shuts a gate and opens it when all readers have left.
func (k *gatekeeper) keep(gate ownKey, sh *shutting) {
	defer k.end(gate, sh)
	c, err := k.dial(gate)
	if err != nil {
		k.isShut(sh, err)
		return
	}
	defer func() { c.Terminate() }()
	err = answered(c, sh.bound+gateDeaf, fmt.Sprintf(shutGate, max(sh.bound.Milliseconds(), 1), gateStuck.Milliseconds()))
	k.isShut(sh, err)
	if err == nil {
		k.hold(sh, c)
	}
	if isBusy(err) && sh.bound > gateFirst {
		_, _ = c.Exec("ROLLBACK")
		time.Sleep(gateRest)
	}
}

// isShut tells those who wait that the gate is shut, or why it is not.
func (k *gatekeeper) isShut(sh *shutting, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.err, sh.since, sh.ends = err, time.Now(), err != nil
	close(sh.shut)
}

// hold keeps the gate shut until all readers have left, or it takes too long.
func (k *gatekeeper) hold(sh *shutting, c gateConn) {
	longest := time.NewTimer(gateLongest)
	defer longest.Stop()
	for {
		late := false
		select {
		case <-sh.wake:
		case <-longest.C:
			late = true
		}
		k.mu.Lock()
		left := sh.left
		sh.left = nil
		last := sh.readers == 0 || late
		sh.ends = sh.ends || last
		k.mu.Unlock()
		if !last && len(left) == 0 {
			continue
		}
		sql := stillShut
		if last {
			sql = openGate
		}
		err := answered(c, gateDeaf, sql)
		for _, answer := range left {
			answer <- err
		}
		if last || err != nil {
			return
		}
	}
}

// end says that a gate may be shut again. Readers that have not left have lost it.
func (k *gatekeeper) end(gate ownKey, sh *shutting) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sh.since.IsZero() { // nobody has been told anything: something went wrong here
		sh.err = errGateOpened
		close(sh.shut)
	}
	sh.ends, sh.broken = true, errGateOpened
	for _, answer := range sh.left {
		answer <- sh.broken
	}
	sh.left = nil
	delete(k.gates, gate)
	close(sh.over)
}

// answered runs a command that has to be answered in time.
func answered(c gateConn, d time.Duration, sql string) error {
	defer time.AfterFunc(d, c.Abandon).Stop()
	_, err := c.Exec(sql)
	return err
}

// isBusy reports whether a lock was not free in time.
func isBusy(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) && e.Code == pgerr.LockNotAvailable
}

// deaf is the error of a shard that does not answer.
func deaf(shard string) *pgerr.Error {
	return pgerr.New(pgerr.ConnectionFailure, "shard %q does not answer", shard).
		WithHint("The query needs a moment between transactions there. Try again, or SET weft.read = 'shard'.")
}
