package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"weft/explain"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// analyze runs the query as usual, drops its rows, and notes in the report what the run took.
func (ga *gatherer) analyze(x *gathering, report *explain.Report, began, prepared time.Time) error {
	for _, l := range x.legs {
		l.counts = make([]explain.Moved, len(x.g.Pieces))
	}
	legs, top := x.legs, report.Plan
	steps := &explain.Steps{Prepare: *explain.Since(began, prepared)}
	if x.native != nil {
		n, err := ga.countNative(x)
		if err != nil {
			return err
		}
		top.Rows = &n
		steps.Gather = *explain.Since(prepared, time.Now())
	} else {
		if err := ga.collect(x); err != nil {
			return err
		}
		collected := time.Now()
		steps.Gather = *explain.Since(prepared, collected)
		if err := ga.analyzeRemainder(x, top); err != nil {
			return err
		}
		steps.Finish = explain.Since(collected, time.Now())
	}
	x.explain.analyzed = true
	top.Pieces = ga.s.gather.explain.reportOf(x).Plan.Pieces // now the texts that were sent are known
	ga.noteSent(legs, top, x.explain.Timing)
	if x.explain.Timing {
		top.Steps = steps
	}
	return nil
}

// noteSent notes in the report how much each shard has sent.
func (ga *gatherer) noteSent(legs []*leg, top *explain.Node, timing bool) {
	top.Moved = &explain.Moved{}
	for i := range top.Pieces {
		top.Pieces[i].Moved = &explain.Moved{}
	}
	for _, l := range legs {
		shard := top.Shard(ga.s.route.snap.Shards[l.shard].Name)
		shard.Moved = &explain.Moved{}
		for j, c := range l.counts {
			shard.Moved.Add(c)
			top.Pieces[j].Moved.Add(c)
			top.Moved.Add(c)
		}
		if !timing || l.sentAt.IsZero() {
			continue
		}
		if !l.firstAt.IsZero() {
			shard.First = explain.Since(l.sentAt, l.firstAt)
		}
		if !l.overAt.IsZero() {
			shard.Last = explain.Since(l.sentAt, l.overAt)
		}
	}
}

// count counts a row by its piece. If there are several pieces, the first column is the number
// of the piece.
func (l *leg) count(row []byte) {
	if l.firstAt.IsZero() {
		l.firstAt = time.Now()
	}
	piece := 0
	if len(l.counts) > 1 {
		if len(row) < 10 || binary.BigEndian.Uint32(row[2:]) != 4 {
			return
		}
		piece = int(binary.BigEndian.Uint32(row[6:]))
	}
	if piece < len(l.counts) {
		l.counts[piece].Rows++
		l.counts[piece].Bytes += int64(len(row))
	}
}

// countNative is runNative, but only counts the rows.
func (ga *gatherer) countNative(x *gathering) (n int64, err error) {
	ga.sendLegs(x.legs)
	rows, err := x.native.rows(x.legs, ga.s.record.maxGatherBytes())
	for err == nil {
		if _, err = rows.Next(); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	ended := ga.s.legs.endLegs(x.legs, err != nil)
	if ended != nil && (err != nil || ga.s.tx.isOpen()) {
		return 0, ended
	}
	return n, err
}

// placeless takes the position out of an error, because the position is one in weft's own text.
func placeless(err error) error {
	if e := new(pgerr.Error); errors.As(err, &e) && e.Position > 0 && !errors.Is(err, pool.ErrLost) {
		e := *e
		e.Position = 0
		return &e
	}
	return err
}

// analyzeRemainder runs the remainder over the collected rows.
func (ga *gatherer) analyzeRemainder(x *gathering, top *explain.Node) error {
	var l *leg
	if x.intake.stage != nil {
		top.Ending, top.RunsOn = explain.Staged, ga.s.route.snap.Home
		defer ga.s.reach.endStage(x)
		ga.s.reach.trackStager(x)
		l = &leg{s: ga.s, conn: x.intake.stager}
	} else {
		top.Ending = explain.Inline
		if err := ga.useForRemainder(x); err != nil {
			return err
		}
		if err := ga.s.tx.quiesce(); err != nil {
			return err
		}
		l = &leg{s: ga.s, conn: ga.s.held.conn}
	}
	x.explain.prefix = x.explain.SQL()
	out, err := x.appendRemainder(nil, nil)
	if err != nil {
		return err
	}
	l.out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	answer, err := l.texts()
	x.intake.inputs = nil
	if err != nil {
		l.drain()
		return placeless(l.err)
	}
	return top.Remains(answer, x.explain.JSON())
}
