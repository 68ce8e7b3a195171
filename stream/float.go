package stream

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"

	"weft/pgerr"
)

// floats is the combiner for sums and averages of float4 and float8.
type floats struct {
	form    Type
	average bool
	counts  Type
	states  []floatState
	memory  *memory
}

type floatState struct {
	sum  float64
	n    int64 // number of values, for an average
	seen bool
}

func (f *floats) grow() { f.states = extend(f.states, floatState{}, f.memory) }

func (f *floats) reset() { f.states[0] = floatState{} }

func (f *floats) add(group int, value, count []byte) error {
	if value == nil {
		return nil
	}
	v, ok := f.form.float(value)
	if !ok {
		return errValue
	}
	s := &f.states[group]
	if f.average {
		n, ok := f.counts.integer(count)
		if !ok {
			return errValue
		}
		s.n += n
	}
	if !s.seen {
		s.sum, s.seen = v, true
		return nil
	}
	sum := s.sum + v
	if f.form.OID == oidFloat4 {
		sum = float64(float32(sum)) // rounds as float4 addition does: float64 has more than twice the bits
	}
	if math.IsInf(sum, 0) && !math.IsInf(s.sum, 0) && !math.IsInf(v, 0) {
		return pgerr.New(pgerr.NumericValueOutOfRange, "value out of range: overflow")
	}
	s.sum = sum
	return nil
}

func (f *floats) emit(dst []byte, group int, _ []byte) ([]byte, error) {
	s := f.states[group]
	if !s.seen || f.average && s.n == 0 {
		return appendField(dst, nil), nil
	}
	if f.average {
		s.sum /= float64(s.n)
	}
	dst, at := begin(dst)
	switch {
	case f.form.Format == textFormat && f.form.OID == oidFloat4:
		dst = appendFloat(dst, s.sum, 32)
	case f.form.Format == textFormat:
		dst = appendFloat(dst, s.sum, 64)
	case f.form.OID == oidFloat4:
		dst = binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(s.sum)))
	default:
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(s.sum))
	}
	return end(dst, at), nil
}

// float reads float4 or float8.
func (t Type) float(v []byte) (float64, bool) {
	if t.Format == textFormat && t.OID == oidFloat4 {
		return parseFloat(v, 32)
	}
	if t.Format == textFormat {
		return parseFloat(v, 64)
	}
	if t.OID == oidFloat4 != (len(v) == 4) {
		return 0, false
	}
	return float(v)
}

func parseFloat(v []byte, bits int) (float64, bool) {
	f, err := strconv.ParseFloat(string(v), bits)
	return f, err == nil
}

// appendFloat writes a float as PostgreSQL does with extra_float_digits above 0: with the fewest
// digits that name this float and no other.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	var buf [32]byte
	digits, precision := shortest(buf[:0], f, bits)
	few := 15
	if bits == 32 {
		few = 6
	}
	exponent := exponentOf(digits)
	if exponent < -4 || exponent >= few {
		return append(dst, digits...)
	}
	if precision >= 0 {
		precision = max(0, precision-exponent)
	}
	return strconv.AppendFloat(dst, f, 'f', precision, bits)
}

// shortest writes f as d.ddde±xx and returns the precision; -1 for the precision that Go chooses.
//
// Go and PostgreSQL differ in two cases. A float exactly between two decimals of the shortest
// length is rounded up in Go and to the even one in PostgreSQL. And a decimal exactly between two
// floats names the even one in Go and neither in PostgreSQL.
func shortest(buf []byte, f float64, bits int) (digits []byte, precision int) {
	digits = strconv.AppendFloat(buf, f, 'e', -1, bits)
	precision = significant(digits) - 1
	ours := !halfway(digits, f, bits)
	digits = strconv.AppendFloat(buf, f, 'e', precision, bits)
	if ours && !names(digits, f, bits) {
		// The nearest decimal of that length does not name f, but another one does: floats are
		// closer below a power of two than above it.
		return strconv.AppendFloat(buf, f, 'e', -1, bits), -1
	}
	for !names(digits, f, bits) {
		precision++
		digits = strconv.AppendFloat(buf, f, 'e', precision, bits)
	}
	return digits, precision
}

// significant counts the digits of d.ddde±xx.
func significant(digits []byte) int {
	n := 0
	for _, c := range digits {
		switch {
		case c == 'e':
			return n
		case c != '.' && c != '-':
			n++
		}
	}
	return n
}

// exponentOf reads the exponent of d.ddde±xx.
func exponentOf(digits []byte) int {
	for i, c := range digits {
		if c == 'e' {
			n, _ := strconv.Atoi(string(digits[i+1:]))
			return n
		}
	}
	return 0
}

// names reports whether the digits are closer to f than to any other float.
func names(digits []byte, f float64, bits int) bool {
	if back, ok := parseFloat(digits, bits); !ok || back != f {
		return false
	}
	return !halfway(digits, f, bits)
}

// halfway reports whether the digits name a number exactly between f and a neighbour of f.
func halfway(digits []byte, f float64, bits int) bool {
	// Below least, a number between two floats has more digits than the shortest name of either.
	least := float64(1 << 50)
	if bits == 32 {
		least = 1 << 18
	}
	if math.Abs(f) < least {
		return false
	}
	up, down := math.Nextafter(f, math.Inf(1)), math.Nextafter(f, math.Inf(-1))
	if bits == 32 {
		up = float64(math.Nextafter32(float32(f), float32(math.Inf(1))))
		down = float64(math.Nextafter32(float32(f), float32(math.Inf(-1))))
	}
	named, ok := new(big.Rat).SetString(string(digits))
	if !ok {
		return false
	}
	twice := named.Add(named, named)
	for _, neighbour := range [...]float64{up, down} {
		if math.IsInf(neighbour, 0) {
			continue
		}
		sum := new(big.Rat).SetFloat64(neighbour)
		if sum.Add(sum, new(big.Rat).SetFloat64(f)).Cmp(twice) == 0 {
			return true
		}
	}
	return false
}
