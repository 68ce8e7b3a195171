package heat

import "math"

const (
	// HalfLife is after how many seconds a statement counts half, and RecentHalfLife the same for a
	// picture of the last moment.
	HalfLife       = 10.0
	RecentHalfLife = 1.0
	// maxEntries bounds the keys of a picture, and maxListed those of a report. The others are the
	// same for statements.
	maxEntries          = 1024
	maxListed           = 256
	maxStatements       = 512
	maxListedStatements = 128
	// maxDatabases bounds the databases of a picture. Work in others is counted for shards only.
	maxDatabases = 64
)

// Picture is what is known of the work that shards, buckets and keys have now. One goroutine may
// use it at a time.
type Picture struct {
	keys       *Summary[Name]
	statements *Summary[Statement]
	shards     map[string]*Shard
	databases  map[string]*database
	halfLife   float64
	gridless   bool    // the work of buckets is not counted
	age        float64 // seconds since the beginning
}

// Shard is the work of one shard.
type Shard struct {
	Load  Load      `json:"l"`
	Loose Load      `json:"o,omitzero"` // the part of Load that is of statements on this shard alone without a bucket
	Times Histogram `json:"h"`          // how long statements kept backends busy
	Waits Histogram `json:"w"`          // how long statements waited for a backend
}

type database struct {
	grid Grid
	load Load
	ways [ways]float64
}

// NewPicture returns an empty picture.
func NewPicture() *Picture {
	return &Picture{
		keys: NewSummary[Name](maxEntries), statements: NewSummary[Statement](maxStatements),
		shards: map[string]*Shard{}, databases: map[string]*database{}, halfLife: HalfLife,
	}
}

// NewRecent returns an empty picture of the last moment: it forgets within a few seconds, and knows
// fewer keys and statements, and no buckets.
func NewRecent() *Picture {
	return &Picture{
		keys: NewSummary[Name](maxEntries / 4), statements: NewSummary[Statement](maxStatements / 4),
		shards: map[string]*Shard{}, databases: map[string]*database{}, halfLife: RecentHalfLife, gridless: true,
	}
}

// Add counts a sample.
func (p *Picture) Add(s *Sample) {
	if s.Shard != "" {
		p.addShard(s.Shard, s)
	}
	for _, name := range s.Shards {
		p.addShard(name, s)
	}
	d := p.databases[s.Database]
	if d == nil && len(p.databases) < maxDatabases {
		d = &database{}
		p.databases[s.Database] = d
	}
	if d == nil {
		return
	}
	d.load.add(s, 1)
	d.ways[s.Way] += s.Weight
	if s.KeyCount == 0 {
		return
	}
	share := 1 / float64(s.KeyCount)
	cost := s.Weight * share * Cost(s.Busy, s.Bytes)
	for _, k := range s.Keys[:s.KeyCount] {
		if !p.gridless {
			d.grid.Add(k.Bucket, s, share)
		}
		if k.Group == 0 {
			continue
		}
		e := p.keys.Add(Name{s.Database, k.Group, k.ID}, cost)
		e.Bucket = k.Bucket
		e.Load.add(s, share)
		e.Times.Add(s.Busy, s.Weight*share)
	}
}

func (p *Picture) addShard(name string, s *Sample) {
	sh := p.shards[name]
	if sh == nil {
		sh = &Shard{}
		p.shards[name] = sh
	}
	sh.Load.add(s, 1)
	if s.KeyCount == 0 && s.Way == One {
		sh.Loose.add(s, 1)
	}
	sh.Times.Add(s.Busy, s.Weight)
	sh.Waits.Add(s.Waited, s.Weight)
	if s.Text != "" {
		cost := s.Weight * Cost(s.Busy, s.Bytes)
		e := p.statements.Add(Statement{s.Database, s.User, s.Text, name}, cost)
		e.Load.add(s, 1)
		if s.Way == Scatter {
			e.Wide += cost
		}
		e.Times.Add(s.Busy, s.Weight)
	}
}

// Decay says that so many seconds have passed. Databases and shards without work are forgotten.
func (p *Picture) Decay(seconds float64) {
	f := math.Exp2(-seconds / p.halfLife)
	p.age += seconds
	p.keys.Decay(seconds, f, callCost/1000)
	p.statements.Decay(seconds, f, callCost/1000)
	for name, s := range p.shards {
		s.Load, s.Loose = s.Load.Times(f), s.Loose.Times(f)
		s.Times.Decay(f)
		s.Waits.Decay(f)
		if s.Load.Calls() < 1e-3 {
			delete(p.shards, name)
		}
	}
	for name, d := range p.databases {
		d.grid.Decay(f)
		d.load = d.load.Times(f)
		for i := range d.ways {
			d.ways[i] *= f
		}
		if d.load.Calls() < 1e-3 {
			delete(p.databases, name)
		}
	}
}

// Warm returns up to n keys whose value is not known, and which have cost at least a share of all
// work.
func (p *Picture) Warm(share float64, n int) []Name {
	total := 0.0
	for _, d := range p.databases {
		total += d.load.Cost()
	}
	var out []Name
	for _, e := range p.keys.heap {
		if len(out) < n && !e.Known && e.Count-e.Error > 0 && e.Count-e.Error >= share*total {
			out = append(out, e.Name)
		}
	}
	return out
}

// Learn notes the value of a key.
func (p *Picture) Learn(name Name, value string) {
	if e := p.keys.Get(name); e != nil {
		e.Value, e.Known = value, true
	}
}

// Forget forgets the values of all keys.
func (p *Picture) Forget() {
	for _, e := range p.keys.heap {
		e.Value, e.Known = "", false
	}
}

// perSecond turns what has been counted, and decays, into an amount per second: work of a steady
// rate r comes to r × mean × (1 - e^(-age / mean)).
func (p *Picture) perSecond() float64 {
	if p.age <= 0 {
		return 0
	}
	mean := p.halfLife / math.Ln2
	return 1 / (mean * -math.Expm1(-p.age/mean))
}
