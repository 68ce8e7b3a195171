package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"weft/directory"
	"weft/patroni"
	"weft/primary"
)

// Cluster is cluster.yaml: what weft apply puts in the directory.
type Cluster struct {
	// BucketCount is what a new cluster gets; later only weft.grow_buckets changes it. 0: as it is, or
	// directory.DefaultBucketCount for a new one.
	BucketCount int `yaml:"bucket_count"`
	// Home is the shard that holds undeclared tables, fixed too. Empty: as it
	// is, or the first shard.
	Home   string  `yaml:"home"`
	Shards []Shard `yaml:"shards"`
	// AtomicReads: transactions of several shards take the locks that reads with
	// weft.read = 'atomic' need. Absent: as it is, or true for a new cluster.
	AtomicReads *bool `yaml:"atomic_reads"`
	// Durability is what commits are to survive: sync, atomic or async. Absent: it is not checked. DurabilityEnforced: transactions of
	// several shards are not committed where that is not so.
	Durability         string `yaml:"durability"`
	DurabilityEnforced bool   `yaml:"durability_enforced"`
	// Pins keep ranges of buckets on shards.
	Pins []Pin `yaml:"pins"`
	// ID is the cluster's. Empty: whatever the directory holds, or a new one.
	ID string `yaml:"id"`
	// Directory is what an empty directory begins with, as weft status -o yaml writes it: the
	// exact declarations and placement of a cluster that exists.
	Directory string `yaml:"directory"`
	// Tables in the order in which they are to be declared.
	Tables []Table `yaml:"tables"`
	// Throttles are all that have no end. Absent: as they are.
	Throttles []Throttle `yaml:"throttles"`

	// Found are the hosts of shards that the file does not list, by the shard's name. The caller of Merge sets it.
	Found map[string][]string `yaml:"-"`
}

// Shard declares a directory.Shard.
type Shard struct {
	Name  string `yaml:"name"`
	Hosts []Host `yaml:"hosts"`
	// Patroni names the servers instead of Hosts.
	Patroni *Patroni          `yaml:"patroni"`
	Options map[string]string `yaml:"options"`
	Weight  *int              `yaml:"weight"` // absent: 1
}

// Patroni declares a patroni.Scope.
type Patroni struct {
	Scope     string `yaml:"scope"`
	Namespace string `yaml:"namespace"` // absent: patroni.DefaultNamespace
}

// find says where the servers of a shard are found. known is what the directory says of the shard, nil if it does not know the shard.
func (c Cluster) find(s Shard, d, known *directory.Shard) {
	var scope *patroni.Scope
	if s.Patroni != nil {
		scope = &patroni.Scope{Scope: s.Patroni.Scope, Namespace: s.Patroni.Namespace}
	}
	switch d.Find(d.Hosts, scope); {
	case !d.Discovered():
	case len(c.Found[d.Name]) > 0:
		d.Hosts = c.Found[d.Name]
	case known != nil && known.Source() == d.Source():
		d.Hosts = known.Hosts
	}
}

// Host is a server of a shard. In the file it is host:port alone, or a mapping.
type Host struct {
	Addr string `yaml:"addr"`
	// Zone is where the server is, and Weight is its share of the reads on standbys.
	Zone   string `yaml:"zone"`
	Weight *int   `yaml:"weight"` // absent: 1
	Read   *bool  `yaml:"read"`   // false: clients never read it as a standby; absent: true
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Host) UnmarshalText(text []byte) error {
	h.Addr = string(text)
	return nil
}

// servers returns the addresses of a shard's servers, and what is said of each.
func (s Shard) servers() (hosts []string, about map[string]directory.Server) {
	for _, h := range s.Hosts {
		hosts = append(hosts, h.Addr)
		at := directory.Server{Zone: h.Zone, NoReads: h.Read != nil && !*h.Read}
		if h.Weight != nil {
			at.Weight = *h.Weight
		}
		if at != (directory.Server{}) {
			if about == nil {
				about = map[string]directory.Server{}
			}
			about[h.Addr] = at
		}
	}
	return hosts, about
}

// Pin declares a directory.Pin.
type Pin struct {
	Buckets *Buckets `yaml:"buckets"`
	Shard   string   `yaml:"shard"`
}

// Buckets is a range of buckets, both ends included: 0-99, or 7 alone.
type Buckets struct{ First, Last int }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Buckets) UnmarshalText(text []byte) error {
	first, last, isRange := strings.Cut(string(text), "-")
	if !isRange {
		last = first
	}
	var err1, err2 error
	b.First, err1 = strconv.Atoi(strings.TrimSpace(first))
	b.Last, err2 = strconv.Atoi(strings.TrimSpace(last))
	if err1 != nil || err2 != nil {
		return fmt.Errorf("%q is not a range of buckets: write first-last, for example 0-99", text)
	}
	return nil
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
	for i, p := range c.Pins {
		if p.Buckets == nil {
			ps.add(fmt.Sprintf("pins[%d].buckets", i), "is needed: a range of buckets, for example 0-99")
		}
	}
	for i, s := range c.Shards {
		if s.Patroni != nil && len(s.Hosts) > 0 {
			ps.add(fmt.Sprintf("shards[%d].hosts", i), "and patroni exclude each other: the servers are those that Patroni runs")
		}
	}
	c.tableProblems(&ps)
	c.throttleProblems(&ps)
	if err := s.Validate(); err != nil {
		for _, e := range each(err) {
			var p *directory.Problem
			if errors.As(e, &p) && !c.missing(p.Place) {
				ps.add(p.Place, "%s", p.Reason)
			}
		}
	}
	return ps
}

// missing tells whether a place is that of a pin's range that is not there,
// which has been said.
func (c Cluster) missing(place string) bool {
	for i, p := range c.Pins {
		if p.Buckets == nil && place == fmt.Sprintf("pins[%d].buckets", i) {
			return true
		}
	}
	return false
}

// Merge returns the successor of old that c declares; old is nil for a new
// cluster. A shard that old has and c does not is an error unless prune. While tables are declared,
// shards join and leave by jobs, which the successor has.
func (c Cluster) Merge(old *directory.Snapshot, prune bool) (*directory.Snapshot, error) {
	declared := make([]directory.Shard, len(c.Shards))
	for i, s := range c.Shards {
		declared[i] = directory.Shard{Name: s.Name, Options: s.Options, Weight: 1}
		declared[i].Hosts, declared[i].Servers = s.servers()
		if s.Weight != nil {
			declared[i].Weight = *s.Weight
		}
		known := (*directory.Shard)(nil)
		if old != nil {
			known, _ = old.Shard(s.Name)
		}
		c.find(s, &declared[i], known)
	}
	var pins []directory.Pin
	for _, p := range c.Pins {
		pin := directory.Pin{First: -1, Last: -1, Shard: p.Shard} // no range, unless there is one
		if p.Buckets != nil {
			pin.First, pin.Last = p.Buckets.First, p.Buckets.Last
		}
		pins = append(pins, pin)
	}
	if old == nil && c.Directory != "" {
		return c.revived(declared)
	}
	if old != nil && c.ID != "" && c.ID != old.Cluster {
		return nil, fmt.Errorf("the file describes cluster %s, and the directory holds %s: compare cluster, etcd.endpoints and etcd.prefix in weft.yaml", c.ID, old.Cluster)
	}
	if old == nil {
		home, count := c.Home, c.BucketCount
		if home == "" && len(declared) > 0 {
			home = declared[0].Name
		}
		if count == 0 {
			count = directory.DefaultBucketCount
		}
		next := directory.New(count, home, declared, pins...)
		next.Gate = c.Gate(next)
		next.Durability, next.DurabilityEnforced = primary.Durability(c.Durability), c.DurabilityEnforced
		return next, nil
	}
	next := old.Clone()
	next.Gate = c.Gate(old)
	next.Durability, next.DurabilityEnforced = primary.Durability(c.Durability), c.DurabilityEnforced
	switch n := c.BucketCount; {
	case n > old.BucketCount:
		return nil, fmt.Errorf("bucket_count: the cluster has %d, not %d: weft grow-buckets makes more of them", old.BucketCount, n)
	case n != 0 && n < old.BucketCount:
		return nil, fmt.Errorf("bucket_count: the cluster has %d, not %d, and there are never fewer: write what it has, and pins of its buckets", old.BucketCount, n)
	}
	if c.Home != "" {
		next.Home = c.Home
	}
	// Known shards keep their place, new ones come last.
	var gone []string
	shards := make([]directory.Shard, 0, len(declared))
	for _, was := range old.Shards {
		i := slices.IndexFunc(declared, func(s directory.Shard) bool { return s.Name == was.Name })
		if i < 0 {
			gone = append(gone, was.Name)
			if len(old.Tables) > 0 {
				shards = append(shards, was) // until it holds nothing
			}
			continue
		}
		// The file does not know these.
		declared[i].System, declared[i].State = was.System, was.State
		declared[i].Timeline, declared[i].Fork, declared[i].Primary = was.Timeline, was.Fork, was.Primary
		declared[i].Drain, declared[i].Fence, declared[i].Ruling = was.Drain, was.Fence, was.Ruling
		shards = append(shards, declared[i])
		declared = slices.Delete(declared, i, i+1)
	}
	if left := slices.DeleteFunc(slices.Clone(gone), func(name string) bool { return old.Leaving(name) != nil }); len(left) > 0 && !prune {
		return nil, fmt.Errorf("the directory has shards that the file does not: %s: add them to the file, or pass --prune to remove them",
			strings.Join(left, ", "))
	}
	if len(old.Tables) > 0 {
		return next, reshape(next, shards, declared, gone, pins)
	}
	next.SetShards(append(shards, declared...), pins)
	return next.Clone(), nil
}

// revived returns the cluster of an export, on the servers that the file names now.
func (c Cluster) revived(declared []directory.Shard) (*directory.Snapshot, error) {
	was, err := directory.DecodeCopy(c.Directory)
	if err != nil {
		return nil, err
	}
	next := was.Revive(0)
	if c.ID != next.Cluster {
		return nil, fmt.Errorf("id is %q, and directory that of cluster %s", c.ID, next.Cluster)
	}
	for i := range next.Shards {
		at := slices.IndexFunc(declared, func(s directory.Shard) bool { return s.Name == next.Shards[i].Name })
		if at < 0 || len(declared) != len(next.Shards) {
			return nil, errors.New("shards and directory do not list the same ones: take directory out of the file to make a new cluster")
		}
		next.Shards[i].Relocate(&declared[at])
	}
	return next, nil
}

// Pinned returns the pinned values of an export.
func (c Cluster) Pinned() []directory.PinnedValue {
	if was, err := directory.DecodeCopy(c.Directory); c.Directory != "" && err == nil {
		return was.Pinned
	}
	return nil
}

// Gate returns how c wants the gate of a cluster that is now old.
func (c Cluster) Gate(old *directory.Snapshot) directory.Gate {
	switch {
	case c.AtomicReads == nil:
		return old.Gate
	case *c.AtomicReads:
		return directory.GateOn
	}
	return directory.GateOff
}
