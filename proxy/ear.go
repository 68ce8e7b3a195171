package proxy

import (
	"context"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// ear is a hub's backend on one shard.
//
// Its goroutine owns reading from the backend. Commands are written under the
// hub's mu and answered in order.
type ear struct {
	hub   *hub
	shard string
	conn  *pool.Conn
	// waiting holds one channel per command sent and not answered yet.
	waiting []chan error
}

// home reports whether it is the ear that every hub must have.
func (e *ear) home() bool { return e.shard == e.hub.srv.cfg.Snapshot().Home }

// ask sends a command. The hub's mu is held.
func (e *ear) ask(sql string) <-chan error {
	answer := make(chan error, 1)
	e.waiting = append(e.waiting, answer)
	_ = e.conn.Conn().SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := e.conn.Write(wire.AppendQuery(nil, sql)); err != nil {
		e.kick()
	}
	return answer
}

// await waits for the answer to a command, up to a limit beyond which the ear is
// lost.
func (e *ear) await(answer <-chan error) error {
	patience := time.NewTimer(earAnswer)
	defer patience.Stop()
	select {
	case err := <-answer:
		return err
	case <-patience.C:
		e.kick()
		return <-answer
	}
}

// kick makes the reader end, which takes the ear apart.
func (e *ear) kick() { _ = e.conn.Conn().SetReadDeadline(time.Unix(1, 0)) }

// run reads from the backend until it dies or is closed.
func (e *ear) run() {
	h, c := e.hub, e.conn
	// An ear may be made while the server is closing: it ends all the same.
	stop := context.AfterFunc(h.srv.ctx, func() { _ = c.Conn().SetDeadline(time.Unix(1, 0)) })
	err := e.read()
	stop()
	h.mu.Lock()
	if h.ears[e.shard] != e { // dismissed
		h.mu.Unlock()
		c.Terminate()
		return
	}
	delete(h.ears, e.shard)
	waiting, sessions := e.waiting, h.sessions()
	e.waiting = nil
	clear(h.subs)
	idle := h.dismiss()
	h.mu.Unlock()
	c.Discard()
	for _, w := range waiting {
		w <- c.Lost(err)
	}
	for _, other := range idle {
		other.kick()
	}
	// What was sent meanwhile is lost for these sessions, and they must know.
	for s := range sessions {
		s.kill(pgerr.Fatal(pgerr.ConnectionFailure, "the connection that listens for notifications was lost").
			WithDetail("It was to shard %s.", e.shard).
			WithHint("Connect again and repeat LISTEN."))
	}
}

// dismay sends sessions away that have listened without this ear.
func (e *ear) dismay(sessions map[*Session]bool) {
	for s := range sessions {
		s.kill(pgerr.Fatal(pgerr.ConnectionFailure, "notifications of shard %s may have been missed", e.shard).
			WithDetail("The shard could not be reached when the session began to listen. It can be reached again.").
			WithHint("Connect again and repeat LISTEN."))
	}
}

func (e *ear) read() error {
	h, c := e.hub, e.conn
	var failed error
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return err
		}
		switch typ {
		case wire.NotificationResponse:
			h.hear(e.shard, body)
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
			if sev, _ := wire.ErrorField(body, 'V'); sev == "FATAL" {
				return failed
			}
		case wire.ReadyForQuery:
			h.mu.Lock()
			if len(e.waiting) > 0 {
				e.waiting[0] <- failed
				e.waiting = e.waiting[1:]
			}
			idle := h.dismiss()
			h.mu.Unlock()
			if len(idle) > 0 {
				for _, other := range idle {
					if other != e {
						other.kick()
					}
				}
				return nil
			}
			failed = nil
		}
		c.Consume(wire.HeaderLen + len(body))
	}
}

// notifier is a backend that notifies.
type notifier struct {
	shard string
	pid   int32
}

// notifies notes that the session is about to notify through a backend, so that
// those who listen are told its ID.
func (rc *record) notifies(c *pool.Conn) {
	key := notifier{c.Shard(), c.PID}
	before, ok := rc.s.srv.notifiers.Load(key)
	if ok && before != rc.s.id || rc.notified != "" && rc.notified != key.shard {
		// What another session sent through this backend must be told as
		// its own first, and what this one sent elsewhere is heard first.
		rc.s.srv.hub(rc.s.db).sync()
	}
	rc.notified = key.shard
	rc.s.srv.notifiers.Store(key, rc.s.id)
}

// sessionOf returns the ID clients know for whoever notified from a backend.
func (s *Server) sessionOf(shard string, pid int32) int32 {
	if id, ok := s.notifiers.Load(notifier{shard, pid}); ok {
		return id.(int32)
	}
	id := pid
	s.holders(func(sess *Session, c *pool.Conn) {
		if c.PID == pid && c.Shard() == shard {
			id = sess.id
		}
	})
	return id
}
