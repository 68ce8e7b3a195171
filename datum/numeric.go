package datum

import (
	"cmp"
	"encoding/binary"
	"math"
	"strconv"
)

// sign orders numerics as PostgreSQL does: NaN above everything.
type sign int8

const (
	negativeInfinity sign = iota - 2
	negative
	zero
	positive
	positiveInfinity
	notANumber
)

// A numeric text longer than this, or shifted further by its exponent, is left
// to the server: near its own limits it rounds.
const maxDecimals = 1000

var (
	errNotNumeric   = &Error{Invalid, "not a number"}
	errNumericLong  = &Error{Undecided, "so long a number that the server may round it"}
	errExponent     = &Error{Undecided, "versions differ in the exponents they read"}
	errNumericInput = &Error{Invalid, "malformed binary numeric"}
	errNumericScale = &Error{Undecided, "more digits than the number's own scale"}
	errOutside      = &Error{Never, "no integer is so large"}
)

// numeric finds the key of a numeric column.
func (c Column) numeric(v Value, store bool) (Key, error) {
	var k Key
	var err error
	switch v.Type {
	case Unknown, 0, Numeric:
		k, err = v.decimal()
	case Int2, Int4, Int8:
		var n int64
		n, err = v.integer()
		k = integerDecimal(n)
	default:
		return Key{}, errType
	}
	if err == nil && store && c.Mod >= 4 && scaleOf(k) > modScale(c.Mod) {
		k = roundDecimal(k, modScale(c.Mod))
	}
	return k, err
}

// modScale returns the s of numeric(p,s), which is kept in eleven bits.
func modScale(mod int32) int {
	return int((mod-4)&0x7ff^0x400) - 0x400
}

// scaleOf counts the decimals after the point that are not trailing zeros;
// before it, zeros count negative.
func scaleOf(k Key) int {
	n := len(k.bytes) / 2
	if n == 0 {
		return math.MinInt
	}
	scale := 4 * (n - 1 - int(k.n))
	for last := digit(k.bytes, n-1); last%10 == 0; last /= 10 {
		scale--
	}
	return scale
}

// roundDecimal leaves so many decimals after the point, of a number that has more; halves are
// rounded away from zero.
func roundDecimal(k Key, scale int) Key {
	n := len(k.bytes) / 2
	text := make([]byte, 1, 4*n+1)
	text[0] = '0' // for a carry
	for i := range n {
		d := digit(k.bytes, i)
		text = append(text, byte('0'+d/1000), byte('0'+d/100%10), byte('0'+d/10%10), byte('0'+d%10))
	}
	point := 1 + 4*(int(k.n)+1)
	keep := point + scale
	if keep < 1 {
		return Key{class: Decimal}
	}
	up := text[keep] >= '5'
	text = text[:keep]
	for i := keep - 1; up; i-- {
		if up = text[i] == '9'; up {
			text[i] = '0'
		} else {
			text[i]++
		}
	}
	return packDecimal(k.sign, text, nil, point-keep)
}

func digit(digits []byte, i int) int { return int(binary.LittleEndian.Uint16(digits[2*i:])) }

// decimal reads a Value of type numeric.
func (v Value) decimal() (Key, error) {
	if v.Format == BinaryFormat {
		return binaryDecimal(v.Bytes)
	}
	return parseDecimal(v.Bytes)
}

// binaryDecimal reads the form of numeric_send: four 16-bit words (number of
// digits, weight, sign, scale), then the digits.
func binaryDecimal(b []byte) (Key, error) {
	if len(b) < 8 {
		return Key{}, errNumericInput
	}
	n := int(binary.BigEndian.Uint16(b))
	weight := int(int16(binary.BigEndian.Uint16(b[2:])))
	scale := int(binary.BigEndian.Uint16(b[6:]))
	if len(b) != 8+2*n || scale > 0x3fff {
		return Key{}, errNumericInput
	}
	s := positive
	switch binary.BigEndian.Uint16(b[4:]) {
	case 0x0000:
	case 0x4000:
		s = negative
	case 0xc000:
		return Key{class: Decimal, sign: notANumber}, nil
	case 0xd000:
		return Key{class: Decimal, sign: positiveInfinity}, nil
	case 0xf000:
		return Key{class: Decimal, sign: negativeInfinity}, nil
	default:
		return Key{}, errNumericInput
	}
	digits := make([]byte, 0, 2*n)
	for i := range n {
		d := binary.BigEndian.Uint16(b[8+2*i:])
		if d > 9999 {
			return Key{}, errNumericInput
		}
		digits = binary.LittleEndian.AppendUint16(digits, d)
	}
	k := normalDecimal(s, weight, digits)
	if scaleOf(k) > scale {
		return Key{}, errNumericScale
	}
	return k, nil
}

// normalDecimal takes leading and trailing zeros off the digits.
func normalDecimal(s sign, weight int, digits []byte) Key {
	for len(digits) > 0 && digit(digits, 0) == 0 {
		digits = digits[2:]
		weight--
	}
	for n := len(digits); n > 0 && digit(digits, n/2-1) == 0; n = len(digits) {
		digits = digits[:n-2]
	}
	if len(digits) == 0 {
		return Key{class: Decimal}
	}
	return Key{class: Decimal, sign: s, n: int64(weight), bytes: digits}
}

// parseDecimal reads spaces, a sign, digits with a point, an exponent, spaces;
// or the name of a special value.
func parseDecimal(text []byte) (Key, error) {
	s, err := trim(text)
	if err != nil {
		return Key{}, err
	}
	if equalFold(s, "nan") {
		return Key{class: Decimal, sign: notANumber}, nil
	}
	sg := positive
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sg = negative
		}
		s = s[1:]
	}
	if equalFold(s, "infinity") || equalFold(s, "inf") {
		return Key{class: Decimal, sign: sg * positiveInfinity}, nil
	}
	if len(s) > maxDecimals {
		return Key{}, errNumericLong
	}

	// whole and fraction are the digits before and after the point.
	end, point := 0, -1
	for ; end < len(s); end++ {
		if s[end] == '.' && point < 0 {
			point = end
		} else if !isDigit(s[end]) {
			break
		}
	}
	whole, fraction := s[:end], s[end:end]
	if point >= 0 {
		whole, fraction = s[:point], s[point+1:end]
	}
	if len(whole)+len(fraction) == 0 {
		return Key{}, errNotNumeric
	}
	exponent := 0
	if end < len(s) {
		if s[end]|0x20 != 'e' {
			return Key{}, notDigit(s, end, errNotNumeric)
		}
		if exponent, err = parseExponent(s[end+1:]); err != nil {
			return Key{}, err
		}
	}
	return packDecimal(sg, whole, fraction, exponent), nil
}

func parseExponent(s []byte) (int, error) {
	negative := false
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		negative = s[0] == '-'
		s = s[1:]
	}
	if len(s) == 0 {
		return 0, errExponent
	}
	n := 0
	for _, b := range s {
		if !isDigit(b) {
			return 0, errExponent
		}
		n = min(n*10+int(b-'0'), maxDecimals+1)
	}
	if n > maxDecimals {
		return 0, errNumericLong
	}
	if negative {
		n = -n
	}
	return n, nil
}

// packDecimal groups decimals by four, counted from the point, which the
// exponent moves.
func packDecimal(sg sign, whole, fraction []byte, exponent int) Key {
	point := len(whole) + exponent // decimals before it
	weight := int(floorDiv(int64(point-1), 4))
	have := 4*(weight+1) - point // decimals in the group, at first the zeros that fill it
	digits := make([]byte, 0, 2*((have+len(whole)+len(fraction)+3)/4))
	group := uint16(0)
	for _, part := range [...][]byte{whole, fraction} {
		for _, b := range part {
			group = group*10 + uint16(b-'0')
			if have++; have == 4 {
				digits = binary.LittleEndian.AppendUint16(digits, group)
				group, have = 0, 0
			}
		}
	}
	if have > 0 {
		for ; have < 4; have++ {
			group *= 10
		}
		digits = binary.LittleEndian.AppendUint16(digits, group)
	}
	return normalDecimal(sg, weight, digits)
}

// integerDecimal returns the numeric of a whole number.
func integerDecimal(n int64) Key {
	sg, u := positive, uint64(n)
	if n < 0 {
		sg, u = negative, -u
	}
	var groups [5]uint16 // 10000^5 > 2^64
	for i := len(groups) - 1; i >= 0; i-- {
		groups[i] = uint16(u % 10000)
		u /= 10000
	}
	digits := make([]byte, 0, 2*len(groups))
	for _, g := range groups {
		digits = binary.LittleEndian.AppendUint16(digits, g)
	}
	return normalDecimal(sg, len(groups)-1, digits)
}

// decimalInteger returns the whole number that is stored for a numeric, halves
// rounded away from zero; or, when comparing, the one equal to it.
func decimalInteger(k Key, store bool) (int64, error) {
	outside := errOutside
	if store {
		outside = errIntegerRange
	}
	digits, weight, special := k.Decimal()
	if special || weight > 4 {
		return 0, outside
	}
	if !store && scaleOf(k) > 0 {
		return 0, errFraction
	}
	var u uint64
	for i := 0; i <= weight; i++ {
		if u > (math.MaxUint64-9999)/10000 {
			return 0, outside
		}
		u *= 10000
		if i < len(digits)/2 {
			u += uint64(digit(digits, i))
		}
	}
	if first := weight + 1; first >= 0 && first < len(digits)/2 && digit(digits, first) >= 5000 {
		u++
	}
	switch {
	case k.sign == negative && u <= 1<<63:
		return int64(-u), nil
	case k.sign != negative && u <= math.MaxInt64:
		return int64(u), nil
	}
	return 0, outside
}

func compareDecimal(a, b Key) int {
	if a.sign != b.sign || a.sign == zero || len(a.bytes) == 0 {
		return cmp.Compare(a.sign, b.sign)
	}
	c := cmp.Compare(a.n, b.n)
	for i := 0; c == 0; i++ {
		switch left, right := 2*i < len(a.bytes), 2*i < len(b.bytes); {
		case !left || !right:
			// The longer one goes on with something that is not zero.
			return int(a.sign) * cmp.Compare(len(a.bytes), len(b.bytes))
		default:
			c = cmp.Compare(digit(a.bytes, i), digit(b.bytes, i))
		}
	}
	return int(a.sign) * c
}

// appendDecimal writes a numeric as people do, and with an exponent when that
// would take many zeros.
func appendDecimal(dst []byte, k Key) []byte {
	switch k.sign {
	case zero:
		return append(dst, '0')
	case notANumber:
		return append(dst, "NaN"...)
	case positiveInfinity:
		return append(dst, "Infinity"...)
	case negativeInfinity:
		return append(dst, "-Infinity"...)
	case negative:
		dst = append(dst, '-')
	}
	start, n := len(dst), len(k.bytes)/2
	dst = strconv.AppendInt(dst, int64(digit(k.bytes, 0)), 10)
	for i := 1; i < n; i++ {
		d := digit(k.bytes, i)
		dst = append(dst, byte('0'+d/1000), byte('0'+d/100%10), byte('0'+d/10%10), byte('0'+d%10))
	}
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	const zeros = "00000000000000000000"
	switch scale := scaleOf(k); {
	case scale <= 0 && -scale <= len(zeros):
		return append(dst, zeros[:-scale]...)
	case scale > 0 && scale < len(dst)-start:
		dst = append(dst, 0)
		at := len(dst) - 1 - scale
		copy(dst[at+1:], dst[at:])
		dst[at] = '.'
		return dst
	case scale > 0 && scale-(len(dst)-start) <= len(zeros):
		lead := "0." + zeros[:scale-(len(dst)-start)]
		dst = append(dst, lead...)
		copy(dst[start+len(lead):], dst[start:])
		copy(dst[start:], lead)
		return dst
	default:
		return strconv.AppendInt(append(dst, 'e'), -int64(scale), 10)
	}
}
