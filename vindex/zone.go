package vindex

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weft/datum"
	"weft/quote"
)

// zone is a run of buckets for some values of a column.
type zone struct {
	first, width int
	shift        int // from a bucket to its first ID
}

// place returns the ID of the row that stands at x on the way from one end of
// the zone to the other. Multiplying 31 bits keeps the same formula within
// SQL's int8: a width has 17 bits at most. An ID's bits below the bucket stay
// zero.
func (z zone) place(x uint64) ID {
	bucket := z.first + int(x>>33*uint64(z.width)>>31)
	return ID(uint64(bucket) << z.shift)
}

func (z zone) whole() Range { return Range{z.place(0), z.place(1<<64 - 1)} }

// zones maps a column's values to zones.
type zones interface {
	of(datum.Key) (zone, error)
	// sql returns an expression that is, for each value, what pick says of its
	// zone; NULL for a value without one.
	sql(column string, pick func(zone) int) string
}

// zoneSQL is place in SQL. x is an int8 expression.
func zoneSQL(z zones, column, x string) string {
	var shift int
	first := z.sql(column, func(z zone) int { shift = z.shift; return z.first })
	width := z.sql(column, func(z zone) int { return z.width })
	return fmt.Sprintf("((%s + (((%s >> 33) & 2147483647) * %s >> 31)) << %d)", first, x, width, shift)
}

// HasZones reports whether the parameters of a vindex name buckets, so that the IDs it makes depend on
// how many buckets those are of.
func HasZones(v Vindex) bool {
	switch v := v.(type) {
	case *zoned, *ranged:
		return true
	case *composite:
		return v.zones != nil
	}
	return false
}

// zoned is a vindex of one column: its zone, and inside the zone its hash.
type zoned struct {
	kind    string
	columns []Column
	zones   zones
	hash    hash
}

var _ Computed = (*zoned)(nil)

func newZoned(kind string, d Declaration, z zones) *zoned {
	return &zoned{kind, d.Columns, z, hash{d.Columns[0].Type}}
}

func (v *zoned) Kind() string      { return v.kind }
func (v *zoned) Cost() Cost        { return Compute }
func (v *zoned) Columns() []Column { return v.columns }

func (v *zoned) ID(keys []datum.Key) (ID, error) {
	if err := exactly(v, keys); err != nil {
		return 0, err
	}
	z, err := v.zones.of(keys[0])
	if err != nil {
		return 0, err
	}
	return z.place(Hash(keys[0])), nil
}

func (v *zoned) Ranges(dst []Range, keys []datum.Key) ([]Range, error) {
	if len(keys) == 0 {
		return append(dst, All), nil
	}
	id, err := v.ID(keys)
	if err != nil {
		return dst, err
	}
	return append(dst, Range{id, id}), nil
}

func (v *zoned) SQL(columns []string) string {
	return zoneSQL(v.zones, columns[0], v.hash.sql(columns[0]))
}

// zoneParams reads the list of zones that list and range have in common: each
// zone's buckets, and what makes a value belong to it by the given function.
func zoneParams(p *params, buckets int, value func(i int, r *params) error) ([]zone, error) {
	items, _, err := p.list("zones")
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("%szones: want at least one", p.place)
	}
	bits, err := Bits(buckets)
	if err != nil {
		return nil, err
	}
	all := make([]zone, len(items))
	for i, item := range items {
		r, err := p.inside("zones", i, item)
		if err != nil {
			return nil, err
		}
		first, last, err := bucketRun(r, buckets)
		if err != nil {
			return nil, err
		}
		all[i] = zone{first, last - first + 1, 64 - bits}
		// The same buckets twice may be meant (months in turn); some in common
		// are a slip that would mix what was to be kept apart.
		for j, o := range all[:i] {
			if o != all[i] && first < o.first+o.width && o.first <= last {
				return nil, fmt.Errorf("%sbuckets: %d-%d overlaps zone %d", r.place, first, last, j)
			}
		}
		if err := value(i, r); err != nil {
			return nil, err
		}
		if err := r.done(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// bucketRun reads buckets, a number or "first-last".
func bucketRun(r *params, buckets int) (first, last int, err error) {
	v, ok := r.get("buckets")
	if !ok {
		return 0, 0, fmt.Errorf("%sbuckets: missing", r.place)
	}
	a, b, isRun := strings.Cut(scalar(v), "-")
	if !isRun {
		b = a
	}
	first, err = toNumber(a, 0, buckets-1)
	if err == nil {
		last, err = toNumber(b, first, buckets-1)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%sbuckets: want a bucket or a run of them like 0-%d, got %v", r.place, buckets-1, v)
	}
	return first, last, nil
}

// keyParam reads a value of the column's type from a declaration.
func (c Column) keyParam(v any) (datum.Key, error) {
	s, isString := v.(string)
	if !isString {
		if s = scalar(v); s == "" {
			return datum.Key{}, fmt.Errorf("want a value of type %s, got %v", c.typeName(), v)
		}
	}
	k, err := c.Store(datum.Literal([]byte(s)))
	if err != nil {
		return datum.Key{}, fmt.Errorf("%q is no value of type %s that means the same everywhere: %w", s, c.typeName(), err)
	}
	if c.Type == datum.Timestamptz && !isInfinite(k, c.Type) && instant(k, c.Type).Year() < 1 {
		return datum.Key{}, fmt.Errorf("%q lies before the year 1 in UTC", s)
	}
	return k, nil
}

// operandSQL returns what to compare literalSQL's values with.
func (c Column) operandSQL(column string) string {
	switch c.Type {
	case datum.Int2, datum.Int4, datum.Int8:
		return column + "::int8"
	case datum.Text, datum.Varchar, datum.Bpchar:
		return column + `::text COLLATE "C"`
	}
	return column
}

// literalSQL spells a key of the column so that no setting changes its meaning.
func (c Column) literalSQL(k datum.Key) string {
	text, typ := string(k.AppendText(nil)), c.Type.String()
	switch c.Type {
	case datum.Int2, datum.Int4, datum.Int8:
		typ = "int8"
	case datum.Text, datum.Varchar, datum.Bpchar:
		typ = "text"
	case datum.Date, datum.Timestamp, datum.Timestamptz:
		switch {
		case !isInfinite(k, c.Type):
			layout := map[datum.Type]string{
				datum.Date: "2006-01-02", datum.Timestamp: "2006-01-02 15:04:05.000000", datum.Timestamptz: "2006-01-02 15:04:05.000000+00",
			}[c.Type]
			text = instant(k, c.Type).Format(layout)
		case k.Int() > 0:
			text = "infinity"
		default:
			text = "-infinity"
		}
	}
	return quote.Literal(text) + "::" + typ
}

func isInfinite(k datum.Key, t datum.Type) bool {
	if t == datum.Date {
		return k.Int() == datum.InfiniteDate || k.Int() == datum.MinusInfiniteDate
	}
	return k.Int() == datum.InfiniteTimestamp || k.Int() == datum.MinusInfiniteTimestamp
}

// epoch is PostgreSQL's: 2000-01-01 in Unix seconds.
const epoch = 946684800

// instant returns the time of a finite date or timestamp.
func instant(k datum.Key, t datum.Type) time.Time {
	if t == datum.Date {
		return time.Unix(epoch+k.Int()*86400, 0).UTC()
	}
	return time.UnixMicro(epoch*1e6 + k.Int()).UTC()
}

// caseSQL joins the branches of a CASE and what is left over.
func caseSQL(when []string, otherwise *int) string {
	if len(when) == 0 && otherwise != nil {
		return strconv.Itoa(*otherwise)
	}
	s := "CASE " + strings.Join(when, " ")
	if otherwise != nil {
		s += " ELSE " + strconv.Itoa(*otherwise)
	}
	return "(" + s + " END)"
}
