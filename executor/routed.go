package executor

import (
	"math"

	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

// A routed id names the bucket of its row in its low bits. In a cluster that has grown since the ids
// were declared, it names the run of buckets that this bucket has become.

// RoutedID makes the id of a row from what ids of the row name, and a number of the id column's sequence.
func RoutedID(ids *plan.IDs, n int64, bucket int) (int64, error) {
	// Unsigned arithmetic, so that an overflow is seen.
	high := uint64(ids.Base) + uint64(n)
	if n < 0 || high > math.MaxInt64>>ids.Bits {
		return 0, pgerr.New("2200H", "the sequence of routed id %q has come to %d, and its ids would leave the range of bigint", ids.Column, n).
			WithHint("A sequence of routed ids counts up from 0 or 1.")
	}
	return int64(high<<ids.Bits) | int64(bucket), nil
}

// open reports whether a key column has no known values.
func open(in *plan.Instance) bool {
	for _, sets := range in.Keys {
		if len(sets) == 0 {
			return true
		}
	}
	return false
}

// routed adds the shards of an instance by its routed ids. It reports false if an id does not say
// where its row is; the caller then adds shards in another way, which cover those already added.
func (b *Binder) routed(in *plan.Instance) (done bool, err error) {
	for w := b.walk(in, datum.Column{Type: datum.Int8, Mod: -1}, in.IDs[0]); ; {
		key, state := w.next()
		switch {
		case state == none:
			return true, nil
		case state == unknown || key.Class() != datum.Integer || key.Int() < in.Table.IDs.From:
			return false, nil
		}
		n := in.Table.IDs.Bits
		bucket := int(key.Int() & (1<<n - 1))
		if n == b.bits {
			b.useBucket(bucket)
		}
		b.ranges = append(b.ranges[:0], vindex.Within(bucket, n))
		if err := b.addRanges(in, b.ranges); err != nil {
			return true, err
		}
	}
}

// Bucket returns the bucket that a routed id of the row names that an instance stores. known is false if a value of the
// key is not known.
func (b *Binder) Bucket(p *plan.Plan, in *plan.Instance, snap *directory.Snapshot, a *Args) (bucket int, known bool, err error) {
	b.reset(p, snap, a)
	defer b.release()
	v, ok := in.Table.Vindex.(vindex.Computed)
	if !ok || len(in.Keys) != len(v.Columns()) || in.Table.IDs == nil {
		return 0, false, nil
	}
	b.row = b.row[:0]
	for i, c := range v.Columns() {
		if len(in.Keys[i]) == 0 {
			return 0, false, nil
		}
		keys, ok := b.column(nil, in, c.Column, in.Keys[i])
		if !ok || len(keys) != 1 {
			return 0, false, nil
		}
		b.row = append(b.row, keys[0])
	}
	id, err := v.ID(b.row)
	if err != nil {
		return 0, false, b.noPlace(in, err)
	}
	return id.Bucket(in.Table.IDs.Bits), true, nil
}
