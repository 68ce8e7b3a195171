package vindex

import (
	"fmt"
	"time"

	"weft/datum"
)

// timeBucket hashes a time cut down to its hour, day, week, month, quarter or
// year, so that inside a composite (entity, day) bounds a partition. A
// timestamptz is cut in UTC. Parameter unit; day if not said.
type timeBucket struct {
	typ  datum.Type
	unit string
}

const hour, day = 3600 * 1_000_000, 86400 * 1_000_000

func newTimeBucketPart(c Column, p *params) (function, error) {
	switch c.Type {
	case datum.Date, datum.Timestamp, datum.Timestamptz:
	default:
		return nil, fmt.Errorf("column %q is of type %s; time_bucket wants a date or timestamp", c.Name, c.typeName())
	}
	unit, ok, err := p.text("unit")
	if err != nil {
		return nil, err
	}
	if !ok {
		unit = "day"
	}
	switch unit {
	case "hour", "day", "week", "month", "quarter", "year":
		return timeBucket{c.Type, unit}, nil
	}
	return nil, fmt.Errorf("%sunit: want hour, day, week, month, quarter or year, got %q", p.place, unit)
}

// errTooFar: PostgreSQL cannot cut these down either.
var errTooFar = fmt.Errorf("%w: a time so far away cannot be cut down", ErrNoPlace)

func (b timeBucket) of(k datum.Key) (uint64, error) {
	if k.IsNull() {
		return 0, nil
	}
	t := k.Int()
	if isInfinite(k, b.typ) {
		if t = datum.InfiniteTimestamp; k.Int() < 0 {
			t = datum.MinusInfiniteTimestamp
		}
		return hashInt8(t), nil
	}
	if b.typ == datum.Date {
		if t >= datum.EndTimestamp/day {
			return 0, errTooFar
		}
		t *= day
	}
	if t = b.cut(t); t < datum.FirstTimestamp {
		return 0, errTooFar
	}
	return hashInt8(t), nil
}

// cut is date_trunc of microseconds since 2000.
func (b timeBucket) cut(t int64) int64 {
	switch b.unit {
	case "hour":
		return t - mod(t, hour)
	case "day":
		return t - mod(t, day)
	case "week": // 2000-01-03 was a Monday
		return t - mod(t-2*day, 7*day)
	}
	days := (t - mod(t, day)) / day
	year, month, _ := time.Unix(epoch+days*86400, 0).UTC().Date()
	switch b.unit {
	case "quarter":
		month -= (month - 1) % 3
	case "year":
		month = 1
	}
	return (time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() - epoch) * 1_000_000
}

// mod is the remainder that is never negative.
func mod(a, b int64) int64 {
	if r := a % b; r < 0 {
		return r + b
	} else {
		return r
	}
}

func (b timeBucket) sql(column string) string {
	switch b.typ {
	case datum.Date:
		column += "::timestamp"
	case datum.Timestamptz:
		column += " AT TIME ZONE 'UTC'"
	}
	return fmt.Sprintf("coalesce(timestamp_hash_extended(date_trunc('%s', %s), 0), 0)", b.unit, column)
}
