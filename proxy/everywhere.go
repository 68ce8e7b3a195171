package proxy

import (
	"strconv"
	"strings"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/schema"
	"weft/wire"
)

// DDL on declared tables, and on the objects that they use, goes to every shard: first to the
// home shard, whose answer is the client's, then to the others. On each shard all of it is in
// the block's transaction; if one shard refuses, all of them roll back.

// spread is a command that goes to every shard.
type spread struct {
	text string
	// timed is the text for the other shards, with the time of the transaction in it; "" if the
	// text needs no time.
	timed string
	plan  *plan.Plan
	began time.Time
	err   *pgerr.Error // the error of another shard
	// tag is the home shard's command tag, kept back until lookups have followed; told: they
	// have followed.
	tag  []byte
	told bool
	// made are the lookups created before an index is created CONCURRENTLY; all: every shard has
	// run a command that runs alone.
	made  []schema.LookupRequest
	all   bool
	locks bool // the command is LOCK TABLE
	// renumbers are columns whose numbers are set right when all shards have run the command.
	renumbers []*plan.Filling
	// before are the objects that the shards had before they ran a body with commands.
	before []schema.Imprint
	// steps are what each shard has to do for a command that runs alone.
	steps []aloneStep
}

// elsewhere returns the text that all shards but home run.
func (e *spread) elsewhere() string {
	if e.timed != "" {
		return e.timed
	}
	if e.plan.Change != nil && e.plan.Change.Elsewhere != "" {
		return e.plan.Change.Elsewhere
	}
	return e.text
}

// follows reports whether more must be done in the command's transaction before the client is
// answered: lookups follow the command, numbers are set right, or what the shards did in a body is compared.
func (e *spread) follows() bool {
	return e.plan.Change != nil && (len(e.plan.Change.Lookups) > 0 || e.plan.Change.Body || len(e.renumbers) > 0) && !e.alone()
}

// alone reports whether the command cannot run inside a transaction.
func (e *spread) alone() bool { return e.plan.Change != nil && e.plan.Change.Alone }

// everyQuery runs a simple query on every shard.
func (ev *everywhere) everyQuery(p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	err := ev.mayLock(string(text))
	if err == nil && !isLock(string(text)) {
		err = ev.s.commit.awaitShards()
	}
	if err != nil {
		return ev.s.route.refuseQuery(err, n)
	}
	sql := string(text)
	ev.s.client.Consume(wire.HeaderLen + n)
	if p.Change != nil && p.Change.Alone {
		return ev.everyPart(p, sql, f)
	}
	return ev.s.tx.inOwnBlock(func() error { return ev.everyPart(p, sql, f) })
}

// mayLock refuses LOCK TABLE outside a block, as PostgreSQL does: otherwise it would run in a
// transaction that weft opens. Since version 18 PostgreSQL takes extended messages up to a Sync
// for a block, from the second message on.
func (ev *everywhere) mayLock(text string) error {
	if (!ev.s.tx.isOpen() || ev.s.implicit.isOpen() && ev.s.out.serverMajor() < 18) && isLock(text) {
		return pgerr.New("25P01", "LOCK TABLE can only be used in transaction blocks")
	}
	return nil
}

// serverMajor is the major version of the server that the client has been told.
func (o *answers) serverMajor() int {
	major, _, _ := strings.Cut(o.reported["server_version"], ".")
	n, _ := strconv.Atoi(major)
	return n
}

func isLock(text string) bool {
	w := words(text)
	return len(w) > 0 && w[0] == "lock"
}

// everyPart runs a statement on every shard, in the open block if the statement can run in one.
func (ev *everywhere) everyPart(p *plan.Plan, text string, f *parser.Facts) error {
	e := &spread{text: text, plan: p, began: time.Now(), locks: isLock(text)}
	ev.s.account.runsEverywhere()
	err := error(nil)
	if !e.locks {
		err = ev.s.commit.mayChange()
	}
	if err == nil {
		err = ev.s.route.touch.enterEverything()
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
	ev.s.held.conn.UnnamedGone()
	ev.s.pipe.unsent.Grow()
	ev.s.pipe.unsent.B = wire.AppendQuery(ev.s.pipe.unsent.B, e.text)
	ev.s.pipe.ops.push(op{kind: opQuery, spread: e, quiet: ev.s.out.isQuiet(), text: changed})
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

// mayRunEverywhere checks that all shards can take part in the open block. LOCK TABLE writes
// nothing, so the shards do not have to agree on the end of the block.
func (ev *everywhere) mayRunEverywhere(e *spread) error {
	if !e.locks {
		return ev.mayWriteEverywhere()
	}
	if ev.s.tx.isSealed() {
		return crossShardBlock()
	}
	return nil
}

// mayWriteEverywhere makes the open block one in which all shards write.
func (ev *everywhere) mayWriteEverywhere() error {
	if ev.s.tx.isSealed() {
		return crossShardBlock()
	}
	if len(ev.s.route.snap.Shards) > 1 {
		if err := ev.s.tx.mayWriteSeveral(); err != nil {
			return err
		}
	}
	ev.s.tx.noteEverywhere()
	if err := ev.s.tx.noteWriter(ev.s.held.conn); err != nil {
		return err
	}
	// Enlist now, not when the home shard has answered: the check whether the others may write
	// asks the home shard's backend.
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

// onSpread runs the command on the other shards after the home shard has accepted it.
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
			err = ev.execElsewhere(c, e.elsewhere(), len(e.renumbers) > 0)
		}
		if err != nil {
			e.err = e.elsewhereFailed(ev.s.route.snap.Shards[i].Name, pgerr.From(err))
			return
		}
	}
}

// elsewhereFailed is the client's error for a command that the home shard has accepted and
// another shard has not. Objects that only the home shard has are not the client's mistake.
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

// dependentObjects is the error code for a DROP of an object on which others depend.
const dependentObjects = "2BP01"

// execBeside runs a text on a backend other than the one at hand, so that a cancel request of
// the client reaches it.
func (ev *everywhere) execBeside(c *pool.Conn, text string) (err error) {
	ev.beside(c, func() { _, err = c.Exec(text) })
	return err
}

// beside calls do, which uses a backend that cancel requests must reach meanwhile.
func (ev *everywhere) beside(c *pool.Conn, do func()) {
	main := ev.s.reach.aim(c)
	do()
	ev.s.reach.aim(main)
	if c != main {
		c.AwaitCancels()
	}
}

// enlist returns a parked backend of the lane that takes part in the block. It borrows one if
// need be.
func (ev *everywhere) enlist(lane *pool.Lane) (*pool.Conn, error) {
	for _, c := range ev.s.held.parked {
		if c.Lane() == lane && c.Status() != wire.TxIdle {
			return c, nil
		}
	}
	c, err := ev.s.held.borrow(lane)
	if err != nil {
		return nil, err
	}
	c.UnnamedGone()
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
	ev.s.held.parkBorrowed(c)
	return c, nil
}

// withOthers calls do with a participant of the block on each shard but home.
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

// beforeEvery makes ready for the Bind of a command that goes to every shard.
func (ev *everywhere) beforeEvery(pl *planned) error {
	if isLock(string(pl.text)) {
		return nil // the block is open already
	}
	if err := ev.s.commit.mayChange(); err != nil {
		return err
	}
	if err := ev.s.commit.awaitShards(); err != nil {
		return err
	}
	if pl.plan.Change != nil && pl.plan.Change.Alone {
		return nil
	}
	if err := ev.s.route.touch.enterEverything(); err != nil {
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
		// The home shard has the clear password: it was prepared when no table was declared.
		return pgerr.New(pgerr.FeatureNotSupported, "a statement with a password in clear text must be prepared again, now that tables are declared").
			WithHint("Deallocate it, and prepare it anew.")
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
	ev.s.portals.wide.noteEverywhere(portal, e)
	return nil
}

// everyExecute executes a portal that everyBound has noted. It waits for the answer to the
// Execute: only then may the other shards begin.
func (ev *everywhere) everyExecute(body []byte, e *spread) error {
	name, _, _ := wire.CString(body)
	ev.s.portals.wide.forget(name)
	ev.s.account.runsEverywhere()
	if e.alone() {
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
	if e.alone() && e.all && !ev.s.tx.isOpen() {
		// The command is committed, and the next ones are planned by its result.
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

// executeFollowed finishes a command that lookups must follow, or whose results are compared.
// The block is open: its backends are spoken to as in a simple query.
func (ev *everywhere) executeFollowed(e *spread) error {
	if err := ev.s.lookups.finishFollowing(e); err != nil {
		return ev.s.gather.boundFailed(err)
	}
	ev.s.out.tellSpread(e)
	return nil
}
