package proxy

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"

	"weft/pgerr"
	"weft/pool"
	"weft/proxy/hub"
	"weft/quote"
	"weft/wire"
)

// inbox holds notifications until the session may send them to its client.
type inbox struct {
	mu     sync.Mutex
	frames []byte
	closed bool // the session has ended: nothing more is taken in
}

// inboxLimit bounds the bytes that wait for one session.
const inboxLimit = 8 << 20

// put adds a notification. It reports false if too many bytes wait already.
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

// listener is a session as its hub sees it.
type listener struct{ s *Session }

// Put implements hub.Listener.
func (l listener) Put(frame []byte) bool { return l.s.reach.inbox.put(frame) }

// Wake implements hub.Listener.
func (l listener) Wake() { l.s.wake() }

// Kill implements hub.Listener.
func (l listener) Kill(e *pgerr.Error) { l.s.kill(e) }

// hub is the hub of the session's database.
func (s *Session) hub() *hub.Hub { return s.srv.hubs.Of(s.db.Name) }

// newHubs returns the hubs of a proxy.
func newHubs(s *Server) *hub.Hubs {
	return hub.New(hub.Config{
		Context: s.ctx, Log: s.log, Snapshot: s.cfg.Snapshot, ServiceUser: s.cfg.ServiceUser, Sender: s.register.sessionOf,
		Dial: func(ctx context.Context, shard, database, user string) (hub.Backend, error) {
			c, err := s.dialSpare(ctx, shard, database, user)
			if err != nil {
				return nil, err
			}
			return c.Conn, nil
		},
		Spawn:   func(f func()) { s.crew.Go(s.guarded("notifications", f)) },
		Guarded: func(f func()) func() { return s.guarded("notifications", f) },
	})
}

// followHubs gives hubs the connections that they lack for hearing notifications. A proxy without
// listeners does not wake up for that.
func (s *Server) followHubs(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.hubs.Began():
		s.every(ctx, hub.Interval, s.hubs.Follow)
	}
}

// deliver moves waiting notifications into the client's output.
func (rc *record) deliver() {
	if b := rc.s.reach.inbox.take(); len(b) > 0 {
		rc.s.out.Grow()
		rc.s.out.B = append(rc.s.out.B, b...)
	}
}

// onBackendNotification passes on a notification that the session's own backend heard. The
// backend listens only during a transaction that changes what the session listens to; otherwise
// the hub listens.
func (rc *record) onBackendNotification(c *pool.Conn, body []byte) {
	pid, channel, payload, ok := wire.DecodeNotification(body)
	if !ok || (!c.Listening() || rc.channels[channel]) && rc.pins&pinEncoding == 0 {
		return // the hub delivers the notification
	}
	rc.s.out.Grow()
	rc.s.out.B = wire.AppendNotification(rc.s.out.B, rc.s.srv.register.sessionOf(c.Shard(), pid), channel, payload)
}

// listenHere makes the backend listen to the session's channels, so that LISTEN, UNLISTEN and
// pg_listening_channels() act on the truth.
func (rc *record) listenHere(c *pool.Conn, exec func(sql string) error) error {
	if c.Listening() {
		return nil
	}
	c.Listened()
	rc.listenedInTx = c.Status() != wire.TxIdle || !rc.s.pipe.ops.empty()
	for ch := range rc.channels {
		if err := exec("LISTEN " + quote.Ident(ch)); err != nil {
			return err
		}
	}
	return nil
}

// listenInBlock is listenHere before a transaction block begins: a LISTEN inside the block
// would take effect only when the block is over.
func (rc *record) listenInBlock() error {
	if rc.s.held.conn.Status() != wire.TxIdle || !rc.s.pipe.ops.empty() || rc.s.pipe.unsent.Len() > 0 {
		return nil
	}
	return rc.listenHere(rc.s.held.conn, func(sql string) error {
		_, err := rc.s.held.conn.Exec(sql)
		return err
	})
}

// settleChannels hands the channels that the backend listens to over to the hub.
func (rc *record) settleChannels(c *pool.Conn, d *effects) error {
	undone := d.lastTag == "ROLLBACK" || d.lastTag == "" && d.failed
	if !(undone && rc.listenedInTx) {
		rows, err := c.Exec("SELECT pg_catalog.pg_listening_channels()")
		if err != nil {
			return c.Lost(err)
		}
		now := map[string]bool{}
		for _, r := range rows {
			now[r[0]] = true
		}
		if err := rc.listenTo(c, now); err != nil {
			return err
		}
	}
	return stopListening(c)
}

// listenTo makes the hub deliver just these channels.
func (rc *record) listenTo(c *pool.Conn, now map[string]bool) error {
	if maps.Equal(now, rc.channels) {
		return nil
	}
	unheard, err := rc.s.hub().Set(listener{rc.s}, rc.s.lane.Key().User, now)
	if err != nil && !errors.Is(err, context.Canceled) {
		return c.Lost(err)
	}
	if len(unheard) > 0 {
		rc.s.out.tell(&pgerr.Error{
			Severity: pgerr.SeverityWarning, Code: "01000", Message: "notifications of shard " + strings.Join(unheard, ", ") + " are not heard",
			Detail: "It cannot be reached. When it can be, the session is ended, for it may have missed some.",
			Hint:   "Connect again then and repeat LISTEN.",
		})
	}
	rc.channels = now
	if len(now) == 0 {
		rc.channels = nil
	}
	return nil
}

// listenUnseen takes over the channels that a function has begun to listen to.
func (rc *record) listenUnseen(c *pool.Conn, channels map[string]bool) error {
	for ch := range rc.channels {
		channels[ch] = true
	}
	if err := rc.listenTo(c, channels); err != nil {
		return err
	}
	return stopListening(c)
}

// stopListening makes the backend listen to no channel.
func stopListening(c *pool.Conn) error {
	if _, err := c.Exec("UNLISTEN *"); err != nil {
		return c.Lost(err)
	}
	c.Unlistened()
	return nil
}
