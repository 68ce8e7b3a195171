package datum

import (
	"encoding/binary"
	"math"
)

// The infinities and the limits of timestamp and timestamptz.
const (
	InfiniteTimestamp      = math.MaxInt64
	MinusInfiniteTimestamp = math.MinInt64

	FirstTimestamp = -211813488000000000 // 4714-11-24 BC
	EndTimestamp   = 9223371331200000000 // the first one past 294276-12-31
)

var (
	errTimeText = &Error{Undecided, "settings of the session decide what this time means"}
	errNoZone   = &Error{Undecided, "without an offset, TimeZone decides what this time means"}
)

// timestamp finds the key of a timestamp or timestamptz column.
func (c Column) timestamp(v Value, store bool) (Key, error) {
	var n int64
	var err error
	switch {
	case v.Type == c.Type || v.Type == Unknown || v.Type == 0:
		n, err = v.micros(c.Type)
	case v.Type == Date && c.Type == Timestamp:
		n, err = v.midnight()
	default: // between timestamp and timestamptz lies TimeZone
		return Key{}, errType
	}
	if err != nil {
		return Key{}, err
	}
	if store {
		n = roundMicros(n, c.Mod)
	}
	return IntegerKey(n), nil
}

// midnight reads a Value of type date as a timestamp.
func (v Value) midnight() (int64, error) {
	n, err := v.days()
	switch {
	case err != nil:
		return 0, err
	case n == InfiniteDate:
		return InfiniteTimestamp, nil
	case n == MinusInfiniteDate:
		return MinusInfiniteTimestamp, nil
	case n > timestampDays:
		return 0, errDateFar
	}
	return n * dayMicros, nil
}

// roundMicros rounds to the digits of timestamp(digits), halves away from zero,
// which here is the year 2000.
func roundMicros(n int64, digits int32) int64 {
	if digits < 0 || digits > 5 || n == InfiniteTimestamp || n == MinusInfiniteTimestamp {
		return n
	}
	unit := int64(1)
	for range 6 - digits {
		unit *= 10
	}
	if n < 0 {
		return -((-n + unit/2) / unit * unit)
	}
	return (n + unit/2) / unit * unit
}

// micros reads a Value of type t, timestamp or timestamptz.
func (v Value) micros(t Type) (int64, error) {
	if v.Format == BinaryFormat {
		if len(v.Bytes) != 8 {
			return 0, errLength
		}
		n := int64(binary.BigEndian.Uint64(v.Bytes))
		if (n < FirstTimestamp || n >= EndTimestamp) && n != InfiniteTimestamp && n != MinusInfiniteTimestamp {
			return 0, errDateRange
		}
		return n, nil
	}
	switch infinity(v.Bytes) {
	case 1:
		return InfiniteTimestamp, nil
	case -1:
		return MinusInfiniteTimestamp, nil
	}
	days, s, err := parseDate(v.Bytes)
	if err != nil {
		return 0, err
	}
	var clock int64
	if len(s) > 0 {
		if clock, s, err = parseClock(s); err != nil {
			return 0, err
		}
	}
	n := days*dayMicros + clock
	switch {
	case t == Timestamptz && len(s) == 0:
		return 0, errNoZone
	case t == Timestamptz:
		offset, err := parseOffset(s)
		return n - offset, err
	case len(s) > 0:
		// PostgreSQL drops an offset here without a word, but not every one.
		return 0, errTimeText
	}
	return n, nil
}

// parseClock reads " HH:MM", " HH:MM:SS" or " HH:MM:SS.ffffff", with T for the
// space too, at the start of s. 24:00, a second 60 and a seventh decimal are
// good times to PostgreSQL, which rounds them: they are its own.
func parseClock(s []byte) (micros int64, rest []byte, err error) {
	if len(s) < 6 || s[0] != ' ' && s[0] != 'T' || s[3] != ':' {
		return 0, nil, errTimeText
	}
	hour, ok1 := twoDigits(s[1:])
	minute, ok2 := twoDigits(s[4:])
	if !ok1 || !ok2 || hour > 23 || minute > 59 {
		return 0, nil, errTimeText
	}
	micros = int64(hour*60+minute) * 60_000_000
	s = s[6:]
	if len(s) == 0 || s[0] != ':' {
		return micros, s, notLonger(s)
	}
	if len(s) < 3 {
		return 0, nil, errTimeText
	}
	second, ok := twoDigits(s[1:])
	if !ok || second > 59 {
		return 0, nil, errTimeText
	}
	micros += int64(second) * 1_000_000
	s = s[3:]
	if len(s) == 0 || s[0] != '.' {
		return micros, s, notLonger(s)
	}
	s = s[1:]
	unit := int64(1_000_000)
	for len(s) > 0 && isDigit(s[0]) {
		if unit == 1 {
			return 0, nil, errTimeText
		}
		unit /= 10
		micros += int64(s[0]-'0') * unit
		s = s[1:]
	}
	if unit == 1_000_000 {
		return 0, nil, errTimeText
	}
	return micros, s, nil
}

// notLonger refuses a field that went on after its two digits.
func notLonger(s []byte) error {
	if len(s) > 0 && (isDigit(s[0]) || s[0] == '.') {
		return errTimeText
	}
	return nil
}

// parseOffset reads Z, ±HH, ±HHMM or ±HH:MM, and nothing after it, as
// microseconds east of Greenwich. Z is a name from the server's table of
// abbreviations; every table that comes with PostgreSQL has it as 0.
func parseOffset(s []byte) (int64, error) {
	if len(s) == 1 && s[0] == 'Z' {
		return 0, nil
	}
	if len(s) < 3 || s[0] != '+' && s[0] != '-' {
		return 0, errNoZone
	}
	hour, ok := twoDigits(s[1:])
	minute := 0
	switch rest := s[3:]; {
	case !ok:
	case len(rest) == 2:
		minute, ok = twoDigits(rest)
	case len(rest) == 3 && rest[0] == ':':
		minute, ok = twoDigits(rest[1:])
	default:
		ok = len(rest) == 0
	}
	if !ok || hour > 15 || minute > 59 {
		return 0, errNoZone
	}
	offset := int64(hour*60+minute) * 60_000_000
	if s[0] == '-' {
		offset = -offset
	}
	return offset, nil
}
