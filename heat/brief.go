package heat

import (
	"cmp"
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
	// Paces are how long statements take now, Rooms how connections to each shard are used, and Proxies how many proxies
	// have said so.
	Paces   Paces           `json:"paces,omitempty"`
	Rooms   map[string]Room `json:"rooms,omitempty"`
	Proxies int             `json:"proxies,omitempty"`
}

// NewBrief returns a brief of two pictures. There are so many buckets in each database.
func NewBrief(now, recent *Picture, buckets int) Brief {
	b := Brief{Now: now.report(briefKeys, briefStatements), Recent: recent.report(briefKeys, briefStatements), Medians: map[string]float64{}, Paces: recent.paces()}
	// Nobody looks at the times of statements, and at those of keys for the last moment.
	b.Now.Statements.forgetTimes()
	b.Recent.Statements.forgetTimes()
	b.Recent.Keys.forgetTimes()
	f := now.perSecond()
	for name, d := range now.databases {
		c := b.Now.Databases[name]
		c.Buckets, b.Medians[name] = d.grid.heaviest(briefBuckets, buckets, f)
		b.Now.Databases[name] = c
	}
	return b
}

// MergeBriefs returns two briefs together. The median of both is about the sum of the medians: clients
// of one database use its buckets in much the same way through either proxy.
func MergeBriefs(a, b Brief) Brief {
	out := Brief{
		Now: Merge(a.Now, b.Now), Recent: Merge(a.Recent, b.Recent), Medians: map[string]float64{}, Waiting: map[string]int{},
		Paces: a.Paces.Merge(b.Paces), Rooms: map[string]Room{}, Proxies: a.Proxies + b.Proxies,
	}
	for _, x := range []Brief{a, b} {
		for name, m := range x.Medians {
			out.Medians[name] += m
		}
		for name, n := range x.Waiting {
			out.Waiting[name] += n
		}
		for name, r := range x.Rooms {
			out.Rooms[name] = out.Rooms[name].Plus(r)
		}
	}
	return out
}

func (h Heaviest[K]) forgetTimes() {
	for i := range h.Entries {
		h.Entries[i].Times = Histogram{}
	}
}

// heaviest returns f times the work on the n buckets that have most, and that of the median bucket of so
// many.
func (g *Grid) heaviest(n, buckets int, f float64) (out map[int32]Load, median float64) {
	type one struct {
		bucket int32
		cost   float64
	}
	var list []one
	for i := range g.buckets {
		if c := g.buckets[i].Cost(); c > 0 {
			list = append(list, one{int32(i), c})
		}
	}
	slices.SortFunc(list, func(a, b one) int { return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.bucket, b.bucket)) })
	// The buckets that are not in the list have no work.
	if middle := (buckets - 1) / 2; middle < len(list) {
		median = list[middle].cost * f
	}
	out = make(map[int32]Load, n)
	for _, x := range list[:min(n, len(list))] {
		out[x.bucket] = g.buckets[x.bucket].Times(f)
	}
	return out, median
}
