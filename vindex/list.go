package vindex

import (
	"fmt"
	"slices"
	"strings"

	"weft/datum"
)

// listZones gives named values their zones: regions, residency. Parameter
// zones: a list of maps with values and buckets; one may have no values and
// then takes all others, NULL among them.
type listZones struct {
	column Column
	values [][]datum.Key // of each zone, as declared
	zones  []zone
	other  int           // the zone of all other values, or -1
	sorted []listedValue // by key
}

type listedValue struct {
	key  datum.Key
	zone int
}

func newList(d Declaration, p *params) (Vindex, error) {
	z, err := newListZones(d.Columns[0], d.Buckets, p)
	if err != nil {
		return nil, err
	}
	return newZoned("list", d, z), nil
}

func newListZones(c Column, buckets int, p *params) (zones, error) {
	l := &listZones{column: c, other: -1}
	var err error
	l.zones, err = zoneParams(p, buckets, l.add)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// add reads the values of zone i.
func (l *listZones) add(i int, r *params) error {
	values, ok, err := r.list("values")
	if err != nil {
		return err
	}
	if !ok {
		if l.other >= 0 {
			return fmt.Errorf("%svalues: missing, and zone %d already takes all other values", r.place, l.other)
		}
		l.other = i
	} else if len(values) == 0 {
		return fmt.Errorf("%svalues: empty; leave it out for all other values", r.place)
	}
	l.values = append(l.values, nil)
	for j, v := range values {
		k, err := l.column.keyParam(v)
		if err != nil {
			return fmt.Errorf("%svalues[%d]: %w", r.place, j, err)
		}
		at, found := l.search(k)
		if found {
			return fmt.Errorf("%svalues[%d]: %v is already in zone %d", r.place, j, v, l.sorted[at].zone)
		}
		l.sorted = slices.Insert(l.sorted, at, listedValue{k, i})
		l.values[i] = append(l.values[i], k)
	}
	return nil
}

func (l *listZones) search(k datum.Key) (int, bool) {
	return slices.BinarySearchFunc(l.sorted, k, func(v listedValue, k datum.Key) int { return v.key.Compare(k) })
}

var errUnlisted = fmt.Errorf("%w: no zone lists the value", ErrNoPlace)

func (l *listZones) of(k datum.Key) (zone, error) {
	at, found := l.search(k)
	switch {
	case found:
		return l.zones[l.sorted[at].zone], nil
	case l.other >= 0:
		return l.zones[l.other], nil
	}
	return zone{}, errUnlisted
}

func (l *listZones) sql(column string, pick func(zone) int) string {
	var when []string
	for i, keys := range l.values {
		if i == l.other {
			continue
		}
		values := make([]string, len(keys))
		for j, k := range keys {
			values[j] = l.column.literalSQL(k)
		}
		when = append(when, fmt.Sprintf("WHEN %s IN (%s) THEN %d", l.column.operandSQL(column), strings.Join(values, ", "), pick(l.zones[i])))
	}
	if l.other < 0 {
		return caseSQL(when, nil)
	}
	other := pick(l.zones[l.other])
	return caseSQL(when, &other)
}
