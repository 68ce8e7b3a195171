package stream

import (
	"bytes"
	"cmp"
	"encoding/binary"
)

// The signs in numeric's binary form, which is four words (number of digits, weight, sign, scale),
// then digits to base 10000. The weight is the power of 10000 that the first digit stands for.
const (
	signPositive = 0x0000
	signNegative = 0x4000
	signNaN      = 0xc000
	signInf      = 0xd000
	signMinusInf = 0xf000
)

// compareNumeric orders values of numeric in binary form. The scale does not count.
func compareNumeric(a, b []byte) int {
	rank1, ok1 := rank(a)
	rank2, ok2 := rank(b)
	switch {
	case !ok1 || !ok2:
		return bytes.Compare(a, b)
	case rank1 != rank2:
		return cmp.Compare(rank1, rank2)
	case rank1 == 1:
		return compareDigits(a, b)
	case rank1 == -1:
		return compareDigits(b, a)
	}
	return 0
}

// rank orders numbers by sign: -infinity, negative, zero, positive, infinity,
// NaN.
func rank(v []byte) (int, bool) {
	if len(v) < 8 || len(v) != 8+2*int(binary.BigEndian.Uint16(v)) {
		return 0, false
	}
	switch binary.BigEndian.Uint16(v[4:]) {
	case signPositive:
		if len(trimZeros(v[8:])) == 0 {
			return 0, true
		}
		return 1, true
	case signNegative:
		if len(trimZeros(v[8:])) == 0 {
			return 0, true
		}
		return -1, true
	case signMinusInf:
		return -2, true
	case signInf:
		return 2, true
	case signNaN:
		return 3, true
	}
	return 0, false
}

// compareDigits compares two numbers that are not zero, without their signs.
func compareDigits(a, b []byte) int {
	weight := func(v []byte) (int, []byte) {
		w, digits := int(int16(binary.BigEndian.Uint16(v[2:]))), v[8:]
		for len(digits) > 0 && digits[0]|digits[1] == 0 {
			w, digits = w-1, digits[2:]
		}
		return w, trimZeros(digits)
	}
	weight1, digits1 := weight(a)
	weight2, digits2 := weight(b)
	// If one is a prefix of the other, the longer one is greater: its last digit is not zero.
	return cmp.Or(cmp.Compare(weight1, weight2), bytes.Compare(digits1, digits2))
}

// trimZeros takes zero digits off the end.
func trimZeros(digits []byte) []byte {
	for n := len(digits); n > 0 && digits[n-2]|digits[n-1] == 0; n = len(digits) {
		digits = digits[:n-2]
	}
	return digits
}
