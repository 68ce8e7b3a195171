package executor

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"weft/datum"
	"weft/directory"
	"weft/plan"
	"weft/vindex"
)

// maxWanted bounds how many values of a lookup one execution asks for. If there are more, all
// shards are visited.
const maxWanted = 1000

// Wanted are values of a lookup whose entries are on one shard.
type Wanted struct {
	Shard  int
	Values []string // each as spell writes it, for the lookup's function
}

// Found is what a lookup says of the values of one execution: the keyspace IDs of their rows.
type Found struct {
	IDs []vindex.ID
	// Unsure says that rows may be elsewhere too.
	Unsure bool
}

// Claim returns the lookup entry for a row that is going to be stored, as bucket:id:value…, and
// the shard of the entry. items are the values of k.Items. The entry is empty if a value is NULL. Claim reports false if a value
// is not known.
func (b *Binder) Claim(p *plan.Plan, in *plan.Instance, k *plan.LookupKey, items []datum.Value, snap *directory.Snapshot, a *Args) (entry string, shard int, ok bool) {
	row, ok := b.storedRow(p, in, in.Table.Vindex, in.Keys, snap, a)
	v, computed := in.Table.Vindex.(vindex.Computed)
	if !ok || !computed {
		return "", 0, false
	}
	id, err := v.ID(row)
	if err != nil {
		return "", 0, false
	}
	var values []datum.Key
	if len(k.Items) > 0 {
		values, ok = storedItems(k.Vindex, items, a)
	} else {
		values, ok = b.storedRow(p, in, k.Vindex, k.Keys, snap, a)
	}
	if !ok {
		return "", 0, false
	}
	for _, key := range values {
		if key.IsNull() {
			return "", 0, true
		}
	}
	at, err := k.Vindex.ID(values)
	text, spelled := spell(values, k.Vindex.Columns())
	number := directory.NumberingOf(snap).Default(at)
	bucket := directory.NumberingOf(snap).Noted(number)
	if err != nil || !spelled || bucket >= len(snap.Placement) || int(snap.Placement[bucket]) >= len(snap.Shards) {
		return "", 0, false
	}
	return fmt.Sprintf("%d:%d:%s", number, int64(id), text), int(snap.Placement[bucket]), true
}

// storedItems returns the values of the items of an index, which a shard has computed, as the columns of a vindex have them. It reports
// false for values whose encoding is not known.
func storedItems(v vindex.Vindex, items []datum.Value, a *Args) (row []datum.Key, ok bool) {
	if len(items) != len(v.Columns()) {
		return nil, false
	}
	for i, c := range v.Columns() {
		k, err := c.Store(items[i])
		if err != nil || a.ASCII && k.Class() == datum.Characters && slices.ContainsFunc(k.Bytes(), func(c byte) bool { return c >= utf8.RuneSelf }) {
			return nil, false
		}
		row = append(row, k)
	}
	return row, true
}

// storedRow returns the values that the columns of a vindex get in a stored row. It reports false
// if a value is not known.
func (b *Binder) storedRow(p *plan.Plan, in *plan.Instance, v vindex.Vindex, sets [][]plan.Set, snap *directory.Snapshot, a *Args) ([]datum.Key, bool) {
	b.reset(p, snap, a)
	defer b.release()
	var row []datum.Key
	for i, c := range v.Columns() {
		if i >= len(sets) || len(sets[i]) == 0 {
			return nil, false
		}
		keys, ok := b.column(nil, in, c.Column, sets[i])
		if !ok || len(keys) != 1 {
			return nil, false
		}
		row = append(row, keys[0])
	}
	return row, true
}

// Wants returns the values that have to be looked up for an instance, by shard. It reports false
// if they are not known, contain a NULL, or are too many.
func (b *Binder) Wants(p *plan.Plan, in *plan.Instance, snap *directory.Snapshot, a *Args) ([]Wanted, bool) {
	b.reset(p, snap, a)
	defer b.release()
	k := in.Lookup
	columns := make([][]datum.Key, len(k.Keys))
	total := 1
	for i, c := range k.Vindex.Columns() {
		keys, ok := b.column(nil, in, c.Column, k.Keys[i])
		if total *= len(keys); !ok || total > maxWanted {
			return nil, false
		}
		columns[i] = keys
	}
	var out []Wanted
	row, at := make([]datum.Key, len(columns)), make([]int, len(columns))
	for range total {
		for i := range columns {
			if row[i] = columns[i][at[i]]; row[i].IsNull() {
				return nil, false // rows with NULL have no entry
			}
		}
		id, err := k.Vindex.ID(row)
		if err != nil {
			return nil, false
		}
		bucket := directory.NumberingOf(snap).OfEntry(id)
		if bucket >= len(snap.Placement) || int(snap.Placement[bucket]) >= len(snap.Shards) {
			return nil, false
		}
		value, ok := spell(row, k.Vindex.Columns())
		if !ok {
			return nil, false
		}
		out = want(out, int(snap.Placement[bucket]), value)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < len(columns[i]) {
				break
			}
			at[i] = 0
		}
	}
	return out, true
}

// want adds a value to the entry of its shard.
func want(list []Wanted, shard int, value string) []Wanted {
	for i := range list {
		if list[i].Shard == shard {
			list[i].Values = append(list[i].Values, value)
			return list
		}
	}
	return append(list, Wanted{shard, []string{value}})
}

// spell writes values as hexadecimal digits of their text, with colons between. It reports false
// for dates outside the years 1 to 9999.
func spell(row []datum.Key, columns []vindex.Column) (string, bool) {
	var out []byte
	for i, k := range row {
		if i > 0 {
			out = append(out, ':')
		}
		text := k.AppendText(nil)
		if at, timed := moment(k, columns[i].Type); timed {
			if at.Year() < 1 || at.Year() > 9999 {
				return "", false // infinite, or a year that the format cannot write
			}
			text = at.AppendFormat(nil, "2006-01-02 15:04:05.000000")
		}
		out = hex.AppendEncode(out, text)
	}
	return string(out), true
}

// moment returns the day or the time that a key of that type is. It reports false for other types.
func moment(k datum.Key, typ datum.Type) (at time.Time, timed bool) {
	at = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	switch typ {
	case datum.Date:
		return at.AddDate(0, 0, int(k.Int())), true
	case datum.Timestamp, datum.Timestamptz:
		return time.UnixMicro(at.UnixMicro() + k.Int()).UTC(), true
	}
	return at, false
}

// found adds the shards of an instance by its lookup. It reports false if the lookup has not been
// asked, or its answer is unsure.
func (b *Binder) found(in *plan.Instance) (done bool, err error) {
	f := b.args.Found[in.Lookup]
	if f == nil || f.Unsure {
		return false, nil
	}
	for _, id := range f.IDs {
		bucket := b.snap.BucketOf(id)
		if err := b.bucket(in, bucket); err != nil {
			return true, err
		}
		b.useBucket(bucket)
	}
	return true, nil
}
