package main

import (
	"context"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"

	"weft/config"
	"weft/directory"
	"weft/heat/throttle"
)

// exported is a cluster.yaml with all that the directory says of where rows are.
type exported struct {
	ID          string           `yaml:"id"`
	BucketCount int              `yaml:"bucket_count"`
	Home        string           `yaml:"home"`
	AtomicReads bool             `yaml:"atomic_reads"`
	Durability  string           `yaml:"durability,omitempty"`
	Enforced    bool             `yaml:"durability_enforced,omitempty"`
	Shards      []exportedShard  `yaml:"shards"`
	Pins        []exportedPin    `yaml:"pins,omitempty"`
	Tables      []map[string]any `yaml:"tables,omitempty"`
	Throttles   []map[string]any `yaml:"throttles,omitempty"`
	// Directory restores an empty directory; else it is not looked at.
	Directory string `yaml:"directory"`
}

type exportedShard struct {
	Name    string            `yaml:"name"`
	Hosts   []any             `yaml:"hosts"`
	Options map[string]string `yaml:"options,omitempty"`
	Weight  int               `yaml:"weight"`
}

type exportedPin struct {
	Buckets string `yaml:"buckets"`
	Shard   string `yaml:"shard"`
}

// exportedHosts are the servers of a shard as cluster.yaml has them: the address alone, or what is said of the server, too.
func exportedHosts(sh *directory.Shard) []any {
	var out []any
	for _, h := range sh.Hosts {
		at := sh.Server(h)
		if at == (directory.Server{}) {
			out = append(out, h)
			continue
		}
		m := map[string]any{"addr": h}
		if at.Zone != "" {
			m["zone"] = at.Zone
		}
		if at.Weight != 0 {
			m["weight"] = at.Weight
		}
		if at.NoReads {
			m["read"] = false
		}
		out = append(out, m)
	}
	return out
}

// export writes the cluster as a cluster.yaml.
func export(ctx context.Context, store directory.Store, w io.Writer) error {
	var snap *directory.Snapshot
	// A watch brings the entries of lookups along.
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	err := store.Watch(watch, func(s *directory.Snapshot) {
		snap = s
		cancel()
	})
	if snap == nil {
		return err
	}
	copied, err := snap.EncodeCopy()
	if err != nil {
		return err
	}
	out := exported{
		ID: snap.Cluster, BucketCount: snap.BucketCount, Home: snap.Home, AtomicReads: snap.Gate == directory.GateOn, Directory: copied,
		Durability: string(snap.Durability), Enforced: snap.DurabilityEnforced,
	}
	for _, sh := range snap.Shards {
		out.Shards = append(out.Shards, exportedShard{sh.Name, exportedHosts(&sh), sh.Options, sh.Weight})
	}
	for _, p := range snap.Pins {
		out.Pins = append(out.Pins, exportedPin{fmt.Sprintf("%d-%d", p.First, p.Last), p.Shard})
	}
	for i := range snap.Tables {
		out.Tables = append(out.Tables, config.Describe(&snap.Tables[i]))
	}
	if limits, ok := store.(directory.Throttles); ok {
		rules, err := limits.Throttles(ctx)
		if err != nil {
			return err
		}
		for i := range rules {
			if rules[i].Origin == throttle.Declared {
				out.Throttles = append(out.Throttles, config.DescribeThrottle(&rules[i]))
			}
		}
	}
	return yaml.NewEncoder(w).Encode(out)
}
