package executor

import (
	"weft/datum"
	"weft/directory"
	"weft/plan"
	"weft/quote"
)

// Place is where a row is stored.
type Place struct {
	Shard int
	// Bucket is what a routed id of the row names.
	Bucket int
	// Missing are the lookup entries that have to be made before the row is stored.
	Missing []Missing
}

// BindRows finds where rows are stored. row returns the instance of the i-th of n rows, and the
// values of key columns that are known already and replace the instance's sources; nil for
// none. place is called with the result for each row: ok is false if only the server knows the
// key.
func (b *Binder) BindRows(p *plan.Plan, snap *directory.Snapshot, a *Args, n int, row func(i int) (*plan.Instance, []*datum.Value), place func(i int, at Place, ok bool)) error {
	b.reset(p, snap, a)
	defer b.release()
	for i := range n {
		// The offsets of the parameters are kept from row to row.
		b.shards.reset(snap)
		b.missing, b.buf = nil, b.buf[:0]
		in, given := row(i)
		at, ok, err := b.bindRow(in, given)
		if err != nil {
			return err
		}
		place(i, at, ok)
	}
	return nil
}

// bindRow finds where one row is stored. ok is false if only the server knows the key.
func (b *Binder) bindRow(in *plan.Instance, given []*datum.Value) (at Place, ok bool, err error) {
	columns := in.Table.Vindex.Columns()
	b.row = b.row[:0]
	for i := range columns {
		key, state := datum.Key{}, unknown
		switch {
		case i < len(given) && given[i] != nil:
			key, state = b.stored(columns[i].Column, *given[i])
		case i < len(in.Keys) && len(in.Keys[i]) == 1 && len(in.Keys[i][0]) == 1:
			w := b.walk(in, columns[i].Column, in.Keys[i][0])
			key, state = w.next()
		}
		switch state {
		case unknown:
			return Place{}, false, nil
		case none: // PostgreSQL refuses the value on any shard
			return Place{Shard: b.home()}, true, nil
		}
		b.row = append(b.row, key)
	}
	if err := b.place(in, b.row); err != nil {
		return Place{}, false, err
	}
	return Place{Shard: b.shards.first, Bucket: b.last, Missing: b.missing}, b.shards.count == 1, nil
}

// stored returns the key that a column stores for a value.
func (b *Binder) stored(c datum.Column, v datum.Value) (datum.Key, state) {
	if b.args.ASCII && v.Bytes != nil && !isASCII(v) {
		return datum.Key{}, unknown
	}
	key, err := c.Place(v, true)
	switch w := (walk{stored: true}); {
	case err == nil:
		return key, found
	case w.undecided(err):
		return key, unknown
	}
	return key, none
}

// Literal writes a value as a typed SQL literal whose meaning no setting changes.
func Literal(value []byte, typ string) string { return quote.Literal(string(value)) + "::" + typ }
