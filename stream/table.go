package stream

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
)

// table numbers byte strings in the order they come, from 0. It has its own
// copies. Looking for one that is there allocates nothing.
type table struct {
	seed    maphash.Seed
	slots   []uint32 // numbers plus 1, 0 where free; a power of two of them
	entries []entry
	chunk   []byte // room for the next keys
	next    int    // size of the chunk after it
	memory  *memory
}

type entry struct {
	hash uint64
	key  []byte
}

const (
	firstSlots = 64
	firstChunk = 1 << 10
	lastChunk  = 64 << 10

	slotBytes = 4
)

func newTable(m *memory) *table {
	m.used += firstSlots * slotBytes
	return &table{seed: maphash.MakeSeed(), slots: make([]uint32, firstSlots), next: firstChunk, memory: m}
}

// add returns the number of the key and whether it is new. It is an error if
// that is one too many.
func (t *table) add(key []byte) (n int, added bool, err error) {
	hash := maphash.Bytes(t.seed, key)
	mask := uint64(len(t.slots) - 1)
	at := hash & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		e := &t.entries[t.slots[at]-1]
		if e.hash == hash && bytes.Equal(e.key, key) {
			return int(t.slots[at] - 1), false, nil
		}
	}
	if len(t.entries) >= math.MaxUint32-1 {
		return 0, false, errGather()
	}
	t.entries = extend(t.entries, entry{hash, t.keep(key)}, t.memory)
	t.slots[at] = uint32(len(t.entries))
	if len(t.entries) > len(t.slots)/4*3 {
		t.grow()
	}
	return len(t.entries) - 1, true, t.memory.check()
}

// keep copies the key into a chunk, or if it would take most of one, into
// memory of its own.
func (t *table) keep(key []byte) []byte {
	if len(key) > len(t.chunk) {
		if len(key) > lastChunk/4 {
			t.memory.used += int64(len(key))
			return slices.Clone(key)
		}
		t.chunk = make([]byte, max(t.next, len(key)))
		t.memory.used += int64(len(t.chunk))
		t.next = min(2*t.next, lastChunk)
	}
	kept := t.chunk[:len(key):len(key)]
	t.chunk = t.chunk[len(key):]
	copy(kept, key)
	return kept
}

func (t *table) grow() {
	t.memory.used += int64(len(t.slots)) * slotBytes
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
