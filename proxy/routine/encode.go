package routine

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/program"
	"weft/wire"
)

const (
	oidVoid   = 2278
	oidRecord = 2249
)

// result makes messages of what a routine has returned.
func (r *Run) result(c *call, p *program.Program, res *program.Result, d description, formats []int16) (*Result, error) {
	out := &Result{Tag: "SELECT"}
	if c.procedure {
		out.Tag = "CALL"
	}
	if d.columns == nil {
		return out, nil
	}
	out.Description = described(d.frame, formats)
	list, types := r.d.rows.list, columnTypes(res.Columns)
	if c.composes(p, res) {
		for i, row := range list {
			list[i] = []program.Value{{Text: program.FormatRecord(row), Valid: true}}
		}
	} else if !c.from && !c.procedure && len(d.columns) == 1 {
		types = []uint32{d.columns[0].OID}
	}
	if len(list) == 0 && !p.Set {
		list = [][]program.Value{make([]program.Value, len(d.columns))}
		if d.columns[0].OID == oidVoid && !res.Null {
			list[0][0].Valid = true // void is an empty text
		}
	}
	out.Count = len(list)
	if !slices.ContainsFunc(formats, func(f int16) bool { return f != 0 }) || d.columns[0].OID == oidVoid {
		for _, row := range list {
			out.Rows = appendRow(out.Rows, row)
		}
		return out, nil
	}
	var err error
	out.Rows, err = r.encode(c, p, res, list, types, d, formats)
	return out, err
}

// composes reports whether the columns of the result are one value: a row in the list of a SELECT.
func (c *call) composes(p *program.Program, res *program.Result) bool {
	if c.from || c.procedure || len(res.Columns) == 0 {
		return false
	}
	outs := 0
	for _, a := range p.Args {
		if a.Mode == program.Out || a.Mode == program.InOut || a.Mode == program.Table {
			outs++
		}
	}
	return outs > 1 || outs == 0 && !(len(res.Columns) == 1 && res.Columns[0].Name == p.Name)
}

func columnTypes(columns []program.Column) []uint32 {
	out := make([]uint32, len(columns))
	for i, c := range columns {
		out[i] = c.OID
	}
	return out
}

// encode lets PostgreSQL write rows in the formats that the client wants.
func (r *Run) encode(c *call, p *program.Program, res *program.Result, list [][]program.Value, types []uint32, d description, formats []int16) ([]byte, error) {
	if d.columns[0].OID == oidRecord && c.composes(p, res) {
		return nil, &refusal{pgerr.New(pgerr.FeatureNotSupported, "function %q returns a record of no named type, and weft cannot write it in binary", c.name).
			WithHint("SELECT * FROM %s(…).", c.name)}
	}
	if c.composes(p, res) {
		types = []uint32{d.columns[0].OID}
	}
	items := make([]string, len(types))
	for i := range items {
		items[i] = "$" + strconv.Itoa(i+1)
	}
	q := &program.Prepared{SQL: "SELECT " + strings.Join(items, ", "), Types: types, Handle: r.d.room.name("e")}
	var out []byte
	for _, row := range list {
		values := appendValues(nil, row)
		values = binary.BigEndian.AppendUint16(values[:len(values)-2], uint16(len(formats)))
		for _, f := range formats {
			values = binary.BigEndian.AppendUint16(values, uint16(f))
		}
		if _, err := r.d.execute(q, values, 0, func(body []byte) { out = wire.AppendFrame(out, wire.DataRow, body) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// appendRow appends a DataRow of texts.
func appendRow(b []byte, row []program.Value) []byte {
	values := make([]*string, len(row))
	for i := range row {
		if row[i].Valid {
			values[i] = &row[i].Text
		}
	}
	return wire.AppendTextRow(b, values)
}
