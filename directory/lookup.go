package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weft/vindex"
)

// ErrPlaced is the error of pinning a value that has an entry already: the value may have rows,
// which would have to move.
var ErrPlaced = errors.New("the value has a place already")

// MaxEntryKey bounds the length of a key.
const MaxEntryKey = 1024

// Entry says which bucket a value of a lookup has.
type Entry struct {
	Key      []byte // see vindex.Request
	Bucket   int    // as Numbering has it
	Revision int64  // revision that made the entry; set by the store
}

// Lookups is the ability of a Store to keep lookup entries. Entries are many and come one by one,
// so Update does not write them; Watch brings them with the snapshots.
type Lookups interface {
	// PutEntries gives each value a bucket unless it has one, and returns the entries in force,
	// one for each value. If PutEntries fails, some entries may have been made.
	PutEntries(ctx context.Context, name string, want []Entry) ([]Entry, error)

	// PinEntry gives a value a bucket of its own on a shard. It fails with
	// ErrPlaced if the value has an entry.
	PinEntry(ctx context.Context, name string, key []byte, shard string) (*Snapshot, int, error)

	// MoveEntry gives a value that has an entry a bucket of its own. change gets the snapshot and the
	// value's own bucket, -1 if it is in a bucket with others, and returns the snapshot that is stored
	// together with the entry, and the new bucket. It may be called again.
	MoveEntry(ctx context.Context, name string, key []byte, change func(old *Snapshot, bucket int) (*Snapshot, int, error)) (*Snapshot, error)

	// DropEntries deletes all entries of a lookup that no table uses any more, with the buckets of
	// its pinned values.
	DropEntries(ctx context.Context, name string) error

	// CountEntries returns how many entries a lookup has.
	CountEntries(ctx context.Context, name string) (int, error)
}

// CheckEntry refuses names and keys that no store keeps.
func CheckEntry(name string, key []byte) error {
	if !lookupName.MatchString(name) {
		return fmt.Errorf("%q is no name of a lookup", name)
	}
	if n := len(key); n > MaxEntryKey {
		return fmt.Errorf("a value of lookup %s has %d bytes, more than %d", name, n, MaxEntryKey)
	}
	return nil
}

// Place returns the bucket of a value of a lookup, which becomes that of a keyspace ID if the value has
// none yet. Before Place returns, the entry is stored and known to this process.
func (c *Current) Place(ctx context.Context, name string, key []byte, id vindex.ID) (int, error) {
	snap, err := c.Wait(ctx)
	if err != nil {
		return 0, err
	}
	got, err := c.Ensure(ctx, NumberingOf(snap), name, [][]byte{key}, []vindex.ID{id})
	if err != nil {
		return 0, err
	}
	return got[0], nil
}

// Ensure is Place for many values, and returns their buckets in the order of keys, with the numbers that
// n gives them.
func (c *Current) Ensure(ctx context.Context, n Numbering, name string, keys [][]byte, defaults []vindex.ID) ([]int, error) {
	store, ok := c.store.(Lookups)
	if !ok {
		return nil, errNoLookups
	}
	if err := c.Foreign(); err != nil {
		return nil, err
	}
	want := make([]Entry, len(keys))
	for i := range keys {
		want[i] = Entry{Key: keys[i], Bucket: n.Default(defaults[i])}
	}
	got, err := store.PutEntries(ctx, name, want)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(got))
	for i, e := range got {
		snap := c.Snapshot()
		if snap == nil || snap.Version < e.Revision && !usable(snap, e.Bucket) {
			// Another process has just pinned the value, and this one has not seen its bucket yet.
			if snap, err = c.Reach(ctx, e.Revision); err != nil {
				return nil, err
			}
		}
		out[i] = n.Bucket(e.Bucket, defaults[i])
		if out[i] < 0 || !usable(snap, e.Bucket) {
			return nil, fmt.Errorf("entry %q of lookup %s points to bucket %d, which does not exist", e.Key, name, e.Bucket)
		}
		if snap.Entries != nil {
			snap.Entries.Put(name, e.Key, e.Bucket, e.Revision)
		}
	}
	return out, nil
}

// usable reports whether the bucket exists that an entry with a number gives its value.
func usable(s *Snapshot, number int) bool {
	n := NumberingOf(s)
	b := n.Bucket(number, 0)
	return number >= 0 && (!n.IsOwn(number) || b < len(s.Placement) && s.Placement[b] != Unused)
}

// Pin gives a value of a lookup a bucket of its own on a shard, and returns when all proxies know
// the bucket: until then a proxy would look for the value's rows in the default place, where there
// are none. Pin returns false if the value has an entry already.
func (c *Current) Pin(ctx context.Context, name string, key []byte, shard string) (bool, error) {
	store, ok := c.store.(Lookups)
	if !ok {
		return false, errNoLookups
	}
	if err := c.Foreign(); err != nil {
		return false, err
	}
	snap, _, err := store.PinEntry(ctx, name, key, shard)
	if errors.Is(err, ErrPlaced) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err = c.Reach(ctx, snap.Version); err != nil {
		return true, err
	}
	if reg, ok := c.store.(Registry); ok {
		err = reg.Acknowledged(ctx, snap.Version)
	}
	return true, err
}

// Repin is MoveEntry for the values of this process's directory: it returns when this process knows the
// change.
func (c *Current) Repin(ctx context.Context, name string, key []byte, change func(old *Snapshot, bucket int) (*Snapshot, int, error)) error {
	store, ok := c.store.(Lookups)
	if !ok {
		return errNoLookups
	}
	if err := c.Foreign(); err != nil {
		return err
	}
	snap, err := store.MoveEntry(ctx, name, key, change)
	if err == nil {
		_, err = c.Reach(ctx, snap.Version)
	}
	return err
}

// Pinned returns the values of a lookup that have a bucket of their own, as of a snapshot or a later
// one, by their keys. The buckets have the numbers of the snapshot.
func (c *Current) Pinned(ctx context.Context, name string, as *Snapshot) (map[string]int, error) {
	snap, err := c.Reach(ctx, as.Version)
	if err != nil || snap.Entries == nil {
		return nil, err
	}
	n, out := NumberingOf(as), map[string]int{}
	for _, p := range snap.Entries.pinned(n.First) {
		if p.Lookup == name {
			out[string(p.Key)] = n.Bucket(p.Bucket, 0)
		}
	}
	return out, nil
}

// Unpool gives a value of a lookup that is in a bucket with others a bucket of its own on the same
// shard, and returns it.
func (s *Snapshot) Unpool(lookup string, bucket int) (int, error) {
	if err := mayAdd(s, lookup); err != nil {
		return 0, err
	}
	b, err := s.addBucket(func(now []uint16) uint16 { return now[bucket] })
	if err != nil {
		return 0, err
	}
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Vindex.Lookup() && t.Vindex.Name == lookup {
			s.remap(t.Database)
		}
	}
	return b, nil
}

var errNoLookups = errors.New("this directory keeps no lookup entries")

// HasLookup reports whether a table uses the lookup of that name.
func (s *Snapshot) HasLookup(name string) bool {
	return slices.ContainsFunc(s.Tables, func(t Table) bool { return t.Vindex.Lookup() && t.Vindex.Name == name })
}

// OwnBucket adds a bucket beyond BucketCount for one value of a lookup.
func (s *Snapshot) OwnBucket(lookup, shard string) (int, error) {
	if !s.HasLookup(lookup) {
		return 0, fmt.Errorf("no table has a lookup called %q", lookup)
	}
	at := slices.IndexFunc(s.Shards, func(sh Shard) bool { return sh.Name == shard })
	if at < 0 {
		return 0, fmt.Errorf("%q is not one of the shards", shard)
	}
	if err := mayAdd(s, lookup); err != nil {
		return 0, err
	}
	return s.addBucket(func([]uint16) uint16 { return uint16(at) })
}

// mayAdd refuses a bucket for a value of a lookup while rows of its tables move: a round tells by its entry
// whether a row is in a pinned value's bucket or in that of its hash.
func mayAdd(s *Snapshot, lookup string) error {
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Vindex.Lookup() && t.Vindex.Name == lookup && s.Carrying(t.Database) != nil {
			return fmt.Errorf("job %s moves rows of database %s", s.Carrying(t.Database).ID, t.Database)
		}
	}
	return nil
}

// eachPlacement changes the cluster's own placement, those of databases and the targets of jobs
// alike.
func (s *Snapshot) eachPlacement(change func([]uint16) []uint16) {
	s.Placement = change(s.Placement)
	for _, m := range []map[string][]uint16{s.Placements, s.Targets} {
		for key := range m {
			m[key] = change(m[key])
		}
	}
}

// FreeBuckets takes back buckets that OwnBucket gave.
func (s *Snapshot) FreeBuckets(own []int) {
	s.eachPlacement(func(p []uint16) []uint16 {
		for _, b := range own {
			if b >= s.BucketCount && b < len(p) {
				p[b] = Unused
			}
		}
		n := len(p)
		for n > s.BucketCount && p[n-1] == Unused {
			n--
		}
		return p[:n]
	})
}
