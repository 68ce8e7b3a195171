package executor

import (
	"fmt"
	"time"
	"unicode/utf8"

	"weft/datum"
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
			b.limited |= l.Spelled(named, spelling(in.Table.Vindex, keys))
		}
	}
	if t := b.args.Hot; t != nil && b.hot == nil {
		if named := t.Named(b.args.Database, in.Table.Colocation, id); len(named) > 0 {
			b.hot = queue.Spelled(named, spelling(in.Table.Vindex, keys))
		}
	}
	if b.args.Watch == nil {
		return
	}
	if w := b.args.Watch.Find(b.args.Database, in.Table.Colocation, id); w != nil {
		w.Tell(shown(in, keys))
	}
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
		return hash(r.Key), spelling(v, keys), err
	case vindex.Computed:
		at, err := v.ID(keys)
		return vindex.Named(v, at, keys), spelling(v, keys), err
	}
	return 0, nil, fmt.Errorf("vindex %s can neither be computed nor looked up", v.Kind())
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

// maxShown bounds the spelling of a key, in bytes.
const maxShown = 200

// spelling spells a key so that different keys have different spellings. That of one column is its value.
func spelling(v vindex.Vindex, keys []datum.Key) []byte {
	const null = 0xff // begins no text
	var out []byte
	columns := v.Columns()
	for i, k := range keys {
		if i > 0 {
			out = append(out, 0) // is in no text
		}
		if k.IsNull() {
			out = append(out, null)
			continue
		}
		out = appendShown(out, k, columns[i].Type)
	}
	return out
}

// appendShown appends a value that is not null, for people.
func appendShown(dst []byte, k datum.Key, typ datum.Type) []byte {
	switch at, timed := moment(k, typ); {
	case !timed:
		return k.AppendText(dst)
	case typ == datum.Date:
		return at.AppendFormat(dst, time.DateOnly)
	default:
		return at.AppendFormat(dst, "2006-01-02 15:04:05.999999")
	}
}

// shown spells a key for people: the values of its columns, with commas between.
func shown(in *plan.Instance, keys []datum.Key) string {
	var out []byte
	columns := in.Table.Vindex.Columns()
	for i, k := range keys {
		if i > 0 {
			out = append(out, ", "...)
		}
		if k.IsNull() {
			out = append(out, "NULL"...)
			continue
		}
		out = appendShown(out, k, columns[i].Type)
	}
	if len(out) <= maxShown {
		return string(out)
	}
	out = out[:maxShown]
	for len(out) > 0 && !utf8.RuneStart(out[len(out)-1]) {
		out = out[:len(out)-1]
	}
	if n := len(out); n > 0 && out[n-1] >= utf8.RuneSelf {
		out = out[:n-1]
	}
	return string(out) + "…"
}
