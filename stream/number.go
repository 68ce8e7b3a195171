package stream

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// number is a numeric: digits to base 10000, the first of which stands for 10000^weight, and a
// scale, the number of decimals shown.
type number struct {
	special  uint16 // signNaN, signInf, signMinusInf, or 0
	negative bool
	digits   []uint16
	weight   int
	scale    int
}

// normalise removes zero digits at both ends.
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

// divide divides by a count, with as many decimals as PostgreSQL shows: at least 16 significant
// digits, and at least the decimals of the dividend.
func (n *number) divide(count int64) {
	// The weight of the quotient's first digit is estimated from the first digits of dividend and
	// count.
	first, weight := count, 0
	for ; first >= 10000; first /= 10000 {
		weight++
	}
	quotient := n.weight - weight
	if len(n.digits) == 0 || int64(n.digits[0]) <= first {
		quotient--
	}
	const significant, most = 16, 1000
	n.scale = min(max(significant-4*quotient, n.scale, 0), most)

	// Long division, from the left: each digit of the quotient replaces one of the dividend. The
	// last digit contains the first decimal that is not shown.
	last := n.weight + n.scale/4 + 1
	n.digits = n.digits[:min(len(n.digits), max(last+1, 0))]
	var rest uint64
	for i := range last + 1 {
		if i == len(n.digits) {
			n.digits = append(n.digits, 0)
		}
		high, low := bits.Mul64(rest, 10000)
		low, carry := bits.Add64(low, uint64(n.digits[i]), 0)
		var digit uint64
		digit, rest = bits.Div64(high+carry, low, uint64(count))
		n.digits[i] = uint16(digit)
	}
	if last >= 0 {
		n.round(last)
	}
	n.normalise()
}

// round cuts to the decimals that are shown. The digit last contains the first decimal that is
// not shown; halves are rounded away from zero.
func (n *number) round(last int) {
	unit := [...]uint16{10000, 1000, 100, 10}[n.scale%4]
	over := n.digits[last] % unit
	n.digits[last] -= over
	if over < unit/2 {
		return
	}
	for i, add := last, unit; ; i, add = i-1, 1 {
		if i < 0 {
			n.digits = slices.Insert(n.digits, 0, 1)
			n.weight++
			return
		}
		if n.digits[i] += add; n.digits[i] < 10000 {
			return
		}
		n.digits[i] -= 10000
	}
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
		// numeric_send takes a bit of the sign for a bit of the scale.
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

// appendText writes the number as numeric_out does.
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
