package copydata

import (
	"bytes"
	"encoding/binary"
)

// Fields decodes the fields of a row that want lists, in ascending order, into out;
// nil is NULL. They are valid until the next call, as long as row is. It reports
// false if the row has no such field, or cannot be taken apart: a server will say
// what is wrong with it.
func (c *Cutter) Fields(row []byte, want []int, out [][]byte) bool {
	c.scratch = c.scratch[:0]
	if c.Kind == Binary {
		return c.binaryFields(row, want, out)
	}
	line, k := row[:c.Row.Body], 0
	for i := 0; k < len(want); i++ {
		field, rest, more, ok := c.field(line, want[k] == i)
		if !ok {
			return false
		}
		if want[k] == i {
			out[k] = c.forced(field, i)
			k++
		}
		if !more {
			break
		}
		line = rest
	}
	return k == len(want)
}

// All decodes all fields of a line, into memory of their own.
func (c *Cutter) All(row []byte) (fields [][]byte, err error) {
	line := row[:c.Row.Body]
	for {
		c.scratch = c.scratch[:0]
		field, rest, more, ok := c.field(line, true)
		if !ok {
			return nil, errUnterminated
		}
		fields = append(fields, bytes.Clone(field))
		if !more {
			return fields, nil
		}
		line = rest
	}
}

var errUnterminated = &Error{Message: "unterminated CSV quoted field"}

// field takes the first field off a line: nil is NULL. more says that another one
// follows. Without decode only its end is found.
func (c *Cutter) field(line []byte, decode bool) (field, rest []byte, more, ok bool) {
	switch {
	case c.Row.plain:
		end := bytes.IndexByte(line, c.Delimiter)
		if more = end >= 0; more {
			rest = line[end+1:]
			line = line[:end:end]
		}
		if string(line) == c.Null {
			return nil, rest, more, true
		}
		if line == nil {
			line = []byte{}
		}
		return line, rest, more, true
	case c.Kind == CSV:
		return c.quotedField(line, decode)
	}
	field, rest, more = c.escapedField(line, decode)
	return field, rest, more, true
}

// quotedField takes a field off a line of CSV.
func (c *Cutter) quotedField(line []byte, decode bool) (field, rest []byte, more, ok bool) {
	start := len(c.scratch)
	quoted, saw := false, false
	i := 0
loop:
	for ; i < len(line); i++ {
		b := line[i]
		switch {
		case !quoted && b == c.Delimiter:
			more = true
			break loop
		case !quoted && b == c.Quote:
			quoted, saw = true, true
			continue
		case quoted && b == c.Escape && i+1 < len(line) && (line[i+1] == c.Escape || line[i+1] == c.Quote):
			i++
			b = line[i]
		case quoted && b == c.Quote:
			quoted = false
			continue
		}
		if decode {
			c.scratch = append(c.scratch, b)
		}
	}
	if more {
		rest = line[i+1:]
	}
	if quoted {
		return nil, nil, false, false
	}
	if !saw && string(line[:i]) == c.Null {
		return nil, rest, more, true
	}
	return c.scratch[start:len(c.scratch):len(c.scratch)], rest, more, true
}

// escapedField takes a field off a line of text.
func (c *Cutter) escapedField(line []byte, decode bool) (field, rest []byte, more bool) {
	start := len(c.scratch)
	i, end := 0, len(line)
	for i < len(line) {
		b := line[i]
		if b == c.Delimiter {
			more, end = true, i
			break
		}
		i++
		if b == '\\' {
			if i == len(line) {
				end = i - 1 // it is dropped
				break
			}
			b, i = unescape(line, i)
		}
		if decode {
			c.scratch = append(c.scratch, b)
		}
	}
	if more {
		rest = line[end+1:]
	}
	if string(line[:end]) == c.Null {
		return nil, rest, more
	}
	return c.scratch[start:len(c.scratch):len(c.scratch)], rest, more
}

// unescape returns the byte that an escape stands for whose second byte is at i, and
// where it ends.
func unescape(line []byte, i int) (b byte, end int) {
	b = line[i]
	i++
	switch b {
	case 'b':
		return '\b', i
	case 'f':
		return '\f', i
	case 'n':
		return '\n', i
	case 'r':
		return '\r', i
	case 't':
		return '\t', i
	case 'v':
		return '\v', i
	case '0', '1', '2', '3', '4', '5', '6', '7':
		v := b - '0'
		for n := 0; n < 2 && i < len(line) && line[i]-'0' < 8; n++ {
			v = v<<3 + line[i] - '0'
			i++
		}
		return v, i
	case 'x':
		v, n := byte(0), 0
		for ; n < 2 && i < len(line); n++ {
			d, ok := hexDigit(line[i])
			if !ok {
				break
			}
			v = v<<4 + d
			i++
		}
		if n > 0 {
			return v, i
		}
	}
	return b, i
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case b-'0' < 10:
		return b - '0', true
	case b|0x20 >= 'a' && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func (c *Cutter) binaryFields(row []byte, want []int, out [][]byte) bool {
	at, k := 2, 0
	for i := 0; i < Count(row) && k < len(want); i++ {
		size := int(int32(binary.BigEndian.Uint32(row[at:])))
		at += 4
		if want[k] == i {
			out[k] = nil
			if size >= 0 {
				out[k] = row[at : at+size : at+size]
			}
			k++
		}
		at += max(size, 0)
	}
	return k == len(want)
}

// forced applies FORCE_NOT_NULL and FORCE_NULL.
func (c *Cutter) forced(field []byte, i int) []byte {
	switch {
	case c.Kind != CSV:
	case field == nil && flagged(c.NotNull, i):
		return []byte(c.Null)
	case field != nil && flagged(c.Nullable, i) && string(field) == c.Null:
		return nil
	}
	return field
}
