package memo

import (
	"fmt"
	"sync"
	"testing"
)

func put(t *Table[*int], k Key, v int) { t.Put(&k, &v, 8) }

func get(t *Table[*int], k Key) int {
	if v, ok := t.Get(&k); ok {
		return *v
	}
	return -1
}

// Every part of a key tells it from others, wherever one part ends and the next begins.
func TestKeysAreKeptApart(t *testing.T) {
	table := New[*int](1 << 20)
	keys := []Key{
		{Text: []byte("abc")},
		{Tag: 1, Text: []byte("abc")},
		{Tag: 2, Text: []byte("abc")},
		{Text: []byte("ab"), More: []byte("c")},
		{Text: []byte("a"), More: []byte("bc")},
		{More: []byte("abc")},
		{},
		{Tag: 1},
	}
	for i, k := range keys {
		if got := get(table, k); got != -1 {
			t.Fatalf("key %d finds %d before it was put", i, got)
		}
		put(table, k, i)
	}
	for i, k := range keys {
		if got := get(table, k); got != i {
			t.Errorf("key %d finds %d", i, got)
		}
	}
	put(table, keys[3], 33)
	if got := get(table, keys[3]); got != 33 {
		t.Errorf("a value that was put again is %d", got)
	}
}

// Two keys of one hash are two keys.
func TestHashesMayCollide(t *testing.T) {
	table := New[*int](1 << 20)
	one, two := 1, 2
	a, b := Key{Text: []byte("a")}, Key{Text: []byte("b")}
	table.put(7, &a, &one, 8)
	table.put(7, &b, &two, 8)
	for k, want := range map[string]int{"a": 1, "b": 2} {
		if v, ok := table.get(7, &Key{Text: []byte(k)}); !ok || *v != want {
			t.Errorf("%s: %v", k, v)
		}
	}
}

func TestKeyBytesBelongToTheCaller(t *testing.T) {
	table := New[*int](1 << 20)
	text := []byte("abc")
	put(table, Key{Text: text, More: text[:1]}, 1)
	text[0] = 'x'
	if got := get(table, Key{Text: []byte("abc"), More: []byte("a")}); got != 1 {
		t.Errorf("got %d", got)
	}
}

// What is asked for stays, what nobody asks for goes, and the bound holds whatever the sizes are.
func TestOldTagsAgeOut(t *testing.T) {
	const limit = 1 << 20
	table := New[*int](limit)
	hot := Key{Tag: 9, Text: []byte("hot")}
	put(table, hot, 1)
	lost := 0
	key := func(tag, i int) Key { return Key{Tag: uint64(tag), Text: fmt.Appendf(nil, "text %d", i)} }
	for tag := range 20 {
		for i := range 1000 {
			k := key(tag, i)
			v := i
			table.Put(&k, &v, int64(i%700))
			if get(table, hot) < 0 {
				lost++
				put(table, hot, 1)
			}
		}
		if n := table.Bytes(); n > limit {
			t.Fatalf("holds %d bytes of %d", n, limit)
		}
	}
	left := 0
	for i := range 1000 {
		if get(table, key(0, i)) >= 0 {
			left++
		}
	}
	// The seed of the hash is random: now and then few keys fall into a set, and one of
	// the oldest is still there.
	if left > 10 {
		t.Errorf("%d entries of a tag that nobody asked for since are still there", left)
	}
	if lost > 20 {
		t.Errorf("an entry in use was thrown out %d times", lost)
	}
	huge := Key{Text: []byte("huge")}
	v := 1
	table.Put(&huge, &v, limit)
	if get(table, huge) >= 0 {
		t.Error("a value larger than the table was kept")
	}
}

func TestHitDoesNotAllocate(t *testing.T) {
	table := New[*int](1 << 20)
	k := Key{Tag: 3, Text: []byte("SELECT 1"), More: []byte{0, 1, 2}}
	put(table, k, 1)
	if n := testing.AllocsPerRun(100, func() { table.Get(&k) }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

func TestManyWritersAndReaders(t *testing.T) {
	table := New[*int](64 << 10)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 3000 {
				n := (i*7 + g) % 500
				k := Key{Tag: uint64(n % 3), Text: fmt.Appendf(nil, "%d", n)}
				if got := get(table, k); got >= 0 && got != n {
					t.Errorf("%d finds %d", n, got)
				}
				put(table, k, n)
			}
		})
	}
	wg.Wait()
}
