package proxy

import (
	"errors"
	"io"

	"weft/finish"
	"weft/plan"
	"weft/stream"
	"weft/wire"
)

// readQuery gathers the whole result of a query that a write begins with, and hands its
// rows to keep, in the formats that finish.Carry says. It returns their columns.
func (wr *writer) readQuery(r *router, x *gathering, q *plan.Query, keep func(row []byte) error) ([]plan.Column, error) {
	return wr.readGathered(r, wr.queryOf(x, q), q, keep)
}

// readGathered is readQuery for a gathering that queryOf has made.
func (wr *writer) readGathered(r *router, y *gathering, q *plan.Query, keep func(row []byte) error) ([]plan.Column, error) {
	if err := wr.s.gather.describeGather(y); err != nil {
		return nil, err
	}
	if err := finish.Carriable(y.d.Columns); err != nil {
		return nil, err
	}
	y.req.formats = formatsToCarry(y.d.Columns)
	if err := wr.s.gather.prepareGather(r, y); err != nil {
		return nil, err
	}
	if q.Writes {
		for _, l := range y.legs {
			if err := wr.s.tx.noteWriter(l.conn); err != nil {
				_ = wr.s.legs.endLegs(y.legs, true)
				return nil, err
			}
		}
	}
	return y.d.Columns, wr.keepResult(y, keep)
}

// queryOf is the gathering of a query that a write begins with.
func (wr *writer) queryOf(x *gathering, q *plan.Query) *gathering {
	p := *x.plan
	p.Writes, p.Locks = false, false // the statement writes and locks, not the query
	req := x.req
	req.oids, req.formats, req.read = appendOIDs(nil, x.d.Params), nil, reading{}
	return &gathering{req: req, plan: &p, g: q.Gather, query: q.Text, within: true, began: x.began}
}

// keepResult hands the rows of a gathered query to keep.
func (wr *writer) keepResult(y *gathering, keep func(row []byte) error) error {
	if y.native != nil {
		rows, err := wr.s.gather.nativeRows(y)
		if err == nil {
			err = eachRow(rows, keep)
		}
		if ended := wr.s.legs.endLegs(y.legs, err != nil); ended != nil {
			err = ended // the error of the shard itself
		}
		return y.asRefused(err)
	}
	if err := wr.s.gather.collect(y); err != nil {
		return err
	}
	defer wr.s.reach.endStage(y)
	conn := y.intake.stager
	if y.intake.stage == nil {
		if err := wr.s.held.useLane(wr.s.lane); err != nil {
			return err
		}
		if err := wr.s.tx.quiesce(); err != nil {
			return err
		}
		conn = wr.s.held.conn
		conn.UnnamedGone()
	} else {
		wr.s.reach.trackStager(y)
	}
	l := &leg{s: wr.s, conn: conn}
	out, err := y.appendRemainder(nil, nil)
	if err != nil {
		return err
	}
	l.out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	if err = eachRow(l, keep); err != nil {
		wr.s.legs.stopLegs([]*leg{l})
	}
	if y.intake.stage != nil {
		return apart(err)
	}
	return err
}

// eachRow calls do with each row.
func eachRow(rows stream.Rows, do func(row []byte) error) error {
	for {
		row, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(row); err != nil {
			return err
		}
	}
}
