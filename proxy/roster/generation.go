package roster

import (
	"context"
	"errors"

	"weft/directory"
	"weft/primary"
)

// errKnown says that the directory knows as much already.
var errKnown = errors.New("the generation is known")

// EnterGeneration makes the directory remember the generation of a shard, and which server has it. A lower generation than the directory's
// changes nothing, nor does one that was seen under another ruling than the directory's.
func (r *Roster) EnterGeneration(ctx context.Context, shard string, v *primary.View) error {
	if snap := r.cfg.Snapshot(); snap == nil || !raises(snap, shard, v) {
		return nil
	}
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		if !raises(old, shard, v) {
			return nil, errKnown
		}
		next := old.Clone()
		sh, _ := next.Shard(shard)
		sh.Raise(v.Generation, v.Primary)
		return next, nil
	})
	if errors.Is(err, errKnown) {
		return nil
	}
	return err
}

// errNoDrain says that the directory has no such drain any more.
var errNoDrain = errors.New("the drain has ended")

// EndDrain takes a drain of a shard out of the directory.
func (r *Roster) EndDrain(ctx context.Context, shard, key string) error {
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		next := old.Clone()
		if sh, ok := next.Shard(shard); !ok || !sh.EndDrain(key) {
			return nil, errNoDrain
		}
		return next, nil
	})
	if errors.Is(err, errNoDrain) {
		return nil
	}
	return err
}

// raises reports whether a snapshot does not know a generation yet.
func raises(snap *directory.Snapshot, shard string, v *primary.View) bool {
	sh, ok := snap.Shard(shard)
	if !ok || sh.Ruling != v.Ruling {
		return false
	}
	c := *sh
	return c.Raise(v.Generation, v.Primary)
}
