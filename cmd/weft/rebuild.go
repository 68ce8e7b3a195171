package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"weft/config"
	"weft/directory"
	"weft/server"
)

// rebuilding fills an empty directory from the copies that shards keep.
type rebuilding struct {
	store interface {
		directory.Store
		directory.Registry
		directory.Lookups
	}
	servers *server.Servers
	file    config.Cluster // where the servers are
	yes     bool
	out     io.Writer
}

// rebuildDirectory is weft recover --directory.
func rebuildDirectory(ctx context.Context, cfg config.Config, file string, yes bool, out io.Writer) error {
	return withRebuilding(cfg, file, yes, out, func(r *rebuilding) error { return r.run(ctx) })
}

// withRebuilding opens the directory and the servers that a cluster.yaml names, and does something with them.
func withRebuilding(cfg config.Config, file string, yes bool, out io.Writer, do func(*rebuilding) error) error {
	if file == "" {
		return &usageError{errors.New("where are the shards? give -f cluster.yaml, whose shards name their hosts")}
	}
	cluster, err := config.LoadCluster(file)
	if err != nil {
		return err
	}
	store, err := server.OpenDirectory(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer store.Close()
	servers, err := server.NewServers(cfg)
	if err != nil {
		return err
	}
	return do(&rebuilding{store: store, servers: servers, file: cluster, yes: yes, out: out})
}

// empty refuses a directory that has a cluster.
func (r *rebuilding) empty(ctx context.Context) error {
	old, err := r.store.Load(ctx)
	if err == nil {
		return fmt.Errorf("the directory is not empty: it holds cluster %s at version %d; there is nothing to rebuild", old.Cluster, old.Version)
	}
	if !errors.Is(err, directory.ErrNoCluster) {
		return err
	}
	return nil
}

// ask asks the servers of the file who they are. All must answer.
func (r *rebuilding) ask(ctx context.Context) (*directory.Snapshot, []server.Host, error) {
	r.file.Directory, r.file.ID = "", "" // the servers' word counts
	named, err := r.file.Merge(nil, false)
	if err != nil {
		return nil, nil, err
	}
	hosts := r.servers.Ask(ctx, named.Shards, identifyTimeout)
	for _, h := range hosts {
		if h.Err != nil {
			return nil, nil, fmt.Errorf("%s at %s does not answer, and could have the newest copy: %w", h.Shard, h.Address, h.Err)
		}
	}
	return named, hosts, nil
}

func (r *rebuilding) run(ctx context.Context) error {
	if err := r.empty(ctx); err != nil {
		return err
	}
	named, hosts, err := r.ask(ctx)
	if err != nil {
		return err
	}
	copies, err := r.servers.Kept(ctx, named.Shards, hosts, identifyTimeout)
	if err != nil {
		return err
	}
	for _, k := range copies {
		fmt.Fprintf(r.out, "%s at %s, database %s: version %d\n", k.Shard, k.Address, k.Database, k.Number)
	}
	newest, err := server.Newest(copies)
	if err != nil {
		return err
	}
	next, pinned, err := r.revive(newest, named, hosts)
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "the newest is version %d, in database %s of %s:\n", newest.Number, newest.Database, newest.Shard)
	for _, line := range directory.Diff(nil, next) {
		fmt.Fprintln(r.out, line)
	}
	for _, p := range pinned {
		fmt.Fprintf(r.out, "+ value %q of lookup %s in bucket %d\n", p.Key, p.Lookup, p.Bucket)
	}
	if !r.yes {
		fmt.Fprintln(r.out, "nothing is written: pass --yes to fill the directory with it")
		return nil
	}
	return r.fill(ctx, next, pinned)
}

// fill writes the cluster to the directory, which must be empty.
func (r *rebuilding) fill(ctx context.Context, next *directory.Snapshot, pinned []directory.PinnedValue) error {
	snap, err := r.store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old != nil {
			return nil, fmt.Errorf("somebody has just made cluster %s in the directory", old.Cluster)
		}
		return next, nil
	})
	if err != nil {
		return err
	}
	if err := putPinned(ctx, r.store, pinned); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "rebuilt: the cluster is at version %d\n", snap.Version)
	return nil
}

// revive makes the cluster of a copy, on the servers that the file names, if they are its
// own.
func (r *rebuilding) revive(k server.Kept, named *directory.Snapshot, hosts []server.Host) (*directory.Snapshot, []directory.PinnedValue, error) {
	c, err := directory.DecodeCopy(k.Content)
	if err != nil {
		return nil, nil, err
	}
	next := c.Revive(k.Number)
	for i := range next.Shards {
		sh, ok := named.Shard(next.Shards[i].Name)
		if !ok {
			return nil, nil, fmt.Errorf("the cluster has a shard %s, and the file does not: add it, with its hosts", next.Shards[i].Name)
		}
		next.Shards[i].Relocate(sh)
	}
	if errs := server.Judge(next, hosts, nil); len(errs) > 0 {
		return nil, nil, misplacedError("nothing is rebuilt, because servers are not those of the newest copy:", errs)
	}
	for _, h := range hosts {
		if !slices.ContainsFunc(next.Shards, func(sh directory.Shard) bool { return sh.Name == h.Shard }) {
			return nil, nil, fmt.Errorf("the cluster has no shard %s: take it out of the file, and apply it afterwards", h.Shard)
		}
	}
	return next, c.Pinned, nil
}

// putPinned enters the places of pinned values.
func putPinned(ctx context.Context, store directory.Lookups, pinned []directory.PinnedValue) error {
	for _, p := range pinned {
		got, err := store.PutEntries(ctx, p.Lookup, []directory.Entry{{Key: p.Key, Bucket: p.Bucket}})
		if err != nil {
			return err
		}
		if got[0].Bucket != p.Bucket {
			return fmt.Errorf("value %q of lookup %s is in bucket %d already, not in %d", p.Key, p.Lookup, got[0].Bucket, p.Bucket)
		}
	}
	return nil
}
