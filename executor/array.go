package executor

import (
	"bytes"
	"encoding/binary"

	"weft/datum"
)

// elementType returns the type of the elements of a built-in array type, or 0.
func elementType(t datum.Type) datum.Type {
	switch t {
	case 1005:
		return datum.Int2
	case 1007:
		return datum.Int4
	case 1016:
		return datum.Int8
	case 1009:
		return datum.Text
	case 1014:
		return datum.Bpchar
	case 1015:
		return datum.Varchar
	case 1115:
		return datum.Timestamp
	case 1182:
		return datum.Date
	case 1185:
		return datum.Timestamptz
	case 1231:
		return datum.Numeric
	case 2951:
		return datum.UUID
	}
	return 0
}

// array walks over the elements of an array of one dimension.
type array struct {
	rest   []byte
	typ    datum.Type
	format datum.Format
	left   int  // elements to come, of a binary array
	begun  bool // whether an element of a text array was read
	bare   bool // whether the last element of a text array had no quotes
}

// newArray returns a walk over an array. It reports false if the value is not plainly an array of
// one dimension.
func newArray(v datum.Value) (array, bool) {
	if v.Format == datum.BinaryFormat {
		return newBinaryArray(v)
	}
	s := trimSpace(v.Bytes)
	if len(s) < 2 || s[0] != '{' || s[len(s)-1] != '}' {
		return array{}, false
	}
	return array{rest: trimSpace(s[1 : len(s)-1]), typ: v.Type}, true
}

// newBinaryArray reads the form of array_send: number of dimensions, flags, type of the elements;
// length and lower bound of each dimension; the elements.
func newBinaryArray(v datum.Value) (array, bool) {
	b := v.Bytes
	if len(b) < 12 {
		return array{}, false
	}
	a := array{typ: datum.Type(binary.BigEndian.Uint32(b[8:])), format: datum.BinaryFormat}
	if a.typ != v.Type && v.Type != 0 && v.Type != datum.Unknown {
		return array{}, false
	}
	switch binary.BigEndian.Uint32(b) {
	case 0:
		return a, len(b) == 12
	case 1:
		if len(b) < 20 {
			return array{}, false
		}
		a.left, a.rest = int(int32(binary.BigEndian.Uint32(b[12:]))), b[20:]
		return a, a.left >= 0
	}
	return array{}, false
}

// next returns the next element. An element with escapes is decoded at the end of buf. more is
// false after the last element; ok is false when the array cannot be read further.
func (a *array) next(buf *[]byte) (v datum.Value, more, ok bool) {
	v = datum.Value{Type: a.typ, Format: a.format}
	if a.format == datum.BinaryFormat {
		if a.left == 0 {
			return v, false, len(a.rest) == 0
		}
		a.left--
		if len(a.rest) < 4 {
			return v, false, false
		}
		size := int(int32(binary.BigEndian.Uint32(a.rest)))
		a.rest = a.rest[4:]
		switch {
		case size == -1:
			return v, true, true
		case size < 0 || size > len(a.rest):
			return v, false, false
		}
		v.Bytes, a.rest = a.rest[:size:size], a.rest[size:]
		return v, true, true
	}
	if len(a.rest) == 0 && !a.begun {
		return v, false, true
	}
	if a.begun {
		if len(a.rest) == 0 {
			return v, false, true
		}
		if a.rest[0] != ',' {
			return v, false, false
		}
		a.rest = trimSpace(a.rest[1:])
	}
	a.begun = true
	if len(a.rest) > 0 && a.rest[0] == '"' {
		a.bare = false
		v.Bytes, ok = a.quoted(buf)
		return v, true, ok
	}
	a.bare = true
	v.Bytes, ok = a.unquoted()
	return v, true, ok
}

// quoted reads an element in double quotes.
func (a *array) quoted(buf *[]byte) ([]byte, bool) {
	s := a.rest[1:]
	start := len(*buf)
	for {
		i := bytes.IndexAny(s, `"\`)
		if i < 0 {
			return nil, false
		}
		if s[i] == '"' {
			value := s[:i:i]
			if len(*buf) > start {
				*buf = append(*buf, value...)
				value = (*buf)[start:]
			}
			a.rest = trimSpace(s[i+1:])
			return value, true
		}
		if i+1 == len(s) {
			return nil, false
		}
		*buf = append(append(*buf, s[:i]...), s[i+1])
		s = s[i+2:]
	}
}

// unquoted reads an element without quotes; nil is NULL.
func (a *array) unquoted() ([]byte, bool) {
	s := a.rest
	end := bytes.IndexByte(s, ',')
	if end < 0 {
		end = len(s)
	}
	a.rest = s[end:]
	s = trimSpace(s[:end])
	if len(s) == 0 || bytes.ContainsAny(s, `{}"\`) {
		return nil, false // malformed, an array of arrays, or a form that only the server reads
	}
	if len(s) == 4 && bytes.EqualFold(s, []byte("null")) {
		return nil, true
	}
	return s, true
}

func trimSpace(s []byte) []byte {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
