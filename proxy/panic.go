package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"

	"weft/pgerr"
	"weft/wire"
)

// A panic is a bug in weft. It ends the session that ran into it and nothing else: the
// client is told a number, the log has the stack under the same number, and
// weft_panics_total counts the panic. A background goroutine under Panics.Keep starts
// again.

// Panics counts and logs panics.
type Panics struct {
	log   *slog.Logger
	count atomic.Int64
}

// NewPanics returns the Panics of one process.
func NewPanics(log *slog.Logger) *Panics { return &Panics{log: log} }

// note counts and logs a panic, and returns the error that a client is told.
func (p *Panics) note(v *pgerr.Panic, where string, facts ...any) *pgerr.Error {
	p.count.Add(1)
	id := hex.EncodeToString(newSecret(8))
	p.log.Error("panic", append([]any{"id", id, "in", where, "panic", v.Value, "stack", string(v.Stack)}, facts...)...)
	return pgerr.Fatal(pgerr.InternalError, "internal error %s", id).
		WithDetail("This is a bug in weft. It ends this session and nothing else; an open transaction is rolled back.").
		WithHint("The log of the proxy has the details under this number.")
}

// caught notes the value of a recover, which may be a panic that another goroutine has
// recovered from before.
func (p *Panics) caught(value any, where string, facts ...any) *pgerr.Error {
	v, ok := value.(*pgerr.Panic)
	if !ok {
		v = &pgerr.Panic{Value: value, Stack: debug.Stack()}
	}
	return p.note(v, where, facts...)
}

// Guarded returns f for a goroutine that belongs to no session: a panic ends the goroutine,
// not the process.
func (p *Panics) Guarded(where string, f func()) func() {
	return func() {
		defer func() {
			if r := recover(); r != nil {
				p.caught(r, where)
			}
		}()
		f()
	}
}

// Recover, when deferred, logs a panic of the deferring function and lets the function
// return normally: for code that other packages call on their own goroutines.
func (p *Panics) Recover(where string) {
	if r := recover(); r != nil {
		p.caught(r, where)
	}
}

// restartPause is how long Keep waits before it calls a function again that ended in a
// panic.
const restartPause = time.Second

// Keep runs f, and again after a panic, until f returns or ctx ends.
func (p *Panics) Keep(ctx context.Context, where string, f func(context.Context) error) (err error) {
	for {
		panicked := true
		p.Guarded(where, func() {
			err = f(ctx)
			panicked = false
		})()
		if !panicked {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(restartPause):
		}
	}
}

// errPanicked is the result of a question to a shard that ended in a panic.
var errPanicked = errors.New("internal error: the log of the proxy has the details")

// guarded is Panics.Guarded.
func (s *Server) guarded(where string, f func()) func() { return s.panics.Guarded(where, f) }

// kept returns f for a goroutine that runs as long as the server: after a panic, f is
// called again.
func (s *Server) kept(where string, f func(context.Context)) func() {
	return func() {
		_ = s.panics.Keep(s.ctx, where, func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	}
}

// protect confines a panic to the one client that is being let in.
func (s *Server) protect(conn net.Conn, f func() *Session) (sess *Session) {
	defer func() {
		if r := recover(); r != nil {
			e := s.panics.caught(r, "startup", "client", conn.RemoteAddr())
			_ = conn.SetWriteDeadline(time.Now().Add(closeGrace))
			// A client with TLS cannot read this, but its connection is over.
			_, _ = conn.Write(wire.AppendError(nil, e))
			sess = nil
		}
	}()
	return f()
}

// protected runs the session to its end, a panic included, or until the session rests.
func (s *Session) protected() (rests bool) {
	defer func() {
		if r := recover(); r != nil {
			s.lastWord(s.srv.panics.caught(r, "session", "session", s.id, "client", s.client.Conn().RemoteAddr()))
		}
	}()
	return s.serve()
}

// lastWord tells the client why the session ends, unless the client has got only the
// beginning of a message: it would take the error for the rest of that message.
func (s *Session) lastWord(e *pgerr.Error) {
	if s.out.rem > 0 {
		return
	}
	s.account.failedWith(e.Code)
	s.out.Grow()
	s.out.B = wire.AppendError(s.out.B, e)
	_ = s.client.Conn().SetWriteDeadline(time.Now().Add(closeGrace))
	_ = s.out.flushClient()
	wire.Linger(s.client.Conn())
}

// asPanic returns what the client is told of an error: an error that comes from a panic on
// another goroutine is noted here, where the session that it ends is known.
func (s *Session) asPanic(e *pgerr.Error) *pgerr.Error {
	if p := pgerr.PanicIn(e); p != nil {
		return s.srv.panics.note(p, "session", "session", s.id, "client", s.client.Conn().RemoteAddr())
	}
	return e
}
