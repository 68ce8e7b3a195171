package stream

import (
	"bytes"
	"cmp"
)

// comparer returns the order PostgreSQL gives the values of the type, in the type's format.
func (t Type) comparer() (Comparer, bool) {
	if t.Format == binaryFormat {
		return CompareBinary(t.OID, t.Bytes)
	}
	switch t.OID {
	case oidInt2, oidInt4, oidInt8, oidOid, oidXid8, oidNumeric:
		return compareDecimals, true
	case oidFloat4, oidFloat8:
		return compareFloatText, t.Shortest
	case oidText, oidVarchar, oidName:
		return bytes.Compare, t.Bytes
	case oidBpchar:
		return comparePadded, t.Bytes
	case oidBool, oidUUID, oidTime:
		// f and t; hexadecimal digits and colons in fixed places.
		return bytes.Compare, true
	case oidDate, oidTimestamp, oidTimestamptz:
		return compareISO, t.ISO
	}
	return nil, false
}

// compareDecimals orders numbers written with decimals.
func compareDecimals(a, b []byte) int {
	rank1, rank2 := rankText(a), rankText(b)
	switch {
	case rank1 != rank2:
		return cmp.Compare(rank1, rank2)
	case rank1 == 1:
		return compareMagnitude(a, b)
	case rank1 == -1:
		return compareMagnitude(b[1:], a[1:])
	}
	return 0
}

// rankText orders numbers by sign: -Infinity, negative, zero, positive, Infinity, NaN.
func rankText(v []byte) int {
	switch {
	case len(v) == 0:
		return 0
	case v[0] == 'N':
		return 3
	case v[0] == 'I':
		return 2
	case len(v) > 1 && v[0] == '-' && v[1] == 'I':
		return -2
	}
	sign := 1
	if v[0] == '-' {
		sign, v = -1, v[1:]
	}
	for _, c := range v {
		if c != '0' && c != '.' {
			return sign
		}
	}
	return 0
}

// compareMagnitude compares digits, perhaps with a point among them. They have no leading zero,
// except a lone zero before the point.
func compareMagnitude(a, b []byte) int {
	whole1, fraction1, _ := bytes.Cut(a, []byte{'.'})
	whole2, fraction2, _ := bytes.Cut(b, []byte{'.'})
	return cmp.Or(cmp.Compare(len(whole1), len(whole2)), bytes.Compare(whole1, whole2),
		bytes.Compare(bytes.TrimRight(fraction1, "0"), bytes.TrimRight(fraction2, "0")))
}

func compareFloatText(a, b []byte) int {
	x, ok1 := parseFloat(a, 64)
	y, ok2 := parseFloat(b, 64)
	if !ok1 || !ok2 {
		return bytes.Compare(a, b)
	}
	return compareFloats(x, y)
}

// compareISO orders dates and timestamps, with and without a zone, as DateStyle
// ISO writes them.
func compareISO(a, b []byte) int {
	x, ok1 := parseISO(a)
	y, ok2 := parseISO(b)
	if !ok1 || !ok2 {
		return bytes.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(x.day, y.day), cmp.Compare(x.micros, y.micros))
}

// moment is a day number and the microseconds of that day, in UTC.
type moment struct{ day, micros int64 }

const (
	dayMicros = 86_400_000_000
	farDay    = 1 << 40 // infinity
)

// parseISO reads infinity, -infinity, or YYYY-MM-DD, perhaps HH:MM:SS.ffffff,
// perhaps ±HH:MM:SS, perhaps BC.
func parseISO(v []byte) (moment, bool) {
	switch string(v) {
	case "infinity":
		return moment{day: farDay}, true
	case "-infinity":
		return moment{day: -farDay}, true
	}
	v, before := bytes.CutSuffix(v, []byte(" BC"))
	year, v, ok1 := leadingNumber(v, '-')
	month, v, ok2 := leadingNumber(v, '-')
	day, v, ok3 := leadingNumber(v, ' ')
	if !ok1 || !ok2 || !ok3 {
		return moment{}, false
	}
	if before {
		year = 1 - year
	}
	m := moment{day: dayNumber(year, month, day)}
	if len(v) == 0 {
		return m, true
	}
	zone := bytes.IndexAny(v, "+-")
	if zone < 0 {
		zone = len(v)
	}
	clock, ok := parseClock(v[:zone])
	if !ok {
		return moment{}, false
	}
	m.micros = clock
	if zone < len(v) {
		offset, ok := parseClock(v[zone+1:])
		if !ok {
			return moment{}, false
		}
		if v[zone] == '+' {
			offset = -offset
		}
		m.micros += offset
	}
	if m.micros < 0 {
		m = moment{m.day - 1, m.micros + dayMicros}
	} else if m.micros >= dayMicros {
		m = moment{m.day + 1, m.micros - dayMicros}
	}
	return m, true
}

// leadingNumber reads digits up to a separator or the end, and returns what comes after the
// separator.
func leadingNumber(v []byte, separator byte) (int64, []byte, bool) {
	n := int64(0)
	for i, c := range v {
		if c == separator && i > 0 {
			return n, v[i+1:], true
		}
		if c < '0' || c > '9' || i > 7 {
			return 0, nil, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, nil, len(v) > 0
}

// parseClock reads HH, HH:MM, HH:MM:SS or HH:MM:SS.ffffff as microseconds.
func parseClock(v []byte) (int64, bool) {
	v, fraction, _ := bytes.Cut(v, []byte{'.'})
	micros, unit := int64(0), int64(3_600_000_000)
	for len(v) > 0 {
		n, rest, ok := leadingNumber(v, ':')
		if !ok || unit < 1_000_000 {
			return 0, false
		}
		micros += n * unit
		unit /= 60
		v = rest
	}
	unit = 1_000_000
	for _, c := range fraction {
		if unit /= 10; unit == 0 || c < '0' || c > '9' {
			return 0, false
		}
		micros += int64(c-'0') * unit
	}
	return micros, true
}

// dayNumber returns the number of a date's day. If years begin in March the leap day comes last,
// and the months' lengths follow (153m+2)/5.
func dayNumber(year, month, day int64) int64 {
	if month < 3 {
		year--
		month += 12
	}
	year += 8000 // a multiple of 400, so that no year is negative
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day
}
