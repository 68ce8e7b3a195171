package heat

import "math"

// youngest is the age in seconds that a key has at least when its work per second is found: what a shorter time has shown may be
// chance.
const youngest = 0.5

// Moment is the heaviest keys of the last moment, and what shards had to do, in amounts per second. It says what has just become
// hot before a Report shows much of it.
type Moment struct {
	Keys   Heaviest[Name]     `json:"k"` // without times and values
	Shards map[string]float64 `json:"s"` // costs
}

// Moment returns what a recent picture shows now. Keys that are younger than the picture are counted per second of their own age,
// or those that have just come would seem to have little work.
func (p *Picture) Moment() Moment {
	f := p.perSecond()
	m := Moment{Keys: p.keys.Heaviest(briefKeys).Times(f), Shards: make(map[string]float64, len(p.shards))}
	m.Keys.forgetTimes()
	mean := p.halfLife / math.Ln2
	for i := range m.Keys.Entries {
		e := &m.Keys.Entries[i]
		if age := max(e.Age, youngest); age < p.age {
			g := math.Expm1(-p.age/mean) / math.Expm1(-age/mean)
			e.Count, e.Error, e.Load = e.Count*g, e.Error*g, e.Load.Times(g)
		}
	}
	for name, s := range p.shards {
		m.Shards[name] = s.Load.Cost() * f
	}
	return m
}

// merge returns what two proxies have seen together.
func (m Moment) merge(o Moment) Moment {
	out := Moment{Keys: m.Keys.Merge(o.Keys, briefKeys), Shards: map[string]float64{}}
	for _, x := range []Moment{m, o} {
		for name, cost := range x.Shards {
			out.Shards[name] += cost
		}
	}
	return out
}
