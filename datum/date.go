package datum

import (
	"encoding/binary"
	"math"
)

// PostgreSQL counts days and microseconds from 2000-01-01; the ends of the
// integers are the infinities.
const (
	InfiniteDate      = math.MaxInt32
	MinusInfiniteDate = math.MinInt32

	firstDate = -2451545   // 4714-11-24 BC
	endDate   = 2145031949 // the first one past 5874897-12-31

	// Every day closer to 2000 than this is a timestamp too, and more than any
	// calendar needs.
	timestampDays = 100_000_000
	dayMicros     = 86_400_000_000
)

var (
	errDateText  = &Error{Undecided, "settings of the session decide what this date means"}
	errDate      = &Error{Invalid, "no such day"}
	errDateRange = &Error{Invalid, "out of range for its type"}
	errDateFar   = &Error{Undecided, "so far away that a date and a timestamp may differ"}
	errMidnight  = &Error{Never, "a time that is not midnight equals no date"}
)

// date finds the key of a date column.
func (c Column) date(v Value, store bool) (Key, error) {
	switch v.Type {
	case Unknown, 0, Date:
		n, err := v.days()
		return IntegerKey(n), err
	case Timestamp:
		t, err := v.micros(Timestamp)
		if err != nil {
			return Key{}, err
		}
		switch t {
		case InfiniteTimestamp:
			return IntegerKey(InfiniteDate), nil
		case MinusInfiniteTimestamp:
			return IntegerKey(MinusInfiniteDate), nil
		}
		n := floorDiv(t, dayMicros)
		if !store && n*dayMicros != t {
			return Key{}, errMidnight
		}
		return IntegerKey(n), nil
	}
	return Key{}, errType // timestamptz among them: its day depends on TimeZone
}

// days reads a Value of type date.
func (v Value) days() (int64, error) {
	if v.Format == BinaryFormat {
		if len(v.Bytes) != 4 {
			return 0, errLength
		}
		n := int64(int32(binary.BigEndian.Uint32(v.Bytes)))
		if (n < firstDate || n >= endDate) && n != InfiniteDate && n != MinusInfiniteDate {
			return 0, errDateRange
		}
		return n, nil
	}
	switch infinity(v.Bytes) {
	case 1:
		return InfiniteDate, nil
	case -1:
		return MinusInfiniteDate, nil
	}
	n, rest, err := parseDate(v.Bytes)
	if err == nil && len(rest) > 0 {
		err = errDateText
	}
	return n, err
}

// infinity reports whether s is spelled infinity or -infinity: 1, -1, or 0.
func infinity(s []byte) int {
	sign := 1
	if len(s) > 0 && s[0] == '-' {
		sign, s = -1, s[1:]
	}
	if !equalFold(s, "infinity") {
		return 0
	}
	return sign
}

func equalFold(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i, b := range s {
		if b >= 'A' && b <= 'Z' {
			b |= 0x20
		}
		if b != lower[i] {
			return false
		}
	}
	return true
}

// parseDate reads YYYY-MM-DD at the start of s, the one order of fields that
// means the same under every DateStyle, and returns what follows it. Years of
// more than four digits, BC, month names and all the rest are the server's.
func parseDate(s []byte) (days int64, rest []byte, err error) {
	if len(s) < 10 || s[4] != '-' || s[7] != '-' || len(s) > 10 && isDigit(s[10]) {
		return 0, nil, errDateText
	}
	century, ok1 := twoDigits(s)
	years, ok2 := twoDigits(s[2:])
	month, ok3 := twoDigits(s[5:])
	day, ok4 := twoDigits(s[8:])
	year := century*100 + years
	if !ok1 || !ok2 || !ok3 || !ok4 || year == 0 {
		return 0, nil, errDateText
	}
	if month < 1 || month > 12 || day < 1 || day > monthDays(year, month) {
		return 0, nil, errDate
	}
	return daysOf(year, month, day), s[10:], nil
}

func twoDigits(s []byte) (int, bool) {
	if !isDigit(s[0]) || !isDigit(s[1]) {
		return 0, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), true
}

func monthDays(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysOf counts the days from 2000-01-01 to a day of the years 1 to 9999. With
// years beginning in March the leap day comes last, and the months' lengths
// follow (153m+2)/5.
func daysOf(year, month, day int) int64 {
	if month < 3 {
		year--
		month += 12
	}
	n := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day
	return int64(n) - 730426
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
