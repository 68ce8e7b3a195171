package executor

import (
	"weft/datum"
	"weft/directory"
	"weft/plan"
	"weft/quote"
)

// Place is where a row is stored.
type Place struct {
	Shard, Bucket int
	// Missing are lookup entries that have to be made first.
	Missing []Missing
}

// BindRows finds where rows are stored. row returns the instance of the i-th of n
// rows, and values of its key columns that are known already, instead of what
// the instance says of them; nil for none. place is told the answer: ok is false
// if only the server knows the key.
func (b *Binder) BindRows(p *plan.Plan, snap *directory.Snapshot, a *Args, n int, row func(i int) (*plan.Instance, []*datum.Value), place func(i int, at Place, ok bool)) error {
	b.reset(p, snap, a)
	defer b.release()
	for i := range n {
		// What has been found out of the parameters stays.
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
		case none: // PostgreSQL refuses it wherever it comes
			return Place{Shard: b.home()}, true, nil
		}
		b.row = append(b.row, key)
	}
	if err := b.place(in, b.row); err != nil {
		return Place{}, false, err
	}
	return Place{Shard: b.shards.first, Bucket: b.last, Missing: b.missing}, b.shards.count == 1, nil
}

func (b *Binder) stored(c datum.Column, v datum.Value) (datum.Key, state) {
	if b.args.ASCII && v.Bytes != nil && !isASCII(v) {
		return datum.Key{}, unknown
	}
	key, err := c.Store(v)
	switch w := (walk{stored: true}); {
	case err == nil:
		return key, found
	case w.undecided(err):
		return key, unknown
	}
	return key, none
}

// Literal writes a value of that type such that no setting changes its meaning.
func Literal(value []byte, typ string) string { return quote.Literal(string(value)) + "::" + typ }
