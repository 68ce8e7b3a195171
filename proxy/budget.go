package proxy

import (
	"errors"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"weft/pgerr"
)

// Messages of clients are in memory until they have been dealt with. One message is bounded by
// limits.max_query_bytes, all of them together by limits.memory. That is a budget: every session
// takes from it as the bytes of a large message come, and gives back when it waits for its
// client again.

const (
	// unbudgeted is the size up to which messages are not counted: limits.max_clients bounds
	// them well enough.
	unbudgeted = 64 << 10
	// budgetStep is how many bytes of a message are taken in at once.
	budgetStep = 1 << 20
	// messageCost is how much memory a byte of a message may take if the message is only passed
	// on: the message, what goes to shards, and the garbage of both. parsedCost is the same for
	// a text that is parsed: its tree is built twice, by PostgreSQL's parser and by weft. Both
	// were measured, and TestLargeStatements checks them.
	messageCost = 5
	parsedCost  = 16
	// scavengeFrom and scavengeAfter say when memory that was given back goes to the operating
	// system: the runtime by itself would take minutes.
	scavengeFrom  = 8 << 20
	scavengeAfter = 2 * time.Second
)

// budget counts the memory of all clients' messages.
type budget struct {
	used      atomic.Int64
	garbage   atomic.Int64 // given back since the last collection
	scheduled atomic.Bool
}

// take takes n bytes from a budget of limit bytes, if so many are left. limit 0 means no bound.
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
			runtime.GC() // pools of buffers survive one collection; FreeOSMemory runs the second
			debug.FreeOSMemory()
		})
	}
}

// allowance is what one session has taken from the budget.
type allowance struct{ bytes int64 }

// end gives the whole allowance back.
func (l *allowance) end(b *budget) {
	if l.bytes > 0 {
		b.give(l.bytes)
		l.bytes = 0
	}
}

// takeIn waits until a message of n bytes, header included, is in the client's buffer. As the
// bytes come, it takes cost for each byte from the budget. So a client that only announces a
// large message takes nothing. A refused message is read to its end first, or the client would
// never hear why it was refused.
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

// refusable returns the error of a simple query that was too large as an error that does not end
// the session; nil if other messages are pending before the query.
func (p *pipe) refusable(err error) *pgerr.Error {
	e, ok := errors.AsType[*pgerr.Error](err) // each simple query asks, and errors.As would allocate
	if !ok || e.Code != pgerr.ProgramLimitExceeded && e.Code != pgerr.OutOfMemory || !p.ops.empty() || p.kept.waits() || p.s.implicit.isOpen() || p.isUnsynced() {
		return nil
	}
	refused := *e
	refused.Severity = pgerr.SeverityError
	return &refused
}
