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
// transaction, or in one of weft's own: what it needs from elsewhere is read
// first, then every shard is sent its part, and then all are waited for. Which
// rows those are is the plan's business (plan.Write), that all shards keep them or
// none commit.go's.

// writeQuery carries out a simple query of n bytes.
func (s *Session) writeQuery(r *router, p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	x := &gathering{
		plan: p, write: p.Write, facts: f, text: slices.Clone(text), literals: slices.Clone(r.scan.Literals),
		values: noValues, formats: []byte{0, 0}, began: time.Now(),
	}
	if p.Generate != nil {
		x.supplied = slices.Clone(r.args.Generated) // see place
	}
	s.client.Consume(wire.HeaderLen + n)
	s.runsAs(tally.Write)
	if s.quiet {
		// Of a text with several statements.
		if err := s.writePart(r, x); err != nil {
			return err
		}
		s.tellWritten(x)
		return nil
	}
	own := !s.block.open
	if own {
		s.block.start("BEGIN")
	}
	x.alone = own
	s.quiet, s.quietFailed = true, false
	err := s.writePart(r, x)
	s.quiet = false
	if err != nil {
		return err
	}
	if own {
		if err := s.endOwn(); err != nil {
			return err
		}
	}
	if x.stray != nil {
		if !errors.Is(x.stray, errMoved) {
			err = s.mayAgain(x.stray)
		}
		if err != nil {
			return s.refuseRead(err)
		}
		return s.runPart(x.text)
	}
	s.tellWritten(x)
	s.tellReady()
	return nil
}

// writePart carries out a statement in the open block. Where it is the whole of
// the client's text, the tag waits for the COMMIT.
func (s *Session) writePart(r *router, x *gathering) error {
	s.beginGather()
	defer s.endGather()
	r.args.Text, r.args.Literals, r.args.Options = x.text, x.literals, s.scanOptions()
	r.args.Params = executor.Params{}
	err := s.carryOut(r, x, true)
	switch {
	case errors.Is(err, errMoved) && x.alone && x.plan.Strays:
		x.stray, s.quietFailed = err, true // again, as a transaction of its own
		return nil
	case errors.Is(err, errMoved):
		s.endGather()
		return s.runPart(x.text)
	case s.holdsBack(x, err):
		return nil
	case err != nil:
		return s.gatherFailed(s.strayed(x.named(err)))
	}
	return nil
}

// tellWritten tells the client that the statement is done, unless something went
// wrong after that.
func (s *Session) tellWritten(x *gathering) {
	if s.quietFailed || x.tag == "" {
		return
	}
	s.toClient.Grow()
	s.toClient.B = wire.AppendCommandComplete(s.toClient.B, x.tag)
}

// carryOut does what the plan says, up to the tag. With describe the columns of
// RETURNING are told first.
func (s *Session) carryOut(r *router, x *gathering, describe bool) error {
	n, err := s.writeOut(r, x, describe)
	if err == nil && x.plan.Lookups {
		err = s.keepWritten(x.claims, x.strictLookups(), x.write.Verb == "UPDATE" && len(x.write.Before) == 0)
	}
	if err != nil {
		return err
	}
	s.run.rows += n
	x.tag = x.write.Verb + " " + strconv.FormatInt(n, 10)
	if x.write.Verb == "INSERT" {
		x.tag = "INSERT 0 " + strconv.FormatInt(n, 10)
	}
	return nil
}

// writeOut does what the plan says and returns how many rows have changed.
func (s *Session) writeOut(r *router, x *gathering, describe bool) (int64, error) {
	if x.plan.Fires != nil {
		if err := s.firesOnce(x); err != nil {
			return 0, err
		}
	}
	switch w := x.write; {
	case w.Rows != nil:
		return s.insertRows(r, x, describe)
	case w.Split != nil && w.Query != nil:
		return s.insertQuery(r, x, describe)
	case w.Copies != nil:
		return s.runCopies(r, x, describe)
	}
	if err := s.prepareWrite(r, x); err != nil {
		return 0, err
	}
	return s.runWrite(x, describe)
}

// prepareWrite does everything up to the point where the shards can be sent their
// parts. Nothing is written when it fails.
func (s *Session) prepareWrite(r *router, x *gathering) error {
	if err := s.mayWrite(x); err != nil {
		return err
	}
	s.limitGather(x.began)
	if err := s.takeSnapshots(); err != nil {
		return err
	}
	if err := s.describeWrite(x); err != nil {
		return err
	}
	if err := x.keepsPromise(); err != nil {
		return err
	}
	if x.write.Read != nil {
		if err := s.readFirst(r, x); err != nil {
			return err
		}
	}
	if err := s.gatherNow(x); err != nil {
		return err
	}
	if err := s.runSteps(r, x); err != nil {
		return err
	}
	if err := s.visitWrite(r, x); err != nil {
		return err
	}
	if err := s.firesHere(x, func(shard int) bool { return len(x.visits[shard]) > 0 }); err != nil {
		return err
	}
	if err := s.interrupted(); err != nil {
		return err
	}
	return s.openWriteLegs(x)
}

// mayWrite refuses what the client does not want.
func (s *Session) mayWrite(x *gathering) error {
	if err := s.learnOptions(); err != nil {
		return err
	}
	if one := x.write.Rows != nil && len(x.write.Rows.Rows) == 1; !s.scatter() && !x.write.Whole && !x.write.Own && !one {
		return scatterOff()
	}
	return s.maySerialize("write")
}

// describeWrite finds out what PostgreSQL makes of the texts: once, and for all
// executions. Errors of the client's own text are found here.
func (s *Session) describeWrite(x *gathering) error {
	w := x.write
	x.g = w.Read
	if x.g == nil || w.Query != nil {
		x.g = &plan.Gather{}
	}
	if x.d = w.Known.Load(); x.d != nil {
		return nil
	}
	if err := s.useLane(s.lane); err != nil {
		return err
	}
	if err := s.sent(); err != nil {
		return err
	}
	s.conn.UnnamedBy = 0
	if err := s.lockFirst(x); err != nil {
		return err
	}
	d := &plan.Description{}
	var err error
	if d.Params, d.Columns, err = finish.Describe(s.conn, string(x.text), oidList(x.oids)); err != nil {
		return err
	}
	x.d = d
	if err := s.describePieces(x, d); err != nil {
		return err
	}
	if err := s.describeSteps(x, d); err != nil {
		return err
	}
	w.Known.Store(d)
	return nil
}

// readFirst collects the rows that the shards' parts need from elsewhere.
func (s *Session) readFirst(r *router, x *gathering) error {
	if err := s.probe(x); err != nil {
		return err
	}
	if err := s.visit(r, x); err != nil {
		return err
	}
	if err := s.gatherNow(x); err != nil {
		return err
	}
	s.secondRound(x)
	if err := s.openLegs(x); err != nil {
		return err
	}
	err := s.collect(x)
	x.legs, x.later = nil, nil
	return err
}

// visitWrite finds the shards that are to be written on.
func (s *Session) visitWrite(r *router, x *gathering) error {
	r.args.ASCII = s.reported["client_encoding"] != "UTF8"
	x.visits = make([][]int, len(s.snap.Shards))
	if x.write.Split != nil {
		return s.share(r, x)
	}
	if x.write.Whole {
		return s.visitWhole(r, x)
	}
	if err := s.lookUp(r, x.plan, x.write.Instances); err != nil {
		return err
	}
	shards, err := r.bind.BindPiece(x.plan, &plan.Piece{Instances: x.write.Instances}, s.snap, &r.args)
	if err != nil {
		return err
	}
	if _, ok := shards.One(); !ok && x.write.Own {
		return x.plan.Refusal
	}
	for shard := range shards.All() {
		if at := x.write.Along; at > 0 && x.gave[at-1] != nil && !x.gave[at-1][shard] {
			continue
		}
		x.visits[shard] = []int{0}
	}
	return nil
}

// openWriteLegs gets the backends ready and writes what each is to be sent.
func (s *Session) openWriteLegs(x *gathering) (err error) {
	if s.conn != nil {
		if err := s.park(); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil {
			_ = s.endLegs(x.legs, true)
			x.legs = nil
		}
	}()
	for shard, visited := range x.visits {
		if len(visited) == 0 {
			continue
		}
		if s.block.carries && s.snap.Shards[shard].Name == s.snap.Home {
			home, err := s.enlist(s.lane)
			if err == nil {
				err = s.tellFirst(home)
			}
			if err != nil {
				return err
			}
		}
		l, err := s.addLeg(x, shard)
		if err != nil {
			return err
		}
		if x.write.Verb != selectVerb || x.plan.Lookups || x.write.Own && x.write.ReadWrites {
			if err := s.wrote(l.conn); err != nil {
				return err
			}
		}
		if x.shares != nil {
			x.in = x.shares[shard]
		}
		if x.write.Whole {
			l.out, err = x.appendWhole(l.out, l)
		} else {
			l.out, err = x.appendWrite(l.out, l, x.write.Text)
		}
		if err != nil {
			return err
		}
	}
	if err := s.interrupted(); err != nil {
		return err
	}
	return s.stillTrueAfter(x)
}

// appendWrite appends what a shard is sent.
func (x *gathering) appendWrite(dst []byte, l *leg, text plan.Text) ([]byte, error) {
	fill := x.fill()
	types, values := x.d.Params, x.values
	if x.in != nil {
		fill.Input = x.in.AppendInput
		types = x.in.AppendTypes(types[:len(types):len(types)])
		var err error
		if values, err = x.in.AppendBind(nil, values); err != nil {
			return dst, err
		}
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
	dst = append(append(dst, values...), x.formats...)
	dst = wire.End(dst, at)
	if l.translate != nil && x.write.Returns {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return wire.AppendEmpty(appendExecute(dst), wire.Sync), nil
}

// runWrite sends the shards their parts, passes on what they return, and counts
// the rows they have changed.
func (s *Session) runWrite(x *gathering, describe bool) (n int64, err error) {
	if x.write.Verb == "INSERT" {
		s.sendLegs(x.legs)
	} else {
		s.sendInOrder(x.legs)
	}
	if x.write.Returns {
		parts := make([]stream.Rows, len(x.legs))
		for i, l := range x.legs {
			parts[i] = l
		}
		_, err = s.passRows(x, stream.Append(parts...), describe)
	}
	if ended := s.endLegs(x.legs, err != nil); ended != nil && !errors.Is(err, errEnd) {
		err = ended // what the shard says itself
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

// executeWrite executes the portal of such a statement, in the client's block or in
// the one that its messages are.
func (s *Session) executeWrite(x *gathering, limit int) error {
	x.over = true
	s.keepReturned(x, limit)
	err := s.carryOutBound(x)
	for s.holdsBack(x, err) {
		if err := s.endOwn(); err != nil {
			return err
		}
		s.block.start(plainBegin)
		s.quietFailed = false
		if err = s.mayAgain(x.stray); err != nil {
			break
		}
		if !s.interrupt.active {
			s.beginGather()
		}
		s.keepReturned(x, limit)
		err = s.carryOutAgain(x)
	}
	if err == nil && x.untold != nil && x.d.Columns != nil {
		if err = x.untold.rewind(); err == nil {
			s.toClient.Grow()
			s.toClient.B, err = x.appendPortion(s.toClient.B, limit)
		}
		s.quietFailed = false
		if err == nil {
			return nil
		}
	}
	x.untold = nil
	if err != nil {
		return s.boundFailed(s.strayed(x.named(err)))
	}
	s.quietFailed = false
	s.tellWritten(x)
	return nil
}

// carryOutBound is carryOut for a portal.
func (s *Session) carryOutBound(x *gathering) error {
	if err := s.mayRead(x.text, x.read); err != nil {
		return err
	}
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	for {
		params, ok := executor.DecodeParams(x.values)
		if !ok {
			return wire.ErrMalformed
		}
		r.args.Text, r.args.Literals, r.args.Options, r.args.Params = x.text, x.literals, s.scanOptions(), params
		err := s.carryOut(r, x, false)
		if !errors.Is(err, errMoved) {
			return err
		}
		if err := s.planAnew(r, x); err != nil {
			return err
		}
	}
}

// planAnew makes the plan of a portal again.
func (s *Session) planAnew(r *router, x *gathering) (err error) {
	s.read(r, x.text)
	if x.plan, err = s.plan(r, x.text, x.oids); err != nil {
		return err
	}
	if x.write = x.plan.Write; x.write == nil {
		return pgerr.New(pgerr.SerializationFailure, "the tables of this statement were declared anew meanwhile").WithHint("Try again.")
	}
	x.legs, x.in, x.shares = nil, nil, nil
	return nil
}
