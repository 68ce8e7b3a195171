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

// maxDraw bounds one draw for many who wait, whatever they want together: its
// values are in memory twice for a moment. One who alone wants more gets it.
const maxDraw = 1 << 16

// line is one sequence: values drawn in advance and those who wait for more.
type line struct {
	name Name

	mu    sync.Mutex
	block []int64 // what is left of it, the next value first
	epoch int64   // that the block was drawn under, or a newer one somebody has seen
	size  int     // of the next block
	drawn time.Time
	// drawing is not nil while a draw is under way and ends it.
	drawing context.CancelFunc
	// Those who wait, in order of arrival.
	first, last *waiter
	forgotten   bool // not in the map any more
}

// waiter is a Take that waits. done is closed, under the line's mutex, when
// values or err are set.
type waiter struct {
	before, next *waiter

	n      int
	values []int64
	err    error
	// asked: the draw under way is for this one too.
	asked bool
	done  chan struct{}
}

// idle: nobody waits and nothing is under way.
func (l *line) idle() bool { return l.first == nil && l.drawing == nil }

// expire throws the block away if somebody knows a newer epoch.
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

// leave takes w out of the line. It is false if w has been served already.
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
		l.drawing() // nobody wants it any more; the home shard may be stuck in it
	}
	return true
}

// serve gives the block to those who wait, until it is too small for the first.
func (l *line) serve() {
	for w := l.first; w != nil && len(l.block) >= w.n; w = l.first {
		w.values = append(w.values, l.take(w.n)...)
		l.drop(w)
	}
}

// fail tells those whom the draw was for, of who is first in line now.
func (l *line) fail(err error) {
	for w := l.first; w != nil && w.asked; w = l.first {
		w.err = err
		l.drop(w)
		l.serve() // what is left may do for the next, who wants less
	}
}

// drop lets w go, who has got an answer.
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

// wanted is how many values a draw is to bring, and marks those it is for.
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

// draw begins a draw for those who wait, unless one is under way. The mutex
// is held.
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
			l.wanted() // marks those whom the draw would not have been for
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
		// Those who wait hear of a bug here, too, instead of waiting on.
		defer func() {
			if r := recover(); r != nil {
				l.abandon(pgerr.FromPanic(r, debug.Stack()))
			}
		}()
		switch {
		case err == nil && len(values) == 0:
			l.fail(pgerr.New(pgerr.InternalError, "the home shard gave no value of sequence %s", l.name.Sequence))
		case err == nil && epoch < l.epoch:
			// Drawn before somebody set the sequence to another value, perhaps.
		case err == nil:
			l.fill(values, &a.cfg)
		case a.ctx.Err() != nil:
			l.fail(errClosed())
		case errors.Is(cut, context.Canceled):
			// Those it was for have left. Who came since has seen no failure.
		case errors.Is(cut, context.DeadlineExceeded):
			l.fail(pgerr.New(pgerr.ConnectionFailure, "the home shard gave no value of sequence %s within %s",
				l.name.Sequence, a.cfg.DrawTimeout).WithCause(err))
		default:
			l.fail(err)
		}
		a.draw(l)
	}()
}

// ask draws values. A panic is an error of those who wait for them.
func (a *Allocator) ask(ctx context.Context, name Name, n int) (values []int64, err error) {
	defer pgerr.Recovered(&err)
	return a.source.Draw(ctx, name, n)
}

// abandon ends the wait of all with an error, and throws the block away: nobody knows what is left
// of it.
func (l *line) abandon(err error) {
	l.block = nil
	for w := l.first; w != nil; w = l.first {
		l.remove(w)
		w.err = err
		select {
		case <-w.done: // it was being served
		default:
			close(w.done)
		}
	}
}

// fill adds drawn values to the block and serves those who wait.
func (l *line) fill(values []int64, cfg *Config) {
	if len(l.block) == 0 {
		l.block = values
	} else {
		l.block = append(l.block, values...)
	}
	l.serve()
	if cap(l.block) > 2*cfg.MaxBlock {
		// Do not keep the memory of somebody's thousands for a few that are left.
		l.block = slices.Clone(l.block)
	}
}
