package dev

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"weft/directory"
)

const stateName = "dev.json"

// state is what a directory was made with, kept in DIR/dev.json.
type state struct {
	Shards      int    `json:"shards"`
	Replicas    int    `json:"replicas,omitempty"`
	Patroni     bool   `json:"patroni,omitempty"`
	BucketCount int    `json:"bucket_count"`
	Locale      string `json:"locale"`
	PGMajor     int    `json:"pg_major"`

	PortBase int `json:"port_base"` // of the last run
	EtcdPort int `json:"etcd_port"` // of the last run

	// Complete is set once every shard was made. Before, a missing data
	// directory is a first start that was interrupted; after, it is lost data.
	Complete bool `json:"complete"`
}

func statePath(dir string) string { return filepath.Join(dir, stateName) }

// loadState returns nil for a directory that holds no cluster yet.
func loadState(dir string) (*state, error) {
	text, err := os.ReadFile(statePath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", statePath(dir), err)
	}
	return s, nil
}

// blank reports whether a first start ended before it made any shard, for want of
// the locale say. Then the next one is free to choose again.
func (s *state) blank(dir string) bool {
	if s.Complete {
		return false
	}
	for i := range s.Shards {
		if _, err := os.Stat(shardDir(dir, i)); err == nil {
			return false
		}
	}
	return true
}

// settle merges what the directory was made with and what is asked for now. It
// refuses what cannot change.
func settle(old *state, o Options) (*state, error) {
	if old == nil {
		return &state{
			Shards:      cmp.Or(o.Shards, DefaultShards),
			Replicas:    replicas(o, 0),
			Patroni:     o.Patroni,
			BucketCount: cmp.Or(o.BucketCount, directory.DefaultBucketCount),
			Locale:      o.Locale,
			PortBase:    cmp.Or(o.PortBase, DefaultPortBase),
		}, nil
	}
	s := *old
	s.PortBase = cmp.Or(o.PortBase, old.PortBase)
	s.Replicas = replicas(o, old.Replicas)
	way := fmt.Sprintf("start without the flag, choose another directory with --dir, or remove %s and its data", o.Dir)
	switch {
	case o.Shards != 0 && o.Shards != old.Shards:
		return nil, fmt.Errorf("%s holds a cluster of %d shards, not %d: %s", o.Dir, old.Shards, o.Shards, way)
	case o.Patroni && !old.Patroni:
		return nil, fmt.Errorf("%s holds a cluster that Patroni does not run: %s", o.Dir, way)
	case s.Replicas < old.Replicas:
		return nil, fmt.Errorf("%s holds a cluster with %d standbys of each shard, not %d: %s", o.Dir, old.Replicas, s.Replicas, way)
	case o.BucketCount != 0 && o.BucketCount != old.BucketCount:
		return nil, fmt.Errorf("%s holds a cluster of %d buckets, not %d: %s", o.Dir, old.BucketCount, o.BucketCount, way)
	case o.Locale != "" && o.Locale != old.Locale:
		return nil, fmt.Errorf("%s was made with locale %q, not %q: %s", o.Dir, cmp.Or(old.Locale, "C (the default)"), o.Locale, way)
	}
	return &s, nil
}

// replicas is how many standbys are asked for, or otherwise if nothing is said.
func replicas(o Options, otherwise int) int {
	if o.Replicas == nil {
		return otherwise
	}
	return *o.Replicas
}

// servers is how many PostgreSQL servers each shard has.
func (s *state) servers() int { return 1 + s.Replicas }

// port is that of a shard's server: 0 is the one in DIR/shard-i, k the one in
// DIR/shard-i-k.
func (s *state) port(shard, server int) int { return s.PortBase + server*s.Shards + shard }

// save replaces the file, whole or not at all.
func (s *state) save(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(statePath(dir), append(text, '\n'))
}
