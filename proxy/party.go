package proxy

import (
	"slices"
	"time"

	"weft/deadlock"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// The deadlock detector must know which backends belong to one transaction, and whether the
// transaction has moved since the last look. A session says so in two places that cost
// nothing as long as it keeps to one shard: when another shard joins its block, and with
// the number of its client's message.

// party is what other goroutines may know of a block with several participants. The
// session's mu guards it.
type party struct {
	began time.Time
	conns []*pool.Conn
	queue *pool.Lane // the lane in whose queue the session waits
}

// idleForever switches off idle_in_transaction_session_timeout on a participant among
// several: the participant may be idle while the client is not. weft counts instead.
const idleForever = "SET LOCAL idle_in_transaction_session_timeout = 0"

// beginning is the command that opens the block on a further participant.
func (re *reach) beginning(c *pool.Conn) string {
	begin := re.s.tx.begin
	if re.s.tx.patient {
		begin += ";" + idleForever
	}
	if re.s.commit.carries(c) {
		begin += ";" + carryNotes
		re.s.tx.noteCarrier()
	}
	return begin
}

// idleInBlock bounds the wait for the client in a block of several shards, if the client
// has set idle_in_transaction_session_timeout.
func (re *reach) idleInBlock() bool {
	if !re.s.tx.isOpen() || !re.s.tx.patient {
		return false
	}
	_ = re.s.client.Conn().SetReadDeadline(re.s.record.limitIdle(re.s.record.inEffect.idleTimeout))
	return true
}

// alone reports whether no backend but c takes part in the block.
func (h *held) alone(c *pool.Conn) bool {
	if h.conn != nil && h.conn != c && takesPart(h.conn) {
		return false
	}
	return !slices.ContainsFunc(h.parked, func(p *pool.Conn) bool { return p != c && takesPart(p) })
}

// takesPart reports whether a backend is in the block, or will be once its BEGIN arrives.
func takesPart(c *pool.Conn) bool { return c.Status() != wire.TxIdle || c.Opening() }

// noteParty publishes that a backend takes part in the block, beside those that already do.
// A block of one shard is not published.
func (re *reach) noteParty(c *pool.Conn) {
	re.s.tx.noteJoined(c)
	if re.s.held.alone(c) {
		return
	}
	re.bePatient(c)
	re.regroup(c, nil)
}

// bePatient makes weft, instead of the participants, count how long the client is idle in
// the block. The participant that is about to join is told so with its BEGIN, see
// reach.beginning.
func (re *reach) bePatient(joins *pool.Conn) {
	if re.s.tx.patient || re.s.record.inEffect.idleTimeout <= 0 {
		return
	}
	re.s.tx.bePatient()
	for _, p := range re.s.held.parked {
		if p != joins && p.Status() == wire.TxActive {
			_, _ = p.Exec(idleForever) // if the backend is lost, its next use reports that
		}
	}
}

// regroup publishes the backends that take part, with also, which is about to join, and
// queue, the lane in whose queue the session waits.
func (re *reach) regroup(also *pool.Conn, queue *pool.Lane) {
	var conns []*pool.Conn
	for _, c := range re.s.held.parked {
		if takesPart(c) && c != also {
			conns = append(conns, c)
		}
	}
	if re.s.held.conn != nil && takesPart(re.s.held.conn) && re.s.held.conn != also {
		conns = append(conns, re.s.held.conn)
	}
	if also != nil {
		conns = append(conns, also)
	}
	re.mu.Lock()
	re.party = party{began: re.s.tx.began, conns: conns, queue: queue}
	re.mu.Unlock()
	re.s.tx.noteCrowd()
}

// disband publishes that the block is over, if it had several participants.
func (re *reach) disband() {
	if !re.s.tx.crowded {
		return
	}
	re.s.tx.noteDispersed()
	re.turn.Add(1)
	re.mu.Lock()
	re.party = party{}
	re.mu.Unlock()
}

// queueFor waits for a connection on behalf of a transaction that may hold others:
// transactions that wait for this one then wait for the queue, too.
func (re *reach) queueFor(l *pool.Lane, want pool.Want) (*pool.Conn, error) {
	if c := re.s.held.takeReserved(l); c != nil {
		return c, nil
	}
	re.heedTimeouts()
	re.patience.queues.Add(1)
	defer re.patience.queues.Add(1)
	if !re.s.tx.isOpen() || re.s.held.conn == nil && len(re.s.held.parked) == 0 {
		return l.Acquire(re.s.srv.ctx, want)
	}
	re.regroup(nil, l)
	c, err := l.Acquire(re.s.srv.ctx, want)
	re.regroup(nil, nil)
	return c, err
}

// queueForAll waits for connections of several lanes on behalf of a session that holds none.
func (re *reach) queueForAll(lanes []*pool.Lane, want pool.Want, conns []*pool.Conn) ([]*pool.Conn, error) {
	re.heedTimeouts()
	re.patience.queues.Add(1)
	defer re.patience.queues.Add(1)
	return pool.Together(re.s.srv.ctx, lanes, want, conns)
}

// asParty returns the session as a transaction of several shards; false if it is not such a
// transaction, or waits for its client.
func (re *reach) asParty() (deadlock.Party, *pool.Lane, bool) {
	re.mu.Lock()
	defer re.mu.Unlock()
	p := &re.party
	var out deadlock.Party
	out.Proxy, out.Session, out.Turn, out.Began = re.s.srv.cfg.Proxy, re.s.id, re.turnNow(), p.began
	add := func(c *pool.Conn) {
		b := deadlock.Backend{Shard: c.Shard(), PID: c.PID()}
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
	for _, c := range re.legs {
		add(c)
	}
	if len(p.conns) == 0 {
		out.Began = re.legsBegan
	}
	several := len(out.Backends) > 1 || len(out.Backends) == 1 && p.queue != nil
	return out, p.queue, several && !re.waiting.Load()
}

// turnNow is the number of the client's latest request. mu is held.
func (re *reach) turnNow() int64 { return re.turn.Load() + int64(re.interrupt.round) }

// eachHeld calls f for each backend that the session is known to hold.
func (re *reach) eachHeld(f func(c *pool.Conn)) {
	re.mu.Lock()
	defer re.mu.Unlock()
	seen := map[*pool.Conn]bool{nil: true}
	for _, list := range [][]*pool.Conn{re.party.conns, re.legs, {re.current}} {
		for _, c := range list {
			if !seen[c] {
				seen[c] = true
				f(c)
			}
		}
	}
}

// victim is a deadlock that the session is to break by giving up what it waits for in that
// turn.
type victim struct {
	turn int64
	err  *pgerr.Error
}

// giveWay makes the session stop waiting, if it still waits in that turn.
func (re *reach) giveWay(turn int64, e *pgerr.Error) bool {
	re.mu.Lock()
	if re.turnNow() != turn || re.waiting.Load() {
		re.mu.Unlock()
		return false
	}
	re.victim.Store(&victim{turn, e})
	re.stopBusy(e)
	return true
}

// asVictim returns the error of a deadlock that replaces the error of a cancelled
// statement; nil if the client or a timeout cancelled the statement.
func (re *reach) asVictim(code string) *pgerr.Error {
	if code != pgerr.QueryCanceled {
		return nil
	}
	v := re.victim.Load()
	if v == nil {
		return nil
	}
	re.mu.Lock()
	defer re.mu.Unlock()
	if v.turn != re.turnNow() {
		return nil
	}
	return v.err
}
