package vindex

import "weft/datum"

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
