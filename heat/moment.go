package heat

// Moment is the heaviest keys of the last moment, and what shards had to do, in amounts per second. It says what has just become
// hot before a Report shows much of it.
type Moment struct {
	Keys   Heaviest[Name]     `json:"k"` // without times and values
	Shards map[string]float64 `json:"s"` // costs
}

// Moment returns what a recent picture shows now.
func (p *Picture) Moment() Moment {
	f := p.perSecond()
	m := Moment{Keys: p.keys.Heaviest(briefKeys).Times(f), Shards: make(map[string]float64, len(p.shards))}
	m.Keys.forgetTimes()
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
