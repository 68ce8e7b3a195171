package directory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/vindex"
)

// TestIsolate: a value gets a bucket of its own where its rows are, in its database alone.
func TestIsolate(t *testing.T) {
	const id = vindex.ID(0x3a5f_0000_1234_5678) // of bucket 3
	old := sample()
	old.Version = 40
	old.Tables = declared()
	elsewhere := slices.Clone(old.Placement)
	elsewhere[3] = 1 - elsewhere[3]
	old.Placements = map[string][]uint16{"app": elsewhere}
	target := slices.Clone(old.Placement)
	target[3] = 1 - target[3]
	old.Moves = []Move{{ID: "m1", Database: "other", Kind: MoveBuckets, Proxy: "p", State: MoveRunning}}
	old.Targets = map[string][]uint16{"m1": target}
	next := old.Clone()
	b, err := next.Isolate("app", id)
	if err != nil || b != len(old.Placement) {
		t.Fatalf("bucket %d, %v", b, err)
	}
	if err := Successor(old, next); err != nil {
		t.Fatal(err)
	}
	if got := []uint16{next.Placement[b], next.PlacementOf("app", "")[b], next.Targets["m1"][b]}; !slices.Equal(got, []uint16{old.Placement[3], elsewhere[3], old.Placement[3]}) {
		t.Errorf("bucket %d is at %v", b, got)
	}
	if next.Remapped["app"] != 41 || next.Remapped["other"] != 0 {
		t.Errorf("remapped %v", next.Remapped)
	}
	view := next.For("app")
	if view.BucketOf(id) != b || view.BucketOf(id+1) != 3 || view.TopBucket(id) != 3 || next.For("other").BucketOf(id) != 3 {
		t.Errorf("%d %d %d %d", view.BucketOf(id), view.BucketOf(id+1), view.TopBucket(id), next.For("other").BucketOf(id))
	}
	if view.For("other").BucketOf(id) != 3 {
		t.Error("another database sees isolated values of the first")
	}
	if again, err := next.Isolate("app", id); err != nil || again != b || next.Remapped["app"] != 41 {
		t.Errorf("again: bucket %d, %v", again, err)
	}
	if other, err := next.Isolate("app", id+1); err != nil || other != b+1 {
		t.Errorf("the next: bucket %d, %v", other, err)
	}
	if got := next.For("app").AppendIsolated(nil, vindex.Range{First: id + 1, Last: vindex.All.Last}); !slices.Equal(got, []int{b + 1}) {
		t.Errorf("in a range: %v", got)
	}
	if got := next.For("app").AppendIsolated(nil, vindex.Within(3, 4)); len(got) != 2 {
		t.Errorf("in the bucket: %v", got)
	}
	// An older snapshot is of the older mapping.
	old.Placements["app"] = append(old.Placements["app"], Unused, 1)
	next.Placements["app"][3] = 1 - elsewhere[3]
	next.Placements["app"][b+1] = 1 - next.Placements["app"][b+1]
	next.Placements["app"] = append(next.Placements["app"], 1)
	was := next.For("app").PlacedAs(old.For("app"))
	if want := append(slices.Clone(elsewhere), next.Placements["app"][b], 1, 1); was.BucketOf(id) != 3 || !slices.Equal(was.Placement, want) {
		t.Errorf("placed as before: bucket %d, %v, want %v", was.BucketOf(id), was.Placement, want)
	}
	next = old.Clone()
	next.Placements["app"] = slices.Clone(elsewhere)
	if _, err := next.Isolate("app", id); err != nil {
		t.Fatal(err)
	}
	// Stored and loaded, it is the same.
	next = stored(t, old, next)
	if view := next.For("app"); view.BucketOf(id) != b || next.Remapped["app"] != 41 {
		t.Error("the store loses isolated values")
	}
	text, err := next.EncodeCopy()
	if err != nil || !strings.Contains(text, "isolated") || strings.Contains(text, "remapped") {
		t.Errorf("the copy: %v %s", err, text)
	}
}

// stored encodes a change and decodes it again.
func stored(t *testing.T, old, next *Snapshot) *Snapshot {
	t.Helper()
	e, err := next.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	for name, part := range e.Parts {
		d.Add(name, part)
	}
	got, err := d.Decode(e.Head, old.Version+2)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestDropDatabaseFrees: the buckets of a dropped database's isolated values are free again.
func TestDropDatabaseFrees(t *testing.T) {
	old := sample()
	old.Tables = declared()
	for _, db := range []string{"app", "other", "app"} {
		if _, err := old.Isolate(db, vindex.ID(len(old.Placement))); err != nil {
			t.Fatal(err)
		}
	}
	next := old.Clone()
	next.DropDatabase("app")
	if err := Successor(old, next); err != nil {
		t.Fatal(err)
	}
	if n := old.BucketCount; len(next.Placement) != n+2 || next.Placement[n] != Unused || len(next.Isolated) != 1 || len(next.Remapped) != 1 {
		t.Errorf("placement %v, isolated %v, remapped %v", next.Placement[n:], next.Isolated, next.Remapped)
	}
}

// TestIsolateReuses: the bucket of a value that was pinned and is not any more is used again.
func TestIsolateReuses(t *testing.T) {
	s := sample()
	s.Placement = append(s.Placement, Unused, 1)
	if b, err := s.Isolate("app", 1<<60); err != nil || b != len(s.Placement)-2 || s.Placement[b] != s.Placement[1] {
		t.Errorf("bucket %d, %v, placement %v", b, err, s.Placement)
	}
	for i := range MaxIsolated - 1 {
		if _, err := s.Isolate("app", vindex.ID(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Isolate("app", 1<<59); err == nil {
		t.Error("there is no end")
	}
	if _, err := s.Isolate("other", 1<<59); err != nil {
		t.Error(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// TestValidateIsolated: nobody isolates a value to a place where its rows are not.
func TestValidateIsolated(t *testing.T) {
	old := sample()
	old.Tables = declared()
	made := old.Clone()
	b, err := made.Isolate("app", 5)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old  *Snapshot
		edit func(*Snapshot)
		want string
	}{
		"elsewhere": {old, func(s *Snapshot) { s.Placement[b] = 1 - s.Placement[0] }, "rows with keyspace ID 5 would move"},
		"forgotten": {made, func(s *Snapshot) { delete(s.Isolated["app"], 5) }, ""},
		"forgotten elsewhere": {func() *Snapshot {
			s := made.Clone()
			s.Placement[b] = 1 - s.Placement[0]
			return s
		}(), func(s *Snapshot) { s.Placement[b] = 1 - s.Placement[0]; delete(s.Isolated["app"], 5) }, "rows with keyspace ID 5 would move"},
		"moved":       {made, func(s *Snapshot) { s.Placement[b] = 1 - s.Placement[b] }, "buckets would move"},
		"no bucket":   {old, func(s *Snapshot) { s.Isolated["app"][5] = b + 1 }, "cannot have bucket"},
		"a common":    {old, func(s *Snapshot) { s.Isolated["app"][5] = 0 }, "cannot have bucket"},
		"freed":       {made, func(s *Snapshot) { s.FreeBuckets([]int{b}) }, "cannot have bucket"},
		"two of them": {made, func(s *Snapshot) { s.Isolated["app"][6] = b }, "cannot have bucket"},
	} {
		next := made.Clone()
		c.edit(next)
		if err := Successor(c.old, next); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBucketSQL: the expression names isolated values in one order, and is the plain one without
// them.
func TestBucketSQL(t *testing.T) {
	s := sample()
	s.Tables = declared()
	for _, id := range []vindex.ID{1 << 63, 7, 1<<64 - 1, 0} {
		if _, err := s.Isolate("app", id); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Tables[0].NewVindex(s.BucketCount)
	if err != nil {
		t.Fatal(err)
	}
	c := v.(vindex.Computed)
	columns := make([]string, len(c.Columns()))
	for i := range columns {
		columns[i] = fmt.Sprintf("c%d", i)
	}
	plain, _ := vindex.BucketSQL(c, columns, s.BucketCount)
	got, err := s.For("app").BucketSQL(c, columns)
	n := s.BucketCount
	want := fmt.Sprintf("CASE %s WHEN '0'::int8 THEN %d::int8 WHEN '7'::int8 THEN %d::int8 WHEN '-9223372036854775808'::int8 THEN %d::int8 WHEN '-1'::int8 THEN %d::int8 ELSE %s END",
		c.SQL(columns), n+3, n+1, n, n+2, plain)
	if err != nil || got != want {
		t.Errorf("%v\n%s\n%s", err, got, want)
	}
	if other, _ := s.For("other").BucketSQL(c, columns); other != plain {
		t.Error(other)
	}
}

// FuzzIsolate: every keyspace ID is on the same shard before and after values are isolated, and
// buckets of ranges cover all of their IDs.
func FuzzIsolate(f *testing.F) {
	f.Add(uint8(4), uint64(1)<<60, uint64(1)<<60, []byte{1, 2, 3})
	f.Add(uint8(0), uint64(0), ^uint64(0), []byte{})
	f.Add(uint8(12), ^uint64(0), uint64(5), bytes.Repeat([]byte{9}, 40))
	f.Fuzz(func(t *testing.T, n uint8, a, b uint64, isolated []byte) {
		s := New(1<<(n%17), "a", []Shard{{Name: "a", Hosts: []string{"h:1"}, Weight: 1}, {Name: "b", Hosts: []string{"h:2"}, Weight: 2}})
		next := s.Clone()
		ids := []vindex.ID{vindex.ID(a), vindex.ID(b)}
		for i := range isolated {
			id := vindex.ID(a + b*uint64(isolated[i]))
			if ids = append(ids, id); i%2 == 0 {
				if _, err := next.Isolate("app", id); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := Successor(s, next); err != nil {
			t.Fatal(err)
		}
		view := next.For("app")
		r := vindex.Range{First: min(vindex.ID(a), vindex.ID(b)), Last: max(vindex.ID(a), vindex.ID(b))}
		first, last := view.TopBucket(r.First), view.TopBucket(r.Last)
		apart := view.AppendIsolated(nil, r)
		for _, id := range ids {
			top, own := s.BucketOf(id), view.BucketOf(id)
			if s.Placement[top] != view.Placement[own] || view.TopBucket(id) != top {
				t.Errorf("ID %x was in bucket %d on %d and is in bucket %d on %d", id, top, s.Placement[top], own, view.Placement[own])
			}
			if in := vindex.Within(top, int(n%17)); id < in.First || id > in.Last {
				t.Errorf("ID %x is not within its bucket %d: %x", id, top, in)
			}
			if id >= r.First && id <= r.Last && (own < first || own > last) && !slices.Contains(apart, own) {
				t.Errorf("bucket %d of ID %x is not found in %x", own, id, r)
			}
		}
	})
}
