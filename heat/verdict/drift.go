package verdict

import (
	"cmp"
	"slices"

	"weft/heat"
)

const (
	// driftWindow is how many seconds lie between two looks at which keys are written.
	driftWindow = 10.0
	// driftSteps is how often in a row the keys must have moved the same way.
	driftSteps = 6
	// driftKeys is how many keys a look needs to say where the work is.
	driftKeys = 3
)

// colony is the tables of a database whose equal keys are on one shard.
type colony struct {
	database string
	group    uint32
}

// drift is where the keys that are written have moved in the last windows.
type drift struct {
	middle int64 // of the keys, at the last look
	steps  int   // how often they have moved one way in a row; below 0 it was downwards
	head   int32 // the bucket of the middle
}

// drifts follows the keys whose order is that of their places. One that counts up, such as a time, has
// its newest values written, and all of them are in one place.
type drifts struct {
	since float64 // seconds since the last look
	by    map[colony]*drift
}

// look notes where the written keys are now, once in a window.
func (d *drifts) look(f *Facts, elapsed float64) {
	if d.since += elapsed; d.since < driftWindow {
		return
	}
	d.since = 0
	written := map[colony][]*heat.Entry[heat.Name]{}
	for i := range f.Recent.Keys.Entries {
		e := &f.Recent.Keys.Entries[i]
		if f.Counts != nil && f.Counts(e.Name.Database, e.Name.Group) && e.Load.Write.Cost() > e.Load.Read.Cost() {
			at := colony{e.Name.Database, e.Name.Group}
			written[at] = append(written[at], e)
		}
	}
	before := d.by
	d.by = map[colony]*drift{}
	for at, keys := range written {
		if len(keys) < driftKeys {
			continue
		}
		slices.SortFunc(keys, func(a, b *heat.Entry[heat.Name]) int { return cmp.Compare(int64(a.Name.ID), int64(b.Name.ID)) })
		quarter := func(n int) float64 { return float64(int64(keys[n*(len(keys)-1)/4].Name.ID)) }
		middle := keys[(len(keys)-1)/2]
		now := &drift{middle: int64(middle.Name.ID), head: middle.Bucket}
		if last := before[at]; last != nil {
			// Keys all over the table have a middle that trembles, but not by a part of their own width.
			switch step := float64(now.middle) - float64(last.middle); {
			case step > (quarter(3)-quarter(1))/2:
				now.steps = max(last.steps, 0) + 1
			case -step > (quarter(3)-quarter(1))/2:
				now.steps = min(last.steps, 0) - 1
			}
		}
		d.by[at] = now
	}
}

// heads reports whether a bucket of a database is where keys that count up, or down, are written now.
func (d *drifts) heads(database string, bucket int32) bool {
	for at, x := range d.by {
		if at.database == database && x.head == bucket && (x.steps >= driftSteps || x.steps <= -driftSteps) {
			return true
		}
	}
	return false
}
