package dialogue

import (
	"encoding/binary"
	"math"
	"time"

	"weft/console"
	"weft/wire"
)

// textOID is the number of type text.
const textOID = 25

// types are the types of the console's columns as the protocol has them.
var types = [...]struct {
	oid  uint32
	size int16
}{
	console.Text: {textOID, -1}, console.Bool: {16, 1}, console.Int: {20, 8}, console.Float: {701, 8}, console.Time: {1184, 8}, console.Texts: {1009, -1},
}

// binaryFormat reports whether a Bind wants a column in binary.
func binaryFormat(formats []byte, i int) bool {
	switch len(formats) {
	case 0:
		return false
	case 2:
		i = 0
	}
	return 2*i+1 < len(formats) && formats[2*i+1] == 1
}

// appendColumns appends the RowDescription.
func appendColumns(dst []byte, cols []console.Column, formats []byte) []byte {
	dst, at := wire.Begin(dst, wire.RowDescription)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(cols)))
	for i, c := range cols {
		t := types[c.Type]
		dst = wire.AppendCString(dst, c.Name)
		dst = append(dst, 0, 0, 0, 0, 0, 0) // of no table
		dst = binary.BigEndian.AppendUint32(dst, t.oid)
		dst = binary.BigEndian.AppendUint16(dst, uint16(t.size))
		dst = append(dst, 0xff, 0xff, 0xff, 0xff, 0)
		if binaryFormat(formats, i) {
			dst = append(dst, 1)
		} else {
			dst = append(dst, 0)
		}
	}
	return wire.End(dst, at)
}

// appendValues appends a row.
func appendValues(dst []byte, row []any, cols []console.Column, formats []byte) []byte {
	dst, at := wire.Begin(dst, wire.DataRow)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(row)))
	for i, v := range row {
		text, ok := console.Format(v)
		switch {
		case !ok:
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
		case binaryFormat(formats, i) && cols[i].Type != console.Text:
			b := appendBinary(nil, v)
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
		default:
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(text))), text...)
		}
	}
	return wire.End(dst, at)
}

// year2000 is when PostgreSQL's time begins.
var year2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// appendBinary appends a value as PostgreSQL's send functions write it.
func appendBinary(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, 1)
		}
		return append(dst, 0)
	case int64:
		return binary.BigEndian.AppendUint64(dst, uint64(v))
	case float64:
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
	case time.Time:
		return binary.BigEndian.AppendUint64(dst, uint64(v.Sub(year2000).Microseconds()))
	case []string:
		dimensions := uint32(1)
		if len(v) == 0 {
			dimensions = 0
		}
		dst = binary.BigEndian.AppendUint32(dst, dimensions)
		dst = append(dst, 0, 0, 0, 0) // no NULLs
		dst = binary.BigEndian.AppendUint32(dst, textOID)
		if len(v) == 0 {
			return dst
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
		dst = append(dst, 0, 0, 0, 1) // the first is number 1
		for _, s := range v {
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
		}
		return dst
	}
	panic("dialogue: a value of no known type")
}
