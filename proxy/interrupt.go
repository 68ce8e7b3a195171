package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/pool"
)

// A gathered statement goes through several hands: it is described, waits for
// backends, runs on the shards, is copied, is put together. A cancel request or
// statement_timeout may find none of them at work, and PostgreSQL forgets a
// request that finds its backend idle. So it is noted here too, and whoever goes
// on with the statement looks. And as long as it goes on, the request is repeated:
// between two messages of the extended protocol a backend is idle, too.

// interrupt is why the statement that is being gathered shall stop. Its fields are
// guarded by the session's mu, but for stop.
type interrupt struct {
	active bool         // something is being gathered
	round  uint64       // the how-manieth
	cause  *pgerr.Error // nil: it may go on
	timer  *time.Timer  // of statement_timeout, then of the next request
	repeat time.Duration
	stop   atomic.Bool // there is a cause: for those who look at each row
	// handed: the backend that finishes it is sent its messages with the client's
	// Sync, and it has ended when they are answered. The session's own.
	handed bool
}

// beginGather says that a statement is being gathered from now on.
func (re *reach) beginGather() {
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

// endGather says that it has ended, or is in one hand.
func (re *reach) endGather() {
	re.mu.Lock()
	defer re.mu.Unlock()
	i := &re.interrupt
	i.active, i.cause, i.handed = false, nil, false
	i.stop.Store(false)
	if i.timer != nil {
		// If it has gone off, it finds another round, or backends that wait
		// for its request before they are anybody else's.
		i.timer.Stop()
		i.timer = nil
	}
}

// limitGather bounds the time that the statement may take as a whole: each shard
// would only count its own.
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

// stopRound is stopBusy for one statement, if that still goes on.
func (re *reach) stopRound(round uint64, cause *pgerr.Error) {
	re.mu.Lock()
	if !re.interrupt.active || re.interrupt.round != round {
		re.mu.Unlock()
		return
	}
	re.stopBusy(cause)
}

// cancel makes the session stop what it is doing.
func (re *reach) cancel() {
	re.mu.Lock()
	re.stopBusy(errCancelled())
}

// repeatCancel is after how long a cancel request is repeated first; each time it
// takes twice as long, up to repeatSlowest.
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
	re.patience.endsSoon(cause)
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
		case re.cancelled <- struct{}{}: // it may wait for a backend
		default:
		}
	}
	re.deliverCancels(busy)
}

// deliverCancels sends the requests and waits until they have arrived. A server that is
// being closed sends them too: shards would go on working for nobody.
func (re *reach) deliverCancels(busy []*pool.Conn) {
	ctx := context.WithoutCancel(re.s.srv.ctx)
	if re.interrupt.stop.Load() { // its time is over: see patience
		bounded, stop := context.WithTimeout(ctx, giveUpAfter)
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

// interrupted returns why the statement that is being gathered shall stop.
func (re *reach) interrupted() error {
	if !re.interrupt.stop.Load() {
		return nil
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	return re.interrupt.cause
}

// asInterrupted returns the error that a statement ended with as the client shall
// hear it: shards say of every request that the user has sent it.
func (re *reach) asInterrupted(err error) error {
	if cause := re.interrupted(); cause != nil && pgerr.From(err).Code == pgerr.QueryCanceled {
		return cause
	}
	return err
}

// errStatementTimeout is what a client is told whose statement took too long.
func errStatementTimeout() *pgerr.Error {
	e := pgerr.New(pgerr.QueryCanceled, "canceling statement due to statement timeout")
	e.File, e.Routine = "postgres.c", "ProcessInterrupts"
	return e
}

// errCancelled is what a client is told that has cancelled its statement.
func errCancelled() *pgerr.Error {
	e := pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
	e.File, e.Routine = "postgres.c", "ProcessInterrupts"
	return e
}
