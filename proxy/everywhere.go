package proxy

import (
	"strconv"
	"strings"
	"time"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/schema"
	"weft/wire"
)

// DDL on declared tables, and on what they are made of, goes to every shard:
// the home shard first, whose answer is the client's, then the others. All of
// it is one transaction per shard; what any of them refuses is rolled back on
// all.

// spread is a command that goes to every shard.
type spread struct {
	text string
	// timed is what the other shards run, with the time of the transaction in it.
	timed string
	plan  *plan.Plan
	began time.Time
	err   *pgerr.Error // what another shard said
	// tag is the home shard's, kept back until lookups have followed; told: they
	// have.
	tag  []byte
	told bool
	// made are the lookups that were made for it; all: every shard has run it.
	made  []schema.LookupRequest
	all   bool
	locks bool // it is a LOCK TABLE
	// before is what the shards had before they ran a body with commands.
	before []schema.Imprint
	// steps are what there is to do on each shard for what runs alone.
	steps []aloneStep
}

// elsewhere is what the shards but home run.
func (e *spread) elsewhere() string {
	if e.timed != "" {
		return e.timed
	}
	if e.plan.Change != nil && e.plan.Change.Elsewhere != "" {
		return e.plan.Change.Elsewhere
	}
	return e.text
}

// follows reports whether there is more to do in the command's transaction before the
// client hears of it: lookups follow it, or what a body has done is compared.
func (e *spread) follows() bool {
	return e.plan.Change != nil && (len(e.plan.Change.Lookups) > 0 || e.plan.Change.Body) && !e.alone()
}

// alone reports whether the command cannot run inside a transaction.
func (e *spread) alone() bool { return e.plan.Change != nil && e.plan.Change.Alone }

// everyQuery runs a simple query on every shard.
func (ev *everywhere) everyQuery(p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	if err := ev.mayLock(string(text)); err != nil {
		return ev.s.route.refuseQuery(err, n)
	}
	sql := string(text)
	ev.s.client.Consume(wire.HeaderLen + n)
	if p.Change != nil && p.Change.Alone {
		return ev.everyPart(p, sql, f)
	}
	return ev.s.tx.inOwnBlock(func() error { return ev.everyPart(p, sql, f) })
}

// mayLock refuses LOCK TABLE outside a block, as PostgreSQL does: the transaction
// that it would run in is weft's own. Since 18 extended messages up to a Sync are
// a block for it, from the second on.
func (ev *everywhere) mayLock(text string) error {
	if (!ev.s.tx.open || ev.s.implicit.open && ev.s.out.serverMajor() < 18) && isLock(text) {
		return pgerr.New("25P01", "LOCK TABLE can only be used in transaction blocks")
	}
	return nil
}

// serverMajor is the major version of the server that the client believes to talk to.
func (o *answers) serverMajor() int {
	major, _, _ := strings.Cut(o.reported["server_version"], ".")
	n, _ := strconv.Atoi(major)
	return n
}

func isLock(text string) bool {
	w := words(text)
	return len(w) > 0 && w[0] == "lock"
}

// everyPart runs a statement on every shard, in the open block if it can.
func (ev *everywhere) everyPart(p *plan.Plan, text string, f *parser.Facts) error {
	e := &spread{text: text, plan: p, began: time.Now(), locks: isLock(text)}
	ev.s.account.runsEverywhere()
	err := error(nil)
	if !e.locks {
		err = ev.s.commit.mayChange()
	}
	if err == nil {
		err = ev.s.write.mayFire(p.Fires)
	}
	if err == nil && e.alone() {
		if err = ev.s.util.prepareAlone(e); err == nil && e.local() {
			return ev.s.util.answerAlone(e)
		}
	}
	if err == nil {
		err = ev.s.held.useLane(ev.s.lane)
	}
	if err == nil {
		err = ev.s.tx.quiesce()
	}
	if err == nil && !e.alone() {
		err = ev.mayRunEverywhere(e)
	}
	if err == nil {
		err = ev.s.drawn.adoptTables(p.Change)
	}
	if err == nil {
		err = ev.s.gather.mayFill(e)
	}
	if err == nil && e.follows() {
		err = ev.s.lookups.beforeFollowing(e)
	}
	var changed *edited
	if err == nil {
		changed, err = ev.s.util.sealed(p, text)
	}
	if err != nil {
		ev.s.lookups.takeBack(e)
		return ev.s.lost.refuseRead(err)
	}
	if changed != nil {
		e.text = changed.text()
	}
	ev.s.record.done.note(ev.s, f)
	ev.s.record.done.relearn = ev.s.record.done.relearn || effectWords.MatchString(text)
	if !e.locks {
		ev.s.commit.noteChange(p)
	}
	ev.s.drawn.noteSequences(f, []byte(text))
	ev.s.held.conn.UnnamedBy = 0
	ev.s.pipe.unsent.Grow()
	ev.s.pipe.unsent.B = wire.AppendQuery(ev.s.pipe.unsent.B, e.text)
	ev.s.pipe.ops.push(op{kind: opQuery, spread: e, quiet: ev.s.out.quiet, text: changed})
	err = ev.s.pipe.exchange()
	if !e.all {
		ev.s.lookups.takeBack(e)
	}
	if err != nil || e.tag == nil {
		return err
	}
	if err := ev.s.lookups.finishFollowing(e); err != nil {
		return ev.s.gather.gatherFailed(err)
	}
	ev.s.out.tellSpread(e)
	return nil
}

// mayRunEverywhere makes all shards take part in the open block. LOCK TABLE writes
// nothing: how such a block ends is not for them to agree on.
func (ev *everywhere) mayRunEverywhere(e *spread) error {
	if !e.locks {
		return ev.mayWriteEverywhere()
	}
	if ev.s.tx.sealed {
		return crossShardBlock()
	}
	return nil
}

// mayWriteEverywhere makes the open block one that all shards write in.
func (ev *everywhere) mayWriteEverywhere() error {
	b := &ev.s.tx.block
	if b.sealed {
		return crossShardBlock()
	}
	if len(ev.s.route.snap.Shards) > 1 {
		if err := ev.s.tx.mayWriteSeveral(); err != nil {
			return err
		}
	}
	b.everywhere = true
	if err := ev.s.tx.noteWriter(ev.s.held.conn); err != nil {
		return err
	}
	// Now, and not when the home shard answers: whether they may write is asked on
	// its backend.
	for i := range ev.s.route.snap.Shards {
		lane := ev.s.held.laneOf(ev.s.route.snap, i).lane
		if lane == ev.s.lane {
			continue
		}
		c, err := ev.enlist(lane)
		if err == nil {
			err = ev.s.tx.noteWriter(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onSpread runs the command on the other shards, after the home shard has
// accepted it.
func (ev *everywhere) onSpread(e *spread) {
	if e.alone() {
		if len(e.steps) > 0 && !e.homeLast() {
			ev.s.util.tellAlone(e, []string{e.steps[0].name})
			ev.s.util.aloneElsewhere(e, true)
		}
		e.all = e.err == nil
		return
	}
	for i := range ev.s.route.snap.Shards {
		lane := ev.s.held.laneOf(ev.s.route.snap, i).lane
		if lane == ev.s.lane {
			continue
		}
		c, err := ev.enlist(lane)
		if err == nil {
			err = ev.execBeside(c, catalog.Carried(e.elsewhere()))
		}
		if err != nil {
			e.err = e.elsewhereFailed(ev.s.route.snap.Shards[i].Name, pgerr.From(err))
			return
		}
	}
}

// elsewhereFailed is what a client hears of a command that the home shard has accepted
// and another has not. What only the home shard has is no mistake of the client's.
func (e *spread) elsewhereFailed(shard string, err *pgerr.Error) *pgerr.Error {
	told := *err
	told.Severity = pgerr.SeverityError
	if told.Detail == "" {
		told.Detail = "This is what shard " + shard + " said."
	}
	switch rewritten := e.plan.Change != nil && e.plan.Change.Elsewhere != ""; {
	case err.Code == pgerr.UndefinedFunction, err.Code == pgerr.UndefinedTable:
		told.Code, told.Message = pgerr.FeatureNotSupported, "what the command names is on the home shard alone: "+err.Message
		told.Hint = "Home tables, and views and functions that touch them, are on the home shard alone. Declare these tables, as reference tables if need be; or name something else."
	case err.Code == dependentObjects && rewritten:
		told.Code, told.Message = pgerr.FeatureNotSupported, "what stays on the home shard from now on is used on all shards: "+err.Message
		told.Hint = "A function that touches home tables is on the home shard alone. Drop what uses it first, or declare these tables, as reference tables if need be."
	}
	return &told
}

// dependentObjects: something cannot be dropped, because other objects depend on it.
const dependentObjects = "2BP01"

// execBeside runs a text on a backend other than the one at hand, where a cancel
// request of the client must reach it.
func (ev *everywhere) execBeside(c *pool.Conn, text string) (err error) {
	ev.beside(c, func() { _, err = c.Exec(text) })
	return err
}

// beside does something with a backend that a cancel request must reach.
func (ev *everywhere) beside(c *pool.Conn, do func()) {
	ev.s.reach.mu.Lock()
	main := ev.s.reach.current
	ev.s.reach.current = c
	ev.s.reach.mu.Unlock()
	do()
	ev.s.reach.mu.Lock()
	ev.s.reach.current = main
	ev.s.reach.mu.Unlock()
	if c != main {
		c.AwaitCancels()
	}
}

// enlist returns a backend of the lane that takes part in the block, parked.
func (ev *everywhere) enlist(lane *pool.Lane) (*pool.Conn, error) {
	for _, c := range ev.s.held.parked {
		if c.Lane() == lane && c.Status != wire.TxIdle {
			return c, nil
		}
	}
	c, err := ev.s.held.borrow(lane)
	if err != nil {
		return nil, err
	}
	c.UnnamedBy = 0
	ev.s.reach.noteParty(c)
	for i := -1; i < len(ev.s.tx.replay); i++ {
		sql := ev.s.reach.beginning(c)
		if i >= 0 {
			sql = ev.s.tx.replay[i]
		}
		if err := ev.execBeside(c, sql); err != nil {
			c.Discard()
			return nil, err
		}
	}
	ev.s.held.parked = append(ev.s.held.parked, c)
	return c, nil
}

// withOthers does something with a participant of the block on each shard but home.
func (ev *everywhere) withOthers(do func(shard int, c *pool.Conn) error) error {
	for i := range ev.s.route.snap.Shards {
		lane := ev.s.held.laneOf(ev.s.route.snap, i).lane
		if lane == ev.s.lane {
			continue
		}
		c, err := ev.enlist(lane)
		if err != nil {
			return err
		}
		if err := do(i, c); err != nil {
			return err
		}
	}
	return nil
}

// beforeEvery makes ready for a Bind of what goes to every shard.
func (ev *everywhere) beforeEvery(pl *planned) error {
	if isLock(string(pl.text)) {
		return nil // and the block is open
	}
	if err := ev.s.commit.mayChange(); err != nil || pl.plan.Change != nil && pl.plan.Change.Alone {
		return err
	}
	return ev.s.implicit.openPipe()
}

// everyBound notes that a portal's execution goes to every shard.
func (ev *everywhere) everyBound(portal []byte, pl *planned) error {
	e := &spread{text: string(pl.text), plan: pl.plan, began: time.Now(), locks: isLock(string(pl.text))}
	if pl.sealed != "" {
		e.text = pl.sealed
	} else if changed, err := ev.s.util.sealed(pl.plan, e.text); err != nil {
		return err
	} else if changed != nil {
		// The home shard has the password itself: it was parsed when nothing was declared.
		return pgerr.New(pgerr.FeatureNotSupported, "a statement with a password in clear text must be prepared again, now that tables are declared")
	}
	if err := ev.s.write.mayFire(e.plan.Fires); err != nil {
		return err
	}
	if !e.alone() {
		if err := ev.mayRunEverywhere(e); err != nil {
			return err
		}
		if err := ev.s.drawn.adoptTables(e.plan.Change); err != nil {
			return err
		}
		if err := ev.s.gather.mayFill(e); err != nil {
			return err
		}
		if err := ev.s.lookups.beforeFollowing(e); err != nil {
			return err
		}
	}
	if ev.s.portals.everywhere == nil {
		ev.s.portals.everywhere = map[string]*spread{}
	}
	ev.s.portals.everywhere[string(portal)] = e
	return nil
}

// everyExecute executes such a portal. Its Execute is waited for: only then
// may the other shards begin.
func (ev *everywhere) everyExecute(body []byte, e *spread) error {
	name, _, _ := wire.CString(body)
	delete(ev.s.portals.everywhere, string(name))
	ev.s.account.runsEverywhere()
	if e.alone() {
		if ev.s.implicit.begun && (!ev.s.tx.open || ev.s.implicit.open) {
			return ev.s.lost.refuseBoundRead(inPipeline(e.text))
		}
		if done, err := ev.s.util.aloneExecute(e); done || err != nil {
			return err
		}
	}
	if ok, err := ev.s.begin(); !ok {
		return err
	}
	if !e.locks {
		ev.s.commit.noteChange(e.plan)
	}
	if setsSequence.MatchString(e.text) {
		ev.s.record.done.resequence = true
		ev.s.record.done.bits |= parser.AdvancesSequence
	}
	ev.s.pipe.unsent.B = wire.AppendFrame(ev.s.pipe.unsent.B, wire.Execute, body)
	ev.s.pipe.ops.push(op{kind: opExecute, spread: e})
	err := ev.s.flush()
	if !e.all {
		ev.s.lookups.takeBack(e)
	}
	if err != nil || ev.s.held.conn == nil {
		return err
	}
	if e.alone() && e.all && !ev.s.tx.open {
		// It is committed, and what follows is planned by what it has made.
		if err := ev.s.implicit.leavePipe(); err != nil {
			return ev.s.lost.refuseBoundRead(err)
		}
		return nil
	}
	if e.tag != nil {
		return ev.executeFollowed(e)
	}
	if e.err != nil {
		ev.s.pipe.unsent.Grow()
		ev.s.lost.refuseMessage(e.err)
		if err := ev.s.flush(); err != nil || ev.s.held.conn == nil {
			return err
		}
	}
	return nil
}

// executeFollowed goes on with a command that lookups must follow. The block is open:
// its backends are spoken to as in a simple query.
func (ev *everywhere) executeFollowed(e *spread) error {
	ev.s.out.forgive()
	if err := ev.s.lookups.finishFollowing(e); err != nil {
		return ev.s.gather.boundFailed(err)
	}
	ev.s.out.tellSpread(e)
	return nil
}
