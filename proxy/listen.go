package proxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// hub listens on one backend for all sessions on a database, so that a
// listener needs no backend of its own.
//
// Its goroutine owns reading from the backend. Commands are written under mu
// and answered in order.
type hub struct {
	srv  *Server
	db   *pool.Database
	mu   sync.Mutex
	conn *pool.Conn
	subs map[string]map[*Session]bool
	// waiting holds one channel per command sent and not answered yet.
	waiting []chan error
}

// hub returns the hub of a database; nil for a session without one.
func (s *Server) hub(db *pool.Database) *hub {
	if db == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hubs[db.Name]
	if h == nil {
		h = &hub{srv: s, db: db, subs: map[string]map[*Session]bool{}}
		s.hubs[db.Name] = h
	}
	return h
}

// set makes the hub deliver exactly these channels to a session. When it
// returns nil, every notification sent from now on reaches the session. On channels that
// it loses, it has got what was sent before: a backend's client that sits idle has, too.
func (h *hub) set(s *Session, channels map[string]bool) error {
	if h.takes(s, channels) {
		h.sync()
	}
	return h.assign(s, channels)
}

// takes reports whether a session would lose a channel.
func (h *hub) takes(s *Session, channels map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch, subs := range h.subs {
		if subs[s] && !channels[ch] {
			return true
		}
	}
	return false
}

func (h *hub) assign(s *Session, channels map[string]bool) error {
	h.mu.Lock()
	if len(channels) > 0 && h.conn == nil {
		h.mu.Unlock()
		if err := h.connect(s); err != nil {
			return err
		}
		h.mu.Lock()
	}
	var fresh []string
	for ch := range channels {
		if h.subs[ch] == nil {
			h.subs[ch] = map[*Session]bool{}
			fresh = append(fresh, ch)
		}
		h.subs[ch][s] = true
	}
	var stale []string
	for ch, subs := range h.subs {
		if !channels[ch] && subs[s] {
			delete(subs, s)
			if len(subs) == 0 {
				delete(h.subs, ch)
				stale = append(stale, ch)
			}
		}
	}
	if c := h.dismiss(); c != nil {
		h.mu.Unlock()
		_ = c.Conn().SetReadDeadline(time.Unix(1, 0)) // the reader hangs up
		return nil
	}
	if len(fresh)+len(stale) == 0 || h.conn == nil {
		h.mu.Unlock()
		return nil
	}
	var b strings.Builder
	for _, ch := range fresh {
		b.WriteString("LISTEN " + pool.QuoteIdent(ch) + ";")
	}
	for _, ch := range stale {
		b.WriteString("UNLISTEN " + pool.QuoteIdent(ch) + ";")
	}
	return h.command(b.String())
}

// dismiss takes the backend from a hub that nobody listens to or waits for.
// mu is held.
func (h *hub) dismiss() *pool.Conn {
	if len(h.subs) > 0 || len(h.waiting) > 0 {
		return nil
	}
	c := h.conn
	h.conn = nil
	return c
}

// forget takes a session out that has ended.
func (h *hub) forget(s *Session) {
	if h == nil || len(s.channels) == 0 {
		return
	}
	_ = h.assign(s, nil)
}

// sync returns when everything notified before the call has been delivered to
// the inboxes: the backend sends notifications before it is ready again.
func (h *hub) sync() {
	h.mu.Lock()
	if h.conn == nil {
		h.mu.Unlock()
		return
	}
	_ = h.command("")
}

// command runs SQL on the hub's backend. mu is held and given up.
func (h *hub) command(sql string) error {
	answer := make(chan error, 1)
	h.waiting = append(h.waiting, answer)
	_ = h.conn.Conn().SetWriteDeadline(time.Now().Add(10 * time.Second))
	_, err := h.conn.Write(wire.AppendQuery(nil, sql))
	if err != nil {
		_ = h.conn.Conn().SetReadDeadline(time.Unix(1, 0)) // the reader takes it apart
	}
	h.mu.Unlock()
	return <-answer
}

// connect gives the hub a backend, logged in as the session that needs it.
func (h *hub) connect(s *Session) error {
	// Without the session's startup parameters: others will use it too.
	key := s.lane.Key()
	lane := s.lane.Shard().OpenLane(pool.Key{Database: key.Database, User: key.User})
	c, err := lane.Dedicated(s.ctx)
	lane.CloseLane()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil { // somebody was faster
		c.Release()
		return nil
	}
	h.conn = c
	h.srv.wg.Go(func() { h.run(c) })
	return nil
}

// run reads from the hub's backend until it dies or is closed.
func (h *hub) run(c *pool.Conn) {
	// A hub may be made while the server is closing: it ends all the same.
	stop := context.AfterFunc(h.srv.ctx, func() { _ = c.Conn().SetDeadline(time.Unix(1, 0)) })
	err := h.read(c)
	stop()
	h.mu.Lock()
	if h.conn != c { // dismissed
		h.mu.Unlock()
		c.Terminate()
		return
	}
	waiting := h.waiting
	subs := h.subs
	h.conn, h.waiting, h.subs = nil, nil, map[string]map[*Session]bool{}
	h.mu.Unlock()
	c.Discard()
	for _, w := range waiting {
		w <- c.Lost(err)
	}
	// What was sent meanwhile is lost for these sessions, and they must know.
	for _, sessions := range subs {
		for s := range sessions {
			s.kill(pgerr.Fatal(pgerr.ConnectionFailure, "the connection that listens for notifications was lost").
				WithHint("Connect again and repeat LISTEN."))
		}
	}
}

func (h *hub) read(c *pool.Conn) error {
	var failed error
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return err
		}
		switch typ {
		case wire.NotificationResponse:
			h.onNotification(body)
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
			if sev, _ := wire.ErrorField(body, 'V'); sev == "FATAL" {
				return failed
			}
		case wire.ReadyForQuery:
			h.mu.Lock()
			if len(h.waiting) > 0 {
				h.waiting[0] <- failed
				h.waiting = h.waiting[1:]
			}
			over := h.dismiss() != nil
			h.mu.Unlock()
			if over {
				return nil
			}
			failed = nil
		}
		c.Consume(wire.HeaderLen + len(body))
	}
}

func (h *hub) onNotification(body []byte) {
	pid, channel, payload, ok := wire.DecodeNotification(body)
	if !ok {
		return
	}
	id := h.srv.sessionOf(pid)
	h.mu.Lock()
	sessions := slices.Collect(maps.Keys(h.subs[channel]))
	h.mu.Unlock()
	for _, s := range sessions {
		if !s.inbox.put(wire.AppendNotification(nil, id, channel, payload)) {
			s.kill(pgerr.Fatal(pgerr.OutOfMemory, "too many notifications are waiting for this client").
				WithDetail("The client has not read them."))
			continue
		}
		s.wake()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conn != nil {
		_ = h.conn.Conn().SetDeadline(time.Unix(1, 0))
	}
}

// sessionOf returns the ID clients know for whoever notified from a backend.
func (s *Server) sessionOf(pid int32) int32 {
	if id, ok := s.notifiers.Load(pid); ok {
		return id.(int32)
	}
	id := pid
	s.holders(func(sess *Session, c *pool.Conn) {
		if c.PID == pid {
			id = sess.id
		}
	})
	return id
}

// inbox holds notifications until the session may hear of them.
type inbox struct {
	mu     sync.Mutex
	frames []byte
	closed bool
}

// inboxLimit bounds the bytes that wait for one session.
const inboxLimit = 8 << 20

func (i *inbox) put(frame []byte) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return true
	}
	if len(i.frames)+len(frame) > inboxLimit {
		return false
	}
	i.frames = append(i.frames, frame...)
	return true
}

func (i *inbox) take() []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	b := i.frames
	i.frames = nil
	return b
}

func (i *inbox) close() {
	i.mu.Lock()
	i.closed, i.frames = true, nil
	i.mu.Unlock()
}

// deliver moves waiting notifications to what goes to the client.
func (s *Session) deliver() {
	if b := s.inbox.take(); len(b) > 0 {
		s.toClient.Grow()
		s.toClient.B = append(s.toClient.B, b...)
	}
}

// onBackendNotification passes on what the session's own backend heard. It
// listens only during a transaction that changes what the session listens to;
// otherwise the hub does.
func (s *Session) onBackendNotification(c *pool.Conn, body []byte) {
	pid, channel, payload, ok := wire.DecodeNotification(body)
	if !ok || (!c.Listening || s.channels[channel]) && s.pins&pinEncoding == 0 {
		return // the hub delivers it
	}
	s.toClient.Grow()
	s.toClient.B = wire.AppendNotification(s.toClient.B, s.srv.sessionOf(pid), channel, payload)
}

// listenHere makes the backend listen to what the session does, so that
// LISTEN, UNLISTEN and pg_listening_channels() act on the truth.
func (s *Session) listenHere(c *pool.Conn, exec func(sql string) error) error {
	if c.Listening {
		return nil
	}
	c.Listening = true
	s.listenedInTx = c.Status != wire.TxIdle || !s.ops.empty()
	for ch := range s.channels {
		if err := exec("LISTEN " + pool.QuoteIdent(ch)); err != nil {
			return err
		}
	}
	return nil
}

// listenInBlock does so before a transaction block begins: LISTEN inside it
// would show only when it is over.
func (s *Session) listenInBlock() error {
	if s.conn.Status != wire.TxIdle || !s.ops.empty() || s.toServer.Len() > 0 {
		return nil
	}
	return s.listenHere(s.conn, func(sql string) error {
		_, err := s.conn.Exec(sql)
		return err
	})
}

// settleChannels hands what the backend listens to over to the hub.
func (s *Session) settleChannels(c *pool.Conn, d *effects) error {
	undone := d.lastTag == "ROLLBACK" || d.lastTag == "" && d.failed
	if !(undone && s.listenedInTx) {
		rows, err := c.Exec("SELECT pg_catalog.pg_listening_channels()")
		if err != nil {
			return c.Lost(err)
		}
		now := map[string]bool{}
		for _, r := range rows {
			now[r[0]] = true
		}
		if err := s.listenTo(c, now); err != nil {
			return err
		}
	}
	return stopListening(c)
}

// listenTo makes the hub deliver just these channels.
func (s *Session) listenTo(c *pool.Conn, now map[string]bool) error {
	if maps.Equal(now, s.channels) {
		return nil
	}
	if err := s.srv.hub(s.db).set(s, now); err != nil && !errors.Is(err, context.Canceled) {
		return c.Lost(err)
	}
	s.channels = now
	if len(now) == 0 {
		s.channels = nil
	}
	return nil
}

// listenUnseen takes over what a function has listened to.
func (s *Session) listenUnseen(c *pool.Conn, channels map[string]bool) error {
	for ch := range s.channels {
		channels[ch] = true
	}
	if err := s.listenTo(c, channels); err != nil {
		return err
	}
	return stopListening(c)
}

func stopListening(c *pool.Conn) error {
	if _, err := c.Exec("UNLISTEN *"); err != nil {
		return c.Lost(err)
	}
	c.Listening = false
	return nil
}
