package proxy

import (
	"cmp"
	"encoding/binary"
	"strings"
	"time"

	"weft/heat/ferry"
	"weft/parser"
	"weft/plan"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// Sessions that send the same read of a hot key at the same time share one execution of it: see package ferry. A read boards
// at the outset, when it has been routed and holds nothing. A session that leads goes on as usual, and what its backend
// answers is copied on the way to its client. A session that gets the answer of another one asks no backend at all.

// coalesceOption is the parameter by which clients say whether their reads may share an execution.
const coalesceOption = "weft.coalesce"

// waitsForAnswer is what a session waits for that has boarded a ferry.
const waitsForAnswer int64 = -2

// arrival is what is known of a statement where it is routed, beside its text.
type arrival struct {
	types []byte // those that the client has declared for its parameters
	// whole: the client's message is a simple query with this text alone. fresh: the Parse has come right before the Bind.
	whole, fresh bool
}

// crossing is the part that a session has which executes a read for others too.
type crossing struct {
	passage *ferry.Passage
	answer  ferry.Answer
	// keeps: others wait for the answer, and nothing has come so far that cannot be shared.
	keeps bool
	// complete: the command tag has come.
	complete bool
	rest     int // bytes of a row that are still to come
}

// board lets a read aboard that choose has decided to run on one shard. The deed is takeAnswer if another session has executed it.
func (o *outset) board(r *router, p *plan.Plan, text []byte, f *parser.Facts, how manner, d choice) (choice, error) {
	o.leaveFerry()
	if r.hotKey.Pier == nil || !p.Steady || !o.shares(f, text) {
		return d, nil
	}
	identity, ok := o.identity(r, text, how, d.lane)
	if !ok {
		return d, nil
	}
	w := r.hotKey.Pier.Board(identity, time.Now())
	if w == nil {
		return d, nil
	}
	if w.Waits() {
		err := o.await(f, waitsForAnswer, cmp.Or(o.s.srv.conf().Pool.QueueTimeout, 30*time.Second), w.Told())
		if err != nil || w.Waits() {
			w.Leave(time.Now())
			return d, err
		}
	}
	if w.Leads() {
		o.crossing = &crossing{passage: w}
		return d, nil
	}
	if o.ridden = w.Answer(); o.ridden != nil {
		d.do = takeAnswer
	}
	w.Leave(time.Now())
	return d, nil
}

// shares reports whether the session is in a state in which a read can be shared: nothing that it has done or set tells it from other sessions with
// the same settings.
func (o *outset) shares(f *parser.Facts, text []byte) bool {
	s := o.s
	switch {
	case !o.holdsNothing() || !o.concerned(f) || !s.pipe.ops.empty():
		return false
	case s.tx.isOpen() || s.implicit.isOpen() || s.script.isRunning() || s.out.isQuiet():
		return false
	case s.record.pins != 0 || s.record.done.any() || s.record.oddEncoding || s.record.special(f) || readsOption(text, f):
		return false
	}
	return o.allows()
}

// allows reports whether the session's parameters let reads be shared, wherever they were set. If that cannot be found out, the answer is no
// until the settings change.
func (o *outset) allows() bool {
	rc := &o.s.record
	if o.unlearned.is && o.unlearned.under == rc.settings {
		return false
	}
	if rc.learnOptions() != nil {
		o.unlearned.is, o.unlearned.under = true, rc.settings
		return false
	}
	return rc.inEffect.coalesce && rc.inEffect.read != readAtomic && !strings.EqualFold(rc.inEffect.isolation, "serializable")
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// maxIdentity bounds the bytes that name a read.
const maxIdentity = 16 << 10

// identity names a read: two sessions that give it the same name may share its answer. ok is false if the read cannot be shared because of the
// way in which it has come.
func (o *outset) identity(r *router, text []byte, how manner, lane *pool.Lane) (name string, ok bool) {
	s := o.s
	env := s.route.envID()
	if env == 0 {
		return "", false
	}
	var bind []byte
	var server string
	described := false
	switch {
	case how == asQuery && r.arrival.whole:
	case how == asBind:
		if bind, server, described, ok = o.bound(r.arrival.fresh); !ok {
			return "", false
		}
	default:
		return "", false
	}
	key := lane.Key()
	b := make([]byte, 0, 512)
	add := func(part string) { b = append(binary.AppendUvarint(b, uint64(len(part))), part...) }
	b = append(b, byte(how), 0)
	if described {
		b[1] = 1
	}
	b = binary.AppendUvarint(binary.AppendVarint(b, s.route.base.Version), uint64(env))
	for _, part := range []string{lane.Shard().Name, key.Database, key.User, key.Params, server, string(r.arrival.types), string(bind), string(text)} {
		add(part)
	}
	for _, set := range s.record.settings.All() {
		add(set.Name)
		add(set.Value)
	}
	return string(b), len(b) <= maxIdentity
}

// bound looks at the Bind at hand and the messages that have come behind it. They must be an execution of the unnamed portal as a whole: a Describe or none, an Execute, a
// Sync. It returns the values and formats of the Bind, the name by which servers know the statement, "" if its Parse has just come, and
// whether there is a Describe.
func (o *outset) bound(fresh bool) (bind []byte, server string, described, ok bool) {
	s := o.s
	body, rest, ok := cut(s.client.Buffered(), wire.Bind)
	if !ok || !s.pipe.midFrame {
		return nil, "", false, false
	}
	portal, name, bind, ok := wire.BindNames(body)
	if !ok || len(portal) > 0 || fresh != (len(name) == 0) {
		return nil, "", false, false
	}
	if !fresh {
		st := s.prepared.named[string(name)]
		if st == nil || st.doubtful || st.server.ViaSQL || st.original != "" || st.planned.filled || st.planned.executes != nil || st.planned.sealed != "" {
			return nil, "", false, false
		}
		server = st.server.Name
	}
	if body, after, is := cut(rest, wire.Describe); is {
		if kind, name, ok := wire.DescribeName(body); !ok || kind != 'P' || len(name) > 0 {
			return nil, "", false, false
		}
		rest, described = after, true
	}
	const unnamedWhole = "\x00\x00\x00\x00\x00" // the unnamed portal, without a limit
	if body, rest, ok = cut(rest, wire.Execute); !ok || string(body) != unnamedWhole {
		return nil, "", false, false
	}
	body, _, ok = cut(rest, wire.Sync)
	return bind, server, described, ok && len(body) == 0
}

// cut cuts the first message off b, if it is whole and of that type.
func cut(b []byte, typ byte) (body, rest []byte, ok bool) {
	if len(b) < wire.HeaderLen || b[0] != typ {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint32(b[1:])) + 1
	if n < wire.HeaderLen || n > len(b) {
		return nil, nil, false
	}
	return b[wire.HeaderLen:n], b[n:], true
}

// sail notes that the read of a session that leads is about to be sent.
func (o *outset) sail() { o.crossing.keeps = o.crossing.passage.Sail() }

// keeps reports whether others wait for the answer that the backend gives. Until it is complete, nothing goes to the session's own client, who may
// be slow.
func (o *outset) keeps() bool { return o.crossing != nil && o.crossing.keeps }

// land hands the answer to those who wait for it, when the backend is ready.
func (o *outset) land(status byte) {
	c := o.crossing
	o.crossing = nil
	if status != wire.TxIdle || !c.complete && c.keeps {
		c.passage.Leave(time.Now())
		return
	}
	answer := c.answer
	c.passage.Land(&answer, time.Now())
}

// leaveFerry ends the part that the session has in a ferry. Those who wait for its answer go on without it.
func (o *outset) leaveFerry() {
	if o.crossing != nil {
		o.crossing.passage.Leave(time.Now())
		o.crossing = nil
	}
	o.ridden = nil
}

// takeRidden returns the answer of another session to the statement at hand, nil for none.
func (o *outset) takeRidden() *ferry.Answer {
	a := o.ridden
	o.ridden = nil
	return a
}

// spoil says that the answer cannot be shared.
func (c *crossing) spoil() {
	if c.keeps {
		c.keeps = false
		c.passage.Leave(time.Now())
	}
}

// add keeps bytes of the answer, if there is room.
func (c *crossing) add(to []byte, b []byte) []byte {
	if !c.passage.Keep(len(b)) {
		c.keeps = false
		c.passage.Shun(time.Now())
		return nil
	}
	return append(to, b...)
}

// pass keeps rows that pass to the client unopened: whole ones, or parts of them. Other messages that pass cannot be shared.
func (c *crossing) pass(b []byte) {
	for at := min(c.rest, len(b)); at < len(b); {
		if b[at] != wire.DataRow || len(b)-at < wire.HeaderLen {
			c.spoil()
			return
		}
		at += int(binary.BigEndian.Uint32(b[at+1:])) + 1
		c.rest = max(at-len(b), 0)
	}
	c.answer.Rows = c.add(c.answer.Rows, b)
}

// hear looks at a message that does not pass unopened: only some of them can be in an answer that is shared.
func (c *crossing) hear(typ byte) {
	switch typ {
	case wire.ParseComplete, wire.BindComplete, wire.RowDescription, wire.DataRow, wire.CommandComplete, wire.NotificationResponse:
	default:
		c.spoil()
	}
}

// take keeps a message that the client gets.
func (c *crossing) take(typ byte, body []byte) {
	switch frame := wire.AppendFrame(nil, typ, body); {
	case !c.keeps:
	case typ == wire.RowDescription:
		c.answer.Description = c.add(c.answer.Description, frame)
	case typ == wire.DataRow || typ == wire.CommandComplete:
		c.answer.Rows = c.add(c.answer.Rows, frame)
		if typ == wire.CommandComplete {
			c.answer.Count, c.complete = rowsOf(body), true
		}
	}
}

// answerRidden answers a simple query of n bytes by what another session was answered.
func (o *outset) answerRidden(lane *pool.Lane, n int) error {
	a, s := o.takeRidden(), o.s
	s.client.Consume(wire.HeaderLen + n)
	s.account.noteRidden(a, lane)
	s.out.Grow()
	s.out.B = append(append(s.out.B, a.Description...), a.Rows...)
	s.out.tellReady()
	return nil
}

// noteRidden counts a statement that another session has executed. It is work that clients ask for.
func (a *account) noteRidden(answer *ferry.Answer, lane *pool.Lane) {
	a.runsAs(tally.Shard)
	a.addShards(1)
	a.run.rows += answer.Count
	a.run.bytes += int64(len(answer.Rows))
	a.shard = lane.Shard()
}

// bindRidden makes a portal of what another session was answered.
func (o *outset) bindRidden(portal []byte, lane *pool.Lane) error {
	return o.s.portals.bindLocal(portal, &localPortal{ridden: o.takeRidden(), lane: lane})
}

// executeRidden executes a portal that another session has executed.
func (o *outset) executeRidden(lp *localPortal) error {
	o.s.account.noteRidden(lp.ridden, lp.lane)
	o.s.pipe.ops.push(op{kind: opLocal, frame: lp.ridden.Rows})
	return nil
}
