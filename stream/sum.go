package stream

import (
	"encoding/binary"
	"math"

	"weft/pgerr"
)

// decimals is the combiner for sums of numeric, and for averages of numeric and of integers.
type decimals struct {
	form    Type // type of the partial sums; the result is numeric
	average bool
	counts  Type
	states  []decimalState
	memory  *memory

	number  number // the result being written
	scratch []int64
}

type decimalState struct {
	sum  decimalSum
	n    int64 // number of values, for an average
	seen bool
}

func (d *decimals) grow() { d.states = extend(d.states, decimalState{}, d.memory) }

func (d *decimals) reset() {
	digits := d.states[0].sum.digits
	d.states[0] = decimalState{sum: decimalSum{digits: digits[:0]}}
}

func (d *decimals) add(group int, value, count []byte) error {
	if value == nil {
		return nil
	}
	s := &d.states[group]
	if d.average {
		n, ok := d.counts.integer(count)
		if !ok {
			return errValue
		}
		s.n += n
	}
	s.seen = true
	before := cap(s.sum.digits)
	var ok bool
	switch {
	case d.form.OID == oidInt8 && d.form.Format == binaryFormat:
		var n int64
		if n, ok = d.form.integer(value); ok {
			s.sum.addInteger(n)
		}
	case d.form.Format == binaryFormat:
		ok = s.sum.addBinary(value)
	default:
		ok = s.sum.addText(value)
	}
	d.memory.used += int64(cap(s.sum.digits)-before) * 8
	if !ok {
		return errValue
	}
	return nil
}

func (d *decimals) emit(dst []byte, group int, _ []byte) ([]byte, error) {
	s := &d.states[group]
	if !s.seen || d.average && s.n == 0 {
		return appendField(dst, nil), nil
	}
	d.scratch = s.sum.total(&d.number, d.scratch)
	if d.average && d.number.special == 0 {
		d.number.divide(s.n)
	}
	if d.number.weight > math.MaxInt16 {
		return nil, pgerr.New(pgerr.NumericValueOutOfRange, "value overflows numeric format")
	}
	dst, at := begin(dst)
	if d.form.Format == binaryFormat {
		dst = d.number.appendBinary(dst)
	} else {
		dst = d.number.appendText(dst)
	}
	return end(dst, at), nil
}

// decimalSum adds up numerics exactly. Its digits are to base 10000 like those of numeric, but
// each is a sum of digits without carries: an int64 has room for 10^14 of them.
type decimalSum struct {
	digits []int64
	top    int    // digits[0] stands for 10000^top
	scale  int    // the greatest scale added so far
	notes  uint16 // NaN and infinities added so far
}

// The bits of notes.
const (
	sawNaN uint16 = 1 << iota
	sawInf
	sawMinusInf
)

// addBinary adds a number in numeric's binary form.
func (s *decimalSum) addBinary(v []byte) bool {
	if len(v) < 8 {
		return false
	}
	n, sign := int(binary.BigEndian.Uint16(v)), int64(1)
	switch binary.BigEndian.Uint16(v[4:]) {
	case signPositive:
	case signNegative:
		sign = -1
	case signNaN:
		s.notes |= sawNaN
		return true
	case signInf:
		s.notes |= sawInf
		return true
	case signMinusInf:
		s.notes |= sawMinusInf
		return true
	default:
		return false
	}
	scale := int(binary.BigEndian.Uint16(v[6:]))
	if len(v) != 8+2*n || scale > maxScale {
		return false
	}
	s.scale = max(s.scale, scale)
	if n == 0 {
		return true
	}
	weight := int(int16(binary.BigEndian.Uint16(v[2:])))
	s.cover(weight, weight-n+1)
	at := s.top - weight
	for i := range n {
		digit := binary.BigEndian.Uint16(v[8+2*i:])
		if digit > 9999 {
			return false
		}
		s.digits[at+i] += sign * int64(digit)
	}
	return true
}

// maxScale is how many decimals PostgreSQL allows.
const maxScale = 0x3fff

// addText adds a number as PostgreSQL writes it: digits, perhaps with a point among them, perhaps
// after a minus sign.
func (s *decimalSum) addText(v []byte) bool {
	switch string(v) {
	case "NaN":
		s.notes |= sawNaN
		return true
	case "Infinity":
		s.notes |= sawInf
		return true
	case "-Infinity":
		s.notes |= sawMinusInf
		return true
	}
	sign := int64(1)
	if len(v) > 0 && v[0] == '-' {
		sign, v = -1, v[1:]
	}
	whole, fraction, ok := splitDecimal(v)
	if !ok || len(fraction) > maxScale {
		return false
	}
	s.scale = max(s.scale, len(fraction))
	top := (len(whole)+3)/4 - 1
	s.cover(top, -(len(fraction)+3)/4)
	at := s.top - top
	digit, have := int64(0), 4*(top+1)-len(whole)
	for i := range len(whole) + len(fraction) {
		c := byte(0)
		if i < len(whole) {
			c = whole[i]
		} else {
			c = fraction[i-len(whole)]
		}
		digit = digit*10 + int64(c-'0')
		if have++; have == 4 {
			s.digits[at] += sign * digit
			digit, have = 0, 0
			at++
		}
	}
	if have > 0 {
		for ; have < 4; have++ {
			digit *= 10
		}
		s.digits[at] += sign * digit
	}
	return true
}

// splitDecimal returns the digits before and after the point.
func splitDecimal(v []byte) (whole, fraction []byte, ok bool) {
	point := len(v)
	for i, c := range v {
		switch {
		case c == '.' && point == len(v):
			point = i
		case c < '0' || c > '9':
			return nil, nil, false
		}
	}
	whole = v[:point]
	if point < len(v) {
		fraction = v[point+1:]
	}
	return whole, fraction, len(whole) > 0
}

// addInteger adds a whole number.
func (s *decimalSum) addInteger(n int64) {
	const top = 4 // 10000^5 > 2^63
	s.cover(top, 0)
	for at := s.top; n != 0; at-- {
		s.digits[at] += n % 10000
		n /= 10000
	}
}

// cover makes room for digits from weight top down to weight bottom.
func (s *decimalSum) cover(top, bottom int) {
	if len(s.digits) == 0 {
		n := top - bottom + 1
		if n > cap(s.digits) {
			s.digits = make([]int64, n)
		}
		s.digits, s.top = s.digits[:n], top
		clear(s.digits)
		return
	}
	oldBottom := s.top - len(s.digits) + 1
	if top <= s.top && bottom >= oldBottom {
		return
	}
	top, bottom = max(top, s.top), min(bottom, oldBottom)
	digits := make([]int64, top-bottom+1)
	copy(digits[top-s.top:], s.digits)
	s.digits, s.top = digits, top
}

// total carries over and sets n to the sum. It uses scratch, which may be the result of an earlier
// call, as memory.
func (s *decimalSum) total(n *number, scratch []int64) []int64 {
	*n = number{digits: n.digits[:0], scale: s.scale}
	switch both := sawInf | sawMinusInf; {
	case s.notes&sawNaN != 0 || s.notes&both == both:
		n.special = signNaN
		return scratch
	case s.notes&sawInf != 0:
		n.special = signInf
		return scratch
	case s.notes&sawMinusInf != 0:
		n.special = signMinusInf
		return scratch
	}
	scratch = append(scratch[:0], s.digits...)
	carry := carryOver(scratch)
	if carry < 0 {
		n.negative = true
		for i, d := range s.digits {
			scratch[i] = -d
		}
		carry = carryOver(scratch)
	}
	// The carry is less than 10000^5.
	n.weight = s.top
	for unit := int64(1e16); unit > 0; unit /= 10000 {
		if carry >= unit {
			n.digits = append(n.digits, uint16(carry/unit%10000))
			n.weight++
		}
	}
	for _, d := range scratch {
		n.digits = append(n.digits, uint16(d))
	}
	n.normalise()
	return scratch
}

// carryOver makes all digits lie between 0 and 9999 and returns the carry at the top, which has
// the sign of the number.
func carryOver(digits []int64) int64 {
	carry := int64(0)
	for i := len(digits) - 1; i >= 0; i-- {
		d := digits[i] + carry
		carry = d / 10000
		if d %= 10000; d < 0 {
			d, carry = d+10000, carry-1
		}
		digits[i] = d
	}
	return carry
}
