package proxy

import (
	"encoding/binary"

	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// weft infers no types. The home shard, which has all tables, says what the parameters and
// columns of a gathered statement and of its pieces are, and what is wrong with the client's
// text.

// describeGather finds out what PostgreSQL makes of the texts of a gathered query: once for all
// executions. Errors in the client's text are found here.
func (ga *gatherer) describeGather(x *gathering) error {
	for {
		x.d = x.g.Known.Load()
		if x.d == nil {
			if err := ga.learnGather(x); err != nil {
				return err
			}
		}
		if x.g.Otherwise == nil || !x.forbidden() && (x.carriable() || ga.nativeFor(x) != nil) {
			return nil
		}
		x.g = x.g.Otherwise
	}
}

// forbidden reports whether a piece has a column of a forbidden type.
func (x *gathering) forbidden() bool {
	for i := range x.g.Pieces {
		for _, f := range x.g.Pieces[i].Forbid {
			if f.Column < len(x.d.Pieces[i]) && x.d.Pieces[i][f.Column].Type == f.Type {
				return true
			}
		}
	}
	return false
}

// carriable reports whether the rows of all pieces can be carried to PostgreSQL.
func (x *gathering) carriable() bool {
	for _, columns := range x.d.Pieces {
		if finish.Carriable(columns) != nil {
			return false
		}
	}
	return true
}

// learnGather asks the home shard for the description of a gathered query.
func (ga *gatherer) learnGather(x *gathering) error {
	if err := ga.s.held.useLane(ga.s.lane); err != nil {
		return err
	}
	if err := ga.s.tx.quiesce(); err != nil {
		return err
	}
	ga.s.held.conn.UnnamedGone()
	d := &plan.Description{}
	var err error
	sql := string(x.req.text)
	if x.query != nil {
		sql = string(x.query.Append(nil, x.timelessFill()))
	}
	d.Params, d.Columns, err = finish.Describe(ga.s.held.conn, sql, oidList(x.req.oids))
	if err != nil {
		return err
	}
	x.d = d
	if err := ga.describePieces(x, d); err != nil {
		return err
	}
	if x.g.Command != nil {
		if err := ga.s.route.learnCommand(x, d, x.timelessFill()); err != nil {
			return err
		}
	}
	if x.g.Lend == nil {
		if err := ga.checkRemainder(x, d); err != nil {
			return err
		}
	}
	x.g.Known.Store(d)
	return nil
}

// timelessFill fills texts that are only described: they call now() instead of naming a time.
func (x *gathering) timelessFill() *plan.Fill {
	fill := x.fill()
	fill.Now = func(dst []byte) []byte { return append(dst, "pg_catalog.now()"...) }
	return fill
}

// describePieces finds out the columns of the pieces.
func (ga *gatherer) describePieces(x *gathering, d *plan.Description) error {
	fill := x.timelessFill()
	for i := range x.g.Pieces {
		sql := x.g.Pieces[i].Text.Append(nil, fill)
		_, cols, err := finish.Describe(ga.s.held.conn, string(sql), d.Params)
		if err != nil && !blames(err) {
			return err
		}
		if err != nil {
			ga.s.log.Error("a piece cannot be described", "sql", logged(string(sql)), "err", err)
			return pgerr.New(pgerr.InternalError, "a part of the statement cannot be described: %s", pgerr.From(err).Message)
		}
		d.Pieces = append(d.Pieces, cols)
	}
	return nil
}

// probe asks the home shard whether the client may run the statement. The statement's views were
// expanded, and the right to read a view is checked where the view is.
func (ga *gatherer) probe(x *gathering) error {
	if !x.g.Probe {
		return nil
	}
	if err := ga.s.held.useLane(ga.s.lane); err != nil {
		return err
	}
	if err := ga.s.tx.quiesce(); err != nil {
		return err
	}
	ga.s.held.conn.UnnamedGone()
	l := &leg{s: ga.s, conn: ga.s.held.conn}
	l.out = wire.AppendParse(nil, "", "EXPLAIN "+string(x.req.text), appendOIDs(nil, x.d.Params))
	var at int
	l.out, at = wire.Begin(l.out, wire.Bind)
	l.out = append(append(append(l.out, 0, 0), x.req.values...), 0, 0)
	l.out = appendExecute(wire.End(l.out, at))
	l.out = wire.AppendEmpty(l.out, wire.Sync)
	l.send()
	l.drain()
	return l.err
}

// oidList returns the parameter types of a Parse message as a list.
func oidList(oids []byte) []uint32 {
	var out []uint32
	for i := 2; i+4 <= len(oids); i += 4 {
		out = append(out, binary.BigEndian.Uint32(oids[i:]))
	}
	return out
}

// appendOIDs appends a list of types as in a Parse message.
func appendOIDs(dst []byte, oids []uint32) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(oids)))
	for _, oid := range oids {
		dst = binary.BigEndian.AppendUint32(dst, oid)
	}
	return dst
}

// describeResult appends the RowDescription of the result, or NoData.
func (x *gathering) describeResult(dst []byte) []byte {
	columns := x.d.Columns
	if x.explain != nil {
		columns = []plan.Column{x.explain.column()}
	}
	if columns == nil {
		return wire.AppendEmpty(dst, wire.NoData)
	}
	dst, at := wire.Begin(dst, wire.RowDescription)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(columns)))
	for i, c := range columns {
		dst = wire.AppendCString(dst, c.Name)
		dst = binary.BigEndian.AppendUint32(dst, c.Table)
		dst = binary.BigEndian.AppendUint16(dst, uint16(c.Num))
		dst = binary.BigEndian.AppendUint32(dst, c.Type)
		dst = binary.BigEndian.AppendUint16(dst, uint16(c.Size))
		dst = binary.BigEndian.AppendUint32(dst, uint32(c.Mod))
		dst = binary.BigEndian.AppendUint16(dst, uint16(x.req.formatOf(i)))
	}
	return wire.End(dst, at)
}
