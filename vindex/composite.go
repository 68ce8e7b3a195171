package vindex

import (
	"errors"
	"fmt"
	"strings"

	"weft/datum"
)

// composite gives each of several columns some bits of the ID, the first column
// the topmost, so that knowing only the leading columns narrows to a range:
//
//	tenant (8 bits)  day (the rest)
//	──────────────── ──────────────
//	top of hash      top of hash
//
// With 4096 buckets a tenant's rows are then in 16 neighbouring buckets, one
// tenant's day in one. When the first column is a list or range, its zone holds
// the whole row, and the other columns' bits say where inside it.
//
// Parameters: bits, a list of numbers (or a string like "8,4") with one less
// than there are columns or as many; or parts, a list with a map for each column: kind (hash if not
// said), bits, and what the kind takes. The last column's bits are the rest
// unless given.
type composite struct {
	columns []Column
	zones   zones // of the first column, or nil
	parts   []part
}

// part is one column's share of the bits.
type part struct {
	function
	skip, bits int // bits above it, and its own
}

// mask has the part's own bits set.
func (p part) mask() uint64 { return ^uint64(0) << (64 - p.bits) >> p.skip }

var _ Computed = (*composite)(nil)

func newComposite(d Declaration, p *params) (Vindex, error) {
	readers, err := partParams(p, len(d.Columns))
	if err != nil {
		return nil, err
	}
	c := &composite{columns: d.Columns}
	skip := 0
	for i, column := range d.Columns {
		r := readers[i]
		name, ok, err := r.text("kind")
		if err != nil {
			return nil, err
		}
		if !ok {
			name = "hash"
		}
		k, err := find(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%skind: %w", r.place, err)
		case k.zones != nil && i == 0 && len(d.Columns) > 1:
			c.zones, err = k.zones(column, d.Buckets, r)
		case k.zones != nil:
			return nil, fmt.Errorf("%skind: a %s can only be the first of several columns", r.place, name)
		case k.part == nil:
			return nil, fmt.Errorf("%skind: a %s cannot be part of a composite", r.place, name)
		default:
			var f function
			if f, err = k.part(column, r); err != nil {
				break
			}
			var bits int
			if bits, err = partBits(r, skip, i == len(d.Columns)-1); err != nil {
				return nil, err
			}
			c.parts = append(c.parts, part{f, skip, bits})
			skip += bits
		}
		if err == nil {
			err = r.done()
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// partParams returns a reader for each of n columns.
func partParams(p *params, n int) ([]*params, error) {
	parts, haveParts, err := p.list("parts")
	if err != nil {
		return nil, err
	}
	bits, haveBits, err := p.commaList("bits")
	if err != nil {
		return nil, err
	}
	readers := make([]*params, n)
	switch {
	case haveParts == haveBits:
		return nil, errors.New("want either bits or parts")
	case haveParts && len(parts) != n:
		return nil, fmt.Errorf("parts: want one for each of the %d columns, got %d", n, len(parts))
	case haveBits && len(bits) != n && len(bits) != n-1:
		return nil, fmt.Errorf("bits: want %d or %d for %d columns, got %d", n-1, n, n, len(bits))
	}
	for i := range readers {
		if haveParts {
			if readers[i], err = p.inside("parts", i, parts[i]); err != nil {
				return nil, err
			}
			continue
		}
		readers[i] = &params{place: fmt.Sprintf("bits[%d]", i), sole: true}
		if i < len(bits) {
			readers[i].values = map[string]any{"bits": bits[i]}
		}
	}
	return readers, nil
}

// partBits reads how many of the 64-skip bits that are left a column takes.
func partBits(r *params, skip int, last bool) (int, error) {
	if skip == 64 {
		return 0, fmt.Errorf("%s: the columns before it take all 64", r.at("bits"))
	}
	bits, ok, err := r.number("bits", 1, 64-skip)
	if err == nil && !ok {
		if !last {
			return 0, fmt.Errorf("%s: only the last column can do without", r.at("bits"))
		}
		bits = 64 - skip
	}
	return bits, err
}

func (c *composite) Kind() string      { return "composite" }
func (c *composite) Cost() Cost        { return Compute }
func (c *composite) Columns() []Column { return c.columns }

func (c *composite) ID(keys []datum.Key) (ID, error) {
	if err := exactly(c, keys); err != nil {
		return 0, err
	}
	r, err := c.narrow(keys)
	return r.First, err
}

func (c *composite) Ranges(dst []Range, keys []datum.Key) ([]Range, error) {
	if err := prefix(c, keys); err != nil {
		return dst, err
	}
	r, err := c.narrow(keys)
	if err != nil {
		return dst, err
	}
	return append(dst, r), nil
}

// narrow returns the range that the leading columns' values leave.
func (c *composite) narrow(keys []datum.Key) (Range, error) {
	if len(keys) == 0 {
		return All, nil
	}
	rest := keys
	if c.zones != nil {
		rest = keys[1:]
	}
	var x uint64
	for i, k := range rest {
		v, err := c.parts[i].of(k)
		if err != nil {
			return Range{}, err
		}
		x |= v >> c.parts[i].skip & c.parts[i].mask()
	}
	last := x
	if len(rest) < len(c.parts) {
		last |= ^uint64(0) >> c.parts[len(rest)].skip
	}
	if c.zones == nil {
		return Range{ID(x), ID(last)}, nil
	}
	z, err := c.zones.of(keys[0])
	if err != nil {
		return Range{}, err
	}
	return Range{z.place(x), z.place(last)}, nil
}

func (c *composite) SQL(columns []string) string {
	rest := columns
	if c.zones != nil {
		rest = columns[1:]
	}
	terms := make([]string, len(c.parts))
	for i, p := range c.parts {
		v := p.sql(rest[i])
		if p.skip > 0 {
			v = fmt.Sprintf("(%s >> %d)", v, p.skip)
		}
		// >> is arithmetic: the mask takes the copies of the sign away.
		terms[i] = v
		if p.bits < 64 {
			terms[i] = fmt.Sprintf("(%s & %s)", v, int8SQL(p.mask()))
		}
	}
	x := "(" + strings.Join(terms, " | ") + ")"
	if c.zones == nil {
		return x
	}
	return zoneSQL(c.zones, columns[0], x)
}

// int8SQL spells 64 bits as an int8. Not as a bare number: the least int8 would
// be minus something that is none.
func int8SQL(bits uint64) string { return fmt.Sprintf("'%d'::int8", int64(bits)) }
