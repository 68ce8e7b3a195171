package proxy

import (
	"errors"

	"weft/pgerr"
	"weft/plan"
)

// INSERT … VALUES with ON CONFLICT on columns that have a lookup: the values of all rows are
// claimed, and each row goes to the shard of the row it conflicts with.
//
// Two rows may have the same value. With DO UPDATE both go to one shard in one statement, which
// reports that a row cannot be affected twice. With DO NOTHING the second row waits until it is
// known whether the first has been stored.

// runClaimed carries out an INSERT whose values are claimed first.
func (in *inserting) runClaimed(describe bool) (n int64, err error) {
	s, x := in.s, in.x
	var keys []*plan.LookupKey
	for i := range in.rows.Rows {
		keys = append(keys, in.rows.Rows[i].Conflict...)
	}
	if err := s.lookups.askItems(x, keys); err != nil {
		return 0, err
	}
	for from := 0; from < len(in.places); {
		in.params()
		to := len(in.places)
		if !in.rows.Updates {
			to = in.untilTwice(from)
		}
		err := s.lookups.claimRows(in.r, x, in.places[from:to], func(i int) (*plan.Instance, []*plan.LookupKey) {
			return &in.rows.Instances[from+i], in.rows.Rows[from+i].Conflict
		})
		if err != nil {
			return 0, err
		}
		in.divide(from, to)
		changed, err := in.run(describe && from == 0)
		if errors.Is(err, errMoved) && from > 0 {
			err = pgerr.New(pgerr.SerializationFailure, "a table of this statement was declared anew meanwhile").WithHint("Try again.")
		}
		if err != nil {
			return 0, err
		}
		n += changed
		if from = to; from < len(in.places) {
			if err := s.lookups.keepWritten(x.keeping()); err != nil {
				return 0, err
			}
			x.progress.claims = nil
		}
	}
	return n, nil
}

// untilTwice returns the index of the first row behind from that repeats a value of a row
// between them, or the number of rows.
func (in *inserting) untilTwice(from int) int {
	seen := map[string]bool{}
	for i := from; i < len(in.places); i++ {
		for _, k := range in.rows.Rows[i].Conflict {
			entry, _, ok := in.r.bind.Claim(in.x.plan, &in.rows.Instances[i], k, in.x.progress.items[k], in.s.route.snap, &in.r.args)
			if !ok || entry == "" {
				continue // claimRows refuses such a row, or has nothing to claim for it
			}
			value := k.Name + ":" + valueOf(entry)
			if seen[value] {
				return i
			}
			seen[value] = true
		}
	}
	return len(in.places)
}
