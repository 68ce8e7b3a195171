package proxy

import (
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/executor"
	"weft/heat/ferry"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// outset is the place where a transaction begins: its first statement has been routed, and no backend has
// been asked for. A transaction may wait there, or be refused, without harm to others: it holds nothing. Both
// protocols come by here, for each statement, before a backend is asked for it:
//
//   - outset.choose, when routing.choose has decided what is to be done with a planned statement. A Bind has
//     been decoded by then, so the keys are known.
//   - Session.query, Session.onParse and portals.onBind in a database without declared tables, where a
//     Parse asks for a backend already.
//
// What is never delayed here: statements of a transaction that has a backend, the end of a transaction, weft's
// own functions and views, users that are exempt. Such statements of a transaction are counted, and those who come
// later wait for them.
type outset struct {
	s *Session
	// passed is the statement that was let pass last and has not been sent yet. It may be routed again,
	// because rows have moved meanwhile, and passes again then.
	passed *parser.Facts
	// waits is the number of the rule that the session waits for, or one of waitWords; 0 for none. Other goroutines read it.
	waits atomic.Int64
	// slots are the places that the transaction under way has in rules with so many places.
	slots []*throttle.Slot
	// place is that of the transaction under way at a hot key, nil for none.
	place *queue.Place
	// crossing is the part that the session has in a ferry which it leads, nil for none. ridden is the answer of another session to the
	// statement at hand, nil for none.
	crossing *crossing
	ridden   *ferry.Answer
	// unlearned: no backend could say whether reads may be shared under these settings.
	unlearned struct {
		is    bool
		under *pool.Settings
	}
	// spends are the rules that are told how long the statement under way keeps a backend busy.
	spends []*throttle.Live

	// Buffers.
	rules  []*throttle.Live
	shards []string
	// named is the statement whose id in weft.statements is in statement.
	named     *parser.Facts
	statement int64
}

// departure is a statement that has been routed and not been sent.
type departure struct {
	facts  *parser.Facts
	writes bool // the statement may change rows
	// limited are the rules about keys and buckets that concern the statement.
	limited throttle.Set
	// lane is that of the one shard that the statement visits, nil if it may visit several: then visits
	// names them, and is empty if all may be visited.
	lane   *pool.Lane
	visits []string
}

// begins reports whether no transaction is under way that holds a backend, so that the next statement
// begins one. A backend that a pin ties the session to is not part of a transaction.
func (o *outset) begins() bool {
	s := o.s
	if s.pipe.isUnsynced() || s.pipe.unsent.Len() > 0 || s.lost.is() || len(s.reach.legs) > 0 || len(s.held.reserved) > 0 {
		return false
	}
	return (s.held.conn == nil || s.held.conn.Status() == wire.TxIdle) && s.held.participant() < 0
}

// concerned reports whether a statement is one that waits at the outset at all.
func (o *outset) concerned(f *parser.Facts) bool {
	const works = parser.Opaque | parser.Writes | parser.DDL | parser.CopyIn
	switch {
	case f == nil || endsTx(f) || o.s.srv.conf().Heat.Exempt[o.s.login.user]:
		return false
	case opensBlock(f):
		return true
	case len(f.Relations) == 0 && len(f.Funcs) == 0 && f.Effects&works == 0:
		return false // SELECT 1, by which pools of connections try whether one lives, and commands such as SHOW
	}
	return !readsOwn(f)
}

// pass lets a statement pass, after a wait if rules say so, or refuses it. t is not nil.
func (o *outset) pass(t *throttle.Table, d *departure) error {
	if o.passed == d.facts && d.facts != nil || !o.concerned(d.facts) {
		return nil
	}
	f := o.factsOf(t, d)
	o.rules = t.Match(&f, o.rules[:0])
	if len(o.rules) == 0 {
		return nil
	}
	now := time.Now()
	if !o.begins() {
		for _, l := range o.rules {
			l.Charge(now)
		}
		return nil
	}
	o.leave()
	if by, err := o.ask(d.facts, f.Shards, now); err != nil {
		o.leave()
		if by != nil {
			o.s.account.noteRefused(d, by.Mean())
		}
		return err
	}
	o.passed, o.spends = d.facts, append(o.spends[:0], o.rules...)
	return nil
}

// factsOf is what rules ask of a statement.
func (o *outset) factsOf(t *throttle.Table, d *departure) throttle.Facts {
	s := o.s
	f := throttle.Facts{
		Database: s.db.Name, User: s.login.user, Application: s.out.reported["application_name"], Found: d.limited,
		Write:    d.writes || d.facts.Effects&parser.Writes != 0,
		Priority: int(min(s.srv.conf().Pool.Users[s.login.user].Priority, s.record.priority())),
	}
	if t.Wants(throttle.Statement) {
		if o.named != d.facts {
			o.named, o.statement = d.facts, statementID(parser.Statement(d.facts.Norm))
		}
		f.Statement = o.statement
	}
	o.shards = o.shards[:0]
	if d.lane != nil {
		o.shards = append(o.shards, d.lane.Shard().Name)
	} else if len(d.visits) > 0 {
		o.shards = append(o.shards, d.visits...)
	} else if s.route.snap != nil {
		for i := range s.route.snap.Shards {
			o.shards = append(o.shards, s.route.snap.Shards[i].Name)
		}
	}
	f.Shards = o.shards
	return f
}

// ask asks the rules that concern the transaction which begins with a statement, and waits as they say. by is the rule that refuses it.
func (o *outset) ask(f *parser.Facts, shards []string, now time.Time) (by *throttle.Live, err error) {
	leave := throttle.Ask(o.rules, shards, now)
	if leave.Wait > 0 {
		if err := o.await(f, leave.By.ID, leave.Wait, nil); err != nil {
			leave.Cancel(time.Now())
			return nil, err
		}
	}
	if leave.Refusal != nil {
		return leave.By, leave.Refusal
	}
	for _, l := range leave.Enters {
		slot, began := l.Enter(), time.Now()
		o.slots = append(o.slots, slot)
		if !slot.Has() {
			if err := o.await(f, l.ID, l.MaxWait, slot.Granted()); err != nil {
				return nil, err
			}
			if !slot.Has() {
				return l, l.Refused(time.Now())
			}
			l.Entered(max(time.Since(began), 1))
			continue
		}
		l.Entered(0)
	}
	return nil, nil
}

// drainCheck is how soon a session that waits notices that the proxy is drained.
const drainCheck = 50 * time.Millisecond

// await lets a statement wait for a rule, or for what waitWords has, for so long, or until ready is closed. A cancel request, the end of the session or of the proxy,
// and statement_timeout end the wait.
func (o *outset) await(f *parser.Facts, by int64, d time.Duration, ready <-chan struct{}) error {
	re := &o.s.reach
	o.s.client.Task().Leave()
	select {
	case <-re.cancelled: // meant for an earlier statement
	default:
	}
	o.s.held.release()    // a question about keys may have left an idle backend at hand
	before := re.aim(nil) // a cancel request is for the wait, not for a backend that the session is tied to
	defer re.aim(before)
	re.heedTimeouts()
	re.patience.queues.Add(1)
	defer re.patience.queues.Add(1)
	o.s.account.showWaiting(f)
	o.waits.Store(by)
	defer o.waits.Store(0)
	began := time.Now()
	defer func() { o.s.account.noteHeld(time.Since(began)) }()
	limit := re.patience.limit(0, nil)
	if rc := &o.s.record; limit == 0 && rc.optionsKnown && rc.optionsFor == rc.settings {
		limit = o.s.record.inEffect.statementTimeout
	}
	var timeout <-chan time.Time
	if limit > 0 && limit < d {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	over, tick := time.NewTimer(d), time.NewTicker(drainCheck)
	defer over.Stop()
	defer tick.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-ready:
			return nil
		case <-timeout:
			return errStatementTimeout()
		case <-re.cancelled:
			return errCancelled()
		case <-o.s.srv.ctx.Done():
			return pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command")
		case <-tick.C:
			if e := re.killed.Load(); e != nil {
				return e
			}
			if o.s.srv.drain.due(o.s.id, time.Now()) && !o.s.tx.isOpen() {
				return pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command")
			}
		}
	}
}

// afresh notes that a new statement comes.
func (o *outset) afresh() {
	o.passed = nil
	o.leaveFerry()
}

// rest notes that the session waits for its client. If no transaction is open, places are given back.
func (o *outset) rest() {
	if (len(o.slots) > 0 || o.place != nil || o.crossing != nil) && o.s.idle() {
		o.leave()
	}
}

// leave gives back the places of the transaction.
func (o *outset) leave() {
	o.leavePlace()
	o.leaveFerry()
	for _, slot := range o.slots {
		slot.Leave()
	}
	clear(o.slots)
	o.slots = o.slots[:0]
}

// spent tells rules how long a statement has kept a backend of a shard busy.
func (o *outset) spent(shard *pool.Shard, busy time.Duration) {
	if shard != nil {
		now := time.Now()
		for _, l := range o.spends {
			l.Spent(shard.Name, busy, now)
		}
	}
	clear(o.spends)
	o.spends = o.spends[:0]
}

// passHome is pass for a statement of a database without declared tables: the home shard runs it.
func (o *outset) passHome(f *parser.Facts) error {
	t := o.s.srv.keeper.throttles.Table()
	if t == nil {
		return nil
	}
	return o.pass(t, &departure{facts: f, lane: o.s.lane})
}

// choose is routing.choose, and lets the statement pass then. A Parse that no Bind follows executes nothing, and
// waits for nothing.
func (o *outset) choose(r *router, p *plan.Plan, text []byte, f *parser.Facts, how manner) (choice, error) {
	r.beginRules(nil, nil)
	if how != asParse {
		r.beginRules(o.s.srv.keeper.throttles.Table(), o.s.srv.keeper.queues.Table())
	}
	d, err := o.s.route.choose(r, p, text, f, how)
	if err == nil {
		err = o.depart(r, p, f, d)
	}
	if err == nil && r.hotKey != nil && d.do == runOnShard && !d.lane.Shard().IsStandby() {
		d, err = o.board(r, p, text, f, how, d)
	}
	r.arrival = arrival{}
	return d, err
}

// depart lets a planned statement pass, of which choose has decided what is to be done: first by the throttles, then by the
// queue of a hot key, so that a transaction which has a place at a throttle does not wait for another one.
func (o *outset) depart(r *router, p *plan.Plan, f *parser.Facts, d choice) error {
	if r.rules != nil {
		if err := o.passChosen(r, p, f, d); err != nil {
			return err
		}
	}
	if r.hot != nil && d.do == runOnShard {
		return o.enterRow(r.hotKey, p, f, d.lane)
	}
	return nil
}

// passChosen is pass for a planned statement, of which choose has decided what is to be done.
func (o *outset) passChosen(r *router, p *plan.Plan, f *parser.Facts, d choice) error {
	switch d.do {
	case refusePlan, callFunction, runProgram, denyParameters:
		return nil
	case gatherShards:
		if !r.sought {
			r.seek(p, o.s.route.snap, o.s.db.Name)
		}
	}
	out := departure{facts: f, writes: p.Writes, limited: r.limited, lane: d.lane, visits: r.visits}
	if d.do == runEverywhere || d.do == gatherShards {
		out.lane = nil
	}
	return o.pass(r.rules, &out)
}

// beginRules notes which rules are in effect and which keys are hot, before the keys of a statement are looked at.
func (r *router) beginRules(t *throttle.Table, hot *queue.Table) {
	r.hot, r.hotKey = hot, nil
	r.rules, r.limited, r.visits, r.sought = t, 0, r.visits[:0], false
}

// noteFound notes what the keys of a statement have led to.
func (r *router) noteFound(shards executor.Shards, snap *directory.Snapshot) {
	r.sought = true
	r.limited |= r.bind.Limited()
	r.visits = r.visits[:0]
	for i := range shards.All() {
		r.visits = append(r.visits, snap.Shards[i].Name)
	}
}

// seek looks for the keys of a statement that is carried out by weft's guidance, as far as they are known
// already. What is not known restricts nothing.
func (r *router) seek(p *plan.Plan, snap *directory.Snapshot, database string) {
	if r.rules.Places == nil && !r.rules.Wants(throttle.Shard) {
		return
	}
	r.args.Limits, r.args.Database = r.rules.Places, database
	defer func() { r.args.Limits = nil }()
	if p.Route == plan.Keyed {
		if shards, err := r.bind.Bind(p, snap, &r.args); err == nil {
			r.noteFound(shards, snap)
		}
		return
	}
	g := p.Gather()
	if g == nil {
		return
	}
	for i := range g.Pieces {
		if g.Pieces[i].Where != plan.OnShards {
			continue
		}
		if _, err := r.bind.BindPiece(p, &g.Pieces[i], snap, &r.args); err == nil {
			r.limited |= r.bind.Limited()
		}
	}
}
