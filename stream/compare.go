package stream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
)

// CompareBinary returns the order PostgreSQL gives the values of a type, in their binary format.
// For text, bytewise says that the collation compares bytes and that values come in the encoding
// of the server. CompareBinary reports false if the order is not in the bytes, and PostgreSQL has
// to sort.
//
// A value that no server would send has some place in the order, always the same.
func CompareBinary(oid uint32, bytewise bool) (Comparer, bool) {
	switch oid {
	case oidBool, oidBytea, oidChar, oidUUID, oidMacaddr, oidMacaddr8, oidOid, oidLSN, oidXid8:
		// Unsigned numbers and bytes, which have one length or are compared like bytea.
		return bytes.Compare, true
	case oidName, oidText, oidVarchar:
		return bytes.Compare, bytewise
	case oidBpchar:
		return comparePadded, bytewise
	case oidInt2, oidInt4, oidDate, oidInt8, oidTime, oidTimestamp, oidTimestamptz, oidMoney:
		return compareSigned, true
	case oidFloat4, oidFloat8:
		return compareFloat, true
	case oidNumeric:
		return compareNumeric, true
	case oidTimetz:
		return compareTimetz, true
	case oidInterval:
		return compareInterval, true
	case oidInet, oidCidr:
		return compareInet, true
	case oidBit, oidVarbit:
		return compareBit, true
	}
	return nil, false
}

// compareSigned orders numbers in two's complement: by bytes, except for the sign bit.
func compareSigned(a, b []byte) int {
	if len(a) == 8 && len(b) == 8 {
		return cmp.Compare(int64(binary.BigEndian.Uint64(a)), int64(binary.BigEndian.Uint64(b)))
	}
	if len(a) > 0 && len(b) > 0 && (a[0]^b[0])&0x80 != 0 {
		return cmp.Compare(b[0], a[0])
	}
	return bytes.Compare(a, b)
}

// comparePadded compares bytes and ignores blanks at the end.
func comparePadded(a, b []byte) int {
	return bytes.Compare(bytes.TrimRight(a, " "), bytes.TrimRight(b, " "))
}

// compareFloat treats NaN as equal to NaN and greater than any other value.
func compareFloat(a, b []byte) int {
	x, ok1 := float(a)
	y, ok2 := float(b)
	if !ok1 || !ok2 {
		return bytes.Compare(a, b)
	}
	return compareFloats(x, y)
}

func compareFloats(x, y float64) int {
	if math.IsNaN(x) || math.IsNaN(y) {
		return -cmp.Compare(x, y) // negated, because cmp.Compare treats NaN as the least
	}
	return cmp.Compare(x, y)
}

// float reads float4 or float8.
func float(b []byte) (float64, bool) {
	switch len(b) {
	case 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(b))), true
	case 8:
		return math.Float64frombits(binary.BigEndian.Uint64(b)), true
	}
	return 0, false
}

// compareTimetz orders by the moment in UTC, then by the zone.
func compareTimetz(a, b []byte) int {
	if len(a) != 12 || len(b) != 12 {
		return bytes.Compare(a, b)
	}
	utc := func(v []byte) (int64, int64) {
		zone := int64(int32(binary.BigEndian.Uint32(v[8:]))) // seconds west
		return int64(binary.BigEndian.Uint64(v)) + zone*1_000_000, zone
	}
	t1, zone1 := utc(a)
	t2, zone2 := utc(b)
	return cmp.Or(cmp.Compare(t1, t2), cmp.Compare(zone1, zone2))
}

// compareInterval counts a month as 30 days and a day as 24 hours.
func compareInterval(a, b []byte) int {
	if len(a) != 16 || len(b) != 16 {
		return bytes.Compare(a, b)
	}
	// Whole days and the rest, because the microseconds of both may not fit an int64.
	span := func(v []byte) (int64, int64) {
		const day = 86_400_000_000
		micros := int64(binary.BigEndian.Uint64(v))
		days := int64(int32(binary.BigEndian.Uint32(v[8:]))) + 30*int64(int32(binary.BigEndian.Uint32(v[12:])))
		days += micros / day
		if micros %= day; micros < 0 {
			days, micros = days-1, micros+day
		}
		return days, micros
	}
	days1, micros1 := span(a)
	days2, micros2 := span(b)
	return cmp.Or(cmp.Compare(days1, days2), cmp.Compare(micros1, micros2))
}

// compareInet orders by family, then by the network bits that both values have, then by the
// length of the prefix, then by address.
func compareInet(a, b []byte) int {
	// The format is: family, bits, whether cidr, length of the address, address.
	if len(a) < 4 || len(b) < 4 || len(a)-4 < (int(a[1])+7)/8 || len(b)-4 < (int(b[1])+7)/8 {
		return bytes.Compare(a, b)
	}
	if a[0] != b[0] {
		return cmp.Compare(a[0], b[0])
	}
	return cmp.Or(compareBits(a[4:], b[4:], int(min(a[1], b[1]))), cmp.Compare(a[1], b[1]), bytes.Compare(a[4:], b[4:]))
}

// compareBits compares the leading n bits, which both have.
func compareBits(a, b []byte, n int) int {
	if c := bytes.Compare(a[:n/8], b[:n/8]); c != 0 || n%8 == 0 {
		return c
	}
	shift := 8 - n%8
	return cmp.Compare(a[n/8]>>shift, b[n/8]>>shift)
}

// compareBit orders bit strings by bits, then by length.
func compareBit(a, b []byte) int {
	if len(a) < 4 || len(b) < 4 {
		return bytes.Compare(a, b)
	}
	x, y := a[4:], b[4:]
	n := min(len(x), len(y))
	return cmp.Or(bytes.Compare(x[:n], y[:n]), bytes.Compare(a[:4], b[:4]))
}
