package stream

import (
	"encoding/binary"
	"math/big"
)

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
