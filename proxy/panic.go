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

// A panic is a bug of weft's. It ends the session that ran into it and nothing else:
// its client is told a number, the log has the stack under the same number, and
// weft_panics_total counts it. What runs for nobody in particular begins again.

// Panics counts panics and writes them down.
type Panics struct {
	log   *slog.Logger
	count atomic.Int64
}

// NewPanics returns the panics of one process.
func NewPanics(log *slog.Logger) *Panics { return &Panics{log: log} }

// note writes a panic down and returns what a client is told of it.
func (p *Panics) note(v *pgerr.Panic, where string, facts ...any) *pgerr.Error {
	p.count.Add(1)
	id := hex.EncodeToString(newSecret(8))
	p.log.Error("panic", append([]any{"id", id, "in", where, "panic", v.Value, "stack", string(v.Stack)}, facts...)...)
	return pgerr.Fatal(pgerr.InternalError, "internal error %s", id).
		WithDetail("This is a bug in weft. It ends this session and nothing else; an open transaction is rolled back.").
		WithHint("The log of the proxy has the details under this number.")
}

// caught notes a panic that somebody is just recovering from, perhaps one that another goroutine
// has recovered from before.
func (p *Panics) caught(value any, where string, facts ...any) *pgerr.Error {
	v, ok := value.(*pgerr.Panic)
	if !ok {
		v = &pgerr.Panic{Value: value, Stack: debug.Stack()}
	}
	return p.note(v, where, facts...)
}

// Guarded returns f for a goroutine that works for nobody in particular: a panic ends
// the goroutine, not the process.
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

// Recover writes down a panic of the function that defers it, and lets it end as if nothing was:
// for code that others call on goroutines of their own.
func (p *Panics) Recover(where string) {
	if r := recover(); r != nil {
		p.caught(r, where)
	}
}

// restartPause is how long weft waits before it begins again with what ended in a panic.
const restartPause = time.Second

// Keep runs f, and again after a panic, until it returns or ctx ends.
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

// errPanicked is what is known of a shard if the question ended in a panic.
var errPanicked = errors.New("internal error: the log of the proxy has the details")

// guarded is Guarded.
func (s *Server) guarded(where string, f func()) func() { return s.panics.Guarded(where, f) }

// kept returns f for a goroutine that runs as long as the server: after a panic it
// begins again.
func (s *Server) kept(where string, f func(context.Context)) func() {
	return func() {
		_ = s.panics.Keep(s.ctx, where, func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	}
}

// protect keeps a panic to the one client that is being let in.
func (s *Server) protect(conn net.Conn, f func() *Session) (sess *Session) {
	defer func() {
		if r := recover(); r != nil {
			e := s.panics.caught(r, "startup", "client", conn.RemoteAddr())
			_ = conn.SetWriteDeadline(time.Now().Add(closeGrace))
			_, _ = conn.Write(wire.AppendError(nil, e)) // to a client with TLS it is noise, and the connection is over
			sess = nil
		}
	}()
	return f()
}

// protected runs the session to its end, a panic included.
func (s *Session) protected() {
	defer func() {
		if r := recover(); r != nil {
			s.lastWord(s.srv.panics.caught(r, "session", "session", s.id, "client", s.client.Conn().RemoteAddr()))
		}
	}()
	s.serve()
}

// lastWord tells the client why the session ends, unless it has got the beginning of a
// message whose rest is lost: an error would be taken for that rest.
func (s *Session) lastWord(e *pgerr.Error) {
	if s.out.rem > 0 {
		return
	}
	s.out.overheard = nil
	s.account.failedWith(e.Code)
	s.out.Grow()
	s.out.B = wire.AppendError(s.out.B, e)
	_ = s.client.Conn().SetWriteDeadline(time.Now().Add(closeGrace))
	_ = s.out.flushClient()
	wire.Linger(s.client.Conn())
}

// asPanic returns what the client is told of an error: one that comes from a panic on
// another goroutine is noted here, where it is known whose session it ends.
func (s *Session) asPanic(e *pgerr.Error) *pgerr.Error {
	if p := pgerr.PanicIn(e); p != nil {
		return s.srv.panics.note(p, "session", "session", s.id, "client", s.client.Conn().RemoteAddr())
	}
	return e
}
