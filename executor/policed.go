package executor

import (
	"weft/datum"
	"weft/plan"
)

// policed adds the shard of the only key that row security lets pass. done is false if the session does
// not know the key: then the rows are looked for as if there were no policy.
func (b *Binder) policed(in *plan.Instance, c datum.Column) (done bool, err error) {
	w := b.walk(in, c, in.Policy.Set)
	key, state := w.next()
	if state != found || key.IsNull() {
		return false, nil
	}
	b.row = append(b.row[:0], key)
	if b.policy == nil {
		b.policy = in
	}
	return true, b.place(in, b.row)
}

// Policed returns the first instance whose shard the last Bind has found by row security, nil if there
// is none.
func (b *Binder) Policed() *plan.Instance { return b.policy }
