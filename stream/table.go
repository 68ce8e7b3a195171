package stream

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"

	"weft/pgerr"
)

// table numbers byte strings in the order they come, from 0. It has its own
// copies. Looking for one that is there allocates nothing.
type table struct {
	seed    maphash.Seed
	slots   []uint32 // numbers plus 1, 0 where free; a power of two of them
	entries []entry
	chunk   []byte // memory for the next keys
	bytes   int64  // of all keys' memory
}

type entry struct {
	hash uint64
	key  []byte
}

const (
	firstSlots = 64
	firstChunk = 1 << 10
	lastChunk  = 64 << 10

	entryBytes = 32
	slotBytes  = 4
)

func newTable() *table {
	return &table{seed: maphash.MakeSeed(), slots: make([]uint32, firstSlots)}
}

// add returns the number of the key and whether it is new.
func (t *table) add(key []byte) (n int, added bool) {
	hash := maphash.Bytes(t.seed, key)
	mask := uint64(len(t.slots) - 1)
	at := hash & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		e := &t.entries[t.slots[at]-1]
		if e.hash == hash && bytes.Equal(e.key, key) {
			return int(t.slots[at] - 1), false
		}
	}
	t.entries = append(t.entries, entry{hash, t.keep(key)})
	t.slots[at] = uint32(len(t.entries))
	if len(t.entries) > len(t.slots)/4*3 {
		t.grow()
	}
	return len(t.entries) - 1, true
}

// keep copies the key into a chunk, or if it would take most of one, into
// memory of its own.
func (t *table) keep(key []byte) []byte {
	if len(key) > len(t.chunk) {
		if len(key) > lastChunk/4 {
			t.bytes += int64(len(key))
			return slices.Clone(key)
		}
		n := min(max(firstChunk, int(t.bytes)), lastChunk)
		n = max(n, len(key))
		t.chunk = make([]byte, n)
		t.bytes += int64(n)
	}
	kept := t.chunk[:len(key):len(key)]
	t.chunk = t.chunk[len(key):]
	copy(kept, key)
	return kept
}

func (t *table) grow() {
	t.slots = make([]uint32, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	for i, e := range t.entries {
		at := e.hash & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = uint32(i + 1)
	}
}

// size is how much memory the table takes.
func (t *table) size() int64 {
	return t.bytes + int64(cap(t.entries))*entryBytes + int64(len(t.slots))*slotBytes
}

// full reports whether the table cannot number another key.
func (t *table) full() bool { return len(t.entries) >= math.MaxUint32-1 }

func errGather() error {
	return pgerr.New(pgerr.ConfigurationLimitExceeded, "this statement gathers more than weft.max_gather_bytes").
		WithHint("Set weft.max_gather_bytes higher, or let the statement return less.")
}
