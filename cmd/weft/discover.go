package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"weft/config"
	"weft/directory"
	"weft/directory/etcd"
	"weft/discover"
	"weft/patroni"
)

// findHosts finds the servers of the shards that cluster.yaml does not list by their addresses.
func findHosts(ctx context.Context, store *etcd.Store, c *config.Cluster) error {
	named, err := c.Merge(nil, false)
	if err != nil {
		return nil // said elsewhere
	}
	old, _ := store.Load(ctx) // nil: there is no cluster yet, or the error comes again later
	source := &discover.Source{Keys: store}
	c.Found = map[string][]string{}
	for i := range named.Shards {
		sh := &named.Shards[i]
		if !sh.Discovered() {
			continue
		}
		hosts, err := source.Hosts(ctx, sh)
		if err != nil && old != nil {
			if known, ok := old.Shard(sh.Name); ok && known.Source() == sh.Source() {
				continue // the hosts that were found before are kept
			}
		}
		if err != nil {
			return err
		}
		c.Found[sh.Name] = hosts
	}
	return nil
}

// checkPatroni tells what settings of Patroni do not go well with weft, for shards that Patroni runs.
func checkPatroni(ctx context.Context, store *etcd.Store, snap *directory.Snapshot, wait time.Duration, w io.Writer) {
	for i := range snap.Shards {
		sh := &snap.Shards[i]
		if sh.Patroni == nil {
			continue
		}
		keys, err := store.Keys(ctx, sh.Patroni.Prefix())
		var settings patroni.Settings
		if err == nil {
			settings, err = sh.Patroni.Settings(keys)
		}
		if err != nil {
			fmt.Fprintf(w, "warning: settings of Patroni for %s: %s\n", sh.Name, oneLine(err))
			continue
		}
		for _, c := range settings.Complaints(wait, string(snap.Durability)) {
			fmt.Fprintf(w, "warning: Patroni of %s: %s\n", sh.Name, c)
		}
	}
}
