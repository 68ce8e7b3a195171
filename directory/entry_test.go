package directory

import (
	"fmt"
	"sync"
	"testing"
)

func TestEntry(t *testing.T) {
	s := sample()
	if _, ok := s.Entry("l", []byte("k"), 0); ok {
		t.Error("an entry without Entries")
	}
	e := NewEntries()
	e.Put("l", []byte("k"), 3, 10)
	e.Put("l", nil, 4, 10)
	e.Loaded()
	s.Entries, s.Version = e, 20
	look := func(key string, bucket int, ok bool) {
		t.Helper()
		if b, found := s.Entry("l", []byte(key), 0); b != bucket || found != ok {
			t.Errorf("%q: %d, %v; want %d, %v", key, b, found, bucket, ok)
		}
	}
	look("k", 3, true)
	look("", 4, true)
	look("x", 0, false)
	e.Put("l", []byte("k"), 5, 9) // old news
	look("k", 3, true)
	e.Put("l", []byte("k"), 5, 11)
	look("k", 5, true)
	e.Put("l", []byte("own"), 16, 20) // no such bucket
	look("own", -1, true)
	e.Put("l", []byte("new"), 16, 21) // no such bucket yet
	look("new", 0, false)
	s.Placement = append(s.Placement, 1)
	look("own", 16, true)
	s.Placement[16] = Unused
	look("own", -1, true)
	e.Put("l", []byte("bad"), -1, 22)
	look("bad", -1, true)
	if n := e.Count("l"); n != 5 {
		t.Errorf("%d entries", n)
	}
	e.Delete("l", []byte("k"), 30)
	e.Delete("l", []byte("k"), 30)
	e.Delete("l", []byte("none"), 30)
	look("k", 0, false)
	e.Put("l", []byte("k"), 3, 25) // was put before it was deleted, heard of later
	look("k", 0, false)
	e.Put("l", []byte("k"), 3, 31)
	look("k", 3, true)
	if n, none := e.Count("l"), e.Count("m"); n != 5 || none != 0 {
		t.Errorf("%d and %d entries", n, none)
	}
}

// Readers go on while entries come and go.
func TestEntriesConcurrently(t *testing.T) {
	s := sample()
	s.Entries = NewEntries()
	s.Entries.Loaded()
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 2000 {
				k := fmt.Append(nil, w, i%100)
				s.Entries.Put(fmt.Sprint("l", w), k, i%16, int64(2*i))
				if i%7 == 0 {
					s.Entries.Delete(fmt.Sprint("l", w), k, int64(2*i+1))
				}
			}
		})
	}
	for r := range 2 {
		wg.Go(func() {
			for i := range 5000 {
				if b, ok := s.Entry(fmt.Sprint("l", r), fmt.Append(nil, r, i%100), 0); ok && (b < 0 || b > 15) {
					t.Errorf("bucket %d", b)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkEntry(b *testing.B) {
	s := sample()
	s.Entries = NewEntries()
	for i := range 100_000 {
		s.Entries.Put("tenants", fmt.Append(nil, i), i%16, 1)
	}
	s.Entries.Loaded()
	key := []byte("4711")
	b.ReportAllocs()
	for b.Loop() {
		s.Entry("tenants", key, 0)
	}
}
