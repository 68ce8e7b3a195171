package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/vindex"
)

// Tenants declares a table with a lookup called tenants.
func Tenants(old *directory.Snapshot) (*directory.Snapshot, error) {
	next := old.Clone()
	next.PutTable(directory.Table{
		Database: "app", Schema: "public", Name: "accounts", Kind: directory.Sharded,
		Columns: []directory.Column{{Name: "tenant", Type: 20, TypeName: "bigint", Mod: -1}},
		Vindex:  directory.Vindex{Kind: "lookup_unique", Name: "tenants"},
	})
	return next, nil
}

// follow returns a Current of s that runs until the test ends.
func follow(t *testing.T, s directory.Store) *directory.Current {
	t.Helper()
	cur := directory.NewCurrent(s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- cur.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if _, err := cur.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return cur
}

func lookups(t *testing.T, s directory.Store) directory.Lookups {
	t.Helper()
	Create(t, s)
	if _, err := s.Update(t.Context(), Tenants); err != nil {
		t.Fatal(err)
	}
	l, ok := s.(directory.Lookups)
	if !ok {
		t.Skip("this store keeps no lookup entries")
	}
	return l
}

func key(n int) []byte { return fmt.Append(nil, n) }

// eventually waits for what a watch brings.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

func testEntries(t *testing.T, s directory.Store) {
	l := lookups(t, s)
	one, two := follow(t, s), follow(t, s)
	if _, ok := one.Snapshot().Entry("tenants", key(1), 0); ok {
		t.Error("an entry before there is one")
	}
	got, err := l.PutEntries(t.Context(), "tenants", []directory.Entry{{Key: key(1), Bucket: 11}, {Key: key(2), Bucket: 12}, {Key: key(1), Bucket: 13}, {Key: []byte{}, Bucket: 14}})
	if err != nil || len(got) != 4 || got[0].Bucket != 11 || got[1].Bucket != 12 || got[2].Bucket != 11 || got[3].Bucket != 14 || got[0].Revision == 0 {
		t.Fatalf("first: %+v, %v", got, err)
	}
	again, err := l.PutEntries(t.Context(), "tenants", []directory.Entry{{Key: key(1), Bucket: 21}, {Key: key(3), Bucket: 23}})
	if err != nil || again[0].Bucket != 11 || again[0].Revision != got[0].Revision || again[1].Bucket != 23 {
		t.Errorf("second: %+v, %v", again, err)
	}
	// Of many who place a value, one wins, and all know it at once.
	var mu sync.Mutex
	places := map[int]int{}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			cur := []*directory.Current{one, two}[i%2]
			b, err := cur.Place(t.Context(), "tenants", key(4), in(30+i))
			if err != nil {
				t.Error(err)
			}
			if known, ok := cur.Snapshot().Entry("tenants", key(4), 0); !ok || known != b {
				t.Errorf("placed in %d, known as %d, %v", b, known, ok)
			}
			mu.Lock()
			places[b]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(places) != 1 {
		t.Errorf("one value has the places %v", places)
	}
	for _, cur := range []*directory.Current{one, two, follow(t, s)} {
		eventually(t, "all entries", func() bool { return cur.Snapshot().Entries.Count("tenants") == 5 })
		snap := cur.Snapshot()
		for k, want := range map[string]int{"1": 11, "2": 12, "3": 23, "": 14} {
			if b, ok := snap.Entry("tenants", []byte(k), 0); !ok || b != want {
				t.Errorf("entry %q: %d, %v", k, b, ok)
			}
		}
		for _, n := range []string{"", "tenant", "tenants2"} {
			if _, ok := snap.Entry(n, key(1), 0); ok {
				t.Errorf("lookup %q has an entry", n)
			}
		}
	}
	if n, err := l.CountEntries(t.Context(), "tenants"); n != 5 || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
	for _, bad := range []struct{ name, key string }{{"", "1"}, {"a/b", "1"}, {"tenants", strings.Repeat("x", 2000)}} {
		if _, err := l.PutEntries(t.Context(), bad.name, []directory.Entry{{Key: []byte(bad.key)}}); err == nil {
			t.Errorf("%q of lookup %q was taken", bad.key, bad.name)
		}
	}
}

// testBrokenEntry: an entry that points nowhere is told apart from none.
func testBrokenEntry(t *testing.T, s directory.Store) {
	l := lookups(t, s)
	early := follow(t, s)
	if _, err := l.PutEntries(t.Context(), "tenants", []directory.Entry{{Key: key(1), Bucket: 64}, {Key: key(2), Bucket: 63}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(t.Context(), SetHost("elsewhere:1")); err != nil { // a version after the entry
		t.Fatal(err)
	}
	for _, cur := range []*directory.Current{early, follow(t, s)} {
		eventually(t, "both entries", func() bool { return cur.Snapshot().Entries.Count("tenants") == 2 })
		eventually(t, "a broken entry", func() bool { b, ok := cur.Snapshot().Entry("tenants", key(1), 0); return ok && b < 0 })
		if b, ok := cur.Snapshot().Entry("tenants", key(2), 0); !ok || b != 63 {
			t.Errorf("the one beside it: %d, %v", b, ok)
		}
		if b, err := cur.Place(t.Context(), "tenants", key(1), in(5)); err == nil || !strings.Contains(err.Error(), "bucket 64, which does not exist") {
			t.Errorf("placed in %d, %v", b, err)
		}
	}
}

func testPin(t *testing.T, s directory.Store) {
	l := lookups(t, s)
	one, two := follow(t, s), follow(t, s)
	if _, err := one.Place(t.Context(), "tenants", key(1), in(3)); err != nil {
		t.Fatal(err)
	}
	if did, err := one.Pin(t.Context(), "tenants", key(1), "b"); did || err != nil {
		t.Errorf("a value with a place: %v, %v", did, err)
	}
	if _, _, err := l.PinEntry(t.Context(), "tenants", key(1), "b"); !errors.Is(err, directory.ErrPlaced) {
		t.Errorf("a value with a place: %v", err)
	}
	if _, err := one.Pin(t.Context(), "tenants", key(2), "z"); err == nil || !strings.Contains(err.Error(), `"z" is not one of the shards`) {
		t.Errorf("an unknown shard: %v", err)
	}
	if _, err := one.Pin(t.Context(), "tenant", key(2), "b"); err == nil || !strings.Contains(err.Error(), `no table has a lookup called "tenant"`) {
		t.Errorf("an unknown lookup: %v", err)
	}
	if n := len(one.Snapshot().Placement); n != 64 {
		t.Fatalf("%d buckets after pins that failed", n)
	}
	// A value with a place gets another bucket together with a change of the snapshot.
	move := func(old *directory.Snapshot, bucket int) (*directory.Snapshot, int, error) {
		next := old.Clone()
		if bucket >= 0 {
			t.Errorf("a value in a bucket with others is in bucket %d of its own", bucket)
		}
		b, err := next.Unpool("tenants", 3)
		return next, b, err
	}
	if err := one.Repin(t.Context(), "tenants", key(2), move); err == nil || !strings.Contains(err.Error(), "has none") {
		t.Errorf("a value without a place: %v", err)
	}
	if err := one.Repin(t.Context(), "tenants", key(1), func(*directory.Snapshot, int) (*directory.Snapshot, int, error) { return nil, 0, errors.New("not now") }); err == nil {
		t.Error("a change that fails is made")
	}
	if err := one.Repin(t.Context(), "tenants", key(1), move); err != nil {
		t.Fatal(err)
	}
	if b, ok := one.Snapshot().Entry("tenants", key(1), 0); !ok || b != 64 || one.Snapshot().Placement[64] != one.Snapshot().Placement[3] || one.Snapshot().Remapped["app"] == 0 {
		t.Errorf("bucket %d, %v", b, ok)
	}
	if own, err := two.Pinned(t.Context(), "tenants", one.Snapshot()); err != nil || len(own) != 1 || own[string(key(1))] != 64 {
		t.Errorf("pinned %v, %v", own, err)
	}
	// Pins at the same time each get a bucket; the same value once.
	var wg sync.WaitGroup
	var mu sync.Mutex
	placed := 0
	for i := range 12 {
		wg.Go(func() {
			did, err := []*directory.Current{one, two}[i%2].Pin(t.Context(), "tenants", key(10+i%6), []string{"a", "b"}[i%6%2])
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if !did {
				placed++
			}
		})
	}
	wg.Wait()
	if placed != 6 {
		t.Errorf("%d of 12 pins of 6 values were refused", placed)
	}
	snap, err := s.Load(t.Context())
	if err != nil || len(snap.Placement) != 71 {
		t.Fatalf("placement %v, %v", snap.Placement, err)
	}
	for _, cur := range []*directory.Current{one, two, follow(t, s)} {
		snap, err := cur.Reach(t.Context(), snap.Version)
		if err != nil {
			t.Fatal(err)
		}
		own := map[int]bool{}
		for i := range 6 {
			// No waiting: a proxy that serves the version knows the entry.
			b, ok := snap.Entry("tenants", key(10+i), 0)
			if !ok || b < 64 || own[b] {
				t.Fatalf("pinned value %d: bucket %d, %v", i, b, ok)
			}
			own[b] = true
			if got, want := snap.Shards[snap.Placement[b]].Name, []string{"a", "b"}[i%2]; got != want {
				t.Errorf("value %d is on %s, pinned to %s", i, got, want)
			}
			if again, err := cur.Place(t.Context(), "tenants", key(10+i), in(7)); err != nil || again != b {
				t.Errorf("placed in %d, pinned in %d, %v", again, b, err)
			}
		}
	}
	testGrow(t, s, l, one, two)
	testDrop(t, s, l, one)
}

// testGrow: entries are found when the cluster has more buckets, also by who does not know that yet.
func testGrow(t *testing.T, s directory.Store, l directory.Lookups, one, two *directory.Current) {
	t.Helper()
	if b, err := one.Place(t.Context(), "tenants", key(20), in(5)|1<<57); err != nil || b != 5 {
		t.Fatalf("placed in %d, %v", b, err)
	}
	old := one.Snapshot()
	grown, err := s.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		return next, directory.Grow(next, 256)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, cur := range []*directory.Current{one, two, follow(t, s)} {
		snap, err := cur.Reach(t.Context(), grown.Version)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 6 {
			was, _ := old.Entry("tenants", key(10+i), 0)
			b, ok := snap.Entry("tenants", key(10+i), 0)
			if !ok || b != was+192 || snap.Placement[b] != old.Placement[was] {
				t.Errorf("pinned value %d was in bucket %d and is in %d, %v", i, was, b, ok)
			}
		}
		eventually(t, "an entry in a bucket with others", func() bool {
			b, ok := snap.Entry("tenants", key(20), in(5)|1<<57)
			return ok && b == 22
		})
	}
	// A proxy with an old snapshot and one with the new make entries, and know each other's.
	keys, ids := [][]byte{key(21), key(22)}, []vindex.ID{in(7) | 3<<56, in(63)}
	if b, err := one.Ensure(t.Context(), directory.NumberingOf(old), "tenants", keys[:1], ids[:1]); err != nil || b[0] != 7 {
		t.Errorf("placed in %v, %v", b, err)
	}
	if b, err := two.Ensure(t.Context(), directory.NumberingOf(grown), "tenants", keys, ids); err != nil || b[0] != 31 || b[1] != 252 {
		t.Errorf("placed in %v, %v", b, err)
	}
	eventually(t, "the entry of a newer proxy", func() bool { b, ok := old.Entry("tenants", key(22), ids[1]); return ok && b == 63 })
	if did, err := two.Pin(t.Context(), "tenants", key(23), "a"); !did || err != nil {
		t.Fatalf("%v, %v", did, err)
	}
	snap := two.Snapshot()
	b, ok := snap.Entry("tenants", key(23), 0)
	if !ok || b < 256 || snap.Shards[snap.Placement[b]].Name != "a" {
		t.Errorf("pinned in %d, %v", b, ok)
	}
	if own, err := one.Pinned(t.Context(), "tenants", snap); err != nil || own[string(key(23))] != b {
		t.Errorf("pinned %v, %v", own, err)
	}
	err = one.Repin(t.Context(), "tenants", key(23), func(old *directory.Snapshot, bucket int) (*directory.Snapshot, int, error) {
		if bucket != b {
			t.Errorf("pinned in %d, not in %d", bucket, b)
		}
		next := old.Clone()
		return next, bucket, nil
	})
	if err != nil {
		t.Error(err)
	}
	if again, ok := one.Snapshot().Entry("tenants", key(23), 0); !ok || again != b {
		t.Errorf("pinned in %d, %v", again, ok)
	}
}

// in returns a keyspace ID of one of 64 buckets.
func in(bucket int) vindex.ID { return vindex.ID(bucket) << 58 }

func testDrop(t *testing.T, s directory.Store, l directory.Lookups, cur *directory.Current) {
	t.Helper()
	if err := l.DropEntries(t.Context(), "tenants"); err == nil || !strings.Contains(err.Error(), "is declared") {
		t.Errorf("entries of a declared lookup: %v", err)
	}
	if _, err := l.PutEntries(t.Context(), "tenants2", []directory.Entry{{Key: key(1), Bucket: 9}}); err != nil {
		t.Fatal(err)
	}
	drop := func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.DropTable("app", "public", "accounts")
		return next, nil
	}
	if _, err := s.Update(t.Context(), drop); err != nil {
		t.Fatal(err)
	}
	if err := l.DropEntries(t.Context(), "tenants"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no entries", func() bool { return cur.Snapshot().Entries.Count("tenants") == 0 })
	eventually(t, "no own buckets", func() bool { return len(cur.Snapshot().Placement) == cur.Snapshot().BucketCount })
	if _, ok := cur.Snapshot().Entry("tenants", key(10), 0); ok {
		t.Error("a dropped entry is still there")
	}
	if b, ok := cur.Snapshot().Entry("tenants2", key(1), in(9)); !ok || b != 36 {
		t.Errorf("another lookup's entry: %d, %v", b, ok)
	}
	// The name may be used again.
	if _, err := s.Update(t.Context(), Tenants); err != nil {
		t.Fatal(err)
	}
	if b, err := cur.Place(t.Context(), "tenants", key(10), in(5)); err != nil || b != 20 {
		t.Errorf("placed anew in %d, %v", b, err)
	}
}

func testManyEntries(t *testing.T, s directory.Store) {
	const n = manyEntries
	l := lookups(t, s)
	early := follow(t, s)
	want := make([]directory.Entry, n)
	for i := range want {
		want[i] = directory.Entry{Key: key(i), Bucket: i % 64}
	}
	began := time.Now()
	if _, err := l.PutEntries(t.Context(), "tenants", want); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d entries were made in %v", n, time.Since(began))
	began = time.Now()
	late := follow(t, s)
	t.Logf("and loaded in %v", time.Since(began))
	if got := late.Snapshot().Entries.Count("tenants"); got != n {
		t.Errorf("%d entries were loaded", got)
	}
	eventually(t, "entries watched", func() bool { return early.Snapshot().Entries.Count("tenants") == n })
	for _, cur := range []*directory.Current{early, late} {
		snap := cur.Snapshot()
		for i := 0; i < n; i += 997 {
			if b, ok := snap.Entry("tenants", key(i), 0); !ok || b != i%64 {
				t.Fatalf("entry %d: %d, %v", i, b, ok)
			}
		}
		k := key(4711)
		if a := testing.AllocsPerRun(100, func() { snap.Entry("tenants", k, 0) }); a != 0 {
			t.Errorf("reading an entry allocates %v times", a)
		}
	}
	began = time.Now()
	for i := range 10 {
		if _, err := late.Place(t.Context(), "tenants", key(n+i), in(1)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("another one in %v", time.Since(began)/10)
}
