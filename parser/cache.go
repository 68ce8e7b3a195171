package parser

import (
	"bytes"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"
)

const (
	maxCached    = 64 << 10 // longer keys are not kept: such texts are rarely sent twice
	cacheShards  = 16
	cacheWays    = 8   // slots an entry can be in
	bytesPerSlot = 512 // what an entry is guessed to take when the table is laid out
	exactShare   = 8   // this fraction of the memory is for facts that hold for one text only
)

// Cache keeps the facts of texts by their Norm, within a bound of memory. It is safe for concurrent use: a hit takes no lock
// and does not allocate.
type Cache struct {
	norms table // by shortened Norm; nil facts say that the facts depend on the literals
	texts table // by text, for those
}

// NewCache returns a cache that keeps at most about maxBytes.
func NewCache(maxBytes int64) *Cache {
	c := &Cache{}
	c.norms.init(maxBytes - maxBytes/exactShare)
	c.texts.init(maxBytes / exactShare)
	return c
}

// Facts returns the facts of a text, parsing it only if no text of the same Norm was seen lately. The scan is left in s for
// the caller. The facts of a text that cannot be scanned or parsed have Err set; they are not kept.
func (c *Cache) Facts(s *Scanner, text []byte, opt Options) *Facts {
	if !s.Scan(text, opt) {
		return parseFacts(string(text), opt)
	}
	key := shorten(s.short, s.Norm)
	short := len(key) < len(s.Norm)
	if short {
		s.short = key
	}
	if len(key) > maxCached {
		return parseFacts(string(text), opt)
	}
	hash := c.norms.hash(key)
	known := c.norms.get(hash, key, Options{})
	if known != nil && known.facts != nil {
		return known.facts
	}
	var textHash uint64
	if known != nil {
		textHash = c.texts.hash(text)
		if e := c.texts.get(textHash, text, opt); e != nil {
			return e.facts
		}
	}
	var facts *Facts
	if short && known == nil {
		facts = ParseFacts(dummyText(key))
	}
	if facts == nil || facts.Err != nil || facts.Exact {
		facts = parseFacts(string(text), opt)
	}
	switch {
	case facts.Err != nil:
	case !facts.Exact:
		// Texts of one Norm have the same tokens whatever the options were that cut them.
		c.norms.put(&entry{hash: hash, key: bytes.Clone(key), facts: facts})
	case known == nil:
		c.norms.put(&entry{hash: hash, key: bytes.Clone(key)})
	case len(text) <= maxCached:
		c.texts.put(&entry{hash: textHash, key: bytes.Clone(text), opt: opt, facts: facts})
	}
	return facts
}

// Bytes returns about how much memory the cache holds now.
func (c *Cache) Bytes() int64 { return c.norms.bytes() + c.texts.bytes() }

// entry is one key with its facts; it never changes but for the mark that it was used.
type entry struct {
	hash  uint64
	key   []byte
	opt   Options
	facts *Facts
	used  atomic.Bool
}

// size is what the entry holds in memory, with what the allocator adds.
func (e *entry) size() int64 {
	return int64(unsafe.Sizeof(*e)) + 16 + int64(cap(e.key)) + e.facts.size()
}

func (f *Facts) size() int64 {
	if f == nil {
		return 0
	}
	const header = int64(unsafe.Sizeof("")) + 8
	n := int64(unsafe.Sizeof(*f)) + 16
	for _, list := range [][]string{f.Funcs, f.Relations} {
		for _, s := range list {
			n += header + int64(len(s))
		}
		n += header * int64(cap(list)-len(list))
	}
	for _, s := range f.Settings {
		n += int64(unsafe.Sizeof(s)) + int64(len(s.Name)) + 8
	}
	for _, ch := range f.Channels {
		n += int64(unsafe.Sizeof(ch)) + int64(len(ch.Name)) + 8
	}
	for _, p := range f.Prepared {
		n += int64(unsafe.Sizeof(p)) + int64(len(p.Name)) + 8 + p.Body.size()
	}
	return n
}

// table is a hash table of fixed size. Readers load pointers; writers hold their shard's lock.
type table struct {
	seed   maphash.Seed
	shards [cacheShards]tableShard
}

type tableShard struct {
	// slots are atomic for readers. A key is in one of the cacheWays slots of the set its hash names.
	slots []atomic.Pointer[entry]
	max   int64

	mu   sync.Mutex
	held int64 // bytes of the entries
	hand int   // where the search for a victim goes on

	_ [64]byte // shards do not share cache lines
}

func (t *table) init(maxBytes int64) {
	t.seed = maphash.MakeSeed()
	perShard := maxBytes / cacheShards
	n := max(cacheWays, 1<<(bits.Len64(uint64(max(perShard/bytesPerSlot, 1)))-1))
	for i := range t.shards {
		t.shards[i].slots = make([]atomic.Pointer[entry], n)
		t.shards[i].max = max(0, perShard-int64(n)*8)
	}
}

func (t *table) hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// find returns the shard of a hash and the first slot of its set.
func (t *table) find(hash uint64) (*tableShard, int) {
	s := &t.shards[hash>>60]
	return s, int(hash) & (len(s.slots) - 1) &^ (cacheWays - 1)
}

func (t *table) get(hash uint64, key []byte, opt Options) *entry {
	s, first := t.find(hash)
	for i := range cacheWays {
		e := s.slots[first+i].Load()
		if e != nil && e.hash == hash && e.opt == opt && bytes.Equal(e.key, key) {
			// Look before writing: a line that every core only reads stays in every core's cache.
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e
		}
	}
	return nil
}

func (t *table) put(e *entry) {
	s, first := t.find(e.hash)
	size := e.size()
	if size > s.max {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.room(e, first)
	if old := s.slots[slot].Load(); old != nil {
		s.held -= old.size()
	}
	s.slots[slot].Store(e)
	s.held += size
	for s.held > s.max {
		s.evict(slot)
	}
}

// room chooses the slot for an entry: that of the same key, else a free one, else that of an entry not used since the last
// look, else the first.
func (s *tableShard) room(e *entry, first int) int {
	free, victim := -1, -1
	for i := first; i < first+cacheWays; i++ {
		old := s.slots[i].Load()
		switch {
		case old == nil:
			free = i
		case old.hash == e.hash && old.opt == e.opt && bytes.Equal(old.key, e.key):
			return i
		case victim < 0 && !old.used.Swap(false):
			victim = i
		}
	}
	if free >= 0 {
		return free
	}
	if victim >= 0 {
		return victim
	}
	return first
}

// evict moves the hand on to the next entry that was not used since the hand passed last, and removes it. The entry in slot
// keep has just come and stays. Two rounds are enough; readers that mark entries all the while get no third.
func (s *tableShard) evict(keep int) {
	for step := 0; ; step++ {
		s.hand = (s.hand + 1) % len(s.slots)
		e := s.slots[s.hand].Load()
		if e == nil || s.hand == keep {
			continue
		}
		if e.used.Swap(false) && step < 2*len(s.slots) {
			continue
		}
		s.slots[s.hand].Store(nil)
		s.held -= e.size()
		return
	}
}

func (t *table) bytes() int64 {
	n := int64(0)
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.held + int64(len(s.slots))*8
		s.mu.Unlock()
	}
	return n
}
