package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weft/directory"
)

// testBig: as many tables and buckets as a cluster may have, fewer tables with the race detector.
func testBig(t *testing.T, s directory.Store) {
	const tables = manyTables
	var shards []directory.Shard
	for i := range 64 {
		shards = append(shards, directory.Shard{Name: fmt.Sprintf("shard-%d", i), Hosts: []string{fmt.Sprintf("h%d:5432", i)}, Weight: 1})
	}
	first := directory.New(directory.MaxBucketCount, "shard-0", shards)
	for i := range tables {
		first.Tables = append(first.Tables, directory.Table{
			Database: "app", Schema: "public", Name: fmt.Sprintf("table_with_a_long_name_%05d", i), Kind: directory.Sharded,
			Columns: []directory.Column{{Name: "customer_id", Type: 20, TypeName: "bigint", Mod: -1}}, Vindex: directory.Vindex{Kind: "hash"},
		})
	}
	made, err := s.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) { return first, nil })
	if err != nil {
		t.Fatal(err)
	}
	cur := follow(t, s)
	if got := cur.Snapshot(); got.Version != made.Version || len(got.Tables) != tables || !slices.Equal(got.Placement, first.Placement) {
		t.Errorf("loaded %d tables, %d buckets", len(got.Tables), len(got.Placement))
	}
	for what, change := range map[string]func(*directory.Snapshot){
		"a schema": func(n *directory.Snapshot) { n.Schemas = map[string]int64{"app": n.Schemas["app"] + 1} },
		"a table": func(n *directory.Snapshot) {
			n.PutTable(directory.Table{Database: "app", Schema: "public", Name: fmt.Sprint("new_", len(n.Tables)), Kind: directory.Reference})
		},
	} {
		best := time.Hour
		for range 5 {
			began := time.Now()
			snap, err := s.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
				next := old.Clone()
				change(next)
				return next, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := cur.Reach(t.Context(), snap.Version)
			if err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
			if lines := directory.Diff(snap, got); len(lines) != 0 || got.Schemas["app"] != snap.Schemas["app"] {
				t.Fatalf("%s came as %v", what, lines)
			}
		}
		t.Logf("a change of %s among %d arrives after %v at best", what, tables, best)
	}
	if got, err := s.Load(t.Context()); err != nil || len(got.Tables) != tables+5 {
		t.Errorf("loaded %+v, %v", got, err)
	}
}
