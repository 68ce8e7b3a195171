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

// analyze runs the query as it would be run, and notes in the report what that
// took. The rows go nowhere.
func (s *Session) analyze(x *gathering, report *explain.Report, began, prepared time.Time) error {
	for _, l := range x.legs {
		l.counts = make([]explain.Moved, len(x.g.Pieces))
	}
	legs, top := x.legs, report.Plan
	steps := &explain.Steps{Prepare: *explain.Since(began, prepared)}
	if x.native != nil {
		n, err := s.countNative(x)
		if err != nil {
			return err
		}
		top.Rows = &n
		steps.Gather = *explain.Since(prepared, time.Now())
	} else {
		if err := s.collect(x); err != nil {
			return err
		}
		collected := time.Now()
		steps.Gather = *explain.Since(prepared, collected)
		if err := s.analyzeRemainder(x, top); err != nil {
			return err
		}
		steps.Finish = explain.Since(collected, time.Now())
	}
	x.explain.analyzed = true
	top.Pieces = s.reportOf(x).Plan.Pieces // by now it is known what each was sent
	s.note(legs, top, x.explain.Timing)
	if x.explain.Timing {
		top.Steps = steps
	}
	return nil
}

// note writes down what the shards have sent.
func (s *Session) note(legs []*leg, top *explain.Node, timing bool) {
	top.Moved = &explain.Moved{}
	for i := range top.Pieces {
		top.Pieces[i].Moved = &explain.Moved{}
	}
	for _, l := range legs {
		shard := top.Shard(s.snap.Shards[l.shard].Name)
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

// count counts a row by its piece: the first column has its number, if there
// are several.
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

// countNative is runNative for rows that only count.
func (s *Session) countNative(x *gathering) (n int64, err error) {
	s.sendLegs(x.legs)
	rows, err := x.native.rows(x.legs, s.maxGatherBytes())
	for err == nil {
		if _, err = rows.Next(); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	ended := s.endLegs(x.legs, err != nil)
	if ended != nil && (err != nil || s.block.open) {
		return 0, ended
	}
	return n, err
}

// placeless takes the place out of an error: it is one in a text of weft's.
func placeless(err error) error {
	if e := new(pgerr.Error); errors.As(err, &e) && e.Position > 0 && !errors.Is(err, pool.ErrLost) {
		e := *e
		e.Position = 0
		return &e
	}
	return err
}

// analyzeRemainder runs the remainder over what has been collected.
func (s *Session) analyzeRemainder(x *gathering, top *explain.Node) error {
	var l *leg
	if x.stage != nil {
		top.Ending, top.RunsOn = explain.Staged, s.snap.Home
		defer s.endStage(x)
		s.mu.Lock()
		s.legs = append(s.legs[:0], x.stager)
		s.mu.Unlock()
		l = &leg{s: s, conn: x.stager}
	} else {
		top.Ending = explain.Inline
		if err := s.useForRemainder(x); err != nil {
			return err
		}
		if err := s.sent(); err != nil {
			return err
		}
		l = &leg{s: s, conn: s.conn}
	}
	x.explain.prefix = x.explain.SQL()
	out, err := x.appendRemainder(nil, nil)
	if err != nil {
		return err
	}
	l.out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	answer, err := l.texts()
	x.in = nil
	if err != nil {
		l.drain()
		return placeless(l.err)
	}
	return top.Remains(answer, x.explain.JSON())
}
