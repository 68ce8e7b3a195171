package pool

import (
	"errors"
	"os"
	"time"

	"weft/wire"
)

// sweep closes connections that are too old or have been idle too long, finds idle connections
// that died, and serves waiters whose patience is over.
func (sh *Shard) sweep(now time.Time) {
	var gone, look []*Conn
	sh.ahead.expire(now, sh.Paused())
	sh.mu.Lock()
	for key, l := range sh.lanes {
		keep := l.idle[:0]
		for _, c := range l.idle {
			switch {
			case now.Sub(c.idleFrom) > sh.pool.conf().IdleTimeout || now.Sub(c.created) > sh.pool.conf().MaxLifetime:
				c.inIdle = false
				sh.forget(l)
				gone = append(gone, c)
			case now.Sub(c.idleFrom) > freshFor && c.Readable():
				c.inIdle = false
				look = append(look, c)
			default:
				keep = append(keep, c)
			}
		}
		sh.idle -= len(l.idle) - len(keep)
		clear(l.idle[len(keep):])
		l.idle = keep
		if l.open == 0 && l.refs == 0 {
			delete(sh.lanes, key)
		}
	}
	sh.serveQueue()
	sh.mu.Unlock()
	for _, c := range gone {
		c.hangUp()
	}
	for _, c := range look {
		if c.alive() {
			sh.release(c)
		} else {
			c.Discard()
		}
	}
}

// alive reads what an idle backend may have sent unasked, such as a changed parameter, and
// reports whether the backend is still connected.
func (c *Conn) alive() bool {
	for c.Readable() {
		_ = c.Conn().SetReadDeadline(time.Now().Add(time.Millisecond))
		typ, body, err := c.Next(wire.LargeLimit)
		_ = c.Conn().SetReadDeadline(time.Time{})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return len(c.Buffered()) == 0
		case err != nil:
			return false
		case typ == wire.ParameterStatus:
			c.NoteParameter(body)
		case typ != wire.NoticeResponse && typ != wire.NotificationResponse:
			return false
		}
		c.Consume(wire.HeaderLen + len(body))
	}
	return true
}

// hangUpLater is hangUp in the background.
func (c *Conn) hangUpLater() {
	p := c.lane.shard.pool
	p.farewells.Go(p.conf().Guard("end of a connection", c.hangUp))
}

// hangUp closes a connection that the shard no longer counts, with a Terminate message.
func (c *Conn) hangUp() {
	_ = c.Conn().SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = c.Write(wire.AppendEmpty(nil, wire.Terminate))
	c.Stream.Release()
	_ = c.Stream.Close()
	c.lane.shard.pool.processes.remove(c)
}
