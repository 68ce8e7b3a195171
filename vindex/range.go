package vindex

import (
	"fmt"
	"slices"

	"weft/datum"
)

// rangeZones gives ordered values their zones: times, ids of tenants. Parameter
// zones: a list of maps, in order, with below (the first value that is not of
// the zone) and buckets; the last has no below and takes all the rest, NULL
// among them.
type rangeZones struct {
	column Column
	below  []datum.Key // one less than zones
	zones  []zone
}

// ranged is the vindex of one column; unlike list it can narrow an inequality.
type ranged struct {
	*zoned
	zones *rangeZones
}

var (
	_ Computed = (*ranged)(nil)
	_ Ordered  = (*ranged)(nil)
)

func newRange(d Declaration, p *params) (Vindex, error) {
	z, err := newRangeZones(d.Columns[0], d.Buckets, p)
	if err != nil {
		return nil, err
	}
	return &ranged{newZoned("range", d, z), z.(*rangeZones)}, nil
}

func newRangeZones(c Column, buckets int, p *params) (zones, error) {
	z := &rangeZones{column: c}
	items, _, err := p.list("zones")
	if err != nil {
		return nil, err
	}
	z.zones, err = zoneParams(p, buckets, func(i int, r *params) error {
		return z.add(r, i == len(items)-1)
	})
	if err != nil {
		return nil, err
	}
	return z, nil
}

// add reads a zone's upper end.
func (z *rangeZones) add(r *params, last bool) error {
	v, ok := r.get("below")
	switch {
	case last && ok:
		return fmt.Errorf("%sbelow: the last zone takes all the rest and must do without", r.place)
	case last:
		return nil
	case !ok:
		return fmt.Errorf("%sbelow: missing; only the last zone takes all the rest", r.place)
	}
	k, err := z.column.keyParam(v)
	if err != nil {
		return fmt.Errorf("%sbelow: %w", r.place, err)
	}
	if n := len(z.below); n > 0 && z.below[n-1].Compare(k) >= 0 {
		return fmt.Errorf("%sbelow: %v does not come after the end of the zone before it", r.place, v)
	}
	z.below = append(z.below, k)
	return nil
}

func (z *rangeZones) index(k datum.Key) int {
	at, found := slices.BinarySearchFunc(z.below, k, datum.Key.Compare)
	if found {
		at++ // the end is not of the zone
	}
	return at
}

func (z *rangeZones) of(k datum.Key) (zone, error) { return z.zones[z.index(k)], nil }

func (z *rangeZones) sql(column string, pick func(zone) int) string {
	var when []string
	for i, k := range z.below {
		when = append(when, fmt.Sprintf("WHEN %s < %s THEN %d", z.column.operandSQL(column), z.column.literalSQL(k), pick(z.zones[i])))
	}
	rest := pick(z.zones[len(z.zones)-1])
	return caseSQL(when, &rest)
}

// Between implements Ordered. NULL satisfies no inequality, so it does not
// matter that it shares the last zone.
func (r *ranged) Between(dst []Range, low, high datum.Key) []Range {
	first, last := 0, len(r.zones.zones)-1
	if !low.IsNull() {
		first = r.zones.index(low)
	}
	if !high.IsNull() {
		last = r.zones.index(high)
	}
	for i := first; i <= last; i++ {
		dst = append(dst, r.zones.zones[i].whole())
	}
	return dst
}
