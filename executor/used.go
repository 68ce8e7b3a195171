package executor

import (
	"fmt"

	"weft/datum"
	"weft/directory"
	"weft/heat"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/plan"
	"weft/vindex"
)

// used are the keys that an execution uses. It is for statistics: keys beyond the first few are not
// noted, and the buckets of ranges neither.
type used struct {
	keys  [heat.MaxKeys]heat.Key
	count int // heat.MaxKeys + 1: there were more
}

// Used returns the keys that the last Bind or BindRows went by, nil if there were more than
// heat.MaxKeys. The result is valid until the next one.
func (b *Binder) Used() []heat.Key {
	if b.used.count > len(b.used.keys) {
		return nil
	}
	return b.used.keys[:b.used.count]
}

// use notes that a key is used, and tells its value if that is wanted. id is what NameKey calls the key.
func (b *Binder) use(in *plan.Instance, bucket int, id uint64, keys []datum.Key) {
	b.used.add(heat.Key{Group: in.Table.Colocation, Bucket: int32(bucket), ID: id})
	if b.args == nil {
		return
	}
	if l := b.args.Limits; l != nil {
		if named := l.Named(b.args.Database, in.Table.Colocation, id); len(named) > 0 {
			b.limited |= l.Spelled(named, b.spell(in, keys))
		}
	}
	if t := b.args.Hot; t != nil && b.hot == nil {
		if named := t.Named(b.args.Database, in.Table.Colocation, id); len(named) > 0 {
			b.hot = queue.Spelled(named, b.spell(in, keys))
		}
	}
	if b.args.Watch == nil {
		return
	}
	if w := b.args.Watch.Find(b.args.Database, in.Table.Colocation, id); w != nil {
		w.Tell(shown(in, keys))
	}
}

// spell spells a key into memory that the next call uses again.
func (b *Binder) spell(in *plan.Instance, keys []datum.Key) []byte {
	b.spelled = appendSpelling(b.spelled[:0], in.Table.Vindex, keys)
	return b.spelled
}

// Limited returns the limits of Args.Limits that concern what the last Bind or BindPiece went by.
func (b *Binder) Limited() throttle.Set { return b.limited }

// Hot returns the first key of Args.Hot that the last Bind or BindPiece went by, nil for none.
func (b *Binder) Hot() *queue.Hot { return b.hot }

// NameKey returns what a key of a table with that vindex is known by, and its whole spelling.
func NameKey(v vindex.Vindex, keys []datum.Key) (id uint64, spelled []byte, err error) {
	switch v := v.(type) {
	case vindex.Lookup:
		r, err := v.Request(keys, nil)
		return hash(r.Key), appendSpelling(nil, v, keys), err
	case vindex.Computed:
		at, err := v.ID(keys)
		return vindex.Named(v, at, keys), appendSpelling(nil, v, keys), err
	}
	return 0, nil, fmt.Errorf("vindex %s can neither be computed nor looked up", v.Kind())
}

// KeyTarget names a key of a table, as ReadKey reads it, for a limit.
func KeyTarget(d *directory.Table, value string, buckets int) (t throttle.Target, err error) {
	v, err := d.NewVindex(buckets)
	if err != nil {
		return t, err
	}
	keys, err := ReadKey(v, value)
	if err != nil {
		return t, err
	}
	id, spelled, err := NameKey(v, keys)
	if err != nil {
		return t, err
	}
	return throttle.Target{
		Kind: throttle.Key, Database: d.Database, Name: d.Schema + "." + d.Name, Group: d.Colocation(), ID: id, Value: spelled, Shown: Shown(v, keys),
	}, nil
}

// useBucket notes that some key of a bucket is used.
func (b *Binder) useBucket(bucket int) { b.used.add(heat.Key{Bucket: int32(bucket)}) }

func (u *used) add(k heat.Key) {
	if u.count > len(u.keys) {
		return
	}
	for i := range u.count {
		if u.keys[i] == k {
			return
		}
	}
	if u.count < len(u.keys) {
		u.keys[u.count] = k
	}
	u.count++
}

// hash is FNV-1a of 64 bits.
func hash(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}
