package proxy

import (
	"slices"

	"weft/pgerr"
	"weft/plan"
)

// mayFire refuses a statement on several shards that sets off triggers FOR EACH STATEMENT: each
// shard would run them once.
func (wr *writer) mayFire(fires *pgerr.Error) error {
	if fires == nil || len(wr.s.route.snap.Shards) == 1 {
		return nil
	}
	if err := wr.s.record.learnOptions(); err != nil {
		return err
	}
	if wr.s.record.inEffect.firesPerShard {
		return nil
	}
	return fires
}

// firesOnce refuses a write that sets off triggers FOR EACH STATEMENT if it is known, before
// its shards are, that it cannot be one statement on a single shard.
func (wr *writer) firesOnce(x *gathering) error {
	if !inSeveral(x.write) {
		return nil
	}
	return wr.mayFire(x.plan.Fires)
}

// inSeveral reports whether a write is more than one statement, or on more than one shard, whatever
// its values are.
func inSeveral(w *plan.Write) bool {
	switch s := w.Shape.(type) {
	case *plan.Whole, *plan.Own:
		return false
	case *plan.Rows:
		return len(s.Rows) > 1 && len(s.Rows[0].Conflict) > 0
	case *plan.Local:
		return slices.ContainsFunc(s.Before, func(step *plan.Write) bool { return step.Verb != selectVerb })
	case *plan.Stream, *plan.Share, *plan.Copies, *plan.AtHome, *plan.Locking:
	}
	return true
}

// firesHere refuses a write that sets off triggers FOR EACH STATEMENT and turns out to visit
// several shards.
func (wr *writer) firesHere(x *gathering, visited func(shard int) bool) error {
	if x.plan.Fires == nil {
		return nil
	}
	n := 0
	for shard := range wr.s.route.snap.Shards {
		if visited(shard) {
			n++
		}
	}
	if n == 1 {
		return nil
	}
	return wr.mayFire(x.plan.Fires)
}
