package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"weft/directory"
)

// Cluster is cluster.yaml: what weft apply puts in the directory.
type Cluster struct {
	// BucketCount is fixed once the cluster exists. 0: as it is, or
	// directory.DefaultBucketCount for a new one.
	BucketCount int `yaml:"bucket_count"`
	// Home is the shard that holds undeclared tables, fixed too. Empty: as it
	// is, or the first shard.
	Home   string  `yaml:"home"`
	Shards []Shard `yaml:"shards"`
}

// Shard declares a directory.Shard.
type Shard struct {
	Name    string            `yaml:"name"`
	Hosts   []string          `yaml:"hosts"`
	Options map[string]string `yaml:"options"`
	Weight  *int              `yaml:"weight"` // absent: 1
}

// LoadCluster reads cluster.yaml. The error holds every problem of the file.
func LoadCluster(file string) (Cluster, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Cluster{}, fmt.Errorf("read cluster file: %w", err)
	}
	return ParseCluster(file, data)
}

// ParseCluster is LoadCluster with the file's text at hand.
func ParseCluster(file string, data []byte) (Cluster, error) {
	var c Cluster
	d := decode(file, data, &c)
	var ps Problems
	// Judged as the first version of a cluster: the same rules hold for all.
	if next, err := c.Merge(nil, false); err == nil {
		ps = c.problems(next)
	}
	return c, d.finish(ps)
}

func (c Cluster) problems(s *directory.Snapshot) Problems {
	var ps Problems
	if err := s.Validate(); err != nil {
		for _, e := range each(err) {
			var p *directory.Problem
			if errors.As(e, &p) {
				ps.add(p.Place, "%s", p.Reason)
			}
		}
	}
	return ps
}

// Merge returns the successor of old that c declares; old is nil for a new
// cluster. A shard that old has and c does not is an error unless prune.
func (c Cluster) Merge(old *directory.Snapshot, prune bool) (*directory.Snapshot, error) {
	declared := make([]directory.Shard, len(c.Shards))
	for i, s := range c.Shards {
		declared[i] = directory.Shard{Name: s.Name, Hosts: s.Hosts, Options: s.Options, Weight: 1}
		if s.Weight != nil {
			declared[i].Weight = *s.Weight
		}
	}
	if old == nil {
		home, count := c.Home, c.BucketCount
		if home == "" && len(declared) > 0 {
			home = declared[0].Name
		}
		if count == 0 {
			count = directory.DefaultBucketCount
		}
		return directory.New(count, home, declared), nil
	}
	next := old.Clone()
	if c.BucketCount != 0 {
		next.BucketCount = c.BucketCount
	}
	if c.Home != "" {
		next.Home = c.Home
	}
	// Known shards keep their place, new ones come last.
	var gone []string
	next.Shards = next.Shards[:0]
	for _, was := range old.Shards {
		i := slices.IndexFunc(declared, func(s directory.Shard) bool { return s.Name == was.Name })
		if i < 0 {
			gone = append(gone, was.Name)
			continue
		}
		next.Shards = append(next.Shards, declared[i])
		declared = slices.Delete(declared, i, i+1)
	}
	next.Shards = append(next.Shards, declared...)
	if len(gone) > 0 && !prune {
		return nil, fmt.Errorf("the directory has shards that the file does not: %s: add them to the file, or pass --prune to remove them",
			strings.Join(gone, ", "))
	}
	return next.Clone(), nil
}
