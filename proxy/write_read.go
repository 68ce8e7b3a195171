package proxy

import (
	"encoding/binary"
	"errors"
	"io"

	"weft/finish"
	"weft/plan"
	"weft/stream"
	"weft/wire"
)

// readQuery gathers the query that a write begins with, to the end, and hands its
// rows to keep. They are as finish.Carry says. It returns their columns.
func (s *Session) readQuery(r *router, x *gathering, keep func(row []byte) error) ([]plan.Column, error) {
	y := s.queryOf(x)
	return s.readGathered(r, x, y, keep)
}

// readGathered is readQuery for a gathering that queryOf has made.
func (s *Session) readGathered(r *router, x, y *gathering, keep func(row []byte) error) ([]plan.Column, error) {
	if err := s.describeGather(y); err != nil {
		return nil, err
	}
	if err := finish.Carriable(y.d.Columns); err != nil {
		return nil, err
	}
	y.formats = binary.BigEndian.AppendUint16(nil, uint16(len(y.d.Columns)))
	for _, f := range finish.Formats([][]plan.Column{y.d.Columns}) {
		y.formats = binary.BigEndian.AppendUint16(y.formats, uint16(f))
	}
	if err := s.prepareGather(r, y); err != nil {
		return nil, err
	}
	if x.write.ReadWrites {
		for _, l := range y.legs {
			if err := s.wrote(l.conn); err != nil {
				_ = s.endLegs(y.legs, true)
				return nil, err
			}
		}
	}
	return y.d.Columns, s.keepResult(y, keep)
}

// queryOf is the gathering of that query.
func (s *Session) queryOf(x *gathering) *gathering {
	p := *x.plan
	p.Writes, p.Locks = false, false // it is the statement that does
	y := &gathering{
		plan: &p, g: x.write.Read, facts: x.facts, text: x.text, literals: x.literals, oids: appendOIDs(nil, x.d.Params),
		values: x.values, began: x.began, within: true,
	}
	y.query = x.write.Query
	return y
}

// keepResult hands out the rows of a gathered query.
func (s *Session) keepResult(y *gathering, keep func(row []byte) error) error {
	if y.native != nil {
		rows, err := s.nativeRows(y)
		if err == nil {
			err = eachRow(rows, keep)
		}
		if ended := s.endLegs(y.legs, err != nil); ended != nil {
			err = ended // what the shard says itself
		}
		return y.asRefused(err)
	}
	if err := s.collect(y); err != nil {
		return err
	}
	defer s.endStage(y)
	conn := y.stager
	if y.stage == nil {
		if err := s.useLane(s.lane); err != nil {
			return err
		}
		if err := s.sent(); err != nil {
			return err
		}
		conn = s.conn
		conn.UnnamedBy = 0
	} else {
		s.trackStager(y)
	}
	l := &leg{s: s, conn: conn}
	out, err := y.appendRemainder(nil, nil)
	if err != nil {
		return err
	}
	l.out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	if err = eachRow(l, keep); err != nil {
		s.stopLegs([]*leg{l})
	}
	if y.stage != nil {
		return apart(err)
	}
	return err
}

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
