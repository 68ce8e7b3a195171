package reshard

import (
	"cmp"
	"slices"
	"time"

	"weft/directory"
)

// Parcel is one bucket that a job still has to carry.
type Parcel struct {
	Bucket   int
	From, To string
	Rows     int64
	// Failed counts the rounds that gave way with this bucket.
	Failed int
}

// Pace is how fast rows have gone from one shard to another, over the last rounds.
type Pace struct {
	perMillisecond float64 // rows
	cut            int     // halves the next batches, after rounds that gave way
}

// first is the pace that is assumed before anything was measured, in rows per millisecond: so
// low that the first round is short.
const first = 5

// Carried notes a round that has held writers for a time.
func (p *Pace) Carried(rows int64, took time.Duration) {
	p.cut = max(0, p.cut-1)
	ms := float64(took) / float64(time.Millisecond)
	if rows < 1 || ms <= 0 {
		return
	}
	seen := float64(rows) / max(ms, 1)
	if p.perMillisecond == 0 {
		p.perMillisecond = seen
		return
	}
	p.perMillisecond = 0.7*p.perMillisecond + 0.3*seen
}

// GaveWay notes a round that was not through in time.
func (p *Pace) GaveWay() { p.cut = min(p.cut+1, 6) }

// Rows is how many rows a round should carry on one way to hold writers for the target time.
func (p *Pace) Rows(target time.Duration) int64 {
	pace := p.perMillisecond
	if pace == 0 {
		pace = first
	}
	rows := int64(pace * float64(target) / float64(time.Millisecond))
	return max(1, rows>>p.cut)
}

// maxRoundBuckets bounds the buckets of a round: the directory's entry names them all.
const maxRoundBuckets = 512

// Batch returns the ways and buckets of the next round: on each way between two shards as many
// buckets as have the given number of rows together, at least one. Buckets with which rounds
// gave way come last. A shard takes part in one way only, so that ways do not slow each other
// down.
func Batch(parcels []Parcel, rows int64) []directory.Pair {
	parcels = slices.Clone(parcels)
	slices.SortFunc(parcels, func(a, b Parcel) int {
		return cmp.Or(cmp.Compare(a.Failed, b.Failed), cmp.Compare(a.Bucket, b.Bucket))
	})
	type way struct{ from, to string }
	var out []directory.Pair
	at := map[way]int{}
	load := map[way]int64{}
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
		} else if load[w]+p.Rows > rows || total >= maxRoundBuckets {
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
func Parcels(snap *directory.Snapshot, m *directory.Move, size func(bucket int) int64, failed func(bucket int) int) []Parcel {
	now, target := snap.PlacementOf(m.Database, m.Group), snap.Targets[m.ID]
	var out []Parcel
	for b := range min(len(now), len(target)) {
		if now[b] == target[b] || int(now[b]) >= len(snap.Shards) || int(target[b]) >= len(snap.Shards) {
			continue
		}
		out = append(out, Parcel{
			Bucket: b, From: snap.Shards[now[b]].Name, To: snap.Shards[target[b]].Name,
			Rows: size(b), Failed: failed(b),
		})
	}
	return out
}
