package copydata

import (
	"encoding/binary"
	"strings"
)

// AppendField appends a field for a server to read, such that no option of the
// format changes its value. A delimiter is not appended.
func (f *Format) AppendField(dst, value []byte) []byte {
	switch f.Kind {
	case Binary:
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
		return append(dst, value...)
	case CSV:
		return f.appendQuoted(dst, value)
	}
	if string(value) != f.Null {
		return f.appendEscaped(dst, value)
	}
	for _, b := range value { // other bytes, the same value
		dst = append(dst, '\\', '0'+b>>6, '0'+b>>3&7, '0'+b&7)
	}
	return dst
}

// SkipFields returns where a line goes on behind the first n fields, which AppendField
// has written, and their delimiters. The line may have been cut off.
func (f *Format) SkipFields(line []byte, n int) int {
	quoted := false
	for at := 0; at < len(line); at++ {
		switch b := line[at]; {
		case f.Kind == Text && b == '\\', quoted && b == f.Escape && b != f.Quote:
			at++ // whatever it is, it is part of the value
		case f.Kind == CSV && b == f.Quote:
			quoted = !quoted
		case b == f.Delimiter && !quoted:
			if n--; n == 0 {
				return at + 1
			}
		}
	}
	return len(line)
}

// AppendRow appends a row as COPY TO writes it. The fields are those of a DataRow, in
// text or binary as the format is; nil is NULL.
func (f *Format) AppendRow(dst []byte, fields [][]byte) []byte {
	if f.Kind == Binary {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(fields)))
		for _, v := range fields {
			if v == nil {
				dst = append(dst, 0xff, 0xff, 0xff, 0xff)
				continue
			}
			dst = f.AppendField(dst, v)
		}
		return dst
	}
	for i, v := range fields {
		if i > 0 {
			dst = append(dst, f.Delimiter)
		}
		switch {
		case v == nil:
			dst = append(dst, f.Null...)
		case f.Kind == CSV:
			dst = f.appendCSV(dst, v, flagged(f.Quoted, i), len(fields) == 1)
		default:
			dst = f.appendEscaped(dst, v)
		}
	}
	return append(dst, '\n')
}

// AppendNames appends the line with the names of the columns.
func (f *Format) AppendNames(dst []byte, names []string) []byte {
	for i, name := range names {
		if i > 0 {
			dst = append(dst, f.Delimiter)
		}
		if f.Kind == CSV {
			dst = f.appendCSV(dst, []byte(name), false, len(names) == 1)
		} else {
			dst = f.appendEscaped(dst, []byte(name))
		}
	}
	return append(dst, '\n')
}

// appendCSV appends a value that is quoted if need be.
func (f *Format) appendCSV(dst, v []byte, quote, alone bool) []byte {
	quote = quote || string(v) == f.Null || alone && string(v) == `\.`
	for i := 0; !quote && i < len(v); i++ {
		b := v[i]
		quote = b == f.Delimiter || b == f.Quote || b == '\n' || b == '\r'
	}
	if !quote {
		return append(dst, v...)
	}
	return f.appendQuoted(dst, v)
}

func (f *Format) appendQuoted(dst, v []byte) []byte {
	dst = append(dst, f.Quote)
	for _, b := range v {
		if b == f.Quote || b == f.Escape {
			dst = append(dst, f.Escape)
		}
		dst = append(dst, b)
	}
	return append(dst, f.Quote)
}

// controls are the bytes that text has letters for.
const controls, letters = "\b\f\n\r\t\v", "bfnrtv"

func (f *Format) appendEscaped(dst, v []byte) []byte {
	for _, b := range v {
		switch {
		case b == '\\' || b == f.Delimiter && b >= ' ':
			dst = append(dst, '\\', b)
		case b >= ' ':
			dst = append(dst, b)
		default:
			if i := strings.IndexByte(controls, b); i >= 0 {
				dst = append(dst, '\\', letters[i])
			} else if b == f.Delimiter {
				dst = append(dst, '\\', b)
			} else {
				dst = append(dst, b)
			}
		}
	}
	return dst
}
