package executor

import (
	"time"
	"unicode/utf8"

	"weft/datum"
	"weft/heat"
	"weft/plan"
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

// use notes that a key is used, and tells its value if that is wanted.
func (b *Binder) use(in *plan.Instance, bucket int, id uint64, keys []datum.Key) {
	b.used.add(heat.Key{Group: in.Table.Colocation, Bucket: int32(bucket), ID: id})
	if b.args == nil || b.args.Watch == nil {
		return
	}
	if w := b.args.Watch.Find(b.args.Database, in.Table.Colocation, id); w != nil {
		w.Tell(shown(in, keys))
	}
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

// shown spells a key for people: the values of its columns, with commas between.
func shown(in *plan.Instance, keys []datum.Key) string {
	var out []byte
	columns := in.Table.Vindex.Columns()
	for i, k := range keys {
		if i > 0 {
			out = append(out, ", "...)
		}
		switch at, timed := moment(k, columns[i].Type); {
		case k.IsNull():
			out = append(out, "NULL"...)
		case !timed:
			out = k.AppendText(out)
		case columns[i].Type == datum.Date:
			out = at.AppendFormat(out, time.DateOnly)
		default:
			out = at.AppendFormat(out, "2006-01-02 15:04:05.999999")
		}
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
