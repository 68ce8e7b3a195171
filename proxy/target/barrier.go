package target

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"weft/directory"
)

// Barrier remembers when this process took up what the directory says of schemas and of the places of rows. Standbys that do not have
// everything from before that time may have old tables, or rows that have moved. Many goroutines may use it.
type Barrier struct {
	mu   sync.Mutex
	snap *directory.Snapshot
	at   time.Time
}

// Since returns when the present state was taken up, as seen by a session that works with a snapshot.
func (b *Barrier) Since(snap *directory.Snapshot, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.snap == nil || snap.Version > b.snap.Version {
		if b.snap == nil || !alike(b.snap, snap) {
			b.at = now
		}
		b.snap = snap
	}
	return b.at
}

// alike reports whether two snapshots say the same of schemas and of the places of rows.
func alike(a, b *directory.Snapshot) bool {
	same := func(x, y directory.Table) bool { return x.Equal(&y) }
	function := func(x, y directory.Function) bool { return x.Equal(&y) }
	return len(a.Pending) == 0 && len(b.Pending) == 0 && a.BucketCount == b.BucketCount && slices.Equal(a.Placement, b.Placement) &&
		maps.Equal(a.Schemas, b.Schemas) && maps.Equal(a.Remapped, b.Remapped) && maps.EqualFunc(a.Isolated, b.Isolated, maps.Equal) &&
		maps.EqualFunc(a.Placements, b.Placements, slices.Equal) && reflect.DeepEqual(a.Moves, b.Moves) &&
		slices.EqualFunc(a.Shards, b.Shards, func(x, y directory.Shard) bool { return x.Name == y.Name && x.System == y.System }) &&
		slices.EqualFunc(a.Tables, b.Tables, same) && slices.EqualFunc(a.Functions, b.Functions, function)
}
