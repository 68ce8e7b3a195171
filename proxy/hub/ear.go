package hub

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
	hub   *Hub
	shard string
	conn  Backend
	// waiting holds one channel per command sent and not answered yet.
	waiting []chan error
}

// home reports whether it is the ear that every hub must have.
func (e *ear) home() bool { return e.shard == e.hub.cfg.Snapshot().Home }

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
	stop := context.AfterFunc(h.cfg.Context, func() { _ = c.Conn().SetDeadline(time.Unix(1, 0)) })
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
		s.Kill(pgerr.Fatal(pgerr.ConnectionFailure, "the connection that listens for notifications was lost").
			WithDetail("It was to shard %s.", e.shard).
			WithHint("Connect again and repeat LISTEN."))
	}
}

// dismay sends sessions away that have listened without this ear.
func (e *ear) dismay(sessions map[Listener]bool) {
	for s := range sessions {
		s.Kill(pgerr.Fatal(pgerr.ConnectionFailure, "notifications of shard %s may have been missed", e.shard).
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
