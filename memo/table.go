package memo

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	shards       = 16
	ways         = 8   // slots an entry can be in
	bytesPerSlot = 512 // what an entry is guessed to take when the table is laid out
)

// Key is what a value is kept by. All of it counts.
type Key struct {
	// Tag tells apart what is said of one text under different circumstances.
	Tag uint64
	// Text and More are bytes of the caller, which Put copies.
	Text, More []byte
}

// Table is a hash table of fixed size. It is safe for concurrent use: readers
// load pointers, writers hold the lock of a part of it.
type Table[V any] struct {
	seed  maphash.Seed
	parts [shards]part[V]
}

type part[V any] struct {
	// slots are atomic for readers. A key is in one of the ways slots of the
	// set its hash names.
	slots []atomic.Pointer[entry[V]]
	max   int64

	mu   sync.Mutex
	held int64 // bytes of the entries
	hand int   // where the search for a victim among all slots goes on
	turn int   // where that among the slots of one set begins

	_ [64]byte // parts do not share cache lines
}

// entry never changes but for the mark that it was used.
type entry[V any] struct {
	hash  uint64
	tag   uint64
	text  []byte // of the key; more is behind it in the same memory
	more  []byte
	size  int64 // all it holds in memory
	value V
	used  atomic.Bool
}

// is compares the key; the hash has been.
func (e *entry[V]) is(k *Key) bool {
	return e.tag == k.Tag && string(e.text) == string(k.Text) && string(e.more) == string(k.More)
}

// New returns a table that keeps at most about maxBytes.
func New[V any](maxBytes int64) *Table[V] {
	t := &Table[V]{seed: maphash.MakeSeed()}
	perPart := maxBytes / shards
	n := max(ways, 1<<(bits.Len64(uint64(max(perPart/bytesPerSlot, 1)))-1))
	for i := range t.parts {
		t.parts[i].slots = make([]atomic.Pointer[entry[V]], n)
		t.parts[i].max = max(0, perPart-int64(n)*8)
	}
	return t
}

// hash returns a key's hash.
func (t *Table[V]) hash(k *Key) uint64 {
	h := maphash.Bytes(t.seed, k.Text)
	if len(k.More) > 0 {
		h = bits.RotateLeft64(h, 23) ^ maphash.Bytes(t.seed, k.More)
	}
	// A tag is a small number. Multiplied it reaches the upper bits, which
	// choose the part; the lower ones choose the slots.
	return h ^ k.Tag*0x9e3779b97f4a7c15
}

// find returns the part of a hash and the first slot of its set.
func (t *Table[V]) find(hash uint64) (*part[V], int) {
	p := &t.parts[hash>>60]
	return p, int(hash) & (len(p.slots) - 1) &^ (ways - 1)
}

// Get returns the value of a key. ok is false if there is none.
func (t *Table[V]) Get(k *Key) (value V, ok bool) { return t.get(t.hash(k), k) }

func (t *Table[V]) get(hash uint64, k *Key) (value V, ok bool) {
	p, first := t.find(hash)
	for i := range ways {
		e := p.slots[first+i].Load()
		if e != nil && e.hash == hash && e.is(k) {
			// Look before writing: a line that every core only reads stays in every core's cache.
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e.value, true
		}
	}
	return value, false
}

// Put keeps a value that holds size bytes. A value too large for the table is
// not kept.
func (t *Table[V]) Put(k *Key, value V, size int64) {
	t.put(t.hash(k), k, value, size)
}

func (t *Table[V]) put(hash uint64, k *Key, value V, size int64) {
	p, first := t.find(hash)
	e := &entry[V]{hash: hash, tag: k.Tag, value: value}
	// The allocator adds a little to each piece.
	e.size = int64(unsafe.Sizeof(*e)) + 32 + int64(len(k.Text)+len(k.More)) + size
	if e.size > p.max {
		return
	}
	both := append(append(make([]byte, 0, len(k.Text)+len(k.More)), k.Text...), k.More...)
	e.text, e.more = both[:len(k.Text)], both[len(k.Text):]
	p.mu.Lock()
	defer p.mu.Unlock()
	slot := p.room(hash, k, first)
	if old := p.slots[slot].Load(); old != nil {
		p.held -= old.size
	}
	p.slots[slot].Store(e)
	p.held += e.size
	for p.held > p.max {
		p.evict(slot)
	}
}

// room chooses the slot for a key: its own, else a free one, else that of an
// entry not used since the last look. The look begins one slot further each
// time, so that what has just come is not the first to go.
func (p *part[V]) room(hash uint64, k *Key, first int) int {
	free := -1
	for i := first; i < first+ways; i++ {
		old := p.slots[i].Load()
		if old == nil {
			free = i
		} else if old.hash == hash && old.is(k) {
			return i
		}
	}
	if free >= 0 {
		return free
	}
	p.turn++
	for i := range ways {
		if slot := first + (p.turn+i)%ways; !p.slots[slot].Load().used.Swap(false) {
			return slot
		}
	}
	return first + p.turn%ways
}

// evict moves the hand on to the next entry that was not used since the hand
// passed last, and removes it. The entry in slot keep has just come and stays.
// Two rounds are enough; readers that mark entries all the while get no third.
func (p *part[V]) evict(keep int) {
	for step := 0; ; step++ {
		p.hand = (p.hand + 1) % len(p.slots)
		e := p.slots[p.hand].Load()
		if e == nil || p.hand == keep {
			continue
		}
		if e.used.Swap(false) && step < 2*len(p.slots) {
			continue
		}
		p.slots[p.hand].Store(nil)
		p.held -= e.size
		return
	}
}

// Bytes returns about how much memory the table holds now.
func (t *Table[V]) Bytes() int64 {
	n := int64(0)
	for i := range t.parts {
		p := &t.parts[i]
		p.mu.Lock()
		n += p.held + int64(len(p.slots))*8
		p.mu.Unlock()
	}
	return n
}
