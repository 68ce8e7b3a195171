package executor

import (
	"slices"
	"strconv"
	"testing"

	"weft/datum"
	"weft/plan"
	"weft/vindex"
)

// TestIsolated: rows of an isolated value are found by their own bucket, whichever way leads to them.
func TestIsolated(t *testing.T) {
	const buckets = 16
	plain := cluster(buckets, 4)
	table := declare(t, "hash", nil, buckets, column{"id", datum.Int8})
	id := vindex.ID(vindex.Hash(datum.IntegerKey(42)))
	top := plain.TopBucket(id)
	moved := plain.Clone()
	own, err := moved.Isolate("app", id)
	if err != nil {
		t.Fatal(err)
	}
	there := (plain.Placement[top] + 1) % 4
	moved.Placement[own] = there
	view := moved.For("app")
	var b Binder
	b.Noting = true
	check := func(what string, p *plan.Plan, a *Args, want ...int) {
		t.Helper()
		got, err := b.Bind(p, view, a)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		slices.Sort(want)
		want = slices.Compact(want)
		if list := slices.Collect(got.All()); !slices.Equal(list, want) {
			t.Errorf("%s: shards %v, want %v", what, list, want)
		}
	}
	old := int(plain.Placement[top])
	check("by key", keyed(table, sets(set(lit(0)))), scanned(t, "select 42"), int(there))
	if touched, all := b.Touched(); all || !slices.Equal(touched, []int{own}) {
		t.Errorf("touched %v, %v", touched, all)
	}
	check("another key", keyed(table, sets(set(lit(0)))), scanned(t, "select 43"), int(plain.Placement[plain.TopBucket(vindex.ID(vindex.Hash(datum.IntegerKey(43))))]))
	check("both keys", keyed(table, sets(set(lit(0), lit(1)))), scanned(t, "select 42, 43"), int(there), int(plain.Placement[plain.TopBucket(vindex.ID(vindex.Hash(datum.IntegerKey(43))))]))

	// An id that names the old bucket may be of either.
	routed := keyed(table, nil)
	routed.Instances[0].IDs = []plan.Set{set(lit(0))}
	routed.Instances[0].Table = &plan.Table{Schema: "public", Name: "t", Vindex: table.Vindex, IDs: &plan.IDs{Column: "n", From: 1 << 10, Bits: 4}}
	check("by routed id", routed, scanned(t, "select "+strconv.Itoa(1<<12|top)), old, int(there))
	if touched, _ := b.Touched(); !slices.Contains(touched, own) || !slices.Contains(touched, top) {
		t.Errorf("a routed id touches %v", touched)
	}

	// A lookup table knows the keyspace ID of the row.
	k := &plan.LookupKey{}
	by := keyed(table, nil)
	by.Instances[0].Lookup = k
	check("by lookup", by, &Args{Found: map[*plan.LookupKey]*Found{k: {IDs: []vindex.ID{id}}}}, int(there))

	// Stored rows go there, and their routed ids name the old bucket.
	table.IDs = routed.Instances[0].Table.IDs
	p := NewPlacer(table, view)
	shard, bucket, _, err := p.Place([]datum.Value{datum.Literal([]byte("42"))})
	if err != nil || shard != int(there) || bucket != top {
		t.Errorf("placed on %d in %d, %v; want %d and %d", shard, bucket, err, there, top)
	}
	store := storing(table, sets(set(lit(0))))
	err = b.BindRows(store, view, scanned(t, "select 42"), 1, func(int) (*plan.Instance, []*datum.Value) { return &store.Instances[0], nil }, func(_ int, at Place, ok bool) {
		if !ok || at.Shard != int(there) || at.Bucket != top {
			t.Errorf("stored %+v, %v", at, ok)
		}
	})
	if err != nil {
		t.Error(err)
	}
	if n, known, err := b.Bucket(store, &store.Instances[0], view, scanned(t, "select 42")); err != nil || !known || n != top {
		t.Errorf("its id names %d, %v, %v", n, known, err)
	}

	// A part of a key is a range of IDs.
	two := declare(t, "composite", vindex.Params{"bits": "8"}, buckets, column{"a", datum.Int8}, column{"b", datum.Int8})
	c := two.Vindex.(vindex.Computed)
	full, err := c.ID([]datum.Key{datum.IntegerKey(1), datum.IntegerKey(2)})
	if err != nil {
		t.Fatal(err)
	}
	ranged := plain.Clone()
	own, err = ranged.Isolate("app", full)
	if err != nil {
		t.Fatal(err)
	}
	top = plain.TopBucket(full)
	there = (plain.Placement[top] + 1) % 4
	ranged.Placement[own] = there
	view = ranged.For("app")
	check("by a part of the key", keyed(two, sets(set(lit(0)))), scanned(t, "select 1"), int(plain.Placement[top]), int(there))
	check("by the whole key", keyed(two, sets(set(lit(0))), sets(set(lit(1)))), scanned(t, "select 1, 2"), int(there))
}
