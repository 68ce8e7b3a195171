package datum

import "encoding/binary"

var errNotUUID = &Error{Invalid, "not a uuid"}

// uuid finds the key of a uuid column.
func (c Column) uuid(v Value) (Key, error) {
	switch {
	case v.Type != UUID && v.Type != Unknown && v.Type != 0:
		return Key{}, errType
	case v.Format == TextFormat:
		return parseUUID(v.Bytes)
	case len(v.Bytes) != 16:
		return Key{}, errLength
	}
	return Key{
		class: Identifier,
		n:     int64(binary.BigEndian.Uint64(v.Bytes)),
		low:   binary.BigEndian.Uint64(v.Bytes[8:]),
	}, nil
}

// parseUUID reads 32 hexadecimal digits of either case, with a hyphen allowed
// after each four and braces around it all. Spaces are not. The usual spelling
// goes a shorter way.
func parseUUID(s []byte) (Key, error) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		high, bad1 := hexDigits(s[0:8], s[9:13], s[14:18])
		low, bad2 := hexDigits(s[19:23], s[24:36])
		if bad1 || bad2 {
			return Key{}, errNotUUID
		}
		return Key{class: Identifier, n: int64(high), low: low}, nil
	}
	if n := len(s); n > 0 && s[0] == '{' {
		if s[n-1] != '}' {
			return Key{}, errNotUUID
		}
		s = s[1 : n-1]
	}
	var half [2]uint64
	for i := range 32 {
		if i > 0 && i%4 == 0 && len(s) > 0 && s[0] == '-' {
			s = s[1:]
		}
		if len(s) == 0 {
			return Key{}, errNotUUID
		}
		d := hexDigit[s[0]]
		if d > 15 {
			return Key{}, errNotUUID
		}
		half[i/16] = half[i/16]<<4 | uint64(d)
		s = s[1:]
	}
	if len(s) > 0 {
		return Key{}, errNotUUID
	}
	return Key{class: Identifier, n: int64(half[0]), low: half[1]}, nil
}

// hexDigits reads the hexadecimal digits of some runs as one number.
func hexDigits(runs ...[]byte) (n uint64, bad bool) {
	var all uint8
	for _, run := range runs {
		for _, b := range run {
			d := hexDigit[b]
			all |= d
			n = n<<4 | uint64(d)
		}
	}
	return n, all > 15
}

// hexDigit holds each byte's value as a hexadecimal digit, 16 for none.
var hexDigit = func() (t [256]uint8) {
	for i := range t {
		t[i] = 16
	}
	for i := range uint8(10) {
		t['0'+i] = i
	}
	for i := range uint8(6) {
		t['a'+i], t['A'+i] = 10+i, 10+i
	}
	return t
}()
