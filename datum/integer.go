package datum

import (
	"encoding/binary"
	"math"
)

var (
	errNotInteger   = &Error{Invalid, "not an integer"}
	errIntegerRange = &Error{Invalid, "out of range for its integer type"}
	errFraction     = &Error{Never, "a fraction equals no integer"}
)

// integer finds the key of an int2, int4 or int8 column. The three hash alike,
// so comparing with a wider type needs no range check: a value that does not
// fit goes to a shard that has no such row.
func (c Column) integer(v Value, store bool) (Key, error) {
	var n int64
	var err error
	switch v.Type {
	case Unknown, 0:
		n, err = parseInteger(v.Bytes, c.Type)
	case Int2, Int4, Int8:
		n, err = v.integer()
	case Numeric:
		var d Key
		if d, err = v.decimal(); err == nil {
			n, err = decimalInteger(d, store)
		}
	default:
		return Key{}, errType
	}
	if err != nil {
		return Key{}, err
	}
	if low, high := integerRange(c.Type); store && (n < low || n > high) {
		return Key{}, errIntegerRange
	}
	return IntegerKey(n), nil
}

// integer reads a Value of an integer type.
func (v Value) integer() (int64, error) {
	if v.Format == TextFormat {
		return parseInteger(v.Bytes, v.Type)
	}
	switch {
	case v.Type == Int8 && len(v.Bytes) == 8:
		return int64(binary.BigEndian.Uint64(v.Bytes)), nil
	case v.Type == Int4 && len(v.Bytes) == 4:
		return int64(int32(binary.BigEndian.Uint32(v.Bytes))), nil
	case v.Type == Int2 && len(v.Bytes) == 2:
		return int64(int16(binary.BigEndian.Uint16(v.Bytes))), nil
	}
	return 0, errLength
}

func integerRange(t Type) (low, high int64) {
	switch t {
	case Int2:
		return math.MinInt16, math.MaxInt16
	case Int4:
		return math.MinInt32, math.MaxInt32
	}
	return math.MinInt64, math.MaxInt64
}

// parseInteger reads what the input function of integer type t reads: spaces, a
// sign, decimal digits, spaces. Version 16 added 0x, 0o, 0b and underscores.
func parseInteger(s []byte, t Type) (int64, error) {
	s, err := trim(s)
	if err != nil {
		return 0, err
	}
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 || !isDigit(s[0]) {
		return 0, errNotInteger
	}
	low, high := integerRange(t)
	limit := uint64(high)
	if negative {
		limit = uint64(-low) // for int8 too: -MinInt64 wraps to itself, 1<<63
	}
	var n uint64
	over := false
	for i, b := range s {
		if !isDigit(b) {
			return 0, notDigit(s, i, errNotInteger)
		}
		d := uint64(b - '0')
		// That is n*10+d > limit, without the overflow.
		if over || n > limit/10 || n == limit/10 && d > limit%10 {
			over = true // go on: what follows may still be another mistake
			continue
		}
		n = n*10 + d
	}
	if over {
		return 0, errIntegerRange
	}
	if negative {
		return int64(-n), nil
	}
	return int64(n), nil
}

// notDigit says what to think of a number s in which byte i cannot be read.
func notDigit(s []byte, i int, otherwise error) error {
	switch b := s[i]; {
	case b == '_', i == 1 && s[0] == '0' && (b|0x20 == 'x' || b|0x20 == 'o' || b|0x20 == 'b'):
		return errNewSyntax
	}
	return otherwise
}

// trim takes off what C's isspace does in every locale. Other bytes at the
// edges may be spaces too in some, so they are refused.
func trim(s []byte) ([]byte, error) {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if len(s) > 0 && (s[0] >= 0x80 || s[len(s)-1] >= 0x80) {
		return nil, errNonASCII
	}
	return s, nil
}

func isSpace(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' }

func isDigit(b byte) bool { return b-'0' <= 9 }
