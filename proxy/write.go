package proxy

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"weft/executor"
	"weft/finish"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/stream"
	"weft/tally"
	"weft/wire"
)

// A statement that changes rows on several shards is carried out in the client's
// transaction, or in one that weft opens: rows that it needs from elsewhere are read first,
// then every shard is sent its part, and then all shards are waited for. plan.Write says
// which rows change; commit.go sees to it that all shards keep the changes or none does.

// writeQuery carries out a simple query of n bytes that writes on several shards.
func (wr *writer) writeQuery(r *router, p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	x := newGathering(p, queryRequest(text, r.scan.Literals, f))
	wr.s.client.Consume(wire.HeaderLen + n)
	wr.s.account.runsAs(tally.Write)
	return wr.answerWrite(r, x)
}

// copyWritten carries out the query of a COPY that writes on several shards, and answers with the
// rows that it returns as COPY data.
func (wr *writer) copyWritten(r *router, p *plan.Plan, text []byte, f *parser.Facts, out *outlet) error {
	x := newGathering(p, queryRequest(text, r.scan.Literals, f))
	x.out, x.req.formats = out, out.formats()
	return wr.answerWrite(r, x)
}

// answerWrite carries out the statement of a simple query, in the client's transaction or in one
// of its own.
func (wr *writer) answerWrite(r *router, x *gathering) error {
	x.began = time.Now()
	if x.plan.Explain != nil {
		if err := x.explained(); err != nil {
			return err
		}
	}
	if x.plan.Generate != nil {
		x.progress.supplied = slices.Clone(r.args.Generated) // see place
	}
	if wr.s.out.isQuiet() {
		// The statement is part of a text with several.
		m := wr.s.out.mark()
		if err := wr.writePart(r, x); err != nil || wr.s.out.failedSince(m) {
			return err
		}
		wr.s.out.tellWritten(x)
		return nil
	}
	own := !wr.s.tx.isOpen()
	if own {
		wr.s.tx.start("BEGIN")
	}
	x.repeat.alone = own && x.out == nil && x.explain == nil // else the text is not at hand
	failed, err := wr.s.out.quietly(func() error { return wr.writePart(r, x) })
	if err != nil {
		return err
	}
	if own {
		if failed, err = wr.s.tx.endOwn(failed); err != nil {
			return err
		}
	}
	if x.repeat.stray != nil {
		if !errors.Is(x.repeat.stray, errMoved) {
			err = wr.s.reach.mayAgain(x.repeat.stray)
		}
		if err != nil {
			return wr.s.lost.refuseRead(err)
		}
		return wr.s.tx.runPart(x.req.text)
	}
	if !failed {
		wr.s.out.tellWritten(x)
	}
	wr.s.out.tellReady()
	return nil
}

// writePart carries out a statement in the open block. If the statement is the whole of the
// client's text, its tag waits for the COMMIT.
func (wr *writer) writePart(r *router, x *gathering) error {
	wr.s.reach.beginGather()
	defer wr.s.reach.endGather()
	x.req.readInto(&r.args, wr.s.record.scanOptions())
	r.args.Params = executor.Params{}
	var err error
	switch {
	case x.explain != nil:
		err = wr.s.gather.explain.explainWhole(r, x)
	case x.out != nil:
		err = unplaced(wr.carryOut(r, x, true)) // the text is weft's
	default:
		err = wr.carryOut(r, x, true)
	}
	switch {
	case errors.Is(err, errMoved) && x.explain != nil:
		wr.s.reach.endGather()
		return wr.s.tx.runPart(x.explain.text)
	case errors.Is(err, errMoved) && x.out != nil:
		return wr.s.gather.gatherFailed(declaredAnew())
	case errors.Is(err, errMoved) && x.repeat.alone && x.plan.Strays:
		x.repeat.stray = err // run again, in another transaction
		wr.s.out.fail()
		return nil
	case errors.Is(err, errMoved):
		wr.s.reach.endGather()
		return wr.s.tx.runPart(x.req.text)
	case wr.s.route.holdsBack(x, err):
		return nil
	case err != nil:
		if x.out != nil && !x.out.begun && x.d != nil && x.changing(err) {
			wr.s.out.Grow()
			wr.s.out.B = x.appendStart(wr.s.out.B)
		}
		return wr.s.gather.gatherFailed(wr.s.route.refuseStray(x.named(err)))
	}
	return nil
}

// changing reports whether an error of a write has come up while rows were changed. Behind COPY, PostgreSQL has announced data by then.
func (x *gathering) changing(err error) bool {
	switch code := pgerr.From(err).Code; code[:min(2, len(code))] {
	case "23", "44", "P0": // constraints, views' check options, and what triggers raise
		return true
	}
	return midway(err) && (x.running() || len(x.write.Steps()) > 0)
}

// tellWritten tells the client that the statement is done.
func (o *answers) tellWritten(x *gathering) {
	if x.tag == "" {
		return
	}
	o.Grow()
	if x.explain != nil {
		o.B = x.explain.appendRows(x.describeResult(o.B))
		return
	}
	if x.out != nil {
		o.B = x.out.end(o.B)
		return
	}
	o.B = wire.AppendCommandComplete(o.B, x.tag)
}

// carryOut carries out the plan, up to the tag. With describe the client is told the
// columns of RETURNING first.
func (wr *writer) carryOut(r *router, x *gathering, describe bool) error {
	n, err := wr.writeOut(r, x, describe)
	err = x.astrayError(err)
	wr.s.drawn.noteHome(x.plan.HomeDraws)
	if err == nil && x.plan.Lookups {
		k := x.keeping()
		k.exchange = x.write.Verb == "UPDATE" && len(x.write.Steps()) == 0
		err = wr.s.lookups.keepWritten(k)
	}
	if err != nil {
		if x.out == nil {
			x.repeat.takeBack(wr.s)
		}
		return err
	}
	wr.s.account.run.rows += n
	x.tag = x.write.Verb + " " + strconv.FormatInt(n, 10)
	if x.write.Verb == "INSERT" {
		x.tag = "INSERT 0 " + strconv.FormatInt(n, 10)
	}
	return nil
}

// writeOut carries out the plan and returns how many rows have changed.
func (wr *writer) writeOut(r *router, x *gathering, describe bool) (int64, error) {
	if x.plan.Fires != nil {
		if err := wr.firesOnce(x); err != nil {
			return 0, err
		}
	}
	switch s := x.write.Shape.(type) {
	case *plan.Rows:
		return wr.insertRows(r, x, s, describe)
	case *plan.Stream:
		return wr.insertQuery(r, x, s, describe)
	case *plan.Copies:
		return wr.runCopies(r, x, describe)
	case *plan.Local, *plan.AtHome, *plan.Share, *plan.Own, *plan.Whole, *plan.Locking:
	}
	if err := wr.prepareWrite(r, x); err != nil {
		return 0, err
	}
	return wr.runWrite(x, describe)
}

// prepareWrite does everything up to the point where the shards can be sent their parts. If
// it fails, only steps before the write may have been carried out.
func (wr *writer) prepareWrite(r *router, x *gathering) error {
	if err := wr.mayWrite(onOneShard(x.write)); err != nil {
		return err
	}
	wr.s.reach.limitGather(x.began)
	if err := wr.s.tx.takeSnapshots(); err != nil {
		return err
	}
	if err := wr.describeWrite(x); err != nil {
		return err
	}
	if err := x.keepsPromise(); err != nil {
		return err
	}
	if x.write.Lent() != nil {
		if err := wr.readFirst(r, x); err != nil {
			return err
		}
	}
	if err := wr.s.gather.gatherNow(x); err != nil {
		return err
	}
	if err := wr.runSteps(r, x); err != nil {
		return err
	}
	if err := wr.visitWrite(r, x); err != nil {
		return err
	}
	if err := wr.firesHere(x, func(shard int) bool { return len(x.rounds.first[shard]) > 0 }); err != nil {
		return err
	}
	if err := wr.s.reach.interrupted(); err != nil {
		return err
	}
	return wr.openWriteLegs(x)
}

// mayWrite refuses a write that the client's options do not allow. one says that the write never
// visits more than one shard.
func (wr *writer) mayWrite(one bool) error {
	if err := wr.s.record.learnOptions(); err != nil {
		return err
	}
	if !one && !wr.s.record.scatter() {
		return scatterOff()
	}
	return wr.s.tx.maySerialize("write")
}

// onOneShard reports whether a write never visits more than one shard.
func onOneShard(w *plan.Write) bool {
	switch s := w.Shape.(type) {
	case *plan.Whole, *plan.Own:
		return true
	case *plan.Rows:
		return len(s.Rows) == 1
	case *plan.Local, *plan.AtHome, *plan.Share, *plan.Stream, *plan.Copies, *plan.Locking:
	}
	return false
}

// describeWrite asks PostgreSQL for the parameters and columns of the texts, once for all
// executions of the plan. It finds errors in the client's text.
func (wr *writer) describeWrite(x *gathering) error {
	w := x.write
	if x.g = w.Lent(); x.g == nil {
		x.g = &plan.Gather{}
	}
	if x.d = w.Known.Load(); x.d != nil {
		return nil
	}
	if err := wr.s.held.useLane(wr.s.lane); err != nil {
		return err
	}
	if err := wr.s.tx.quiesce(); err != nil {
		return err
	}
	wr.s.held.conn.UnnamedGone()
	if err := wr.s.held.lockFirst(x); err != nil {
		return err
	}
	d := &plan.Description{}
	var err error
	if d.Params, d.Columns, err = finish.Describe(wr.s.held.conn, string(x.req.text), oidList(x.req.oids)); err != nil {
		return err
	}
	x.d = d
	if err := wr.s.gather.describePieces(x, d); err != nil {
		return err
	}
	if err := wr.describeSteps(x, d); err != nil {
		return err
	}
	w.Known.Store(d)
	return nil
}

// readFirst collects the rows that the parts of the shards need from elsewhere.
func (wr *writer) readFirst(r *router, x *gathering) error {
	if err := wr.s.gather.probe(x); err != nil {
		return err
	}
	if err := wr.s.gather.visit(r, x); err != nil {
		return err
	}
	if err := wr.s.gather.gatherNow(x); err != nil {
		return err
	}
	wr.s.gather.secondRound(x)
	if err := wr.s.gather.openLegs(x); err != nil {
		return err
	}
	err := wr.s.gather.collect(x)
	x.legs, x.rounds.later = nil, nil
	return err
}

// visitWrite finds the shards that the statement writes on.
func (wr *writer) visitWrite(r *router, x *gathering) error {
	r.args.ASCII = wr.s.out.encoding != "UTF8"
	x.rounds.begin(len(wr.s.route.snap.Shards))
	along, one := 0, false
	switch s := x.write.Shape.(type) {
	case *plan.Share:
		return wr.share(r, x, s)
	case *plan.Whole:
		return wr.s.lookups.visitWhole(r, x, s)
	case *plan.Local:
		along = s.Along
	case *plan.Own:
		one = true
	case *plan.AtHome:
	case *plan.Rows, *plan.Stream, *plan.Copies, *plan.Locking:
		// A write of these shapes finds its shards itself.
	}
	in := x.write.Instances()
	if err := wr.s.lookups.lookUp(r, x.plan, in); err != nil {
		return err
	}
	shards, err := r.bind.BindPiece(x.plan, &plan.Piece{Instances: in}, wr.s.route.snap, &r.args)
	if err != nil {
		return err
	}
	if _, ok := shards.One(); !ok && one {
		return x.plan.Refusal
	}
	for shard := range shards.All() {
		if x.progress.gaveNone(along, shard) {
			continue
		}
		x.rounds.visit(shard, 0)
	}
	return nil
}

// openWriteLegs gets the backends ready and fills in the messages for each.
func (wr *writer) openWriteLegs(x *gathering) (err error) {
	if wr.s.held.conn != nil {
		if err := wr.s.held.park(); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			_ = wr.s.legs.endLegs(x.legs, true)
			x.legs = nil
		}
	}()
	own, _ := x.write.Shape.(*plan.Own)
	text := x.write.Text()
	if err := wr.s.held.reserve(x.rounds.shards(), false); err != nil {
		return err
	}
	defer wr.s.held.unreserve()
	for shard, visited := range x.rounds.first {
		if len(visited) == 0 {
			continue
		}
		if wr.s.tx.carries && wr.s.route.snap.Shards[shard].Name == wr.s.route.snap.Home {
			home, err := wr.s.every.enlist(wr.s.lane)
			if err == nil {
				err = wr.s.commit.tellFirst(home)
			}
			if err != nil {
				return err
			}
		}
		l, err := wr.s.legs.addLeg(x, shard)
		if err != nil {
			return err
		}
		if x.write.Verb != selectVerb || x.plan.Lookups || own != nil && own.Writes {
			if err := wr.s.tx.noteWriter(l.conn); err != nil {
				return err
			}
		}
		if x.progress.shares != nil {
			x.intake.inputs = x.progress.shares[shard]
		}
		if isWhole(x.write) {
			l.out, err = x.appendWhole(l.out, l)
		} else {
			l.out, err = x.appendWrite(l.out, l, text)
		}
		if err != nil {
			return err
		}
	}
	if err := wr.s.reach.interrupted(); err != nil {
		return err
	}
	return wr.stillTrueAfter(x)
}

// appendWrite appends the messages for the shard of a leg.
func (x *gathering) appendWrite(dst []byte, l *leg, text plan.Text) ([]byte, error) {
	fill := x.fill()
	types, values, err := x.intake.bind(fill, x.d.Params, x.req.values)
	if err != nil {
		return dst, err
	}
	given := appendOIDs(nil, types)
	oids, err := l.translate.ParseOIDs(given)
	if err != nil {
		return dst, untranslatable(err)
	}
	if values, err = l.translate.Bind(values, given); err != nil {
		return dst, untranslatable(err)
	}
	dst = wire.AppendParse(dst, "", string(text.Append(nil, fill)), oids)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(dst, 0, 0)
	dst = append(append(dst, values...), x.req.formats...)
	dst = wire.End(dst, at)
	if l.translate != nil && x.write.Returns {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return wire.AppendEmpty(appendExecute(dst), wire.Sync), nil
}

// runWrite sends the shards their parts, passes on the rows that they return, and counts
// the rows that they have changed.
func (wr *writer) runWrite(x *gathering, describe bool) (n int64, err error) {
	if x.write.Verb == "INSERT" {
		wr.s.gather.sendLegs(x.legs)
	} else {
		wr.s.gather.sendInOrder(x.legs)
	}
	if x.write.Returns {
		parts := make([]stream.Rows, len(x.legs))
		for i, l := range x.legs {
			parts[i] = l
		}
		_, err = wr.s.gather.passRows(x, stream.Append(parts...), describe)
	}
	if ended := wr.s.legs.endLegs(x.legs, err != nil); ended != nil && !errors.Is(err, errEnd) {
		err = ended // the error of the shard itself
	}
	if err != nil {
		return 0, err
	}
	for _, l := range x.legs {
		n += l.changed
	}
	return n, nil
}

// rowsOf is the number of rows in a command tag.
func rowsOf(tag []byte) int64 {
	i, n, unit := len(tag)-1, int64(0), int64(1)
	for i >= 0 && tag[i] == 0 {
		i--
	}
	for ; i >= 0 && tag[i] >= '0' && tag[i] <= '9'; i-- {
		n += unit * int64(tag[i]-'0')
		unit *= 10
	}
	if i >= 0 && tag[i] == ' ' {
		return n
	}
	return 0
}

// executeWrite executes the portal of a statement that writes on several shards, in the
// client's block or in the implicit block of its messages.
func (wr *writer) executeWrite(x *gathering, limit int) error {
	x.portal.over = true
	x.portal.keepReturned(limit, wr.s.record.maxGatherBytes())
	err := wr.carryOutBound(x)
	for wr.s.route.holdsBack(x, err) {
		if _, err := wr.s.tx.endOwn(true); err != nil {
			return err
		}
		wr.s.tx.start(plainBegin)
		if err = wr.s.reach.mayAgain(x.repeat.stray); err != nil {
			break
		}
		if !wr.s.reach.interrupt.active {
			wr.s.reach.beginGather()
		}
		x.portal.keepReturned(limit, wr.s.record.maxGatherBytes())
		err = wr.s.route.carryOutAgain(x)
	}
	if err == nil && x.portal.untold != nil && x.d.Columns != nil {
		if err = x.portal.untold.rewind(); err == nil {
			wr.s.out.Grow()
			wr.s.out.B, err = x.portal.appendPortion(wr.s.out.B, limit, x.tag)
		}
		if err == nil {
			return nil
		}
	}
	x.portal.untold = nil
	if err != nil {
		return wr.s.gather.boundFailed(wr.s.route.refuseStray(x.named(err)))
	}
	wr.s.out.tellWritten(x)
	return nil
}

// carryOutBound is carryOut for a portal; it plans again if tables have been declared
// meanwhile.
func (wr *writer) carryOutBound(x *gathering) error {
	if err := wr.s.record.mayRead(x.req.text, x.req.read); err != nil {
		return err
	}
	r := wr.s.srv.memory.routers.Get().(*router)
	defer wr.s.srv.memory.routers.Put(r)
	for {
		if !x.req.bindInto(&r.args, wr.s.record.scanOptions()) {
			return wire.ErrMalformed
		}
		err := wr.carryOut(r, x, false)
		if !errors.Is(err, errMoved) {
			return err
		}
		if err := wr.planAnew(r, x); err != nil {
			return err
		}
	}
}

// planAnew plans the statement of a portal again.
func (wr *writer) planAnew(r *router, x *gathering) (err error) {
	wr.s.route.read(r, x.req.text)
	if x.plan, err = wr.s.route.plan(r, x.req.text, x.req.oids); err != nil {
		return err
	}
	if x.write = x.plan.Write(); x.write == nil {
		return pgerr.New(pgerr.SerializationFailure, "the tables of this statement were declared anew meanwhile").WithHint("Try again.")
	}
	x.legs, x.intake.inputs, x.progress.shares = nil, nil, nil
	return nil
}
