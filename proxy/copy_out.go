package proxy

import (
	"encoding/binary"
	"slices"
	"strconv"

	"weft/copydata"
	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// outlet writes the rows of a gathered query as COPY data. The fields of a row in text format
// are the bytes that COPY writes, except for escapes and quotes; those of a binary row are
// exactly what COPY writes.
type outlet struct {
	format copydata.Format
	quoted []string // the columns of FORCE_QUOTE
	fields [][]byte
	rows   int64
	// headed: the binary header is still to be sent. PostgreSQL sends it in one message with the
	// first row or with the end, and psycopg relies on that.
	headed bool
	begun  bool // the client has been told that data come
}

// formats returns the formats of the rows as a Bind has them.
func (o *outlet) formats() []byte {
	if o.format.Kind == copydata.Binary {
		return []byte{0, 1, 0, 1}
	}
	return []byte{0, 0}
}

// check finds the columns of FORCE_QUOTE.
func (o *outlet) check(columns []plan.Column) error {
	o.format.Quoted = make([]bool, len(columns))
	for _, name := range o.quoted {
		i := slices.IndexFunc(columns, func(c plan.Column) bool { return c.Name == name })
		if i < 0 && name != "*" {
			return pgerr.New(pgerr.UndefinedColumn, "column %q does not exist", name)
		}
		for j := range columns {
			o.format.Quoted[j] = o.format.Quoted[j] || j == i || name == "*"
		}
	}
	return nil
}

// begin appends the messages that come before the rows.
func (o *outlet) begin(dst []byte, columns []plan.Column) []byte {
	format := byte(0)
	if o.format.Kind == copydata.Binary {
		format = 1
	}
	dst, at := wire.Begin(dst, wire.CopyOutResponse)
	dst = binary.BigEndian.AppendUint16(append(dst, format), uint16(len(columns)))
	for range columns {
		dst = append(dst, 0, format)
	}
	dst = wire.End(dst, at)
	o.begun, o.headed, o.rows = true, format == 1, 0
	if !o.headed && o.format.Header != copydata.NoHeader {
		var names []string
		for i := range columns {
			names = append(names, columns[i].Name)
		}
		dst, at = wire.Begin(dst, wire.CopyData)
		dst = wire.End(o.format.AppendNames(dst, names), at)
	}
	return dst
}

// append appends a row, given as the body of a DataRow.
func (o *outlet) append(dst, row []byte) ([]byte, error) {
	var err error
	if o.fields, err = wire.DecodeRow(o.fields[:0], row); err != nil {
		return dst, err
	}
	o.rows++
	dst, at := wire.Begin(dst, wire.CopyData)
	return wire.End(o.format.AppendRow(o.head(dst), o.fields), at), nil
}

// head appends the binary header, once.
func (o *outlet) head(dst []byte) []byte {
	if !o.headed {
		return dst
	}
	o.headed = false
	return copydata.AppendHead(dst)
}

// end appends the messages that come after the rows.
func (o *outlet) end(dst []byte) []byte {
	if o.format.Kind == copydata.Binary {
		var at int
		dst, at = wire.Begin(dst, wire.CopyData)
		dst = wire.End(copydata.AppendTail(o.head(dst)), at)
	}
	dst = wire.AppendEmpty(dst, wire.CopyDone)
	return wire.AppendCommandComplete(dst, "COPY "+strconv.FormatInt(o.rows, 10))
}
