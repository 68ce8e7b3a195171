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
func (s *Session) everyQuery(p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	if err := s.mayLock(string(text)); err != nil {
		return s.refuseQuery(err, n)
	}
	sql := string(text)
	s.client.Consume(wire.HeaderLen + n)
	if p.Change != nil && p.Change.Alone {
		return s.everyPart(p, sql, f)
	}
	return s.inOwnBlock(func() error { return s.everyPart(p, sql, f) })
}

// mayLock refuses LOCK TABLE outside a block, as PostgreSQL does: the transaction
// that it would run in is weft's own. Since 18 extended messages up to a Sync are
// a block for it, from the second on.
func (s *Session) mayLock(text string) error {
	if (!s.block.open || s.implicit && s.serverMajor() < 18) && isLock(text) {
		return pgerr.New("25P01", "LOCK TABLE can only be used in transaction blocks")
	}
	return nil
}

// serverMajor is the major version of the server that the client believes to talk to.
func (s *Session) serverMajor() int {
	major, _, _ := strings.Cut(s.reported["server_version"], ".")
	n, _ := strconv.Atoi(major)
	return n
}

func isLock(text string) bool {
	w := words(text)
	return len(w) > 0 && w[0] == "lock"
}

// everyPart runs a statement on every shard, in the open block if it can.
func (s *Session) everyPart(p *plan.Plan, text string, f *parser.Facts) error {
	e := &spread{text: text, plan: p, began: time.Now(), locks: isLock(text)}
	s.runsEverywhere()
	err := error(nil)
	if !e.locks {
		err = s.mayChange()
	}
	if err == nil {
		err = s.mayFire(p.Fires)
	}
	if err == nil && e.alone() {
		if err = s.prepareAlone(e); err == nil && e.local() {
			return s.answerAlone(e)
		}
	}
	if err == nil {
		err = s.useLane(s.lane)
	}
	if err == nil {
		err = s.sent()
	}
	if err == nil && !e.alone() {
		err = s.mayRunEverywhere(e)
	}
	if err == nil {
		err = s.adoptTables(p.Change)
	}
	if err == nil {
		err = s.mayFill(e)
	}
	if err == nil && e.follows() {
		err = s.beforeFollowing(e)
	}
	var changed *edited
	if err == nil {
		changed, err = s.sealed(p, text)
	}
	if err != nil {
		s.takeBack(e)
		return s.refuseRead(err)
	}
	if changed != nil {
		e.text = changed.text()
	}
	s.done.note(s, f)
	s.done.relearn = s.done.relearn || effectWords.MatchString(text)
	if !e.locks {
		s.noteChange(p)
	}
	s.noteSequences(f, []byte(text))
	s.conn.UnnamedBy = 0
	s.toServer.Grow()
	s.toServer.B = wire.AppendQuery(s.toServer.B, e.text)
	s.ops.push(op{kind: opQuery, spread: e, quiet: s.quiet, text: changed})
	err = s.exchange()
	if !e.all {
		s.takeBack(e)
	}
	if err != nil || e.tag == nil {
		return err
	}
	if err := s.followed(e); err != nil {
		return s.gatherFailed(err)
	}
	s.tellSpread(e)
	return nil
}

// mayRunEverywhere makes all shards take part in the open block. LOCK TABLE writes
// nothing: how such a block ends is not for them to agree on.
func (s *Session) mayRunEverywhere(e *spread) error {
	if !e.locks {
		return s.mayWriteEverywhere()
	}
	if s.block.sealed {
		return crossShardBlock()
	}
	return nil
}

// mayWriteEverywhere makes the open block one that all shards write in.
func (s *Session) mayWriteEverywhere() error {
	b := &s.block
	if b.sealed {
		return crossShardBlock()
	}
	if len(s.snap.Shards) > 1 {
		if err := s.mayWriteSeveral(); err != nil {
			return err
		}
	}
	b.everywhere = true
	if err := s.wrote(s.conn); err != nil {
		return err
	}
	// Now, and not when the home shard answers: whether they may write is asked on
	// its backend.
	for i := range s.snap.Shards {
		lane := s.laneOf(s.snap, i).lane
		if lane == s.lane {
			continue
		}
		c, err := s.enlist(lane)
		if err == nil {
			err = s.wrote(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onSpread runs the command on the other shards, after the home shard has
// accepted it.
func (s *Session) onSpread(e *spread) {
	if e.alone() {
		if len(e.steps) > 0 && !e.homeLast() {
			s.tellAlone(e, []string{e.steps[0].name})
			s.aloneElsewhere(e, true)
		}
		e.all = e.err == nil
		return
	}
	for i := range s.snap.Shards {
		lane := s.laneOf(s.snap, i).lane
		if lane == s.lane {
			continue
		}
		c, err := s.enlist(lane)
		if err == nil {
			err = s.execBeside(c, catalog.Carried(e.elsewhere()))
		}
		if err != nil {
			e.err = e.elsewhereFailed(s.snap.Shards[i].Name, pgerr.From(err))
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
func (s *Session) execBeside(c *pool.Conn, text string) (err error) {
	s.beside(c, func() { _, err = c.Exec(text) })
	return err
}

// beside does something with a backend that a cancel request must reach.
func (s *Session) beside(c *pool.Conn, do func()) {
	s.mu.Lock()
	main := s.current
	s.current = c
	s.mu.Unlock()
	do()
	s.mu.Lock()
	s.current = main
	s.mu.Unlock()
	if c != main {
		c.AwaitCancels()
	}
}

// enlist returns a backend of the lane that takes part in the block, parked.
func (s *Session) enlist(lane *pool.Lane) (*pool.Conn, error) {
	for _, c := range s.parked {
		if c.Lane() == lane && c.Status != wire.TxIdle {
			return c, nil
		}
	}
	c, err := s.borrow(lane)
	if err != nil {
		return nil, err
	}
	c.UnnamedBy = 0
	s.joined(c)
	for i := -1; i < len(s.block.replay); i++ {
		sql := s.beginning(c)
		if i >= 0 {
			sql = s.block.replay[i]
		}
		if err := s.execBeside(c, sql); err != nil {
			c.Discard()
			return nil, err
		}
	}
	s.parked = append(s.parked, c)
	return c, nil
}

// withOthers does something with a participant of the block on each shard but home.
func (s *Session) withOthers(do func(shard int, c *pool.Conn) error) error {
	for i := range s.snap.Shards {
		lane := s.laneOf(s.snap, i).lane
		if lane == s.lane {
			continue
		}
		c, err := s.enlist(lane)
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
func (s *Session) beforeEvery(pl *planned) error {
	if isLock(string(pl.text)) {
		return nil // and the block is open
	}
	if err := s.mayChange(); err != nil || pl.plan.Change != nil && pl.plan.Change.Alone {
		return err
	}
	return s.openPipe()
}

// everyBound notes that a portal's execution goes to every shard.
func (s *Session) everyBound(portal []byte, pl *planned) error {
	e := &spread{text: string(pl.text), plan: pl.plan, began: time.Now(), locks: isLock(string(pl.text))}
	if pl.sealed != "" {
		e.text = pl.sealed
	} else if changed, err := s.sealed(pl.plan, e.text); err != nil {
		return err
	} else if changed != nil {
		// The home shard has the password itself: it was parsed when nothing was declared.
		return pgerr.New(pgerr.FeatureNotSupported, "a statement with a password in clear text must be prepared again, now that tables are declared")
	}
	if err := s.mayFire(e.plan.Fires); err != nil {
		return err
	}
	if !e.alone() {
		if err := s.mayRunEverywhere(e); err != nil {
			return err
		}
		if err := s.adoptTables(e.plan.Change); err != nil {
			return err
		}
		if err := s.mayFill(e); err != nil {
			return err
		}
		if err := s.beforeFollowing(e); err != nil {
			return err
		}
	}
	if s.everywhere == nil {
		s.everywhere = map[string]*spread{}
	}
	s.everywhere[string(portal)] = e
	return nil
}

// everyExecute executes such a portal. Its Execute is waited for: only then
// may the other shards begin.
func (s *Session) everyExecute(body []byte, e *spread) error {
	name, _, _ := wire.CString(body)
	delete(s.everywhere, string(name))
	s.runsEverywhere()
	if e.alone() {
		if s.begun && (!s.block.open || s.implicit) {
			return s.refuseBoundRead(inPipeline(e.text))
		}
		if done, err := s.aloneExecute(e); done || err != nil {
			return err
		}
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if !e.locks {
		s.noteChange(e.plan)
	}
	if setsSequence.MatchString(e.text) {
		s.done.resequence = true
		s.done.bits |= parser.AdvancesSequence
	}
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Execute, body)
	s.ops.push(op{kind: opExecute, spread: e})
	err := s.flush()
	if !e.all {
		s.takeBack(e)
	}
	if err != nil || s.conn == nil {
		return err
	}
	if e.alone() && e.all && !s.block.open {
		// It is committed, and what follows is planned by what it has made.
		if err := s.leavePipe(); err != nil {
			return s.refuseBoundRead(err)
		}
		return nil
	}
	if e.tag != nil {
		return s.executeFollowed(e)
	}
	if e.err != nil {
		s.toServer.Grow()
		s.refuseMessage(e.err)
		if err := s.flush(); err != nil || s.conn == nil {
			return err
		}
	}
	return nil
}

// executeFollowed goes on with a command that lookups must follow. The block is open:
// its backends are spoken to as in a simple query.
func (s *Session) executeFollowed(e *spread) error {
	s.quietFailed = false
	if err := s.followed(e); err != nil {
		return s.boundFailed(err)
	}
	s.tellSpread(e)
	return nil
}
