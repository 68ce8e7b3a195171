package heat

import (
	"sync/atomic"
)

// MaxKeys is how many keys of one statement are noted.
const MaxKeys = 4

// Key is a value of a shard key, as a statement has used it.
type Key struct {
	Group  uint32 // names the tables whose equal keys are on one shard; 0: only the bucket is known
	Bucket int32
	ID     uint64 // the keyspace ID of the value, or a hash of the value
}

// Name is what a key is known by in a cluster.
type Name struct {
	Database string `json:"d"`
	Group    uint32 `json:"g"`
	ID       uint64 `json:"i,string"`
}

// Statement is a statement of a user on one shard, whatever its values are.
type Statement struct {
	Database string `json:"d"`
	User     string `json:"u"`
	Text     string `json:"t"`
	Shard    string `json:"s"`
}

// Watch is a list of keys whose values are wanted. It is safe for concurrent use.
type Watch struct{ wanted []Wanted }

// Wanted is one key of a Watch.
type Wanted struct {
	name  Name
	value atomic.Pointer[string]
}

// NewWatch returns a watch for these keys, nil for none.
func NewWatch(names []Name) *Watch {
	if len(names) == 0 {
		return nil
	}
	w := &Watch{wanted: make([]Wanted, len(names))}
	for i, n := range names {
		w.wanted[i].name = n
	}
	return w
}

// Find returns the wanted key with this name, if its value is not known yet; nil for none.
func (w *Watch) Find(database string, group uint32, id uint64) *Wanted {
	for i := range w.wanted {
		if x := &w.wanted[i]; x.name.ID == id && x.name.Group == group && x.name.Database == database && x.value.Load() == nil {
			return x
		}
	}
	return nil
}

// Tell says what the value of the key is.
func (x *Wanted) Tell(value string) { x.value.CompareAndSwap(nil, &value) }

// Found calls f for each key whose value is known by now.
func (w *Watch) Found(f func(Name, string)) {
	if w == nil {
		return
	}
	for i := range w.wanted {
		if v := w.wanted[i].value.Load(); v != nil {
			f(w.wanted[i].name, *v)
		}
	}
}
