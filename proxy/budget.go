package proxy

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"weft/pgerr"
)

// Messages of clients are in memory until they have been dealt with. One is bounded by
// limits.max_query_bytes, all of them together by limits.memory: a budget that every
// session takes from as the bytes of a large message come, and gives back to when it
// waits for its client again.

const (
	// unbudgeted messages are not counted: what limits.max_clients bounds is enough.
	unbudgeted = 64 << 10
	// budgetStep is how many bytes of a message are taken in at once.
	budgetStep = 1 << 20
	// messageCost is how much memory a byte of a message may take that is passed on: the
	// message, what goes to shards, and garbage of both. parsedCost is the same for a text
	// that is parsed: its tree is made twice, by PostgreSQL's parser and by weft. Both were
	// measured, and TestLargeStatements holds them.
	messageCost = 5
	parsedCost  = 16
	// scavengeFrom and scavengeAfter say when memory that was given back goes to the
	// operating system: the runtime by itself would take minutes.
	scavengeFrom  = 8 << 20
	scavengeAfter = 2 * time.Second
)

// budget is the memory of all clients' messages.
type budget struct {
	used      atomic.Int64
	garbage   atomic.Int64 // given back since the last collection
	scheduled atomic.Bool
}

// take takes n bytes of a budget of limit, if they are there. limit 0 is no bound.
func (b *budget) take(n, limit int64) bool {
	if used := b.used.Add(n); limit > 0 && used > limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// give gives n bytes back.
func (b *budget) give(n int64) {
	b.used.Add(-n)
	if b.garbage.Add(n) >= scavengeFrom && b.scheduled.CompareAndSwap(false, true) {
		time.AfterFunc(scavengeAfter, func() {
			b.scheduled.Store(false)
			b.garbage.Store(0)
			runtime.GC() // the first of two that pools of buffers live through
			debug.FreeOSMemory()
		})
	}
}

// allowance is what one session has taken.
type allowance struct{ bytes int64 }

// end gives it all back.
func (l *allowance) end(b *budget) {
	if l.bytes > 0 {
		b.give(l.bytes)
		l.bytes = 0
	}
}

// takeIn waits until a message of n bytes is in the client's buffer, n with its header, and
// takes what it costs from the budget as it comes: cost for each byte. A client that only
// says that it will send much takes nothing. A message that is refused is read to its end
// first, or the client would never hear why.
func (a *account) takeIn(n, cost int) error {
	cfg := a.s.srv.conf()
	if m := cfg.MaxQueryBytes; m > 0 && n-1 > m {
		return a.tooLarge(n, pgerr.Fatal(pgerr.ProgramLimitExceeded, "message of %d bytes is over weft's limit of %d", n-1, m).
			WithHint("Raise limits.max_query_bytes."))
	}
	if n <= unbudgeted {
		return a.s.pipe.awaitClient(n)
	}
	for have := 0; have < n; {
		next := min(n, have+budgetStep)
		step := int64(next-have) * int64(cost)
		if err := a.s.pipe.awaitClient(next); err != nil {
			return err
		}
		if !a.s.srv.budget.take(step, cfg.Memory) {
			return a.tooLarge(n, pgerr.Fatal(pgerr.OutOfMemory, "out of memory for the messages of all clients").
				WithDetail("A message of %d bytes does not fit beside what others send.", n-1).
				WithHint("Try again, or raise limits.memory."))
		}
		a.allowance.bytes += step
		have = next
	}
	return nil
}

// tooLarge reads a message to its end and returns why it is refused.
func (a *account) tooLarge(n int, why error) error {
	if err := a.s.pipe.skip(n); err != nil {
		return err
	}
	a.allowance.end(&a.s.srv.budget)
	return why
}

// refusable returns the error of a simple query that was too large as one that does not end
// the session, if nothing stands before it.
func (p *pipe) refusable(err error) *pgerr.Error {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.ProgramLimitExceeded && e.Code != pgerr.OutOfMemory || !p.ops.empty() || p.hasPending || p.s.implicit.open || p.unsynced {
		return nil
	}
	refused := *e
	refused.Severity = pgerr.SeverityError
	return &refused
}
