package sequence

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"weft/pgerr"
)

// maxDraw bounds one draw for several waiters, because its values are in memory twice for a
// moment. A single waiter that wants more gets more.
const maxDraw = 1 << 16

// line holds one sequence's values drawn in advance and the Takes that wait for more.
type line struct {
	name Name

	mu    sync.Mutex
	block []int64 // values not yet taken, the next value first
	epoch int64   // newest epoch known to a Take; the block was drawn under it
	size  int     // size of the next block
	drawn time.Time
	// drawing is nil, or ends the draw that is under way.
	drawing context.CancelFunc
	// first and last are the ends of the list of waiters, in order of arrival.
	first, last *waiter
	forgotten   bool // the Allocator's map does not have the line any more
}

// waiter is a Take that waits. The channel done is closed, under the line's mutex, when values or
// err is set.
type waiter struct {
	before, next *waiter

	n      int
	values []int64
	err    error
	// asked says that the draw under way is for this waiter too.
	asked bool
	done  chan struct{}
}

// idle reports whether no Take waits and no draw is under way.
func (l *line) idle() bool { return l.first == nil && l.drawing == nil }

// expire discards the block if epoch is newer than the line's.
func (l *line) expire(epoch int64) {
	if epoch > l.epoch {
		l.epoch, l.block = epoch, nil
	}
}

// take cuts n values off the block. The result is valid while the mutex is held.
func (l *line) take(n int) []int64 {
	v := l.block[:n]
	l.block = l.block[n:]
	return v
}

func (l *line) join(w *waiter) {
	if l.first == nil {
		l.first = w
	} else {
		l.last.next, w.before = w, l.last
	}
	l.last = w
}

// leave takes w out of the line. It returns false if w has been served already.
func (l *line) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.done:
		return false
	default:
	}
	l.remove(w)
	if l.first == nil && l.drawing != nil {
		l.drawing() // no Take wants the draw any more, and the home shard may be stuck in it
	}
	return true
}

// serve gives values to the waiters, until the block has too few for the first of them.
func (l *line) serve() {
	for w := l.first; w != nil && len(l.block) >= w.n; w = l.first {
		w.values = append(w.values, l.take(w.n)...)
		l.drop(w)
	}
}

// fail gives an error to the waiters at the head of the line that the draw was for.
func (l *line) fail(err error) {
	for w := l.first; w != nil && w.asked; w = l.first {
		w.err = err
		l.drop(w)
		l.serve() // the block may have enough for the next waiter, which wants less
	}
}

// drop takes a waiter that has its answer out of the line, and wakes it.
func (l *line) drop(w *waiter) {
	l.remove(w)
	close(w.done)
}

func (l *line) remove(w *waiter) {
	if w.before == nil {
		l.first = w.next
	} else {
		w.before.next = w.next
	}
	if w.next == nil {
		l.last = w.before
	} else {
		w.next.before = w.before
	}
	w.before, w.next = nil, nil
}

// wanted returns how many values a draw is to ask for, and marks the waiters that the draw is for.
func (l *line) wanted() int {
	total := -len(l.block)
	for w := l.first; w != nil; w = w.next {
		if w != l.first && total+w.n > maxDraw {
			break
		}
		total += w.n
		w.asked = true
	}
	return max(total, l.size)
}

// adapt sets the size of the block that is drawn now.
func (l *line) adapt(now time.Time, cfg *Config) {
	switch since := now.Sub(l.drawn); {
	case since < cfg.Busy:
		l.size = min(2*l.size, cfg.MaxBlock)
	case since >= cfg.Quiet:
		l.size = max(l.size>>min(since/cfg.Quiet, 62), 1)
	}
	l.drawn = now
}

// draw begins a draw for the waiters, unless one is under way. The mutex of the line is held.
func (a *Allocator) draw(l *line) {
	if l.drawing != nil || l.first == nil {
		return
	}
	l.adapt(a.now(), &a.cfg)
	n, epoch := l.wanted(), l.epoch
	ctx, stop := context.WithTimeout(a.ctx, a.cfg.DrawTimeout)
	if !a.begin() {
		stop()
		for l.first != nil {
			l.fail(errClosed())
			l.wanted() // marks the remaining waiters for fail
		}
		return
	}
	l.drawing = stop
	go func() {
		defer a.draws.Done()
		values, err := a.ask(ctx, l.name, n)
		cut := ctx.Err()
		stop()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.drawing = nil
		// After a panic the waiters get an error instead of waiting on.
		defer func() {
			if r := recover(); r != nil {
				l.abandon(pgerr.FromPanic(r, debug.Stack()))
			}
		}()
		switch {
		case err == nil && len(values) == 0:
			l.fail(pgerr.New(pgerr.InternalError, "the home shard gave no value of sequence %s", l.name.Sequence))
		case err == nil && epoch < l.epoch:
			// The values may have been drawn before the sequence was set to another value.
		case err == nil:
			l.fill(values, &a.cfg)
		case a.ctx.Err() != nil:
			l.fail(errClosed())
		case errors.Is(cut, context.Canceled):
			// All waiters had left. Waiters that came since get a new draw.
		case errors.Is(cut, context.DeadlineExceeded):
			l.fail(pgerr.New(pgerr.ConnectionFailure, "the home shard gave no value of sequence %s within %s",
				l.name.Sequence, a.cfg.DrawTimeout).WithCause(err))
		default:
			l.fail(err)
		}
		a.draw(l)
	}()
}

// ask draws values. A panic of the source becomes an error.
func (a *Allocator) ask(ctx context.Context, name Name, n int) (values []int64, err error) {
	defer pgerr.Recovered(&err)
	return a.source.Draw(ctx, name, n)
}

// abandon gives all waiters an error, and discards the block, whose state is unknown after a
// panic.
func (l *line) abandon(err error) {
	l.block = nil
	for w := l.first; w != nil; w = l.first {
		l.remove(w)
		w.err = err
		select {
		case <-w.done: // the waiter was being served
		default:
			close(w.done)
		}
	}
}

// fill adds drawn values to the block and serves the waiters.
func (l *line) fill(values []int64, cfg *Config) {
	if len(l.block) == 0 {
		l.block = values
	} else {
		l.block = append(l.block, values...)
	}
	l.serve()
	if cap(l.block) > 2*cfg.MaxBlock {
		// Do not keep the memory of a large draw for the few values that are left.
		l.block = slices.Clone(l.block)
	}
}
