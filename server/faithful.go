package server

import (
	"context"
	"errors"

	"weft/directory"
	"weft/discover"
	"weft/proxy"
)

// faithful is a directory that is written only while it describes the cluster that this
// process serves: what a proxy decides by one cluster's snapshot must not change
// another's.
type faithful struct {
	proxy.Directory
	snapshot func() *directory.Snapshot
}

// Load implements proxy.Directory.
func (d faithful) Load(ctx context.Context) (*directory.Snapshot, error) {
	s, err := d.Directory.Load(ctx)
	if err == nil {
		err = d.check(s)
	}
	return s, err
}

// Update implements proxy.Directory.
func (d faithful) Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	return d.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if err := d.check(old); err != nil {
			return nil, err
		}
		return fn(old)
	})
}

// check refuses a snapshot of another cluster. No cluster at all is the caller's to judge.
func (d faithful) check(s *directory.Snapshot) error {
	if serving := d.snapshot(); s != nil && serving != nil && s.Cluster != serving.Cluster {
		return &directory.ForeignError{Serving: serving.Cluster, Found: s.Cluster}
	}
	return nil
}

// errNoKeys says that the directory's store has no keys beside the directory.
var errNoKeys = errors.New("the store of the directory has no keys of others")

// Keys implements discover.Keys. They are others' keys, and concern no cluster.
func (d faithful) Keys(ctx context.Context, prefix string) (map[string]string, error) {
	if k, ok := d.Directory.(discover.Keys); ok {
		return k.Keys(ctx, prefix)
	}
	return nil, errNoKeys
}

// WatchKeys implements discover.Keys.
func (d faithful) WatchKeys(ctx context.Context, prefix string, changed func(key string)) error {
	if k, ok := d.Directory.(discover.Keys); ok {
		return k.WatchKeys(ctx, prefix, changed)
	}
	return errNoKeys
}
