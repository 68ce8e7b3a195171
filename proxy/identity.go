package proxy

import (
	"encoding/binary"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/parser"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// Clients know sessions by weft's IDs, backends know process IDs. Functions and views that
// speak of the one are rewritten to speak of the other.

// loan is a backend lent to an idle session while a statement runs that names the session, so
// that pg_cancel_backend and pg_terminate_backend have something to act on: the server then
// decides who may signal it, and answers as usual.
//
// A session that is not idle has a backend already. This backend is kept from going back to the
// pool meanwhile: another session would be using it when the signal comes.
type loan struct {
	to   *Session
	conn *pool.Conn
	// end lets go of a backend that the session had already. It is nil for a backend that was
	// lent.
	end func()
}

// keepWait bounds how long the backend of a busy session is kept from the pool for a statement
// that names the session.
const keepWait = 2 * time.Second

// loanWait is how long a backend that was told to terminate may take to end.
const loanWait = 500 * time.Millisecond

// identityEdits rewrites a text for one execution. ids are the numbers in the text or its
// parameters that may be session IDs. runs: the text is about to be run, not only to be parsed.
func (d *drawn) identityEdits(text string, ids []int32, runs bool) parser.Edits {
	id := parser.Identity{Self: d.s.id, Options: parser.Options{NonStandardStrings: d.s.record.oldStrings}}
	if d.values != nil {
		id.Sequence = d.drawnValue
		for name, v := range d.values {
			schema, short, _ := strings.Cut(name, ".")
			id.Drawn = append(id.Drawn, parser.Drawn{Sequence: quote.Ident(schema) + "." + quote.Ident(short), Value: v})
		}
	}
	if d.s.route.hasTables && runs {
		id.Next = func(argument string) (int64, bool) {
			v, err := d.nextDrawn(argument)
			return v, err == nil // the home shard reports what is wrong
		}
	}
	for _, n := range ids {
		d.lend(n)
	}
	for _, l := range d.loans {
		id.Pairs = append(id.Pairs, parser.Pair{Session: l.to.id, Backend: l.conn.PID()})
	}
	d.s.srv.register.holders(func(sess *Session, c *pool.Conn) {
		// A session that is named keeps the backend it had when the loan was made.
		if !slices.ContainsFunc(d.loans, func(l loan) bool { return l.to == sess }) {
			id.Pairs = append(id.Pairs, parser.Pair{Session: sess.id, Backend: c.PID()})
		}
	})
	edits, err := parser.IdentityEdits(text, id)
	if err != nil {
		return nil // the backend reports the error
	}
	return edits
}

// signals reports whether the text cancels or terminates sessions that it names.
func signals(f *parser.Facts) bool {
	return slices.Contains(f.Funcs, "pg_terminate_backend") || slices.Contains(f.Funcs, "pg_cancel_backend")
}

var sessionNumber = regexp.MustCompile(`\b[0-9]{7,10}\b`)

// namedSessions returns the numbers in a text that can be session IDs.
func namedSessions(text string) []int32 {
	var ids []int32
	for _, m := range sessionNumber.FindAllString(text, -1) {
		if n, err := strconv.ParseInt(m, 10, 32); err == nil && n >= firstID {
			ids = append(ids, int32(n))
		}
	}
	return ids
}

// boundSessions returns the numbers that can be session IDs among the parameters of a Bind
// message: written out, or as a binary integer at any offset, so that arrays are searched too.
// rest is the body behind the names. A number that happens to be a session ID costs an unused
// loan.
func boundSessions(rest []byte) []int32 {
	ids := namedSessions(string(rest))
	for i := 0; i+4 <= len(rest) && len(ids) < 1000; i++ {
		if id := int32(binary.BigEndian.Uint32(rest[i:])); id >= firstID {
			ids = append(ids, id)
		}
	}
	return ids
}

// lend borrows a backend for an idle session, or keeps the backend of a busy session from the
// pool.
func (d *drawn) lend(id int32) {
	if slices.ContainsFunc(d.loans, func(l loan) bool { return l.to.id == id }) {
		return
	}
	d.s.srv.register.mu.Lock()
	to := d.s.srv.register.sessions[id]
	d.s.srv.register.mu.Unlock()
	if to == nil || to == d.s || to.lane == nil {
		return
	}
	to.reach.mu.Lock()
	own := to.reach.current
	if own != nil {
		own.BeginCancel()
		to.reach.named.Store(true)
	}
	to.reach.mu.Unlock()
	if own != nil {
		end := sync.OnceFunc(own.EndCancel)
		time.AfterFunc(keepWait, end)
		d.loans = append(d.loans, loan{to, own, end})
		return
	}
	if c, err := to.lane.Dedicated(d.s.srv.ctx); err == nil {
		d.loans = append(d.loans, loan{to: to, conn: c})
	}
}

// returnLoans ends the loans. If a lent backend was terminated, the session that it stood for
// is ended.
func (d *drawn) returnLoans() {
	wait := time.Millisecond
	if d.s.record.done.terminates && !d.s.record.done.failed {
		wait = loanWait
	}
	for _, l := range d.loans {
		if l.end != nil {
			if wait == loanWait {
				l.to.reach.doomed.Store(l.conn)
			}
			l.end()
			continue
		}
		_ = l.conn.Conn().SetReadDeadline(time.Now().Add(wait))
		typ, body, err := l.conn.Next(wire.LargeLimit)
		_ = l.conn.Conn().SetReadDeadline(time.Time{})
		switch {
		case err == nil && typ == wire.ErrorResponse:
			l.to.kill(pool.ServerError(body))
			l.conn.Discard()
		case errors.Is(err, os.ErrDeadlineExceeded) && len(l.conn.Buffered()) == 0:
			l.conn.Release()
		default:
			l.conn.Discard()
		}
	}
	d.loans = nil
}

// abandonLoans ends the loans of a statement whose backend is lost.
func (d *drawn) abandonLoans() {
	for _, l := range d.loans {
		if l.end != nil {
			l.end()
		} else {
			l.conn.Discard()
		}
	}
	d.loans = nil
}

// survives reports whether a backend can go back to the pool after a statement that named this
// session has run. If the backend was told to terminate, the session ends with it, even if the
// session's own statement had just ended.
func (re *reach) survives(c *pool.Conn) bool {
	c.AwaitCancels()
	re.named.Store(false)
	if !re.doomed.CompareAndSwap(c, nil) {
		return true
	}
	_ = c.Conn().SetReadDeadline(time.Now().Add(loanWait))
	typ, body, err := c.Next(wire.LargeLimit)
	_ = c.Conn().SetReadDeadline(time.Time{})
	switch {
	case err == nil && typ == wire.ErrorResponse:
		re.killed.CompareAndSwap(nil, pool.ServerError(body))
	case errors.Is(err, os.ErrDeadlineExceeded) && len(c.Buffered()) == 0:
		return true // another backend was meant
	}
	c.Discard()
	return false
}

// rebindIdentity prepares again a text that names sessions, for the execution that is about to
// be bound, and returns the name of the statement on the backend.
func (d *drawn) rebindIdentity(original, oids string, rest []byte) (string, *edited) {
	const name = "\x01t"
	edits := d.identityEdits(original, append(namedSessions(original), boundSessions(rest)...), true)
	changed := &edited{original, edits}
	d.s.pipe.unsent.B = wire.AppendClose(d.s.pipe.unsent.B, 'S', name)
	d.s.pipe.ops.push(op{kind: opClose, injected: true})
	d.s.pipe.unsent.B = wire.AppendParse(d.s.pipe.unsent.B, name, edits.Apply(original), []byte(oids))
	d.s.pipe.ops.push(op{kind: opParse, injected: true, stmt: &pool.Statement{Name: name}, text: changed})
	return name, changed
}
