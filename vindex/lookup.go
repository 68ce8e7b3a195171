package vindex

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/datum"
)

// lookup is a vindex whose values are placed one by one: tenants and other small
// maps, any of which can be given a bucket of its own. As lookup_unique a value
// has one place, as lookup it may have several.
type lookup struct {
	kind    string
	cost    Cost
	columns []Column
}

// Request is what to look up.
type Request struct {
	// Key spells the value canonically. Nil for NULL, which has no entry: its
	// place is Default.
	Key []byte
	// Default is where the value goes when it has no entry yet.
	Default ID
	// Unique: an entry holds one ID.
	Unique bool
}

var _ Lookup = (*lookup)(nil)

func newLookup(d Declaration, _ *params) (Vindex, error) {
	return &lookup{"lookup", LookupMany, d.Columns}, nil
}

func newLookupUnique(d Declaration, _ *params) (Vindex, error) {
	return &lookup{"lookup_unique", LookupUnique, d.Columns}, nil
}

func (l *lookup) Kind() string      { return l.kind }
func (l *lookup) Cost() Cost        { return l.cost }
func (l *lookup) Columns() []Column { return l.columns }

func (l *lookup) Request(keys []datum.Key, buf []byte) (Request, error) {
	if err := exactly(l, keys); err != nil {
		return Request{}, err
	}
	r := Request{Default: ID(Hash(keys[0])), Unique: l.cost == LookupUnique}
	if !keys[0].IsNull() {
		r.Key = keys[0].AppendText(buf[:0])
		if r.Key == nil { // the empty text
			r.Key = []byte{}
		}
	}
	return r, nil
}

// LookupSQL returns the expression for the bucket, of type int8, of rows by a lookup vindex: that of
// the value's hash, but for the values that have a bucket of their own. own has those by the keys of
// their requests.
func LookupSQL(l Lookup, column string, own map[string]int, buckets int) (string, error) {
	c := l.Columns()[0]
	v, err := New(Declaration{Kind: "hash", Columns: l.Columns(), Buckets: buckets})
	if err != nil {
		return "", err
	}
	hash, err := BucketSQL(v.(Computed), []string{column}, buckets)
	if err != nil || len(own) == 0 {
		return hash, err
	}
	var b strings.Builder
	b.WriteString("CASE " + c.operandSQL(column))
	for _, key := range slices.Sorted(maps.Keys(own)) {
		k, err := c.requested(key)
		if err != nil {
			return "", fmt.Errorf("value %q of a lookup: %w", key, err)
		}
		fmt.Fprintf(&b, " WHEN %s THEN %d::int8", c.literalSQL(k), own[key])
	}
	b.WriteString(" ELSE " + hash + " END")
	return b.String(), nil
}

// requested returns the value of the column whose request has a key.
func (c Column) requested(key string) (datum.Key, error) {
	switch c.Type {
	case datum.Date, datum.Timestamp, datum.Timestamptz: // spelled as numbers
		n, err := strconv.ParseInt(key, 10, 64)
		return datum.IntegerKey(n), err
	}
	return c.Store(datum.Literal([]byte(key)))
}
