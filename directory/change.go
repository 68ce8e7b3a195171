package directory

import (
	"errors"
	"fmt"
	"strings"
)

// ValidateChange reports what makes s an impossible successor of old, in addition to s.Validate.
// old is nil when s creates the cluster.
func (s *Snapshot) ValidateChange(old *Snapshot) error {
	if old == nil {
		return nil
	}
	var errs []error
	bad := func(place, format string, args ...any) {
		errs = append(errs, &Problem{place, fmt.Sprintf(format, args...)})
	}
	if s.Cluster != old.Cluster {
		bad("cluster", "is %s for the life of the cluster; %s is another", old.Cluster, s.Cluster)
	}
	if s.BucketCount != old.BucketCount {
		// A row's bucket is the top bits of its keyspace ID: with another count every row would
		// belong in another bucket.
		bad("bucket_count", "is fixed at %d since the cluster was created", old.BucketCount)
	}
	if s.Home != old.Home {
		bad("home", "cannot move from %s to %s: undeclared tables live there", old.Home, s.Home)
	}
	if len(errs) == 0 && len(old.Tables)+len(s.Tables) > 0 {
		s.validateStay(old, bad)
	}
	return errors.Join(errs...)
}

// validateStay refuses changes that would put declared tables on other shards than their rows are
// on: weft cannot move rows yet.
func (s *Snapshot) validateStay(old *Snapshot, bad func(place, format string, args ...any)) {
	const way = "undeclare the tables first (weft.unshard_table), and declare them again afterwards"
	tables := "declared tables"
	if n := len(old.Tables); n > 0 {
		tables = fmt.Sprintf("declared tables (%s", strings.TrimSuffix(strings.TrimPrefix(old.Tables[0].place(), "tables["), "]"))
		if n > 1 {
			tables += fmt.Sprintf(" and %d more", n-1)
		}
		tables += ")"
	}
	for i := range s.Shards {
		if _, ok := old.Shard(s.Shards[i].Name); !ok {
			bad(fmt.Sprintf("shards[%d]", i), "%s cannot join while there are %s: weft cannot copy or move rows to a new shard yet; %s",
				s.Shards[i].Name, tables, way)
			return
		}
	}
	for i := range old.Shards {
		if _, ok := s.Shard(old.Shards[i].Name); !ok {
			bad("shards", "%s cannot leave while there are %s: weft cannot move their rows to another shard yet; %s",
				old.Shards[i].Name, tables, way)
			return
		}
	}
	// Neither the placement that SetShards would make nor the one in s may move a bucket.
	want := &Snapshot{BucketCount: old.BucketCount, Shards: old.Shards, Pins: old.Pins, Placement: old.Placement}
	want.SetShards(s.Shards, s.Pins)
	for _, next := range []*Snapshot{want, s} {
		n, at := moves(old, next)
		if n == 0 {
			continue
		}
		bad("placement", "%d buckets would move, bucket %d from %s to %s, while there are %s: weft cannot move their rows yet; keep weights and pins as they are, or %s",
			n, at, old.Shards[old.Placement[at]].Name, next.where(at), tables, way)
		return
	}
}

// moves counts the buckets that are on another shard in next, and returns the
// first of them. A pinned value's own bucket may come and go.
func moves(old, next *Snapshot) (n, first int) {
	for b, i := range old.Placement {
		if b >= old.BucketCount && (i == Unused || b >= len(next.Placement) || next.Placement[b] == Unused) {
			continue
		}
		if int(i) < len(old.Shards) && next.where(b) != old.Shards[i].Name {
			if n++; n == 1 {
				first = b
			}
		}
	}
	return n, first
}

// where returns the name of a bucket's shard, or "nowhere".
func (s *Snapshot) where(bucket int) string {
	if bucket < len(s.Placement) && int(s.Placement[bucket]) < len(s.Shards) {
		return s.Shards[s.Placement[bucket]].Name
	}
	return "nowhere"
}
