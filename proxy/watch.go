package proxy

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A session that waits for its client while it holds a backend does not hear the backend:
// that it was terminated, or timed out inside the transaction. One goroutine watches the
// backends of all sessions, so that waiting costs the sessions nothing.

// watchInterval is how late a session may hear from its backend.
const watchInterval = 100 * time.Millisecond

// relearnInterval is how long a function that was made without weft's knowledge may change
// sessions unnoticed.
const relearnInterval = time.Minute

// watch wakes sessions whose backend has sent something, and gives up on shards that hang
// (see hurry).
func (s *Server) watch(ctx context.Context) {
	tick, relearn := time.NewTicker(watchInterval), time.NewTicker(relearnInterval)
	defer tick.Stop()
	defer relearn.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-relearn.C:
			s.pool.ForgetEffects()
			continue
		case <-tick.C:
			s.register.hurry(time.Now())
		}
		s.register.holders(func(sess *Session, c *pool.Conn) {
			if sess.reach.waiting.Load() && c.Readable() {
				sess.wake()
			}
		})
	}
}

// hear passes on what the backend says unasked. It returns an error if that ends the
// session.
func (l *loss) hear() error {
	for l.s.held.conn != nil && l.s.pipe.ops.empty() && l.s.held.conn.Readable() {
		c := l.s.held.conn
		_ = c.Conn().SetReadDeadline(time.Now().Add(time.Millisecond))
		typ, body, err := c.Next(wire.LargeLimit)
		_ = c.Conn().SetReadDeadline(time.Time{})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return l.bereft(c.Lost(err))
		}
		if err := l.s.pipe.answer(c, &noOp, typ, body); err != nil {
			return l.bereft(err)
		}
		c.Consume(wire.HeaderLen + len(body))
		if l.s.out.fatal {
			_ = l.s.out.flushClient()
			l.s.held.drop()
			return errEnd
		}
	}
	return nil
}

// bereft drops a backend that was lost while the session was waiting for its client. If the
// backend held more for the session than settings, that is gone, too, and the session ends.
func (l *loss) bereft(err error) error {
	pinned := l.s.record.pins&^pinSessionMode != 0 && l.s.held.conn.Lane() == l.s.lane
	open := l.s.held.conn.Status() != wire.TxIdle || l.s.pipe.isUnsynced() || l.s.tx.isOpen()
	l.s.held.drop()
	l.s.tx.abandon()
	l.s.record.done.forget()
	if pinned {
		return pgerr.From(err)
	}
	if open {
		l.lose(pgerr.From(err))
	}
	return nil
}

// idleDeadline bounds the wait for the next statement if the client has set
// idle_session_timeout.
func (l *loss) idleDeadline() bool {
	if l.s.record.idleTimeout <= 0 || !l.s.idle() {
		return false
	}
	_ = l.s.client.Conn().SetReadDeadline(l.s.record.limitIdle(l.s.record.idleTimeout))
	return true
}

// gucDuration reads a time as PostgreSQL writes it: 100ms, 5s, 1min, 2h, 1d, or a plain
// number of milliseconds.
func gucDuration(v string) time.Duration {
	num := strings.TrimRight(v, "abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil {
		return 0
	}
	unit := map[string]time.Duration{
		"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[v[len(num):]]
	return time.Duration(n) * unit
}
