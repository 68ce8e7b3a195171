package proxy

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"time"

	"weft/directory"
	"weft/finish"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// A query that several shards answer is gathered: each shard is sent one statement with all the
// pieces it has rows for, and the shards' rows are put together by stream operators (native.go)
// or by PostgreSQL (remainder.go).

// gathering is one execution of a query, or of a write, over several shards: what is run, on
// which backends, and what has come of it. Its parts have a noun each: the client's request, the
// portal it is bound to, the rounds in which shards are asked, the intake of their rows, the
// progress of a write, and whether all of it may be repeated. The parts are values: a step of a
// write is run by a copy of the gathering, which leaves the parts of the original alone.
type gathering struct {
	req request

	plan  *plan.Plan
	g     *plan.Gather      // what is read
	write *plan.Write       // what is changed; nil for a query
	d     *plan.Description // what PostgreSQL has said of the texts
	// query, if not nil, is the part of the client's text that is gathered.
	query  plan.Text
	far    bool // standbys are read
	within bool // the query is what a writing statement reads
	// explain is not nil if the query is to be explained.
	explain *explaining
	// native is how weft itself makes the result; nil if PostgreSQL makes it.
	native *nativePlan

	began  time.Time
	now    string // what now() is on all shards, if the statement uses it
	rounds rounds
	legs   []*leg
	// locked is how many rows each leg has locked, where they were counted.
	locked   []int
	intake   intake
	progress progress
	repeat   repeat

	portal gatherPortal
	// out writes the rows as COPY data. It is nil if rows are sent as rows.
	out *outlet
	tag string // the command tag of a write, once it is done
}

// newGathering makes the execution of a plan.
func newGathering(p *plan.Plan, req request) *gathering {
	return &gathering{plan: p, g: p.Gather(), write: p.Write(), req: req}
}

// errGather refuses a statement that visits several shards where it cannot be gathered.
var errGather = pgerr.New(pgerr.FeatureNotSupported, "this statement visits more than one shard").
	WithHint("Send it as a statement of its own.")

// gatherQuery answers a simple query of n bytes that visits several shards.
func (ga *gatherer) gatherQuery(r *router, p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	p, err := ga.gatheredPlan(r, p, text, nil)
	if err != nil {
		return ga.s.route.refuseQuery(ga.s.record.refusedText(text, nil, err), n)
	}
	switch p.Across.(type) {
	case *plan.Copy:
		return ga.s.copy.copyQuery(r, p, text, f, n)
	case *plan.Write:
		if p.Explain == nil || p.Explain.Analyze {
			return ga.s.write.writeQuery(r, p, text, f, n)
		}
	case *plan.Locked:
		return ga.s.util.programs.query(p, text, n)
	case *plan.Gather, *plan.Postponed, nil:
	}
	return ga.answerGather(r, p, text, f, n, nil)
}

// answerGather answers a simple query of n bytes with rows, or with COPY data if out is not
// nil.
func (ga *gatherer) answerGather(r *router, p *plan.Plan, text []byte, f *parser.Facts, n int, out *outlet) error {
	x := newGathering(p, queryRequest(text, r.scan.Literals, f))
	x.began, x.out, x.far = time.Now(), out, ga.s.held.away.far
	if out != nil {
		x.req.formats = out.formats()
	}
	ga.s.client.Consume(wire.HeaderLen + n)
	ga.s.account.runsAs(tally.Gather)
	ga.s.reach.beginGather()
	defer ga.s.reach.endGather()
	if p.Explain != nil {
		return ga.s.gather.explain.explainQuery(r, x)
	}
	x.req.readInto(&r.args, ga.s.record.scanOptions())
	err := ga.prepareGather(r, x)
	if errors.Is(err, errMoved) && out == nil {
		ga.s.reach.endGather()
		return ga.s.tx.runPart(x.req.text)
	} else if errors.Is(err, errMoved) {
		err = declaredAnew()
	}
	if err == nil && x.native != nil {
		if err = ga.runNative(x, true); err == nil {
			ga.s.out.tellReady()
			return nil
		}
	} else if err == nil {
		if err = ga.collect(x); err == nil {
			return ga.answerCollected(x)
		}
	}
	return ga.gatherFailed(err)
}

// gatheredPlan returns the plan for several shards, which is made only when a text needs it. r
// has the scan of the text.
func (ga *gatherer) gatheredPlan(r *router, p *plan.Plan, text, oids []byte) (*plan.Plan, error) {
	again := p.Timed && p.Gather() == nil && (p.Write() == nil || isWhole(p.Write())) && ga.s.tx.isOpen() && ga.s.tx.clock != nil
	if !p.IsPostponed() && !again {
		return p, nil
	}
	env, err := ga.s.route.environment()
	if err != nil {
		return nil, err
	}
	if p.IsPostponed() {
		if g := ga.s.srv.memory.plans.Gathered(env, &r.scan, text, oids); g.Gather() != nil || g.Write() != nil || g.Locked() != nil || !again {
			p, again = g, false
		}
	}
	if again {
		p = ga.s.srv.memory.plans.Timed(env, &r.scan, text, oids)
	}
	switch p.Across.(type) {
	case *plan.Gather, *plan.Write, *plan.Locked:
		return p, nil
	case *plan.Copy, *plan.Postponed, nil:
	}
	if p.Refusal != nil {
		return nil, p.Refusal
	}
	return nil, errGather
}

// isWhole reports whether one shard runs the client's own text.
func isWhole(w *plan.Write) bool {
	_, ok := w.Shape.(*plan.Whole)
	return ok
}

// gatherFailed answers a simple query that could not be gathered. The transaction has failed on
// at least one shard.
func (ga *gatherer) gatherFailed(err error) error {
	err = ga.s.reach.asInterrupted(ga.loseAtHand(err))
	if !errors.Is(err, pool.ErrLost) && !errors.Is(err, errEnd) && !errors.Is(err, errTold) && ga.s.legs.atFailed() {
		if err := ga.s.out.refuse(err); err != nil {
			return err
		}
		ga.s.out.tellReady()
		return nil
	}
	return ga.s.lost.refuseRead(err)
}

// loseAtHand closes the backend at hand if it was lost while weft asked it something. The
// backends of legs are not at hand.
func (ga *gatherer) loseAtHand(err error) error {
	if ga.s.held.conn == nil || !errors.Is(err, pool.ErrLost) {
		return err
	}
	tied := ga.s.held.isPinned(ga.s.held.conn) && ga.s.record.pins&^pinSessionMode != 0
	ga.s.held.drop()
	if tied {
		fatal := *pgerr.From(err)
		fatal.Severity = pgerr.SeverityFatal
		return &fatal
	}
	return err
}

// prepareGather does everything up to the point where the shards can be sent their statements.
// When it fails, nothing has been sent.
func (ga *gatherer) prepareGather(r *router, x *gathering) error {
	if err := ga.mayGather(x); err != nil {
		return err
	}
	ga.s.reach.limitGather(x.began)
	if err := ga.s.tx.takeSnapshots(); err != nil {
		return err
	}
	if err := ga.describeGather(x); err != nil {
		return err
	}
	if err := x.keepsPromise(); err != nil {
		return err
	}
	if err := ga.probe(x); err != nil {
		return err
	}
	if x.declares() && !ga.s.tx.isOpen() {
		return outsideBlock("DECLARE CURSOR") // before the query is executed
	}
	if err := ga.visit(r, x); err != nil {
		return err
	}
	if !x.within {
		ga.s.drawn.noteHome(x.plan.HomeDraws)
	}
	if !ga.s.record.scatter() && x.rounds.visited() > 1 {
		return scatterOff()
	}
	if err := ga.gatherNow(x); err != nil {
		return err
	}
	if err := ga.s.reach.interrupted(); err != nil {
		return err
	}
	x.native = ga.nativeFor(x)
	if err := x.mayLockFirst(); err != nil {
		return err
	}
	ga.secondRound(x)
	return ga.openLegs(x)
}

// mayGather refuses a query that the session's settings or its transaction do not allow.
func (ga *gatherer) mayGather(x *gathering) error {
	if err := ga.s.record.learnOptions(); err != nil {
		return err
	}
	if readsOption(x.req.text, x.req.facts) {
		ga.s.record.spellOptions()
	}
	// For a timed statement in a block, prepareGather counts the shards after visit.
	if !ga.s.record.scatter() && !(x.plan.Timed && ga.s.tx.isOpen()) {
		return scatterOff()
	}
	if err := ga.s.tx.maySerialize("read"); err != nil {
		return err
	}
	if x.within {
		return nil // weft.read = 'atomic' does not apply to what a write reads
	}
	return ga.s.tx.mayReadAtomically(x.plan.Locks && x.explain == nil)
}

// declares reports whether the statement declares a cursor that ends with its transaction.
func (x *gathering) declares() bool {
	f := x.req.facts
	return x.explain == nil && f != nil && f.Statements == 1 && f.Effects&(parser.Cursors|parser.HoldCursor) == parser.Cursors
}

func scatterOff() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "this statement visits more than one shard, and weft.scatter is off").
		WithHint("Add a condition on the shard key, or SET weft.scatter = on.")
}

// appendExecute appends an Execute of the unnamed portal that asks for all rows.
func appendExecute(dst []byte) []byte {
	return append(dst, wire.Execute, 0, 0, 0, 9, 0, 0, 0, 0, 0)
}

// fill fills the holes of the plan's texts, except the inputs.
func (x *gathering) fill() *plan.Fill {
	return &plan.Fill{
		Literal: func(dst []byte, i int) []byte {
			return append(dst, x.req.literal(i)...)
		},
		Now: func(dst []byte) []byte {
			return append(append(append(dst, '\''), x.now...), "'::pg_catalog.timestamptz"...)
		},
		Type: func(dst []byte, piece, column int) []byte {
			return append(dst, x.d.Pieces[piece][column].SQL...)
		},
	}
}

// visit finds the shards that each piece visits.
func (ga *gatherer) visit(r *router, x *gathering) error {
	r.args.ASCII = ga.s.out.encoding != "UTF8"
	x.rounds.begin(len(ga.s.route.snap.Shards))
	home := slices.IndexFunc(ga.s.route.snap.Shards, func(sh directory.Shard) bool { return sh.Name == ga.s.route.snap.Home })
	if x.plan.Looks {
		var all []plan.Instance
		for i := range x.g.Pieces {
			all = append(all, x.g.Pieces[i].Instances...)
		}
		if err := ga.s.lookups.lookUp(r, x.plan, all); err != nil {
			return err
		}
		if x.explain != nil {
			x.explain.noteLookups(r.args.Found)
		}
	}
	for i := range x.g.Pieces {
		piece := &x.g.Pieces[i]
		if piece.Where != plan.OnShards {
			x.rounds.visit(home, i)
			continue
		}
		shards, err := r.bind.BindPiece(x.plan, piece, ga.s.route.snap, &r.args)
		if err != nil {
			return err
		}
		for shard := range shards.All() {
			if shard == home && piece.Elsewhere {
				continue
			}
			x.rounds.visit(shard, i)
		}
	}
	return nil
}

// gatherNow finds out what now() is, if the statement uses it: one value on all shards, and the
// same value until the transaction ends.
func (ga *gatherer) gatherNow(x *gathering) error {
	needed := x.g.Remainder.Has(plan.Now)
	if w := x.write; w != nil {
		rows, _ := w.Shape.(*plan.Rows)
		needed = needed || w.Text().Has(plan.Now) || rows != nil && rows.Timed ||
			slices.ContainsFunc(w.Steps(), func(w *plan.Write) bool { return w.Text().Has(plan.Now) })
	}
	for i := range x.g.Pieces {
		needed = needed || x.g.Pieces[i].Text.Has(plan.Now)
	}
	if !needed {
		return nil
	}
	var err error
	x.now, err = ga.transactionNow()
	return err
}

// transactionNow returns what now() is on the shard that the transaction began on, or on the
// home shard if the transaction has no shard yet. All shards use this value.
func (ga *gatherer) transactionNow() (string, error) {
	if ga.s.tx.now != "" {
		return ga.s.tx.now, nil
	}
	lane := ga.s.lane
	if c := ga.s.tx.clock; ga.s.tx.isOpen() && c != nil {
		lane = c.Lane()
	}
	if err := ga.s.held.useLane(lane); err != nil {
		return "", err
	}
	if err := ga.s.tx.quiesce(); err != nil {
		return "", err
	}
	ga.s.held.conn.UnnamedGone()
	rows, err := ga.s.held.conn.Exec("SELECT pg_catalog.to_char(pg_catalog.now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')")
	if err != nil {
		return "", err
	}
	now := rows[0][0] + "+00"
	if ga.s.tx.isOpen() {
		ga.s.tx.noteNow(now)
	}
	return now, nil
}

// openLegs makes the backends ready and writes the messages that each is sent.
func (ga *gatherer) openLegs(x *gathering) (err error) {
	if ga.s.held.conn != nil {
		if err := ga.s.held.park(); err != nil {
			return err
		}
	}
	// The types of the shards are asked for before any backend is held: the question may need a
	// backend of the same shards.
	for shard, pieces := range x.rounds.first {
		if len(pieces) > 0 {
			lane, err := ga.s.held.away.laneTo(shard, x.far)
			if err == nil {
				_, err = ga.s.held.translationTo(lane)
			}
			if err != nil {
				return err
			}
		}
	}
	defer func() {
		if err != nil {
			_ = ga.s.legs.endLegs(x.legs, true)
			x.legs = nil
		}
	}()
	if err := ga.s.held.reserve(x.rounds.shards(), x.far); err != nil {
		return err
	}
	defer ga.s.held.unreserve()
	for shard, pieces := range x.rounds.first {
		if len(pieces) == 0 && !x.rounds.again(shard) {
			continue
		}
		if _, err := ga.s.legs.addLeg(x, shard); err != nil {
			return err
		}
	}
	if ga.s.tx.readsAtomically(x) {
		if err := ga.s.tx.snapLegs(x.legs); errors.Is(err, errNoShard) {
			ga.s.route.refresh() // the shard has left since the query was planned
			return errMoved
		} else if err != nil {
			return err
		}
	}
	for _, l := range x.legs {
		if x.locksFirst() {
			ga.s.tx.openLocking(l)
			continue
		}
		pieces := x.rounds.first[l.shard]
		if len(pieces) == 0 {
			l.over = !l.begins // the shard is asked in the second round
			continue
		}
		if x.rounds.again(l.shard) && !ga.s.tx.isOpen() && !l.opened {
			l.out = wire.AppendQuery(l.out, keepSnapshot)
			l.begins, l.opened = true, true
		}
		if l.out, err = x.appendStatement(l.out, l, pieces); err != nil {
			return err
		}
	}
	if err := ga.s.reach.interrupted(); err != nil {
		return err
	}
	ga.s.route.touch.expectGathered(x.plan, x.req.facts)
	return ga.s.route.stillTrue()
}

// appendStatement appends the messages that run these pieces on the leg's shard.
func (x *gathering) appendStatement(dst []byte, l *leg, pieces []int) ([]byte, error) {
	texts := make([][]byte, len(x.g.Pieces))
	fill := x.fill()
	var own [][]byte
	types := slices.Clone(x.d.Params)
	for _, i := range pieces {
		texts[i] = x.reduced(i, x.g.Pieces[i].Text.Append(nil, fill), &own, &types)
	}
	oids, err := l.translate.ParseOIDs(appendOIDs(nil, types))
	if err != nil {
		return dst, untranslatable(err)
	}
	values, err := l.translate.Bind(x.req.values, appendOIDs(nil, x.d.Params))
	if err != nil {
		return dst, untranslatable(err)
	}
	if len(own) > 0 {
		if values, err = finish.AppendParameters(nil, values, own...); err != nil {
			return dst, err
		}
	}
	dst = wire.AppendParse(dst, "", x.prefix()+string(finish.Tagged(nil, texts, x.d.Pieces)), oids)
	var at int
	dst, at = wire.Begin(dst, wire.Bind)
	dst = append(dst, 0, 0)
	dst = append(dst, values...)
	dst = wire.End(x.appendLegFormats(dst), at)
	if l.translate != nil && x.userTypes() {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return wire.AppendEmpty(appendExecute(dst), wire.Sync), nil
}

// userTypes reports whether values of the pieces may contain type OIDs that differ between
// shards.
func (x *gathering) userTypes() bool {
	for _, cols := range x.d.Pieces {
		for i := range cols {
			if cols[i].Type >= firstUserType {
				return true
			}
		}
	}
	return false
}

// firstUserType is the first OID that a server gives to objects made by users.
const firstUserType = 16384

// appendLegFormats appends the formats in which the shards are asked for their
// rows: the count and the codes.
func (x *gathering) appendLegFormats(dst []byte) []byte {
	if x.prefix() != "" {
		return append(dst, 0, 0) // lines of text
	}
	codes := finish.Formats(x.d.Pieces)
	if x.native != nil {
		codes = x.native.formats
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(codes)))
	for _, c := range codes {
		dst = binary.BigEndian.AppendUint16(dst, uint16(c))
	}
	return dst
}

// selected is the command tag of a query.
func selected(rows int64) string { return "SELECT " + strconv.FormatInt(rows, 10) }
