package directory

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"

	"weft/vindex"
)

// entrySlots is how many maps the entries of one lookup are spread over. A change copies one of
// the maps: with 100,000 entries about a hundred entries.
const entrySlots = 1024

var entrySeed = maphash.MakeSeed()

// Entries are the lookup entries a process knows: value → bucket, by the
// lookup's name. Readers take no lock and see changes as they come.
type Entries struct {
	sets atomic.Pointer[map[string]*entrySet] // the map is never changed

	mu      sync.Mutex // held by writers
	loading bool       // not shared yet: maps are changed in place
}

type entrySet struct {
	slots [entrySlots]atomic.Pointer[map[string]entry] // nil for an empty map; a shared map is never changed
	count atomic.Int64
	// deleted is the newest revision that deleted an entry: an entry put at an older revision may
	// be the deleted one. Guarded by Entries.mu.
	deleted int64
}

type entry struct {
	bucket   int32 // below 0 if the bucket could not be read
	revision int64
}

// NewEntries returns empty Entries. Until Loaded is called they are for one goroutine only, and
// faster to fill.
func NewEntries() *Entries {
	e := &Entries{loading: true}
	e.sets.Store(&map[string]*entrySet{})
	return e
}

// Loaded says that e is going to be shared: from now on maps are copied to be changed.
func (e *Entries) Loaded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loading = false
}

// Entry returns the bucket of a lookup's value. The key is that of vindex.Request, and id its Default. ok is false if
// the value has no entry and so is in its default place. A bucket below 0 means that the value has
// an unusable entry, which points to a bucket that does not exist: it is not known where the rows
// are, and the client must be told so.
func (s *Snapshot) Entry(name string, key []byte, id vindex.ID) (bucket int, ok bool) {
	if s.Entries == nil {
		return 0, false
	}
	e, ok := s.Entries.get(name, key)
	if !ok {
		return 0, false
	}
	if b := NumberingOf(s).Bucket(int(e.bucket), id); b >= 0 && b < len(s.Placement) && s.Placement[b] != Unused {
		return b, true
	}
	if e.bucket >= 0 && e.revision > s.Version {
		return 0, false // the entry was made together with a bucket that s does not have yet
	}
	return -1, true
}

func (e *Entries) get(name string, key []byte) (entry, bool) {
	set := (*e.sets.Load())[name]
	if set == nil {
		return entry{}, false
	}
	m := set.slot(key).Load()
	if m == nil {
		return entry{}, false
	}
	found, ok := (*m)[string(key)] // this conversion does not allocate
	return found, ok
}

func (s *entrySet) slot(key []byte) *atomic.Pointer[map[string]entry] {
	return &s.slots[maphash.Bytes(entrySeed, key)%entrySlots]
}

// Count returns how many entries a lookup has.
func (e *Entries) Count(name string) int {
	if set := (*e.sets.Load())[name]; set != nil {
		return int(set.count.Load())
	}
	return 0
}

// Put enters an entry that the store holds since revision, unless a newer one is known.
func (e *Entries) Put(name string, key []byte, bucket int, revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	set := e.set(name)
	p := set.slot(key)
	var old map[string]entry
	if m := p.Load(); m != nil {
		old = *m
	}
	was, had := old[string(key)]
	if revision < set.deleted || had && was.revision >= revision {
		return
	}
	next := old
	if !e.loading || old == nil {
		next = make(map[string]entry, len(old)+1)
		maps.Copy(next, old)
	}
	next[string(key)] = entry{int32(bucket), revision}
	p.Store(&next)
	if !had {
		set.count.Add(1)
	}
}

// Delete removes an entry that the store deleted at revision.
func (e *Entries) Delete(name string, key []byte, revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	set := e.set(name)
	set.deleted = max(set.deleted, revision)
	p := set.slot(key)
	m := p.Load()
	if m == nil {
		return
	}
	if was, had := (*m)[string(key)]; !had || was.revision > revision {
		return
	}
	next := maps.Clone(*m)
	delete(next, string(key))
	p.Store(&next)
	set.count.Add(-1)
}

// set returns the entries of a lookup, making an empty set if there is none. e.mu is held.
func (e *Entries) set(name string) *entrySet {
	old := *e.sets.Load()
	if set := old[name]; set != nil {
		return set
	}
	next := maps.Clone(old)
	set := &entrySet{}
	next[name] = set
	e.sets.Store(&next)
	return set
}
