package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/pgerr"
)

// Gates are shut by weft's service connections, not by the backends of readers, so no other
// role needs the right to a lock that keeps transactions out. Readers ask the gatekeeper to
// shut the gates of their shards, take their snapshots, and leave. Readers that come together
// share one shutting: a proxy uses one connection per gate, however many sessions read.
//
//	ask ──▶ keep: BEGIN, LOCK ──▶ shut ──▶ readers take snapshots ──▶ leave ──▶ keep: COMMIT ──▶ over
//
// A lock may be lost while a reader relies on it: its connection breaks, or its backend is
// ended. So a reader that leaves asks the same transaction whether it has held the lock until
// then.

const (
	// shutGate waits for the transactions inside and keeps others out. If the proxy hangs,
	// idle_in_transaction_session_timeout opens the gate.
	shutGate = "BEGIN;SET LOCAL lock_timeout = %d;SET LOCAL idle_in_transaction_session_timeout = %d;LOCK TABLE ONLY weft_gate.gate IN SHARE MODE"
	// stillShut is answered as long as the lock is held.
	stillShut = "SELECT 1"
	// openGate releases the lock.
	openGate = "COMMIT"
)

const (
	// gateJoin is for how long after a gate is shut further readers may join. Each reader that
	// joins makes writers wait longer.
	gateJoin = 2 * time.Millisecond
	// gateRest is for how long a gate is left alone after a transaction inside has outlasted
	// gateBound: a connection waiting for the lock keeps other transactions out, too.
	gateRest = 100 * time.Millisecond
	// gateDeaf is how long a shard may take to answer, in addition to the wait for the lock.
	gateDeaf = time.Second
	// gateLongest is how long a gate stays shut, whatever its readers do: one of their shards
	// may hang.
	gateLongest = 3 * time.Second
	// gateStuck is when the shard itself opens the gate, if the proxy has not.
	gateStuck = gateLongest + time.Second
)

var errGateOpened = errors.New("the gate was open again before all snapshots were taken")

// gateConn is the connection that holds a gate's lock.
type gateConn interface {
	Exec(sql string) ([][]string, error)
	// Abandon makes Exec return. It may be called from any goroutine.
	Abandon()
	// Terminate gives the connection back.
	Terminate()
}

// gatekeeper shuts gates. There is one per proxy.
type gatekeeper struct {
	dial  func(gate ownKey) (gateConn, error)
	spawn func(f func()) // runs f concurrently with the caller

	mu    sync.Mutex
	gates map[ownKey]*shutting // the gates that are shut or being shut
}

// shutting is one period in which a gate is shut, from the first reader that asks to the last
// that leaves.
type shutting struct {
	bound time.Duration // how long to wait for the lock

	shut chan struct{} // closed when the gate is shut or could not be shut
	err  error         // why the gate could not be shut; valid once shut is closed
	over chan struct{} // closed when the gate may be shut again
	wake chan struct{} // a reader has left

	// Guarded by the gatekeeper's mu.
	readers int
	since   time.Time    // when the gate was shut
	ends    bool         // no more readers may join
	left    []chan error // readers that ask whether the gate is still shut
	broken  error        // why the gate is no longer shut
}

// together shuts all gates at once and waits at most bound for them. Either all gates are shut,
// or none is held.
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

// inTurn shuts one gate after the other and waits at most bound for each. A transaction of
// several shards goes through the gate of its first shard before it comes to any other (see
// ender). So a transaction that has to wait for this reader at a later shard is behind the
// reader at its first shard, and keeps no one waiting. The server lets no transaction in that
// comes after the reader, so the reader waits for the transactions inside only.
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

// ask begins to shut a gate, or joins the readers that do. It returns false if the gate has to
// be opened first.
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

// await waits until the gate is shut for a reader that has asked for it with this bound, but
// not past until.
func (k *gatekeeper) await(ctx context.Context, gate ownKey, sh *shutting, in bool, bound time.Duration, until time.Time) (*shutting, error) {
	for {
		event, patience, own := sh.over, time.Until(until), false
		if in {
			// A shutting with a longer bound may wait for a transaction that waits for this
			// reader at another gate.
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

// leave says that a reader no longer needs the gate. The channel gives nil if the gate has been
// shut until then; the reader need not wait for it.
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

// leaveAll leaves gates. stayedShut waits for the answers of the gates, and returns an error if
// one of them was not shut all the time.
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

// isShut tells the waiting readers that the gate is shut, or why it is not.
func (k *gatekeeper) isShut(sh *shutting, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.err, sh.since, sh.ends = err, time.Now(), err != nil
	close(sh.shut)
}

// hold keeps the gate shut until all readers have left or gateLongest has passed.
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

// end says that a gate may be shut again. Readers that have not left yet have lost the gate.
func (k *gatekeeper) end(gate ownKey, sh *shutting) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sh.since.IsZero() { // no reader has been told anything: keep has panicked
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

// answered runs a command that must be answered within d.
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
