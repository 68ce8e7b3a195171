package directory

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// jobbed returns the sample cluster with declared tables and a job that carries bucket 3.
func jobbed(t *testing.T) *Snapshot {
	t.Helper()
	s := sample()
	s.Tables = declared()
	from := s.nameOf(s.Placement, 3)
	to := map[string]string{"a": "b", "b": "a"}[from]
	target := slices.Clone(s.Placement)
	target[3] = uint16(s.shardIndex(to))
	s.Moves = []Move{{
		ID: "m1", Database: "app", Kind: MoveBuckets, Proxy: "p", State: MoveRunning,
		Round: &Round{Key: "k", Phase: HoldAll, Pairs: []Pair{{From: from, To: to, Buckets: []int{3}}}},
	}}
	s.Targets = map[string][]uint16{"m1": target}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTransfer: a bucket changes hands by the round that carries it, for its database alone.
func TestTransfer(t *testing.T) {
	old := jobbed(t)
	next := old.Clone()
	if err := next.Transfer(&next.Moves[0], true); err != nil {
		t.Fatal(err)
	}
	if err := Successor(old, next); err != nil {
		t.Fatal(err)
	}
	if next.Moves[0].Round != nil || !slices.Equal(next.PlacementOf("app", ""), next.Targets["m1"]) || !slices.Equal(next.Placement, old.Placement) {
		t.Errorf("round %v, placement %v", next.Moves[0].Round, next.Placements)
	}
	if view := next.For("app"); view.nameOf(view.Placement, 3) == old.nameOf(old.Placement, 3) {
		t.Error("bucket 3 has not moved")
	}
	if next.For("other") != next {
		t.Error("another database sees a placement of its own")
	}
	// The shards may commit one after the other.
	half := old.Clone()
	if err := half.Transfer(&half.Moves[0], false); err != nil || Successor(old, half) != nil || half.Moves[0].Round.Phase != Carried {
		t.Errorf("half: %v, %+v", err, half.Moves[0].Round)
	}
	whole := half.Clone()
	if err := whole.Transfer(&whole.Moves[0], true); err != nil || Successor(half, whole) != nil || whole.Moves[0].Round != nil {
		t.Errorf("whole: %v", err)
	}
	// The same change without the round is refused.
	bare := old.Clone()
	bare.Moves[0].Round = nil
	if err := Successor(bare, next); err == nil || !strings.Contains(err.Error(), "no job has carried") {
		t.Errorf("got %v", err)
	}
	// Way back: a placement like the cluster's own has no entry.
	next.SetPlacement("app", "", slices.Clone(next.Placement))
	if len(next.Placements) != 0 {
		t.Errorf("left: %v", next.Placements)
	}
}

// TestRoundIsNotForgotten: a round that may have moved rows is not replaced by another, and its job
// does not end before it.
func TestRoundIsNotForgotten(t *testing.T) {
	old := jobbed(t)
	other := old.Clone()
	other.Moves[0].Round.Key = "k2"
	if err := Successor(old, other); err == nil || !strings.Contains(err.Error(), "round k2 of job m1 cannot begin while round k is in progress") {
		t.Errorf("another round: %v", err)
	}
	gone := old.Clone()
	gone.EndMove("m1")
	if err := Successor(old, gone); err == nil || !strings.Contains(err.Error(), "job m1 cannot end while round k is in progress") {
		t.Errorf("no job: %v", err)
	}
	over := old.Clone()
	over.Moves[0].Round = nil
	if err := Successor(old, over); err != nil {
		t.Error(err)
	}
	if err := Successor(over, other); err != nil {
		t.Error(err)
	}
}

// TestRowsStay: whatever happens to shards and weights, rows of declared tables stay where they
// are, under the numbers that shards have then.
func TestRowsStay(t *testing.T) {
	old := jobbed(t)
	if err := old.Transfer(&old.Moves[0], true); err != nil {
		t.Fatal(err)
	}
	view := old.For("app")
	next := old.Clone()
	next.Moves = append(next.Moves, Move{ID: "m2", Kind: MoveJoin, Shard: "c", State: MoveRunning})
	before := next.Clone()
	next.SetShards([]Shard{{Name: "c", Hosts: []string{"c:1"}, Weight: 1}, next.Shards[1], next.Shards[0]}, nil)
	if err := Successor(before, next); err != nil {
		t.Fatal(err)
	}
	now := next.For("app")
	for b := range old.BucketCount {
		if was, is := view.nameOf(view.Placement, b), now.nameOf(now.Placement, b); was != is {
			t.Errorf("bucket %d went from %s to %s", b, was, is)
		}
	}
	if target := next.Targets["m1"]; next.nameOf(target, 3) != old.nameOf(old.Targets["m1"], 3) {
		t.Error("the target is not renumbered")
	}
	if n := next.bucketsOn(next.Placement, 0); n == 0 {
		t.Error("the cluster's own placement does not use the new shard")
	}
}

func TestMovesAreStored(t *testing.T) {
	s := jobbed(t)
	s.SetPlacement("app", "", s.Targets["m1"])
	s.Moves[0].Round = nil
	s.SetPlacement("app", "7", slices.Repeat([]uint16{0}, len(s.Placement)))
	s.Past = []PastMove{{ID: "j", Kind: MoveJoin, Shard: "b", State: MoveDone}}
	var d Decoder
	e, err := s.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range e.Parts {
		d.Add(name, part)
	}
	got, err := d.Decode(e.Head, 9)
	if err != nil {
		t.Fatal(err)
	}
	same := func(a, b map[string][]uint16) bool { return maps.EqualFunc(a, b, slices.Equal[[]uint16]) }
	if !same(got.Placements, s.Placements) || !same(got.Targets, s.Targets) || len(got.Moves) != 1 || got.Moves[0].ID != "m1" || !slices.Equal(got.Past, s.Past) {
		t.Errorf("got %+v", got)
	}
	// A change of one placement writes that one.
	stored := e.Stored(9)
	next := stored.Clone()
	next.Placements["app"][5] = 1 - next.Placements["app"][5]
	e2, err := next.Encode(stored)
	if err != nil || len(e2.Parts) != 1 || len(e2.Gone) != 0 {
		t.Fatalf("writes %v, deletes %v, %v", slices.Collect(maps.Keys(e2.Parts)), e2.Gone, err)
	}
	for name, part := range e2.Parts {
		d.Add(name, part)
	}
	if got, err = d.Decode(e2.Head, 10); err != nil || !same(got.Placements, next.Placements) || len(got.Tables) != len(s.Tables) {
		t.Errorf("got %v, %v", got, err)
	}
	// A job that is over leaves nothing behind.
	next.EndMove("m1")
	e3, err := next.Encode(e2.Stored(10))
	if err != nil || len(e3.Gone) != 1 {
		t.Errorf("deletes %v, %v", e3.Gone, err)
	}
}

func TestMovesAreValid(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		want   string
	}{
		"fine":         {func(*Snapshot) {}, ""},
		"two jobs":     {func(s *Snapshot) { s.Moves = append(s.Moves, Move{ID: "m2", Database: "app", Kind: MoveDrain}) }, "moves[1].database: app has job m1 already"},
		"one id":       {func(s *Snapshot) { s.Moves = append(s.Moves, Move{ID: "m1", Database: "x", Kind: MoveDrain}) }, `moves[1].id: "m1" is empty or taken`},
		"phase":        {func(s *Snapshot) { s.Moves[0].Round.Phase = "soon" }, `moves[0].round.phase: unknown phase "soon"`},
		"elsewhere":    {func(s *Snapshot) { p := &s.Moves[0].Round.Pairs[0]; p.From, p.To = p.To, p.From }, "moves[0].round.pairs[0].buckets: bucket 3 is not on"},
		"no shard":     {func(s *Snapshot) { s.Moves[0].Round.Pairs[0].To = "z" }, "moves[0].round.pairs[0]: from"},
		"lost target":  {func(s *Snapshot) { s.Moves = nil }, "targets[m1]: belongs to no job"},
		"short":        {func(s *Snapshot) { s.Placements = map[string][]uint16{"app": {0, 1}} }, "placements[app]: has 2 of 16 buckets"},
		"other length": {func(s *Snapshot) { s.Targets["m1"] = append(s.Targets["m1"], 1) }, "targets[m1]: has 17 buckets, and the cluster has 16"},
	} {
		s := jobbed(t)
		c.change(s)
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestOwnBucketsEverywhere: a pinned value's bucket comes and goes in every placement alike.
func TestOwnBucketsEverywhere(t *testing.T) {
	s := jobbed(t)
	if err := s.Transfer(&s.Moves[0], true); err != nil {
		t.Fatal(err)
	}
	var lookup string
	for i := range s.Tables {
		if s.Tables[i].Vindex.Lookup() {
			lookup = s.Tables[i].Vindex.Name
		}
	}
	if b, err := s.Unpool(lookup, 3); err == nil {
		t.Errorf("bucket %d for a value with rows beside a job that carries rows of its tables", b)
	}
	if b, err := s.OwnBucket(lookup, "b"); err == nil {
		t.Errorf("bucket %d while a job moves rows", b)
	}
	s.EndMove("m1")
	b, err := s.OwnBucket(lookup, "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil || s.nameOf(s.PlacementOf("app", ""), b) != "b" {
		t.Errorf("bucket %d: %v", b, err)
	}
	s.FreeBuckets([]int{b})
	if err := s.Validate(); err != nil || len(s.PlacementOf("app", "")) != s.BucketCount {
		t.Errorf("after: %v", err)
	}
}
