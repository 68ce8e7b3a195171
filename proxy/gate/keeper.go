package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"weft/pgerr"
)

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
	// First is how long a reader that shuts all gates at once waits before it opens all of
	// them again: a transaction inside one gate may be waiting at another that the reader has
	// shut, while the reader waits for that transaction.
	First = 4 * time.Millisecond
	// Bound is how long a reader waits for each gate when it shuts them one after the other,
	// in the order in which writers go through them. No circle of waits is possible then, but a
	// transaction inside may belong to a proxy that has died.
	Bound = 250 * time.Millisecond
)

const (
	// join is for how long after a gate is shut further readers may join. Each reader that
	// joins makes writers wait longer.
	join = 2 * time.Millisecond
	// rest is for how long a gate is left alone after a transaction inside has outlasted
	// Bound: a connection waiting for the lock keeps other transactions out, too.
	rest = 100 * time.Millisecond
	// deaf is how long a shard may take to answer, in addition to the wait for the lock.
	deaf = time.Second
	// longest is how long a gate stays shut, whatever its readers do: one of their shards
	// may hang.
	longest = 3 * time.Second
	// stuck is when the shard itself opens the gate, if the proxy has not.
	stuck = longest + time.Second
)

var errOpened = errors.New("the gate was open again before all snapshots were taken")

// Away is the error of a reader that has lost the shard of a gate.
type Away struct {
	Shard string
	Err   error
}

func (a *Away) Error() string { return a.Err.Error() }
func (a *Away) Unwrap() error { return a.Err }

// Gate is the gate of a database of a shard.
type Gate struct{ Shard, Database string }

// Conn is the connection that holds a gate's lock.
type Conn interface {
	Exec(sql string) ([][]string, error)
	// Abandon makes Exec return. It may be called from any goroutine.
	Abandon()
	// Terminate gives the connection back.
	Terminate()
}

// Config is what a Keeper needs. All fields are required.
type Config struct {
	// Dial returns a connection of the service user to a gate's database.
	Dial func(gate Gate) (Conn, error)
	// Spawn runs f concurrently with the caller.
	Spawn func(f func())
}

// Keeper shuts gates. There is one per proxy. Its methods may be called by several goroutines.
type Keeper struct {
	cfg Config

	mu    sync.Mutex
	gates map[Gate]*Shutting // the gates that are shut or being shut
}

// New returns a Keeper of gates that are all open.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg, gates: map[Gate]*Shutting{}} }

// Shutting is one period in which a gate is shut, from the first reader that asks to the last
// that leaves.
type Shutting struct {
	bound time.Duration // how long to wait for the lock

	shut chan struct{} // closed when the gate is shut or could not be shut
	err  error         // why the gate could not be shut; valid once shut is closed
	over chan struct{} // closed when the gate may be shut again
	wake chan struct{} // a reader has left

	// Guarded by the mu of the Keeper.
	readers int
	since   time.Time    // when the gate was shut
	ends    bool         // no more readers may join
	left    []chan error // readers that ask whether the gate is still shut
	broken  error        // why the gate is no longer shut
}

// Together shuts all gates at once and waits at most bound for them. Either all gates are shut,
// or none is held.
func (k *Keeper) Together(ctx context.Context, gates []Gate, bound time.Duration) ([]*Shutting, error) {
	asked, in := make([]*Shutting, len(gates)), make([]bool, len(gates))
	for i, gate := range gates {
		asked[i], in[i] = k.ask(gate, bound)
	}
	var first error
	until := time.Now().Add(bound)
	var held []*Shutting
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
		k.LeaveAll(held)
		return nil, first
	}
	return held, nil
}

// InTurn shuts one gate after the other and waits at most bound for each. A transaction of
// several shards goes through the gate of its first shard before it comes to any other (see ender
// in package proxy). So a transaction that has to wait for this reader at a later shard is behind the
// reader at its first shard, and keeps no one waiting. The server lets no transaction in that
// comes after the reader, so the reader waits for the transactions inside only.
func (k *Keeper) InTurn(ctx context.Context, gates []Gate, bound time.Duration) (held []*Shutting, err error) {
	for _, gate := range gates {
		sh, in := k.ask(gate, bound)
		if sh, err = k.await(ctx, gate, sh, in, bound, time.Now().Add(bound)); err != nil {
			k.LeaveAll(held)
			return nil, err
		}
		held = append(held, sh)
	}
	return held, nil
}

// ask begins to shut a gate, or joins the readers that do. It returns false if the gate has to
// be opened first.
func (k *Keeper) ask(gate Gate, bound time.Duration) (sh *Shutting, in bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh = k.gates[gate]
	if sh != nil && (sh.ends || !sh.since.IsZero() && time.Since(sh.since) > join) {
		return sh, false
	}
	if sh == nil {
		sh = &Shutting{bound: bound, shut: make(chan struct{}), over: make(chan struct{}), wake: make(chan struct{}, 1)}
		k.gates[gate] = sh
		k.cfg.Spawn(func() { k.keep(gate, sh) })
	}
	sh.readers++
	return sh, true
}

// await waits until the gate is shut for a reader that has asked for it with this bound, but
// not past until.
func (k *Keeper) await(ctx context.Context, gate Gate, sh *Shutting, in bool, bound time.Duration, until time.Time) (*Shutting, error) {
	for {
		event, patience, own := sh.over, time.Until(until), false
		if in {
			// A shutting with a longer bound may wait for a transaction that waits for this
			// reader at another gate.
			if event, own = sh.shut, sh.bound <= bound; own {
				patience += deaf
			}
		}
		timer := time.NewTimer(patience)
		var err error
		select {
		case <-event:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-timer.C:
			if err = errBusy(); own {
				err = &Away{gate.Shard, errDeaf(gate.Shard)}
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
func (k *Keeper) leave(sh *Shutting) <-chan error {
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

// LeaveAll leaves gates. stayedShut waits for the answers of the gates, and returns an error if
// one of them was not shut all the time.
func (k *Keeper) LeaveAll(held []*Shutting) (stayedShut func() error) {
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
func (k *Keeper) keep(gate Gate, sh *Shutting) {
	broken := errOpened
	defer func() { k.end(gate, sh, broken) }()
	c, err := k.cfg.Dial(gate)
	if err != nil {
		k.isShut(sh, &Away{gate.Shard, err})
		return
	}
	defer func() { c.Terminate() }()
	err = answered(c, sh.bound+deaf, fmt.Sprintf(shutGate, max(sh.bound.Milliseconds(), 1), stuck.Milliseconds()))
	if err != nil && !isBusy(err) {
		err = &Away{gate.Shard, err}
	}
	k.isShut(sh, err)
	if err == nil {
		if err := k.hold(sh, c); err != nil {
			broken = &Away{gate.Shard, err}
		}
	}
	if isBusy(err) && sh.bound > First {
		_, _ = c.Exec("ROLLBACK")
		time.Sleep(rest)
	}
}

// isShut tells the waiting readers that the gate is shut, or why it is not.
func (k *Keeper) isShut(sh *Shutting, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh.err, sh.since, sh.ends = err, time.Now(), err != nil
	close(sh.shut)
}

// hold keeps the gate shut until all readers have left or longest has passed. The error says why the gate was not shut all the time.
func (k *Keeper) hold(sh *Shutting, c Conn) error {
	longest := time.NewTimer(longest)
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
		err := answered(c, deaf, sql)
		for _, answer := range left {
			answer <- err
		}
		if last || err != nil {
			return err
		}
	}
}

// end says that a gate may be shut again. Readers that have not left yet have lost the gate, which broken says.
func (k *Keeper) end(gate Gate, sh *Shutting, broken error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sh.since.IsZero() { // no reader has been told anything: keep has panicked
		sh.err = errOpened
		close(sh.shut)
	}
	sh.ends, sh.broken = true, broken
	for _, answer := range sh.left {
		answer <- sh.broken
	}
	sh.left = nil
	delete(k.gates, gate)
	close(sh.over)
}

// answered runs a command that must be answered within d.
func answered(c Conn, d time.Duration, sql string) error {
	defer time.AfterFunc(d, c.Abandon).Stop()
	_, err := c.Exec(sql)
	return err
}

// errBusy is the error of a reader that has waited too long for a gate: the one that PostgreSQL has for a lock.
func errBusy() *pgerr.Error {
	e := pgerr.New(pgerr.LockNotAvailable, "canceling statement due to lock timeout")
	e.File, e.Routine = "postgres.c", "ProcessInterrupts"
	return e
}

// isBusy reports whether a lock was not free in time.
func isBusy(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) && e.Code == pgerr.LockNotAvailable
}

// errDeaf is the error of a shard that does not answer.
func errDeaf(shard string) *pgerr.Error {
	return pgerr.New(pgerr.ConnectionFailure, "shard %q does not answer", shard).
		WithHint("The query needs a moment between transactions there. Try again, or SET weft.read = 'shard'.")
}
