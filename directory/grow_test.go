package directory

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/datum"
	"weft/vindex"
)

// zonedTable is a table whose vindex names buckets.
func zonedTable() Table {
	return Table{
		Database: "app", Schema: "public", Name: "regions", Kind: Sharded, Columns: []Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}},
		Vindex: Vindex{Kind: "range", Params: map[string]any{"zones": []any{
			map[string]any{"below": "1000", "buckets": "0-2"}, map[string]any{"buckets": "3-15"},
		}}},
		IDs: RoutedIDs{Column: "n", From: 1 << 32, Base: 1 << 28},
	}
}

// TestGrow: each bucket becomes several where it is, and everything that names buckets says the same
// as before.
func TestGrow(t *testing.T) {
	old := sample()
	old.Version = 40
	old.Tables = declared()
	old.PutTable(zonedTable())
	old.Functions = []Function{
		{Database: "app", Schema: "public", Name: "f", Column: zonedTable().Columns[0], Vindex: zonedTable().Vindex},
		{Database: "app", Schema: "public", Name: "g", Column: zonedTable().Columns[0], Vindex: Vindex{Kind: "hash"}},
	}
	old.SetShards(old.Shards, []Pin{{First: 2, Last: 3, Shard: "a"}, {First: 5, Last: 5, Shard: "b"}})
	elsewhere := slices.Clone(old.Placement)
	elsewhere[7] = 1 - elsewhere[7]
	old.Placements = map[string][]uint16{"app": elsewhere}
	const id = vindex.ID(0x7a5f_0000_1234_5678) // of bucket 7
	own, err := old.Isolate("app", id)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Validate(); err != nil {
		t.Fatal(err)
	}
	next := old.Clone()
	if err := Grow(next, 64); err != nil {
		t.Fatal(err)
	}
	if err := Successor(old, next); err != nil {
		t.Fatal(err)
	}
	if next.BucketCount != 64 || next.FirstBuckets != 16 || len(next.Placement) != 65 || !slices.Equal(next.Pins, []Pin{{First: 8, Last: 15, Shard: "a"}, {First: 20, Last: 23, Shard: "b"}}) {
		t.Errorf("%d buckets, %d at first, %d places, pins %v", next.BucketCount, next.FirstBuckets, len(next.Placement), next.Pins)
	}
	if next.Remapped["app"] != 41 || next.Remapped["other"] != 41 {
		t.Errorf("remapped %v", next.Remapped)
	}
	a, b := old.For("app"), next.For("app")
	if b.BucketOf(id) != own+48 || b.BucketOf(id+1) != 0x7a>>2 || a.BucketOf(id) != own {
		t.Errorf("buckets %d and %d", b.BucketOf(id), b.BucketOf(id+1))
	}
	sameShardsOf(t, a, b, rand.New(rand.NewPCG(1, 2)))
	// What names buckets keeps its numbers.
	is := next.Table("app", "public", "regions")
	if is.Vindex.Buckets != 16 || is.IDs.Buckets != 16 || next.Functions[0].Vindex.Buckets != 16 || next.Functions[1].Vindex.Buckets != 0 || next.Tables[0].Vindex.Buckets != 0 {
		t.Errorf("%+v, functions %+v", is, next.Functions)
	}
	if old.Table("app", "public", "regions").Vindex.Buckets != 0 || old.Isolated["app"][id] != own || old.Functions[0].Vindex.Buckets != 0 {
		t.Error("the old snapshot has changed")
	}
	for key := range int64(2000) {
		if x, y := zoneID(t, old, key), zoneID(t, next, key); x != y {
			t.Fatalf("key %d had ID %x and has %x", key, x, y)
		}
	}
	// Blocks that go by the old placement find rows where they were.
	moved := next.Clone()
	for i := range 4 {
		moved.Placements["app"][28+i] = 1 - moved.Placements["app"][28+i]
	}
	then := moved.For("app").PlacedAs(a)
	sameShardsOf(t, a, then, rand.New(rand.NewPCG(3, 4)))
	if !PlacesIn(b).Same(a) || !PlacesIn(a).Same(b) || PlacesIn(moved.For("app")).Same(a) || PlacesIn(a).Same(moved.For("app")) {
		t.Error("places are compared by their numbers")
	}
	if PlacesIn(a).Name() != PlacesIn(b).Name() || PlacesIn(a).Name() == PlacesIn(moved.For("app")).Name() {
		t.Error("the name of places depends on the number of buckets, or not on the places")
	}
	if PlacesIn(b).Left(a, nil) || !PlacesIn(moved.For("app")).Left(a, nil) || !PlacesIn(moved.For("app")).Left(a, []int{30}) || PlacesIn(moved.For("app")).Left(a, []int{7, own + 48}) {
		t.Error("what has left is told by old numbers")
	}
	// Stored and loaded, and kept by shards.
	if got := stored(t, old, next); got.FirstBuckets != 16 || got.Table("app", "public", "regions").IDs.Buckets != 16 {
		t.Error("the store loses numbers")
	}
	text, err := next.EncodeCopy()
	if err != nil {
		t.Fatal(err)
	}
	if c, err := DecodeCopy(text); err != nil || c.Snapshot.FirstBuckets != 16 {
		t.Errorf("the copy: %v", err)
	}
	// Again: tables declared since have other numbers.
	late := zonedTable()
	late.Name, late.IDs.From = "late", 1<<40
	next.PutTable(late)
	again := next.Clone()
	if err := Grow(again, 128); err != nil {
		t.Fatal(err)
	}
	if err := Successor(next, again); err != nil {
		t.Fatal(err)
	}
	if x, y := again.Table("app", "public", "regions"), again.Table("app", "public", "late"); again.FirstBuckets != 16 || x.Vindex.Buckets != 16 || y.Vindex.Buckets != 64 || y.IDs.Buckets != 64 {
		t.Errorf("%d at first, %+v, %+v", again.FirstBuckets, x, y)
	}
	sameShardsOf(t, a, again.For("app"), rand.New(rand.NewPCG(5, 6)))
	if lines := Diff(old, next); !slices.Contains(lines, "~ 16 buckets -> 64") || strings.Contains(strings.Join(lines, "\n"), "move") {
		t.Errorf("%q", lines)
	}
}

// zoneID is the keyspace ID of a key of the table that names buckets.
func zoneID(t *testing.T, s *Snapshot, key int64) vindex.ID {
	t.Helper()
	v, err := s.Table("app", "public", "regions").NewVindex(s.BucketCount)
	if err != nil {
		t.Fatal(err)
	}
	id, err := v.(vindex.Computed).ID([]datum.Key{datum.IntegerKey(key)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sameShardsOf compares where IDs are: random ones, ends of buckets, and isolated ones with their neighbours.
func sameShardsOf(t *testing.T, a, b *Snapshot, r *rand.Rand) {
	t.Helper()
	var ids []vindex.ID
	for range 200 {
		ids = append(ids, vindex.ID(r.Uint64()))
	}
	for i := range b.BucketCount {
		in := vindex.Within(i, bitsOf(b.BucketCount))
		ids = append(ids, in.First, in.Last)
	}
	for _, own := range []map[vindex.ID]int{a.own, b.own} {
		for id := range own {
			ids = append(ids, id-1, id, id+1)
		}
	}
	for _, id := range ids {
		x, y := a.Shards[a.Placement[a.BucketOf(id)]].Name, b.Shards[b.Placement[b.BucketOf(id)]].Name
		if x != y {
			t.Fatalf("ID %x was in bucket %d on %s and is in bucket %d on %s", id, a.BucketOf(id), x, b.BucketOf(id), y)
		}
	}
}

func bitsOf(n int) int {
	b, err := vindex.Bits(n)
	if err != nil {
		panic(err)
	}
	return b
}

// TestGrowRefuses: no other number, and no other change with it.
func TestGrowRefuses(t *testing.T) {
	old := sample()
	old.Tables = declared()
	for _, n := range []int{-16, 0, 1, 8, 15, 16, 24, 48, 1 << 17} {
		next := old.Clone()
		if err := Grow(next, n); !errors.Is(err, ErrBucketCount) {
			t.Errorf("%d buckets: %v", n, err)
		}
		if next.BucketCount != 16 || len(next.Placement) != 16 {
			t.Errorf("%d buckets: the snapshot has changed", n)
		}
	}
	full := old.Clone()
	if err := Grow(full, MaxBucketCount); err != nil {
		t.Fatal(err)
	}
	if err := Successor(old, full); err != nil {
		t.Error(err)
	}
	busy := old.Clone()
	busy.Moves = []Move{{ID: "m", Database: "app", Kind: MoveBuckets, Proxy: "p", State: MoveRunning}}
	if err := Grow(busy.Clone(), 32); err == nil {
		t.Error("it grows while a job runs")
	}
	made := old.Clone()
	if _, err := made.Isolate("app", 5); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Snapshot){
		"a bucket moves": func(s *Snapshot) { s.Placement[3] = 1 - s.Placement[3] },
		"a database's moves": func(s *Snapshot) {
			s.SetPlacement("app", "", append(slices.Clone(s.Placement[:32]), 1-s.Placement[32]))
		},
		"an isolated one moves": func(s *Snapshot) { s.Placement[32] = 1 - s.Placement[32] },
		"another own bucket":    func(s *Snapshot) { s.Isolated["app"][6] = s.Isolated["app"][5]; delete(s.Isolated["app"], 5) },
		"a pin":                 func(s *Snapshot) { s.Pins = []Pin{{First: 0, Last: 0, Shard: s.Shards[s.Placement[0]].Name}} },
		"a table":               func(s *Snapshot) { s.DropTable("app", "public", "items") },
		"a table's vindex":      func(s *Snapshot) { s.Tables[0].Vindex.Buckets = 16 },
		"a shard":               func(s *Snapshot) { s.Shards[0].Weight = 3 },
		"a job": func(s *Snapshot) {
			s.Moves = []Move{{ID: "m", Database: "app", Kind: MoveBuckets, Proxy: "p", State: MoveRunning}}
		},
		"not remapped":       func(s *Snapshot) { delete(s.Remapped, "app") },
		"numbers of entries": func(s *Snapshot) { s.FirstBuckets = 8 },
		"no numbers":         func(s *Snapshot) { s.FirstBuckets = 0 },
	} {
		next := made.Clone()
		if err := Grow(next, 32); err != nil {
			t.Fatal(err)
		}
		if edit(next); Successor(made, next) == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	grownTo := made.Clone()
	if err := Grow(grownTo, 32); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*Snapshot){
		"fewer":          func(s *Snapshot) { *s = *made.Clone() },
		"other numbers":  func(s *Snapshot) { s.FirstBuckets = 8 },
		"lost numbers":   func(s *Snapshot) { s.FirstBuckets = 0 },
		"odd numbers":    func(s *Snapshot) { s.FirstBuckets = 12 },
		"zones of 3":     func(s *Snapshot) { s.Tables[0].Vindex.Buckets = 3 },
		"zones of more":  func(s *Snapshot) { s.Tables[0].Vindex.Buckets = 64 },
		"ids of nothing": func(s *Snapshot) { s.Tables[0].IDs = RoutedIDs{Column: "n", From: 1 << 32, Buckets: 5} },
	} {
		next := grownTo.Clone()
		if edit(next); Successor(grownTo, next) == nil {
			t.Errorf("%s: allowed", name)
		}
	}
}

// TestNumbering: entries have the numbers of the first buckets, and of own buckets behind those.
func TestNumbering(t *testing.T) {
	n := Numbering{First: 16, Count: 64}
	if n.Default(0x7a<<56) != 7 || n.Bucket(7, 0x7a<<56) != 0x7a>>2 || n.Bucket(6, 0x7a<<56) != -1 || n.Bucket(-1, 0) != -1 {
		t.Error("entries in a bucket with others")
	}
	if n.Own(64) != 16 || n.Bucket(16, 0) != 64 || !n.IsOwn(16) || n.IsOwn(15) {
		t.Error("entries with a bucket of their own")
	}
	if n.OfEntry(0x7a<<56) != 28 || n.Noted(7) != 28 {
		t.Error("entries of lookup tables")
	}
	if got := n.Grown([]int{0, 5, 33}, 32); !slices.Equal(got, []int{0, 1, 10, 11, 65}) {
		t.Errorf("%v", got)
	}
	if got := n.Grown([]int{0, 65}, 64); !slices.Equal(got, []int{0, 65}) {
		t.Errorf("%v", got)
	}
	same := Numbering{First: 16, Count: 16}
	if same.Bucket(6, 0x7a<<56) != 6 || same.Own(17) != 17 || same.Noted(7) != 7 || same.OfEntry(0x7a<<56) != 7 {
		t.Error("a cluster that has not grown")
	}
}

// FuzzGrow: every keyspace ID is on the same shard before and after, in every database, and entries of
// values and of lookup tables lead to the same shards.
func FuzzGrow(f *testing.F) {
	f.Add(uint8(4), uint8(1), uint64(1), []byte{1, 2, 3})
	f.Add(uint8(0), uint8(16), uint64(2), []byte{})
	f.Add(uint8(8), uint8(3), uint64(3), bytes.Repeat([]byte{9, 200, 31}, 20))
	f.Fuzz(func(t *testing.T, n, by uint8, seed uint64, edits []byte) {
		n, by = n%9, 1+by%3
		r := rand.New(rand.NewPCG(seed, 7))
		s := New(1<<n, "a", []Shard{{Name: "a", Hosts: []string{"h:1"}, Weight: 1}, {Name: "b", Hosts: []string{"h:2"}, Weight: 2}, {Name: "c", Hosts: []string{"h:3"}, Weight: 1}})
		s.Tables = declared()
		s.Entries = NewEntries()
		type value struct {
			key string
			id  vindex.ID
		}
		var values []value
		for i, e := range edits {
			id := vindex.ID(r.Uint64())
			switch b := r.IntN(1 << n); e % 6 {
			case 0:
				s.Placement[b] = uint16(r.IntN(3))
			case 1:
				p := slices.Clone(s.PlacementOf("app", ""))
				p[b] = uint16(r.IntN(3))
				s.SetPlacement("app", "", p)
			case 2, 3:
				own, err := s.Isolate([]string{"app", "other"}[e%2], id)
				if err != nil {
					t.Fatal(err)
				}
				if e > 128 {
					s.Placement[own] = uint16(r.IntN(3))
				}
			case 4:
				own, err := s.OwnBucket("tenants", []string{"a", "b", "c"}[r.IntN(3)])
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value{string(rune('a' + i)), id})
				s.Entries.Put("tenants", []byte(values[len(values)-1].key), NumberingOf(s).Own(own), 1)
				if e > 200 {
					s.FreeBuckets([]int{own})
				}
			case 5:
				values = append(values, value{string(rune('a' + i)), id})
				s.Entries.Put("tenants", []byte(values[len(values)-1].key), NumberingOf(s).Default(id), 1)
			}
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		next := s.Clone()
		if err := Grow(next, s.BucketCount<<by); err != nil {
			t.Fatal(err)
		}
		if err := Successor(s, next); err != nil {
			t.Fatal(err)
		}
		for _, db := range []string{"app", "other", "third"} {
			a, b := s.For(db), next.For(db)
			sameShardsOf(t, a, b, r)
			sameShardsOf(t, a, b.PlacedAs(a), r)
			if !PlacesIn(b).Same(a) || !PlacesIn(a).Same(b) || db == "app" && PlacesIn(a).Name() != PlacesIn(b).Name() || PlacesIn(b).Left(a, nil) {
				t.Fatalf("%s: places differ", db)
			}
			for _, v := range values {
				x, ok := a.Entry("tenants", []byte(v.key), v.id)
				y, still := b.Entry("tenants", []byte(v.key), v.id)
				if ok != still || (x < 0) != (y < 0) || x >= 0 && a.Placement[x] != b.Placement[y] {
					t.Fatalf("%s: value in bucket %d, %v, and then in %d, %v", db, x, ok, y, still)
				}
			}
			for range 50 {
				id := vindex.ID(r.Uint64())
				if x, y := NumberingOf(a).OfEntry(id), NumberingOf(b).OfEntry(id); a.Placement[x] != b.Placement[y] || NumberingOf(b).Default(id) != NumberingOf(a).Default(id) {
					t.Fatalf("%s: the entry of ID %x was in bucket %d and is in %d", db, id, x, y)
				}
			}
		}
	})
}
