package heat

import (
	"cmp"
	"maps"
	"slices"
)

const (
	// briefKeys, briefStatements and briefBuckets bound what a brief has of each.
	briefKeys       = 64
	briefStatements = 32
	briefBuckets    = 32
)

// Brief is what verdicts are made of: the heaviest of a report, and of one about the last moment. It is
// small enough to be told to another proxy every second.
type Brief struct {
	Now    Report `json:"now"`
	Recent Report `json:"recent"`
	// Medians is the work of the median bucket of each database.
	Medians map[string]float64 `json:"medians,omitempty"`
	// Waiting is how many clients wait for a backend of each shard at this moment.
	Waiting map[string]int `json:"waiting,omitempty"`
}

// NewBrief returns a brief of two reports. There are so many buckets in each database.
func NewBrief(now, recent Report, buckets int) Brief {
	b := Brief{Now: now, Recent: recent, Medians: map[string]float64{}}
	b.Now.Keys, b.Now.Statements = now.Keys.cut(briefKeys), now.Statements.cut(briefStatements)
	b.Recent.Keys, b.Recent.Statements = recent.Keys.cut(briefKeys), recent.Statements.cut(briefStatements)
	b.Now.Databases = maps.Clone(now.Databases)
	for name, d := range now.Databases {
		b.Medians[name] = d.median(buckets)
		d.Buckets = d.heaviest(briefBuckets)
		b.Now.Databases[name] = d
	}
	return b
}

// MergeBriefs returns two briefs together. The median of both is about the sum of the medians: clients
// of one database use its buckets in much the same way through either proxy.
func MergeBriefs(a, b Brief) Brief {
	out := Brief{Now: Merge(a.Now, b.Now), Recent: Merge(a.Recent, b.Recent), Medians: map[string]float64{}, Waiting: map[string]int{}}
	for _, x := range []Brief{a, b} {
		for name, m := range x.Medians {
			out.Medians[name] += m
		}
		for name, n := range x.Waiting {
			out.Waiting[name] += n
		}
	}
	return out
}

// cut returns the first n.
func (h Heaviest[K]) cut(n int) Heaviest[K] {
	if len(h.Entries) > n {
		h.Bound = max(h.Bound, h.Entries[n].Count)
		h.Entries = h.Entries[:n:n]
	}
	return h
}

// median is the work of the median bucket, of so many.
func (d Database) median(buckets int) float64 {
	// The buckets that are not listed have no work.
	rank := buckets/2 - (buckets - len(d.Buckets))
	if rank < 0 || len(d.Buckets) == 0 {
		return 0
	}
	costs := make([]float64, 0, len(d.Buckets))
	for _, l := range d.Buckets {
		costs = append(costs, l.Cost())
	}
	slices.Sort(costs)
	return costs[min(rank, len(costs)-1)]
}

// heaviest returns the n buckets that have most work.
func (d Database) heaviest(n int) map[int32]Load {
	if len(d.Buckets) <= n {
		return d.Buckets
	}
	list := slices.SortedFunc(maps.Keys(d.Buckets), func(a, b int32) int {
		return cmp.Or(cmp.Compare(d.Buckets[b].Cost(), d.Buckets[a].Cost()), cmp.Compare(a, b))
	})
	out := make(map[int32]Load, n)
	for _, b := range list[:n] {
		out[b] = d.Buckets[b]
	}
	return out
}
