package stream

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"
)

// table numbers byte strings in the order they come, from 0. It keeps copies of them. Finding a
// known string allocates nothing.
type table struct {
	seed    maphash.Seed
	slots   []uint32 // numbers plus 1, 0 for a free slot; the length is a power of two
	entries []entry
	chunk   []byte // room for the next keys
	next    int    // size of the next chunk
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

// add returns the number of the key and whether the key is new. It fails if the table would exceed
// its limits.
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

// keep copies the key into a chunk, or into its own allocation if the key would take most of a
// chunk.
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
