package stream

import (
	"encoding/binary"
	"math"
	"math/big"

	"weft/pgerr"
)

// decimals are sums of numeric, and averages of it and of integers.
type decimals struct {
	form    Type // of the sums that come; the result is numeric
	average bool
	counts  Type
	states  []decimalState
	bytes   int64 // of all states' digits

	number  number // the one going out
	scratch []int64
}

type decimalState struct {
	sum  decimalSum
	n    int64 // of values, for an average
	seen bool
}

func (d *decimals) grow() { d.states = append(d.states, decimalState{}) }

func (d *decimals) size() int64 { return d.bytes + int64(cap(d.states))*64 }

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
	d.bytes += int64(cap(s.sum.digits)-before) * 8
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

// decimalSum adds up numerics, exactly. Its digits are to base 10000 like theirs,
// but each is a sum of digits that has not been carried over: it has room for
// 10^14 of them.
type decimalSum struct {
	digits []int64
	top    int    // digits[0] stands for 10000^top
	scale  int    // the greatest that came
	notes  uint16 // specials that came
}

// What is in notes.
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

// maxScale is how many decimals PostgreSQL allows after the point.
const maxScale = 0x3fff

// addText adds a number as PostgreSQL writes it: digits, perhaps with a minus
// sign before and a point among them.
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

// cover makes room for digits from one weight down to another.
func (s *decimalSum) cover(top, bottom int) {
	if len(s.digits) == 0 {
		s.digits, s.top = make([]int64, top-bottom+1), top
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

// total carries over and sets n to the sum. The scratch memory may be that of
// an earlier call.
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

// carryOver brings all digits between 0 and 9999 and returns what is left over
// at the top, which has the number's sign.
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

// number is a numeric: digits to base 10000, the first of which stands for
// 10000^weight, and how many decimals are shown.
type number struct {
	special  uint16 // signNaN, signInf, signMinusInf, or 0
	negative bool
	digits   []uint16
	weight   int
	scale    int
}

// normalise takes zeros off both ends.
func (n *number) normalise() {
	first := 0
	for first < len(n.digits) && n.digits[first] == 0 {
		first++
	}
	n.digits = n.digits[:copy(n.digits, n.digits[first:])]
	n.weight -= first
	for len(n.digits) > 0 && n.digits[len(n.digits)-1] == 0 {
		n.digits = n.digits[:len(n.digits)-1]
	}
	if len(n.digits) == 0 {
		n.weight, n.negative = 0, false
	}
}

// divide divides by a count with as many decimals as PostgreSQL would: at least
// 16 significant ones, and those of the dividend.
func (n *number) divide(count int64) {
	// What the quotient's first digit stands for is estimated from the first
	// digits.
	first, weight := count, 0
	for ; first >= 10000; first /= 10000 {
		weight++
	}
	quotient := n.weight - weight
	if len(n.digits) == 0 || int64(n.digits[0]) <= first {
		quotient--
	}
	const significant, most = 16, 1000
	scale := min(max(significant-4*quotient, n.scale, 0), most)

	// The digits as one whole number, times 10^scale.
	text := make([]byte, 0, 4*len(n.digits)+1)
	text = append(text, '0')
	for _, d := range n.digits {
		text = appendDigit(text, d)
	}
	dividend, _ := new(big.Int).SetString(string(text), 10)
	divisor := big.NewInt(count)
	if shift := scale + 4*(n.weight-len(n.digits)+1); shift >= 0 {
		dividend.Mul(dividend, power10(shift))
	} else {
		divisor.Mul(divisor, power10(-shift))
	}
	rest := new(big.Int)
	dividend.QuoRem(dividend, divisor, rest)
	if rest.Lsh(rest, 1).Cmp(divisor) >= 0 { // halves go away from zero
		dividend.Add(dividend, big.NewInt(1))
	}
	n.set(dividend, scale)
}

func power10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// set makes n the number with these decimals, the last scale of them after the
// point. The sign stays.
func (n *number) set(decimals *big.Int, scale int) {
	text := decimals.Append(nil, 10)
	n.digits, n.scale = n.digits[:0], scale
	whole := len(text) - scale // decimals before the point; may be negative
	n.weight = (whole+3)>>2 - 1
	digit, have := uint16(0), 4*(n.weight+1)-whole
	for _, c := range text {
		digit = digit*10 + uint16(c-'0')
		if have++; have == 4 {
			n.digits = append(n.digits, digit)
			digit, have = 0, 0
		}
	}
	if have > 0 {
		for ; have < 4; have++ {
			digit *= 10
		}
		n.digits = append(n.digits, digit)
	}
	n.normalise()
}

func appendDigit(dst []byte, d uint16) []byte {
	return append(dst, byte('0'+d/1000), byte('0'+d/100%10), byte('0'+d/10%10), byte('0'+d%10))
}

// appendBinary writes the form of numeric_send.
func (n *number) appendBinary(dst []byte) []byte {
	be := binary.BigEndian
	switch n.special {
	case signNaN:
		return append(dst, 0, 0, 0, 0, byte(n.special>>8), 0, 0, 0)
	case signInf, signMinusInf:
		// A bit of the sign is taken for one of the scale there.
		return append(dst, 0, 0, 0, 0, byte(n.special>>8), 0, 0, 0x20)
	}
	dst = be.AppendUint16(dst, uint16(len(n.digits)))
	dst = be.AppendUint16(dst, uint16(n.weight))
	if n.negative {
		dst = be.AppendUint16(dst, signNegative)
	} else {
		dst = be.AppendUint16(dst, signPositive)
	}
	dst = be.AppendUint16(dst, uint16(n.scale))
	for _, d := range n.digits {
		dst = be.AppendUint16(dst, d)
	}
	return dst
}

// appendText writes it as numeric_out does.
func (n *number) appendText(dst []byte) []byte {
	switch n.special {
	case signNaN:
		return append(dst, "NaN"...)
	case signInf:
		return append(dst, "Infinity"...)
	case signMinusInf:
		return append(dst, "-Infinity"...)
	}
	if n.negative {
		dst = append(dst, '-')
	}
	digit := func(weight int) uint16 {
		if i := n.weight - weight; i >= 0 && i < len(n.digits) {
			return n.digits[i]
		}
		return 0
	}
	start := len(dst)
	for w := n.weight; w >= 0; w-- {
		dst = appendDigit(dst, digit(w))
	}
	zeros := start
	for zeros < len(dst)-1 && dst[zeros] == '0' {
		zeros++
	}
	dst = append(dst[:start], dst[zeros:]...)
	if len(dst) == start {
		dst = append(dst, '0')
	}
	if n.scale == 0 {
		return dst
	}
	dst = append(dst, '.')
	end := len(dst) + n.scale
	for w := -1; len(dst) < end; w-- {
		dst = appendDigit(dst, digit(w))
	}
	return dst[:end]
}
