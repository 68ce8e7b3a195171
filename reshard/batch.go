package reshard

import (
	"cmp"
	"slices"

	"weft/directory"
)

// Parcel is one bucket that a job still has to carry.
type Parcel struct {
	Bucket   int
	From, To string
	Rows     int64
	// Failed counts the rounds that gave way with this bucket.
	Failed int
	// Class is how hot it is, as Warmth has it.
	Class int
}

// maxRoundBuckets bounds the buckets of a round: the directory's entry names them all.
const maxRoundBuckets = 512

// Batch returns the ways and buckets of the next round: on each way between two shards as many
// buckets as have the given number of rows together, at least one. Cold buckets go first, and those
// with which rounds gave way come last. A shard takes part in one way only, so that ways do not slow each other
// down.
func Batch(parcels []Parcel, rows int64) []directory.Pair {
	parcels = slices.Clone(parcels)
	slices.SortFunc(parcels, func(a, b Parcel) int {
		return cmp.Or(cmp.Compare(a.Failed, b.Failed), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Bucket, b.Bucket))
	})
	type way struct{ from, to string }
	var out []directory.Pair
	at := map[way]int{}
	load := map[way]int64{}
	left := map[way]int{} // the class of the first bucket that did not fit: hotter ones do not fill up
	busy := map[string]way{}
	total := 0
	for _, p := range parcels {
		w := way{p.From, p.To}
		if other, ok := busy[p.From]; ok && other != w {
			continue
		}
		if other, ok := busy[p.To]; ok && other != w {
			continue
		}
		i, open := at[w]
		if !open {
			i = len(out)
			at[w] = i
			busy[p.From], busy[p.To] = w, w
			out = append(out, directory.Pair{From: p.From, To: p.To})
		} else if class, full := left[w]; load[w]+p.Rows > rows || total >= maxRoundBuckets || full && p.Class > class {
			if !full {
				left[w] = p.Class
			}
			continue
		}
		load[w] += p.Rows
		out[i].Buckets = append(out[i].Buckets, p.Bucket)
		total++
	}
	for i := range out {
		slices.Sort(out[i].Buckets)
	}
	return out
}

// Parcels lists what a job still has to carry: the buckets that are elsewhere than its target
// says. size returns the rows of a bucket.
func Parcels(snap *directory.Snapshot, m *directory.Move, size func(bucket int) int64, failed func(bucket int) int, warmth Warmth) []Parcel {
	now, target := snap.PlacementOf(m.Database, m.Group), snap.Targets[m.ID]
	var out []Parcel
	for b := range min(len(now), len(target)) {
		if now[b] == target[b] || int(now[b]) >= len(snap.Shards) || int(target[b]) >= len(snap.Shards) {
			continue
		}
		out = append(out, Parcel{
			Bucket: b, From: snap.Shards[now[b]].Name, To: snap.Shards[target[b]].Name,
			Rows: size(b), Failed: failed(b), Class: warmth.Class(b),
		})
	}
	return out
}
