package executor

import (
	"errors"
	"math/bits"

	"weft/datum"
	"weft/directory"
	"weft/heat"
	"weft/pgerr"
	"weft/plan"
)

// Placer finds the shards of rows that are stored one after another, without allocating for each
// row. One goroutine may use it at a time.
type Placer struct {
	b       Binder
	in      plan.Instance
	columns []datum.Column
	keys    []datum.Key
	// ASCII is as in Args.
	ASCII bool
}

// NewPlacer returns a placer for the rows of a sharded table.
func NewPlacer(t *plan.Table, snap *directory.Snapshot) *Placer {
	p := &Placer{in: plan.Instance{Table: t, Name: t.Name, Stored: true}}
	for _, c := range t.Vindex.Columns() {
		p.columns = append(p.columns, c.Column)
	}
	p.keys = make([]datum.Key, len(p.columns))
	p.Use(snap)
	return p
}

// Use makes the placer go by another snapshot from now on.
func (p *Placer) Use(snap *directory.Snapshot) {
	p.b.snap, p.b.bits = snap, bits.Len(uint(snap.BucketCount))-1
}

// ErrInvalid says that PostgreSQL will refuse the key of a row. Any shard will say why.
var ErrInvalid = errors.New("the key is invalid")

// Place returns the shard of a row with these values in its key columns, and the bucket that a
// routed id of the row names. If a
// lookup does not know the key yet, missing is the entry to be made; after making it, call Place
// again with a snapshot that has the entry.
func (p *Placer) Place(values []datum.Value) (shard, bucket int, missing []Missing, err error) {
	for i := range values {
		if p.ASCII && !isASCII(values[i]) {
			return 0, 0, nil, undecided("its characters are not ASCII, and the client's encoding is not UTF8")
		}
		k, err := p.columns[i].Place(values[i], true)
		if err != nil {
			if e, ok := err.(*datum.Error); ok && e.Verdict == datum.Invalid {
				return 0, 0, nil, ErrInvalid
			} else if ok {
				return 0, 0, nil, undecided(e.Reason)
			}
			return 0, 0, nil, err
		}
		p.keys[i] = k
	}
	b := &p.b
	b.used.count = 0
	b.shards.reset(b.snap)
	b.missing = b.missing[:0]
	if err := b.place(&p.in, p.keys); err != nil {
		return 0, 0, nil, err
	}
	return b.shards.first, b.last, b.missing, nil
}

// Used returns the key of the row that was placed last, and tells its value if w wants that. ok is false for a row without a place.
func (p *Placer) Used(database string, w *heat.Watch) (k heat.Key, ok bool) {
	if p.b.used.count == 0 {
		return k, false
	}
	k = p.b.used.keys[0]
	if w != nil && k.Group != 0 {
		if wanted := w.Find(database, k.Group, k.ID); wanted != nil {
			wanted.Tell(shown(&p.in, p.keys))
		}
	}
	return k, true
}

// undecided is the refusal of a row whose key only the server can interpret.
func undecided(why string) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "the shard of a row cannot be told from its key").WithDetail("The key is undecided: %s.", why).
		WithHint("Write it in a form that no setting changes the meaning of.")
}
