package reshard

import (
	"errors"
	"fmt"

	"weft/directory"
	"weft/pgerr"
)

// Grow gives a snapshot that is being made n buckets, or says why it cannot be. A job has its target,
// its rounds and its notes by the numbers of the moment, and so has a declaration that is being made.
func Grow(next *directory.Snapshot, n int) error {
	if len(next.Moves) > 0 {
		m := &next.Moves[0]
		return busy(pgerr.ObjectNotInPrerequisiteState, fmt.Sprintf("the number of buckets cannot grow while job %s runs", m.ID), m)
	}
	for i := range next.Tables {
		if t := &next.Tables[i]; t.State != directory.Active || t.Group != "" {
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the number of buckets cannot grow while table %s.%s of database %s is being declared, or its declaration taken back", t.Schema, t.Name, t.Database).
				WithHint("Wait until it is done. weft.tables shows its state.")
		}
	}
	was := next.BucketCount
	err := directory.Grow(next, n)
	if !errors.Is(err, directory.ErrBucketCount) {
		return err
	}
	e := pgerr.New(pgerr.InvalidParameterValue, "the cluster has %d buckets, which cannot become %d", was, n)
	if was >= directory.MaxBucketCount {
		return e.WithHint("No cluster has more than %d.", directory.MaxBucketCount)
	}
	return e.WithHint("Double the number once or several times: give a power of two from %d to %d.", 2*was, directory.MaxBucketCount)
}
