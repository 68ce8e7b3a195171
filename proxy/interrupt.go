package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/pool"
)

// A gathered statement goes through several stages: it is described, waits for backends, runs
// on the shards, is copied and is put together. A cancel request or statement_timeout may find
// no backend at work, and PostgreSQL forgets a request that finds its backend idle. So the
// request is noted here too, and every stage looks for it. As long as the statement goes on,
// the request is repeated: between two messages of the extended protocol a backend is idle,
// too.

// interrupt is why the statement being gathered must stop. Its fields are guarded by the
// session's reach.mu, except stop and handed.
type interrupt struct {
	active bool // a statement is being gathered
	// round counts gathered statements, so that a late timer can tell that its statement is
	// over.
	round  uint64
	cause  *pgerr.Error  // why the statement must stop; nil if it may go on
	timer  *time.Timer   // for statement_timeout, then for the next cancel request
	repeat time.Duration // the pause before the next cancel request
	stop   atomic.Bool   // cause is set; for checks at each row, without the mutex
	// handed says that the backend that finishes the statement is sent its messages with the
	// client's Sync, and that the statement ends when they are answered. Only the session's
	// goroutine uses it.
	handed bool
}

// beginGather says that a statement is being gathered from now on.
func (re *reach) beginGather() {
	re.s.client.Task().Leave()
	select {
	case <-re.cancelled: // meant for an earlier statement
	default:
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	i := &re.interrupt
	i.active, i.cause, i.handed = true, nil, false
	i.round++
	i.stop.Store(false)
	re.heedTimeouts()
}

// endGather says that the statement has ended, or that a single backend carries it on.
func (re *reach) endGather() {
	re.mu.Lock()
	defer re.mu.Unlock()
	i := &re.interrupt
	i.active, i.cause, i.handed = false, nil, false
	i.stop.Store(false)
	if i.timer != nil {
		// A timer that has gone off already finds another round, or backends that wait for its
		// cancel request before another session gets them.
		i.timer.Stop()
		i.timer = nil
	}
}

// limitGather bounds the time that the statement may take as a whole: each shard would count
// its own part only.
func (re *reach) limitGather(began time.Time) {
	d := re.s.record.inEffect.statementTimeout
	if d <= 0 {
		return
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	i := &re.interrupt
	if !i.active || i.timer != nil {
		return
	}
	round := i.round
	i.timer = time.AfterFunc(max(time.Until(began.Add(d)), 0), func() {
		re.stopRound(round, errStatementTimeout())
	})
}

// stopRound is stopBusy for the statement of one round, if it still goes on.
func (re *reach) stopRound(round uint64, cause *pgerr.Error) {
	re.mu.Lock()
	if !re.interrupt.active || re.interrupt.round != round {
		re.mu.Unlock()
		return
	}
	re.stopBusy(cause)
}

// cancel makes the session stop its statement.
func (re *reach) cancel() {
	re.mu.Lock()
	re.stopBusy(errCancelled())
}

// repeatCancel is the pause before a cancel request is repeated for the first time. The pause
// doubles each time, up to repeatSlowest.
const (
	repeatCancel  = 100 * time.Millisecond
	repeatSlowest = 5 * time.Second
)

// stopBusy passes a cancel request to the backends that work for the session. mu
// is held; stopBusy unlocks it.
func (re *reach) stopBusy(cause *pgerr.Error) {
	busy := make([]*pool.Conn, 0, len(re.legs)+1)
	busy = append(busy, re.legs...)
	if re.current != nil {
		busy = append(busy, re.current)
	}
	for _, c := range busy {
		c.BeginCancel()
	}
	due := re.patience.endsSoon(cause)
	re.errand.note(re, cause)
	i := &re.interrupt
	gathers := i.active
	if gathers {
		if i.timer != nil {
			i.timer.Stop()
		}
		if i.cause == nil {
			i.cause, i.repeat = cause, repeatCancel
			i.stop.Store(true)
		}
		round := i.round
		i.timer = time.AfterFunc(i.repeat, func() { re.stopRound(round, cause) })
		i.repeat = min(2*i.repeat, repeatSlowest)
	}
	re.mu.Unlock()
	if len(busy) == 0 || gathers {
		select {
		case re.cancelled <- struct{}{}: // the session may be waiting for a backend
		default:
		}
	}
	re.deliverCancels(busy)
	re.told(due)
}

// deliverCancels sends the cancel requests and waits until they have arrived. A server that is
// being closed sends them too: shards would go on working in vain.
func (re *reach) deliverCancels(busy []*pool.Conn) {
	ctx := context.WithoutCancel(re.s.srv.ctx)
	if re.interrupt.stop.Load() { // a statement that must stop is given up soon: see patience.go
		bounded, stop := context.WithTimeout(ctx, takeAfter)
		defer stop()
		ctx = bounded
	}
	var wg sync.WaitGroup
	for _, c := range busy {
		wg.Go(re.s.srv.guarded("cancel", func() {
			if err := c.CancelOrGiveUp(ctx); err != nil {
				re.s.log.Warn("cancel failed, connection given up", "err", err)
			}
		}))
	}
	wg.Wait()
}

// interrupted returns why the statement being gathered must stop, or nil.
func (re *reach) interrupted() error {
	if !re.interrupt.stop.Load() {
		return nil
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	return re.interrupt.cause
}

// asInterrupted returns a statement's error as the client should hear it: a shard calls every
// cancel request a user request.
func (re *reach) asInterrupted(err error) error {
	if cause := re.interrupted(); err != nil && cause != nil && pgerr.From(err).Code == pgerr.QueryCanceled {
		return cause
	}
	return err
}

// errStatementTimeout is the error for a statement that took too long.
func errStatementTimeout() *pgerr.Error {
	e := pgerr.New(pgerr.QueryCanceled, "canceling statement due to statement timeout")
	e.File, e.Routine = "postgres.c", "ProcessInterrupts"
	return e
}

// errCancelled is the error for a statement that the client has cancelled.
func errCancelled() *pgerr.Error {
	e := pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
	e.File, e.Routine = "postgres.c", "ProcessInterrupts"
	return e
}
