package stream

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"

	"weft/pgerr"
)

var errValue = errors.New("malformed value")

// integerOp combines two numbers.
type integerOp func(a, b int64) (int64, error)

func addInteger(a, b int64) (int64, error) {
	sum := a + b
	if (sum > a) != (b > 0) && b != 0 {
		return 0, pgerr.New(pgerr.NumericValueOutOfRange, "bigint out of range")
	}
	return sum, nil
}

func andInteger(a, b int64) (int64, error) { return a & b, nil }

func orInteger(a, b int64) (int64, error) { return a | b, nil }

// integers is the combiner for count, sums of small integers, bit_and and bit_or.
type integers struct {
	op     integerOp
	zero   bool // whether the result without input is 0, not NULL
	form   Type
	states []integerState
	memory *memory
}

type integerState struct {
	n    int64
	seen bool
}

func (s *integers) grow() { s.states = extend(s.states, integerState{seen: s.zero}, s.memory) }

func (s *integers) reset() { s.states[0] = integerState{seen: s.zero} }

func (s *integers) add(group int, value, _ []byte) error {
	if value == nil {
		return nil
	}
	n, ok := s.form.integer(value)
	if !ok {
		return errValue
	}
	state := &s.states[group]
	if !state.seen {
		*state = integerState{n, true}
		return nil
	}
	var err error
	state.n, err = s.op(state.n, n)
	return err
}

func (s *integers) emit(dst []byte, group int, _ []byte) ([]byte, error) {
	state := s.states[group]
	if !state.seen {
		return appendField(dst, nil), nil
	}
	dst, at := begin(dst)
	switch {
	case s.form.Format == textFormat:
		dst = strconv.AppendInt(dst, state.n, 10)
	case s.form.OID == oidInt2:
		dst = binary.BigEndian.AppendUint16(dst, uint16(state.n))
	case s.form.OID == oidInt4:
		dst = binary.BigEndian.AppendUint32(dst, uint32(state.n))
	default:
		dst = binary.BigEndian.AppendUint64(dst, uint64(state.n))
	}
	return end(dst, at), nil
}

// begin leaves room for a value's length, which end fills in.
func begin(dst []byte) ([]byte, int) {
	return append(dst, 0, 0, 0, 0), len(dst)
}

func end(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// integer reads int2, int4 or int8.
func (t Type) integer(v []byte) (int64, bool) {
	if t.Format == textFormat {
		return parseInteger(v)
	}
	switch {
	case t.OID == oidInt2 && len(v) == 2:
		return int64(int16(binary.BigEndian.Uint16(v))), true
	case t.OID == oidInt4 && len(v) == 4:
		return int64(int32(binary.BigEndian.Uint32(v))), true
	case t.OID == oidInt8 && len(v) == 8:
		return int64(binary.BigEndian.Uint64(v)), true
	}
	return 0, false
}

// parseInteger reads an integer as a server writes it: digits, perhaps after a minus sign.
func parseInteger(v []byte) (int64, bool) {
	negative := len(v) > 0 && v[0] == '-'
	if negative {
		v = v[1:]
	}
	if len(v) == 0 || len(v) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range v {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}
