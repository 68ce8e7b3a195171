package proxy

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"weft/directory"
	"weft/executor"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/vindex"
	"weft/wire"
)

// router is the buffers that routing one text needs. Sessions borrow routers.
type router struct {
	scan parser.Scanner
	bind executor.Binder
	args executor.Args

	// rules are the throttles in effect and hot the keys that are hot, nil for none. limited are those about keys and buckets that
	// concern the statement, and visits are the shards of its keys, if sought.
	rules   *throttle.Table
	hot     *queue.Table
	hotKey  *queue.Hot // the first hot key of the statement, nil for none
	limited throttle.Set
	visits  []string
	sought  bool // the keys have been looked at
	arrival arrival
}

// read scans a text and returns what it does to the session.
func (rt *routing) read(r *router, text []byte) *parser.Facts {
	if rt.s.record.oddEncoding {
		return unreadable
	}
	return rt.s.srv.memory.texts.Facts(&r.scan, text, rt.s.record.scanOptions())
}

func (rc *record) scanOptions() parser.Options {
	return parser.Options{NonStandardStrings: rc.oldStrings}
}

// plan returns the plan of a text that r has scanned. A statement on a table whose rows are
// being moved waits here.
func (rt *routing) plan(r *router, text, oids []byte) (*plan.Plan, error) {
	if rt.s.record.oddEncoding {
		return nil, rt.s.out.unreadText()
	}
	foreign := !utf8.Valid(text) && rt.s.out.encoding != "UTF8"
	if foreign {
		if text = masked(text, r.scan.Literals); text == nil {
			return nil, rt.s.out.unreadText()
		}
	}
	for {
		env, err := rt.environment()
		if err != nil {
			return nil, err
		}
		p := rt.s.srv.memory.plans.Plan(env, &r.scan, text, oids)
		rt.s.srv.metrics.plans.Add(rt.s.id, 1)
		if foreign && p.Route != plan.Home && p.Route != plan.Any {
			return nil, rt.s.out.unreadText()
		}
		if !p.Waits {
			rt.relies.on(p)
			return p, nil
		}
		if rt.s.tx.isOpen() && (rt.s.held.conn != nil || len(rt.s.held.parked) > 0) {
			// The move may be waiting for a lock this transaction holds.
			return nil, p.Refusal
		}
		if err := rt.awaitMove(p); err != nil {
			return nil, err
		}
	}
}

// unreadText refuses a text whose encoding weft cannot read.
func (o *answers) unreadText() error {
	return pgerr.New(pgerr.FeatureNotSupported, "client_encoding %s is not supported in this text, in a database with sharded tables", o.reported["client_encoding"]).
		WithHint("SET client_encoding = 'UTF8', or give what is not ASCII as parameters.")
}

// masked returns a text with ASCII characters in the place of the other characters in its
// literals, nil if there are other characters outside of literals. The masked text names
// the same tables. Unmasked, the text could not be parsed, and would go to the home shard
// as a mistake.
func masked(text []byte, literals []parser.Literal) []byte {
	text = slices.Clone(text)
	for _, l := range literals {
		for i := l.Start; i < l.End; i++ {
			text[i] = min(text[i], 0x7f)
		}
	}
	if slices.ContainsFunc(text, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return nil
	}
	return text
}

// awaitMove waits until the cluster has changed.
func (rt *routing) awaitMove(p *plan.Plan) error {
	rt.s.client.Task().Leave()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	old := rt.base
	for rt.s.srv.cfg.Snapshot() == old {
		select {
		case <-rt.s.reach.cancelled:
			return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		case <-rt.s.srv.ctx.Done():
			return p.Refusal
		case <-tick.C:
			if e := rt.s.reach.killed.Load(); e != nil {
				return e
			}
		}
	}
	rt.refresh()
	return nil
}

// atHand returns the lane of a backend that takes part already, so that functions such as
// now() return what they returned before.
func (rt *routing) atHand() *pool.Lane {
	switch {
	case rt.s.held.conn != nil:
		return rt.s.held.conn.Lane()
	case rt.s.tx.writer != nil:
		return rt.s.tx.writer.Lane()
	}
	if i := rt.s.held.participant(); i >= 0 {
		return rt.s.held.parked[i].Lane()
	}
	return rt.s.lane
}

// homeEffects are effects that concern objects on the home shard alone.
const homeEffects = parser.Temp | parser.AdvisoryLock | parser.HoldCursor | parser.Load | parser.Seed | parser.Listens | parser.Unlistens |
	parser.Notifies | parser.Prepares | parser.Executes | parser.Deallocates | parser.DiscardAll | parser.DiscardTemp | parser.DiscardPlans |
	parser.DiscardSequences | parser.DDL | parser.CreatesDatabase | parser.DropsDatabase | parser.Reconfigures | parser.ReadsSequence |
	parser.AdvancesSequence | parser.SessionID | parser.ReadsPrepared | parser.ReadsListening | parser.Opaque | parser.CopyIn | parser.TwoPhase

// needsHome reports whether a text without tables must run on the home shard: advisory
// locks and sequences are there.
func needsHome(f *parser.Facts) bool {
	return f.Effects&homeEffects != 0 || slices.ContainsFunc(f.Funcs, func(name string) bool {
		return strings.Contains(name, "advisory") || strings.HasPrefix(name, "lo_")
	})
}

// routedQuery handles a simple query in a database with declared tables.
func (rt *routing) routedQuery(text []byte, n int) error {
	r := rt.s.srv.memory.routers.Get().(*router)
	defer rt.s.srv.memory.routers.Put(r)
	f := rt.read(r, text)
	rt.s.account.nameRun(f, text)
	rt.s.portals.closeUnnamed()
	if f.Statements > 1 || rt.s.commit.wantsBlock(f) {
		return rt.s.script.severalQuery(r, text, f, n)
	}
	return rt.statementQuery(r, text, f, n)
}

// statementQuery is routedQuery for a text of one statement at most.
func (rt *routing) statementQuery(r *router, text []byte, f *parser.Facts, n int) error {
	in := rt.s.situation()
	if in == inOwn {
		in = inBlock // implicit.queryInPipe has looked at the text
	}
	switch decide(in, text, f) {
	case answerLost:
		return rt.s.lost.queryInLostTx(text, f, n)
	case endFailed:
		rt.s.tx.noteChain(f.Effects&parser.TxBegin != 0)
		return rt.s.runQuery(text, f, n)
	case backTo:
		if err := rt.s.tx.onAll(string(text), f); err != nil {
			rt.s.client.Consume(wire.HeaderLen + n)
			return rt.s.lost.refuseStatement(err)
		}
		return rt.s.runQuery(text, f, n)
	case askFailed:
		return rt.s.runQuery(text, f, n)
	case openBlock:
		return rt.beginQuery(text, n)
	case importSnapshot:
		return rt.s.tx.importQuery(text, n)
	case exportSnapshot:
		return rt.s.tx.exportQuery(text, f, n)
	case endBlock:
		return rt.endQuery(text, f, n)
	case runOnAll:
		return rt.queryForAll(text, f, n)
	}
	if fulfils(f) {
		return fulfilment{rt.s}.query(string(text), n)
	}
	return rt.plannedQuery(r, text, f, n)
}

// beginQuery opens a block. Shards join it with their first statement.
func (rt *routing) beginQuery(text []byte, n int) error {
	if rt.s.held.conn != nil { // see bindBegin
		if err := rt.s.held.park(); err != nil {
			return rt.refuseQuery(err, n)
		}
	}
	tag := rt.s.tx.start(beginText(text))
	return rt.answerCommand(tag, n)
}

// endQuery ends the block on all shards.
func (rt *routing) endQuery(text []byte, f *parser.Facts, n int) error {
	rt.s.account.noteEnding(rt.s.tx.writer != nil)
	if err := rt.s.commit.mayChain(f); err != nil {
		return rt.refuseQuery(err, n)
	}
	if pledges(f) {
		return rt.s.commit.pledgeQuery(text, f, n)
	}
	if !rt.s.tx.chooseEnder() {
		tag := rt.s.tx.endLocally(text, f)
		return rt.answerCommand(tag, n)
	}
	if commits(string(text)) {
		agree := rt.s.commit.agree
		if f.Effects&parser.TxBegin != 0 && !rt.s.tx.decides() {
			agree = rt.s.commit.carryNotes // the transaction that follows is open when COMMIT is answered: its end cannot be looked up
		}
		if err := agree(); err != nil {
			rt.s.client.Consume(wire.HeaderLen + n)
			return rt.s.commit.uncommitted(err)
		}
	}
	rt.s.tx.noteChain(f.Effects&parser.TxBegin != 0)
	return rt.s.runQuery(text, f, n)
}

// queryForAll runs what all participants of the block must run.
func (rt *routing) queryForAll(text []byte, f *parser.Facts, n int) error {
	if err := rt.s.portals.useForAll(string(text), f); err != nil {
		if opensBlock(f) && rt.s.tx.isOpen() {
			rt.s.out.tell(alreadyOpen())
		}
		return rt.refuseQuery(err, n)
	}
	return rt.s.runQuery(text, f, n)
}

// plannedQuery is routedQuery for a statement that is planned.
func (rt *routing) plannedQuery(r *router, text []byte, f *parser.Facts, n int) error {
	if f.Effects&parser.Executes != 0 {
		x, err := rt.s.prepared.execution(text, f)
		if err != nil {
			return rt.refuseQuery(err, n)
		}
		if x != nil {
			return x.run(n)
		}
	}
	err := rt.knowOwn(f)
	if err != nil {
		return rt.refuseQuery(err, n)
	}
	p, err := rt.plan(r, text, nil)
	if err != nil {
		return rt.refuseQuery(err, n)
	}
	r.takeQuery(text, rt.s.record.scanOptions())
	r.arrival = arrival{whole: n != consumed}
	d, err := rt.outset.choose(r, p, text, f, asQuery)
	if err != nil {
		return rt.refuseQuery(rt.s.record.refusedText(text, nil, err), n)
	}
	switch d.do {
	case refusePlan:
		return rt.refuseQuery(rt.s.record.refusedText(text, nil, p.Refusal), n)
	case callFunction:
		return rt.s.util.callQuery(p, n)
	case runProgram:
		return rt.s.util.programs.query(p, text, n)
	case denyParameters:
		if err := rt.useFor(d.lane, p, f, true); err != nil {
			return rt.refuseQuery(err, n)
		}
		return rt.s.runQuery(text, f, n)
	case runEverywhere:
		return rt.s.every.everyQuery(p, text, f, n)
	case gatherShards:
		rt.s.drawn.notePlanned(p, text, f)
		return rt.s.gather.gatherQuery(r, p, text, f, n)
	case takeAnswer:
		return rt.outset.answerRidden(d.lane, n)
	}
	edits, err := rt.place(r, d, p, text, f)
	if errors.Is(err, errMoved) {
		return rt.plannedQuery(r, text, f, n)
	}
	if err != nil {
		return rt.refuseQuery(rt.s.record.refusedText(text, nil, err), n)
	}
	return rt.runPlaced(text, edits, f, n)
}

// takeQuery notes that the values of a statement are in its text, which r has scanned.
func (r *router) takeQuery(text []byte, options parser.Options) {
	r.args.Text, r.args.Literals, r.args.Options, r.args.Params = text, r.scan.Literals, options, executor.Params{}
}

// runPlaced runs a text on the backend that place has made ready.
func (rt *routing) runPlaced(text []byte, edits parser.Edits, f *parser.Facts, n int) error {
	if edits != nil {
		sql := string(text)
		rt.s.client.Consume(wire.HeaderLen + n)
		return rt.s.drawn.sendEdited(sql, edits, f)
	}
	return rt.s.runQuery(text, f, n)
}

// place makes the chosen backend ready, and returns the edits that put
// generated values into the text.
func (rt *routing) place(r *router, d choice, p *plan.Plan, text []byte, f *parser.Facts) (parser.Edits, error) {
	if err := rt.makeReady(d, p, text, f, asQuery); err != nil || p.Generate == nil {
		return nil, err
	}
	return executor.LiteralEdits(p.Generate, text, r.scan.Literals, r.args.Generated)
}

// errMoved says that tables have been declared since the statement was planned.
var errMoved = errors.New("declarations have changed")

// stillTrue checks again whether the declarations that the statement was planned by hold:
// it may have waited for a backend, and rows may be on their way elsewhere. Nothing of the
// statement has been sent, so it can be planned again.
func (rt *routing) stillTrue() error {
	if !rt.isOvertaken() {
		err := rt.touch.enter()
		if errors.Is(err, errMoved) {
			rt.refresh()
		}
		return err
	}
	rt.refresh()
	return errMoved
}

// setsFromRows reports whether a statement calls set_config with a value of a row: the other participants cannot repeat it.
func setsFromRows(f *parser.Facts) bool {
	return len(f.Relations) > 0 && f.Effects&(parser.ChangesSettings|parser.ChangesAllSettings) != 0
}

// useFor makes the lane's backend ready to run a text of that plan.
func (rt *routing) useFor(lane *pool.Lane, p *plan.Plan, f *parser.Facts, free bool) error {
	if pledges(f) && rt.s.tx.isOpen() {
		return pledgeOutside() // one shard alone must not prepare a block
	}
	if f.Effects&parser.DDL != 0 && f.Effects&parser.Temp == 0 {
		if err := rt.s.commit.mayChange(); err != nil {
			return err
		}
		if err := rt.s.commit.awaitShards(); err != nil {
			return err
		}
	}
	if f.Effects&parser.HoldCursor != 0 && lane != rt.s.lane {
		return pgerr.New(pgerr.FeatureNotSupported, "a cursor WITH HOLD cannot be on another shard than home").
			WithHint("Use it inside a transaction block, without WITH HOLD.")
	}
	first := rt.s.tx.isOpen() && rt.s.tx.clock == nil
	if err := rt.s.tx.snapshotsFor(f); err != nil {
		return err
	}
	if !rt.s.tx.keepsTo(lane) {
		return rt.s.tx.maySerialize("use tables")
	}
	if err := rt.s.held.useLane(lane); err != nil {
		return err
	}
	if first {
		rt.s.tx.noteFirstUsed(rt.s.held.conn) // even if other backends have joined for a snapshot
	}
	if setsFromRows(f) {
		switch {
		case rt.s.tx.isOpen() && rt.s.held.participant() >= 0:
			return crossShardBlock()
		case rt.s.tx.isOpen():
			rt.s.tx.seal()
		case p.Explain == nil: // the shards of an EXPLAIN follow
			rt.s.implicit.seal()
		}
	}
	if f.Effects&parser.Notifies != 0 {
		if err := rt.s.commit.notifiesHere(); err != nil {
			return err
		}
	}
	if rt.s.tx.carries && lane == rt.s.lane && (p.Writes || f.Effects&(parser.Writes|parser.Notifies) != 0) {
		if err := rt.s.commit.tellFirst(rt.s.held.conn); err != nil {
			return err
		}
	}
	if !free && (p.Writes || f.Effects&(parser.Writes|transactional) != 0) {
		return rt.s.tx.noteWriting()
	}
	if p.Locks && !rt.s.tx.isOpen() {
		rt.s.implicit.noteWrite() // the rows stay locked until a Sync
	}
	return nil
}

// transactional are effects that COMMIT decides about, as it does about rows.
const transactional = homeEffects &^ (parser.Executes | parser.ReadsPrepared | parser.ReadsListening | parser.SessionID |
	parser.ReadsSequence | parser.AdvancesSequence | parser.Seed | parser.Load | parser.AdvisoryLock)

// refuseQuery answers a simple query of n bytes with an error of weft.
func (rt *routing) refuseQuery(err error, n int) error {
	rt.s.client.Consume(wire.HeaderLen + n)
	return rt.s.lost.refuseRead(err)
}

// answerCommand answers a simple query of n bytes with nothing but a command tag.
func (rt *routing) answerCommand(tag string, n int) error {
	rt.s.client.Consume(wire.HeaderLen + n)
	rt.s.out.Grow()
	rt.s.out.B = wire.AppendCommandComplete(rt.s.out.B, tag)
	rt.s.out.tellReady()
	return nil
}

// endLocally ends a block that no shard has joined. It returns the command tag.
func (t *transaction) endLocally(text []byte, f *parser.Facts) string {
	tag := "COMMIT"
	if w := words(string(text)); len(w) > 0 && (w[0] == "rollback" || w[0] == "abort") {
		tag = "ROLLBACK"
	}
	if f.Effects&parser.TxBegin == 0 { // not AND CHAIN
		t.end()
	}
	return tag
}

// enterMissing makes the lookup entries of values that have none yet.
func (rt *routing) enterMissing(missing []executor.Missing) error {
	if rt.s.srv.cfg.Keeps.Entries == nil {
		return pgerr.New(pgerr.FeatureNotSupported, "this proxy cannot make lookup entries").WithHint("Send it to a proxy that has a directory: etcd in weft.yaml.")
	}
	// The values are sorted by lookup: one request for each lookup.
	for len(missing) > 0 {
		name := missing[0].Lookup
		var keys [][]byte
		var defaults []vindex.ID
		for len(missing) > 0 && missing[0].Lookup == name {
			keys, defaults = append(keys, missing[0].Key), append(defaults, missing[0].Default)
			missing = missing[1:]
		}
		if _, err := rt.s.srv.cfg.Keeps.Entries.Ensure(rt.s.srv.ctx, directory.NumberingOf(rt.snap), name, keys, defaults); err != nil {
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "a place for a new value of lookup %q cannot be entered", name).
				WithDetail("%s", err.Error()).WithHint("Is etcd reachable? Values that have a place are not concerned.")
		}
	}
	return nil
}
