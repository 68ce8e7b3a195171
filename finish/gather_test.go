package finish_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"weft/finish"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// answer is what a statement gave, its rows as bodies of DataRow.
type answer struct {
	cols []plan.Column
	rows []string
}

// fetch runs a text with parameters of these types and shows its rows in text.
// bind is the part of a Bind that has the parameters.
func fetch(tb testing.TB, c *pool.Conn, sql string, types []uint32, bind []byte) answer {
	tb.Helper()
	var a answer
	if err := execute(c, sql, types, bind, nil, &a, func(row []byte) error {
		a.rows = append(a.rows, string(row))
		return nil
	}); err != nil {
		tb.Fatalf("%s: %v", clip(sql), err)
	}
	return a
}

// execute runs a text and shows its rows to f.
func execute(c *pool.Conn, sql string, types []uint32, bind []byte, formats []int16, a *answer, f func(row []byte) error) error {
	oids := binary.BigEndian.AppendUint16(nil, uint16(len(types)))
	for _, p := range types {
		oids = binary.BigEndian.AppendUint32(oids, p)
	}
	out := wire.AppendParse(nil, "", sql, oids)
	out, at := wire.Begin(out, wire.Bind)
	out = append(out, 0, 0)
	if bind == nil {
		bind = []byte{0, 0, 0, 0}
	}
	out = append(out, bind...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(formats)))
	for _, x := range formats {
		out = binary.BigEndian.AppendUint16(out, uint16(x))
	}
	out = wire.End(out, at)
	out = wire.AppendDescribe(out, 'P', "")
	out, at = wire.Begin(out, wire.Execute)
	out = wire.End(append(out, 0, 0, 0, 0, 0), at)
	out = wire.AppendEmpty(out, wire.Sync)
	if _, err := c.Write(out); err != nil {
		return err
	}
	var failed error
	err := c.UntilReady(func(typ byte, body []byte) {
		if failed != nil {
			return
		}
		switch typ {
		case wire.RowDescription:
			if a != nil {
				a.cols, failed = finish.DecodeColumns(body)
			}
		case wire.DataRow:
			failed = f(body)
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// gathering is a statement whose pieces all run on one shard.
type gathering struct {
	conn   *pool.Conn
	pieces []string
	shapes []finish.Shape
	limits finish.Limits
}

func (g *gathering) columns() [][]plan.Column {
	var out [][]plan.Column
	for _, s := range g.shapes {
		out = append(out, s.Columns)
	}
	return out
}

// texts are the pieces that are not empty.
func (g *gathering) tagged() string {
	texts := make([][]byte, len(g.pieces))
	for i, p := range g.pieces {
		if p != "" {
			texts[i] = []byte(p)
		}
	}
	return string(finish.Tagged(nil, texts, g.columns()))
}

// inline carries the pieces' rows as parameters into a remainder that has %[n]s
// for the n-th piece.
func (g *gathering) inline(tb testing.TB, remainder string, types []uint32, client []byte) answer {
	tb.Helper()
	limits := g.limits
	if limits.Inline == 0 {
		limits.Inline = 1 << 30
	}
	in := finish.NewInputs(g.shapes, len(types), limits)
	if err := execute(g.conn, g.tagged(), types, client, finish.Formats(g.columns()), nil, func(row []byte) error {
		full, err := in.Add(row)
		if full {
			tb.Fatal("full")
		}
		return err
	}); err != nil {
		tb.Fatalf("%s: %v", clip(g.tagged()), err)
	}
	var inputs []any
	for i := range g.pieces {
		inputs = append(inputs, string(in.AppendInput(nil, i)))
	}
	bind, err := in.AppendBind(nil, client)
	if err != nil {
		tb.Fatal(err)
	}
	return fetch(tb, g.conn, fmt.Sprintf(remainder, inputs...), in.AppendTypes(types), bind)
}

// staged carries the pieces' rows through a temporary table on another backend,
// the first few of them through memory.
func (g *gathering) staged(tb testing.TB, to *pool.Conn, remainder string, types []uint32, client []byte) answer {
	tb.Helper()
	run(tb, to, "BEGIN READ WRITE")
	defer run(tb, to, "COMMIT")
	in := finish.NewInputs(g.shapes, len(types), finish.Limits{Inline: 100})
	var stage *finish.Stage
	err := execute(g.conn, g.tagged(), types, client, finish.Formats(g.columns()), nil, func(row []byte) error {
		if stage != nil {
			return stage.Add(row)
		}
		full, err := in.Add(row)
		if full && err == nil {
			stage, err = finish.OpenStage(to, in)
		}
		return err
	})
	if stage == nil && err == nil {
		stage, err = finish.OpenStage(to, in)
	}
	if err == nil {
		err = stage.Close()
	}
	if err != nil {
		tb.Fatalf("%s: %v", clip(g.tagged()), err)
	}
	var inputs []any
	for i := range g.pieces {
		inputs = append(inputs, string(stage.AppendInput(nil, i)))
	}
	return fetch(tb, to, fmt.Sprintf(remainder, inputs...), types, client)
}
