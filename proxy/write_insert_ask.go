package proxy

import (
	"slices"
	"strconv"

	"weft/executor"
	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// A value that decides where a row goes, and is not a constant, is asked of the home shard.

// ask asks the home shard for the keys of rows.
func (in *inserting) ask(rows []int) error {
	var cells []int
	for _, i := range rows {
		in.late[i] = true
		for _, cell := range in.rows.Rows[i].Keys {
			if cell >= 0 && in.cells[cell] == nil {
				cells = append(cells, cell)
			}
		}
	}
	return in.askAll(cells)
}

// askFirst asks for values that are never evaluated where the rows go, though they read no
// table: their evaluation belongs on the home shard.
func (in *inserting) askFirst() error {
	var cells []int
	for i := range in.rows.Cells {
		if in.rows.Cells[i].Home {
			cells = append(cells, i)
		}
	}
	return in.askAll(cells)
}

// askAll asks the home shard for the values of cells.
func (in *inserting) askAll(cells []int) error {
	if len(cells) == 0 {
		return nil
	}
	if err := in.s.gather.gatherNow(in.x); err != nil {
		return err
	}
	for part := range slices.Chunk(cells, maxTargets) {
		if err := in.askCells(part); err != nil {
			return err
		}
	}
	return nil
}

// askCells asks for the values of some cells in one query, with the client's own
// parameters.
func (in *inserting) askCells(cells []int) error {
	fill := in.x.fill()
	fill.Own = func(dst []byte, kind plan.PartKind, i int) []byte {
		if kind == plan.Given {
			return strconv.AppendInt(append(dst, '$'), int64(i+1), 10)
		}
		g := in.x.plan.Generate.Values[i]
		return append(dst, executor.Literal(in.x.progress.supplied[i], g.Type)...)
	}
	sql := []byte("SELECT ")
	for n, i := range cells {
		c := &in.rows.Cells[i]
		sql = c.Text.Append(append(appendComma(sql, n), '('), fill)
		sql = append(append(sql, "\n)::"...), c.As...)
	}
	got, err := in.s.write.askHomeFor(in.x, string(sql))
	if err != nil {
		return err
	}
	if len(got) != len(cells) {
		return pgerr.New(pgerr.InternalError, "%d keys of an INSERT were asked for, %d came", len(cells), len(got))
	}
	for n, i := range cells {
		in.cells[i] = &got[n]
	}
	return nil
}

// askHomeFor runs a query of one row on the home shard, with the client's parameters.
func (wr *writer) askHomeFor(x *gathering, sql string) ([]argument, error) {
	if err := wr.s.held.useLane(wr.s.lane); err != nil {
		return nil, err
	}
	if err := wr.s.tx.quiesce(); err != nil {
		return nil, err
	}
	c := wr.s.held.conn
	c.UnnamedGone()
	out := wire.AppendParse(nil, "", sql, appendOIDs(nil, x.d.Params))
	out, at := wire.Begin(out, wire.Bind)
	out = append(append(append(out, 0, 0), x.req.values...), 0, 1, 0, 1)
	out = wire.AppendDescribe(wire.End(out, at), 'P', "")
	out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	if _, err := c.Write(out); err != nil {
		return nil, c.Lost(err)
	}
	var got []argument
	var cols []plan.Column
	var failed error
	err := c.UntilReady(func(typ byte, body []byte) {
		var err error
		switch typ {
		case wire.ErrorResponse:
			e := pool.ServerError(body)
			e.Position = 0 // the position is in a text that the client does not know
			err = e
		case wire.RowDescription:
			cols, err = finish.DecodeColumns(body)
		case wire.DataRow:
			got, err = decodeRow(body, cols)
		}
		if failed == nil {
			failed = err
		}
	})
	if err == nil {
		err = failed
	}
	return got, err
}

// decodeRow copies the values of a row, which are in binary.
func decodeRow(row []byte, cols []plan.Column) (out []argument, err error) {
	row = row[min(2, len(row)):]
	for i := range cols {
		a := argument{typ: cols[i].Type, format: 1}
		if a.value, row, err = nextField(row); err != nil {
			return nil, err
		}
		a.value = slices.Clone(a.value)
		out = append(out, a)
	}
	return out, nil
}
