package dev

import (
	"context"
	"errors"
	"fmt"

	"weft/directory"
	"weft/patroni"
	"weft/primary"
)

// declare writes the cluster into the directory: a new one, whose durability is as given, or the ports of this
// run into the one that is there.
func declare(ctx context.Context, store directory.Store, st *state, shards []*shard, d primary.Durability) error {
	_, err := store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			list := make([]directory.Shard, len(shards))
			for i, s := range shards {
				list[i] = directory.Shard{
					Name:    s.name,
					Hosts:   s.addrs,
					Options: map[string]string{"sslmode": "disable"}, // loopback, and the servers have no certificate
					Weight:  1,
				}
				if st.Patroni {
					list[i].Patroni = &patroni.Scope{Scope: s.name}
				}
			}
			made := directory.New(st.BucketCount, shards[0].name, list)
			made.Durability = d
			return made, nil
		}
		next := old.Clone()
		for _, s := range shards {
			d, ok := next.Shard(s.name)
			if !ok {
				// Removed from the cluster on purpose; its server may run on.
				continue
			}
			d.Hosts = s.addrs
		}
		return next, nil
	})
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return fmt.Errorf("declare the cluster: %w", err)
	}
	return nil
}

// durability returns what is declared of commits in a new cluster: what its standbys make true.
func durability(replicas int, async bool) primary.Durability {
	switch {
	case replicas == 0:
		return primary.Undeclared
	case async:
		return primary.Asynchronous
	}
	return primary.Synchronous
}
