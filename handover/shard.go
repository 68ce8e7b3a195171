package handover

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"weft/directory"
)

// Directory is what proxies follow: see directory.Store and directory.Registry.
type Directory interface {
	Load(ctx context.Context) (*directory.Snapshot, error)
	Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	Cleared(ctx context.Context, version int64) error
}

// Shard is a shard whose primary is to change.
type Shard struct {
	Directory Directory
	Name      string
}

// Options say how long a drain takes.
type Options struct {
	// Wait is how long transactions that have begun may take to end.
	Wait time.Duration
	// For is for how long the shard is drained at most, Wait included.
	For time.Duration
}

// errNothing says that the directory is as it should be.
var errNothing = errors.New("nothing to change")

// change changes the shard in the directory.
func (s *Shard) change(ctx context.Context, f func(sh *directory.Shard) error) (*directory.Snapshot, error) {
	return s.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		next := old.Clone()
		sh, ok := next.Shard(s.Name)
		if !ok {
			return nil, s.unknown(old)
		}
		if err := f(sh); err != nil {
			return nil, err
		}
		return next, nil
	})
}

// ErrNoShard is wrapped by errors about shards that the cluster does not have.
var ErrNoShard = errors.New("there is no such shard")

// unknown is the error for a shard that the cluster does not have.
func (s *Shard) unknown(snap *directory.Snapshot) error {
	names := make([]string, len(snap.Shards))
	for i := range snap.Shards {
		names[i] = snap.Shards[i].Name
	}
	return fmt.Errorf("%w: %q is not one of %s", ErrNoShard, s.Name, strings.Join(names, ", "))
}

// Load returns what the directory says of the shard.
func (s *Shard) Load(ctx context.Context) (*directory.Shard, error) {
	snap, err := s.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	sh, ok := snap.Shard(s.Name)
	if !ok {
		return nil, s.unknown(snap)
	}
	return sh, nil
}

// shutWait is how long a shard may take to be empty again after every proxy has said that it is.
const shutWait = time.Second

// Drain lets nothing new begin on the shard, on all proxies, and returns when no proxy has a transaction there. If that is not so in time,
// the error names the proxies; the shard stays drained until its time is over.
func (s *Shard) Drain(ctx context.Context, o Options) error {
	key, before := rand.Text(), uint32(0)
	snap, err := s.change(ctx, func(sh *directory.Shard) error {
		if sh.Drain != nil {
			return fmt.Errorf("shard %s is drained already: weft drain --end %s ends that", s.Name, s.Name)
		}
		before = sh.Timeline
		sh.Drain = &directory.Drain{Key: key, For: o.For}
		return nil
	})
	if err != nil {
		return err
	}
	limit, stop := context.WithTimeout(ctx, o.Wait)
	defer stop()
	for {
		if err := s.Directory.Cleared(limit, snap.Version); err != nil {
			return fmt.Errorf("shard %s is not free of transactions after %s: %w", s.Name, o.Wait, err)
		}
		if snap, err = s.step(ctx, key, before, true); err != nil {
			return err
		}
		shut, stop := context.WithTimeout(limit, shutWait)
		err := s.Directory.Cleared(shut, snap.Version)
		stop()
		if err == nil {
			return nil
		}
		if limit.Err() != nil || shut.Err() == nil {
			return fmt.Errorf("shard %s is not free of transactions after %s: %w", s.Name, o.Wait, err)
		}
		if snap, err = s.step(ctx, key, before, false); err != nil {
			return err
		}
	}
}

// step shuts a shard that is drained, or opens it for transactions that have begun.
func (s *Shard) step(ctx context.Context, key string, before uint32, shut bool) (*directory.Snapshot, error) {
	return s.change(ctx, func(sh *directory.Shard) error {
		switch {
		case sh.Timeline != before:
			return fmt.Errorf("%s has become the primary of shard %s while it was drained", sh.Primary, s.Name)
		case sh.Drain == nil || sh.Drain.Key != key:
			return fmt.Errorf("shard %s is not drained any more: its time was over, or an operator has ended that", s.Name)
		}
		next := *sh.Drain
		next.Shut = shut
		sh.Drain = &next
		return nil
	})
}

// EndDrain ends a drain of the shard, and reports whether there was one.
func (s *Shard) EndDrain(ctx context.Context) (bool, error) {
	_, err := s.change(ctx, func(sh *directory.Shard) error {
		if !sh.EndDrain("") {
			return errNothing
		}
		return nil
	})
	if errors.Is(err, errNothing) {
		return false, nil
	}
	return err == nil, err
}

// Fence makes all proxies let go of the shard's primary, whichever server that is, and returns the timeline that is over when they have. If
// that is not so before ctx ends, the error names the proxies, and the fence stays.
func (s *Shard) Fence(ctx context.Context) (timeline uint32, err error) {
	for {
		snap, err := s.change(ctx, func(sh *directory.Shard) error {
			timeline = sh.LetGo()
			return nil
		})
		if err != nil {
			return timeline, err
		}
		if err := s.Directory.Cleared(ctx, snap.Version); err != nil {
			return timeline, fmt.Errorf("not every proxy has let go of the primary of shard %s: %w", s.Name, err)
		}
		// A proxy may have entered a later generation, of the primary that is to be replaced, which the directory did not know.
		if sh, err := s.Load(ctx); err != nil || sh.Timeline <= timeline {
			return timeline, err
		}
	}
}

// EndFence takes a fence back: no server was promoted. It reports whether there was one.
func (s *Shard) EndFence(ctx context.Context) (bool, error) {
	_, err := s.change(ctx, func(sh *directory.Shard) error {
		if sh.Fence == 0 {
			return errNothing
		}
		sh.Fence = 0
		return nil
	})
	if errors.Is(err, errNothing) {
		return false, nil
	}
	return err == nil, err
}
