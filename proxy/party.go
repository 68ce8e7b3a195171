package proxy

import (
	"slices"
	"time"

	"weft/deadlock"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// Whoever looks for deadlocks must know which backends are one transaction, and
// whether it has moved since the last look. A session says so in two places that
// cost nothing as long as it keeps to one shard: when another shard joins its
// block, and with the number of its client's message.

// party is what others may know of a block with several participants. It is
// guarded by the session's mu.
type party struct {
	began time.Time
	conns []*pool.Conn
	queue *pool.Lane // in whose queue it waits
}

// idleForever takes idle_in_transaction_session_timeout from a participant among
// several: it may be idle while its client is not. weft counts instead.
const idleForever = "SET LOCAL idle_in_transaction_session_timeout = 0"

// beginning is the command that opens the block on a further participant.
func (s *Session) beginning(c *pool.Conn) string {
	begin := s.block.begin
	if s.block.patient {
		begin += ";" + idleForever
	}
	if s.carries(c) {
		begin += ";" + carryNotes
		s.block.carries = true
	}
	return begin
}

// idleInBlock bounds the wait for the client in a block of several shards, if the
// client wants it so.
func (s *Session) idleInBlock() bool {
	if !s.block.open || !s.block.patient {
		return false
	}
	s.idleUntil = time.Now().Add(s.inEffect.idleTimeout)
	_ = s.client.Conn().SetReadDeadline(s.idleUntil)
	return true
}

// alone reports whether nobody else takes part in the block.
func (s *Session) alone(c *pool.Conn) bool {
	if s.conn != nil && s.conn != c && takesPart(s.conn) {
		return false
	}
	return !slices.ContainsFunc(s.parked, func(p *pool.Conn) bool { return p != c && takesPart(p) })
}

// takesPart reports whether a backend is in the block, be it that its BEGIN is still on
// the way.
func takesPart(c *pool.Conn) bool { return c.Status != wire.TxIdle || c.Opening.Load() }

// joined tells others that a backend takes part in the block, beside those that
// already do. A block of one shard is nobody's business.
func (s *Session) joined(c *pool.Conn) {
	if s.block.clock == nil {
		s.block.clock = c
	}
	if s.alone(c) {
		return
	}
	s.bePatient(c)
	s.regroup(c, nil)
}

// bePatient makes weft count how long the client is idle in the block, and no
// participant. The one that is about to join is told so with its BEGIN.
func (s *Session) bePatient(joins *pool.Conn) {
	if s.block.patient || s.inEffect.idleTimeout <= 0 {
		return
	}
	s.block.patient = true
	for _, p := range s.parked {
		if p != joins && p.Status == wire.TxActive {
			_, _ = p.Exec(idleForever) // should it be lost, its next user hears
		}
	}
}

// regroup notes who takes part now, with the backend that is about to and the
// lane that one is awaited of.
func (s *Session) regroup(also *pool.Conn, queue *pool.Lane) {
	var conns []*pool.Conn
	for _, c := range s.parked {
		if takesPart(c) && c != also {
			conns = append(conns, c)
		}
	}
	if s.conn != nil && takesPart(s.conn) && s.conn != also {
		conns = append(conns, s.conn)
	}
	if also != nil {
		conns = append(conns, also)
	}
	s.mu.Lock()
	s.party = party{began: s.block.began, conns: conns, queue: queue}
	s.mu.Unlock()
	s.crowded = true
}

// dispersed says that the block is over, if it had several participants.
func (s *Session) dispersed() {
	if !s.crowded {
		return
	}
	s.crowded = false
	s.turn.Add(1)
	s.mu.Lock()
	s.party = party{}
	s.mu.Unlock()
}

// queues waits for a connection on behalf of a transaction that holds others:
// those who wait for it wait for the queue, too.
func (s *Session) queues(l *pool.Lane, want pool.Want) (*pool.Conn, error) {
	s.heedTimeouts()
	s.patience.queues.Add(1)
	defer s.patience.queues.Add(1)
	if !s.block.open || s.conn == nil && len(s.parked) == 0 {
		return l.Acquire(s.ctx, want)
	}
	s.regroup(nil, l)
	c, err := l.Acquire(s.ctx, want)
	s.regroup(nil, nil)
	return c, err
}

// asParty returns what is known of the session as a transaction of several
// shards; false if it is none, or waits for its client.
func (s *Session) asParty() (deadlock.Party, *pool.Lane, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.party
	var out deadlock.Party
	out.Proxy, out.Session, out.Turn, out.Began = s.srv.cfg.Proxy, s.id, s.turnNow(), p.began
	add := func(c *pool.Conn) {
		b := deadlock.Backend{Shard: c.Shard(), PID: c.PID}
		for _, o := range out.Backends {
			if o == b {
				return
			}
		}
		out.Backends = append(out.Backends, b)
	}
	for _, c := range p.conns {
		add(c)
	}
	for _, c := range s.legs {
		add(c)
	}
	if len(p.conns) == 0 {
		out.Began = s.legsBegan
	}
	several := len(out.Backends) > 1 || len(out.Backends) == 1 && p.queue != nil
	return out, p.queue, several && !s.waiting.Load()
}

// turnNow is the number of what the client has asked for last. mu is held.
func (s *Session) turnNow() int64 { return s.turn.Load() + int64(s.interrupt.round) }

// holds calls f for each backend that the session is known to hold.
func (s *Session) holds(f func(c *pool.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[*pool.Conn]bool{nil: true}
	for _, list := range [][]*pool.Conn{s.party.conns, s.legs, {s.current}} {
		for _, c := range list {
			if !seen[c] {
				seen[c] = true
				f(c)
			}
		}
	}
}

// victim is a deadlock that the session shall break by giving up what it waits
// for at that turn.
type victim struct {
	turn int64
	err  *pgerr.Error
}

// giveWay makes the session stop waiting, if that is what it still does.
func (s *Session) giveWay(turn int64, e *pgerr.Error) bool {
	s.mu.Lock()
	if s.turnNow() != turn || s.waiting.Load() {
		s.mu.Unlock()
		return false
	}
	s.victim.Store(&victim{turn, e})
	s.stopBusy(e)
	return true
}

// asVictim returns what the client shall hear in the place of its statement's
// being cancelled, nil if nobody but the client or a timeout has done that.
func (s *Session) asVictim(code string) *pgerr.Error {
	if code != pgerr.QueryCanceled {
		return nil
	}
	v := s.victim.Load()
	if v == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.turn != s.turnNow() {
		return nil
	}
	return v.err
}
