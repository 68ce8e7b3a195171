package directory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
		// A row's bucket is the top bits of its keyspace ID: with another count every row belongs in
		// another bucket.
		validateGrown(s, old, bad)
		return errors.Join(errs...)
	}
	if s.FirstBuckets != old.FirstBuckets {
		bad("first_buckets", "is %d for the life of the cluster, not %d", old.FirstBuckets, s.FirstBuckets)
	}
	if s.Home != old.Home {
		bad("home", "cannot move from %s to %s: undeclared tables live there", old.Home, s.Home)
	}
	s.validateGenerations(old, bad)
	s.validateRounds(old, bad)
	if len(errs) == 0 && len(old.Tables)+len(s.Tables) > 0 {
		s.validateStay(old, bad)
	}
	return errors.Join(errs...)
}

// validateGenerations refuses to go back to an earlier generation of a server: writes would go to a server whose place another one has
// taken.
func (s *Snapshot) validateGenerations(old *Snapshot, bad func(place, format string, args ...any)) {
	for i := range s.Shards {
		sh := &s.Shards[i]
		was, ok := old.Shard(sh.Name)
		if !ok || was.System == "" || was.System != sh.System {
			continue
		}
		if sh.Ruling.Number > was.Ruling.Number {
			continue // an operator has said so
		}
		if now := sh.Generation(); sh.Ruling != was.Ruling || was.Generation().Above(now) || now.Parted(was.Generation()) || was.Fork != 0 && now.Fork == 0 && now.Timeline == was.Timeline {
			bad(fmt.Sprintf("shards[%d].timeline", i), "%s cannot go back from generation %s to %s", sh.Name, was.Generation(), now)
		}
	}
}

// validateRounds refuses to forget a round that carries rows: its rows may have moved already, and
// only whoever knows its key can find out. A round ends, and then the next one begins.
func (s *Snapshot) validateRounds(old *Snapshot, bad func(place, format string, args ...any)) {
	for i := range old.Moves {
		m := &old.Moves[i]
		if m.Round == nil || !m.Carries() {
			continue
		}
		switch next := s.FindMove(m.ID); {
		case next == nil:
			bad("moves", "job %s cannot end while round %s is in progress", m.ID, m.Round.Key)
		case next.Round != nil && next.Round.Key != m.Round.Key:
			bad("moves", "round %s of job %s cannot begin while round %s is in progress", next.Round.Key, m.ID, m.Round.Key)
		}
	}
}

// validateStay refuses changes after which a declared table's rows would not be where the
// placement says. A bucket changes its shard only by a round that has carried it, a shard joins
// only by a job that has given it the tables, and leaves only without buckets and by a job that has
// waited for the transactions that need it.
func (s *Snapshot) validateStay(old *Snapshot, bad func(place, format string, args ...any)) {
	for i := range s.Shards {
		name := s.Shards[i].Name
		if _, ok := old.Shard(name); ok {
			continue
		}
		if !slices.ContainsFunc(old.Moves, func(m Move) bool { return m.Kind == MoveJoin && m.Shard == name }) {
			bad(fmt.Sprintf("shards[%d]", i), "%s cannot join like this while there are %s: it has none of them yet", name, old.declaredTables())
			return
		}
	}
	for i := range old.Shards {
		name := old.Shards[i].Name
		if _, ok := s.Shard(name); ok {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(old.placementKeys())) {
			if n := old.bucketsOn(old.placementAt(key), i); n > 0 {
				bad("shards", "%s cannot leave while it holds %d buckets with %s: weft.move_buckets takes them to other shards", name, n, old.declaredTables())
				return
			}
		}
		if !slices.ContainsFunc(old.Moves, func(m Move) bool { return m.Kind == MoveLeave && m.Shard == name }) {
			bad("shards", "%s cannot leave like this while there are %s: transactions may still need it", name, old.declaredTables())
			return
		}
	}
	unmoved := unmoved(old, s)
	for i := range s.Tables {
		t := &s.Tables[i]
		was := old.Table(t.Database, t.Schema, t.Name)
		if t.Kind != Sharded || was == nil || was.Kind != Sharded {
			continue
		}
		from, to := old.PlacementOf(t.Database, was.Group), s.PlacementOf(t.Database, t.Group)
		if !s.validateRemapped(old, t, from, to, bad) {
			return
		}
		if unmoved(from, to) {
			continue
		}
		n, at := moved(old, s, from, to, func(b int, x, y string) bool { return old.carried(t.Database, was.Group, b, x, y) })
		if n == 0 {
			continue
		}
		bad("placement", "%d buckets would move, bucket %d from %s to %s, and no job has carried their rows of %s: use weft.move_buckets or weft.rebalance",
			n, at, old.nameOf(from, at), s.nameOf(to, at), strings.TrimSuffix(strings.TrimPrefix(t.place(), "tables["), "]"))
		return
	}
}

// unmoved returns a function that reports whether two placements put every bucket on the same shard. Thousands of
// tables share a placement, which is compared once.
func unmoved(old, s *Snapshot) func(from, to []uint16) bool {
	shards := sameShards(old, s)
	type pair struct{ from, to *uint16 }
	known := map[pair]bool{}
	return func(from, to []uint16) bool {
		if !shards || len(from) != len(to) || len(from) == 0 {
			return shards && len(from) == len(to)
		}
		p := pair{&from[0], &to[0]}
		same, ok := known[p]
		if !ok {
			same = slices.Equal(from, to)
			known[p] = same
		}
		return same
	}
}

// carried reports whether a round in progress has carried a bucket from one shard to another.
func (s *Snapshot) carried(database, group string, bucket int, from, to string) bool {
	return slices.ContainsFunc(s.Moves, func(m Move) bool {
		return m.Database == database && m.Group == group && m.Round.Carries(bucket, from, to)
	})
}

// declaredTables names the declared tables for an error.
func (s *Snapshot) declaredTables() string {
	if len(s.Tables) == 0 {
		return "declared tables"
	}
	first := strings.TrimSuffix(strings.TrimPrefix(s.Tables[0].place(), "tables["), "]")
	if n := len(s.Tables); n > 1 {
		return fmt.Sprintf("declared tables (%s and %d more)", first, n-1)
	}
	return "declared tables (" + first + ")"
}

// placementAt returns the placement that Placements has under a key, else the common one.
func (s *Snapshot) placementAt(key string) []uint16 {
	if p, ok := s.Placements[key]; ok {
		return p
	}
	return s.Placement
}

// bucketsOn counts the buckets that a placement puts on a shard.
func (s *Snapshot) bucketsOn(p []uint16, shard int) int {
	n := 0
	for _, i := range p {
		if int(i) == shard {
			n++
		}
	}
	return n
}

// sameShards reports whether two snapshots number their shards alike.
func sameShards(a, b *Snapshot) bool {
	return slices.EqualFunc(a.Shards, b.Shards, func(x, y Shard) bool { return x.Name == y.Name })
}

// moves counts the buckets that the cluster's own placement has on another shard in next, and
// returns the first of them.
func moves(old, next *Snapshot) (n, first int) {
	return moved(old, next, old.Placement, next.Placement, func(int, string, string) bool { return false })
}

// moved counts the buckets that are on another shard by the placement to of next than by the
// placement from of old, and returns the first of them. A pinned value's own bucket may come
// and go, and what may says is allowed.
func moved(old, next *Snapshot, from, to []uint16, may func(bucket int, from, to string) bool) (n, first int) {
	for b, i := range from {
		if b >= old.BucketCount && (i == Unused || b >= len(to) || to[b] == Unused) || int(i) >= len(old.Shards) {
			continue
		}
		x, y := old.Shards[i].Name, next.nameOf(to, b)
		if x == y || may(b, x, y) {
			continue
		}
		if n++; n == 1 {
			first = b
		}
	}
	return n, first
}

// nameOf returns the name of a bucket's shard by a placement, or "nowhere".
func (s *Snapshot) nameOf(p []uint16, bucket int) string {
	if bucket < len(p) && int(p[bucket]) < len(s.Shards) {
		return s.Shards[p[bucket]].Name
	}
	return "nowhere"
}
