package heat

// Report is a picture in amounts per second, of one proxy or of several.
type Report struct {
	Keys       Heaviest[Name]      `json:"keys"`
	Statements Heaviest[Statement] `json:"statements"`
	Shards     map[string]Shard    `json:"shards"`
	Databases  map[string]Database `json:"databases"`
	Age        float64             `json:"age"` // seconds since the oldest picture began
	Moment     Moment              `json:"moment,omitzero"`
}

// Database is the work in one database.
type Database struct {
	Load    Load           `json:"l"`
	Ways    [ways]float64  `json:"w"` // statements by Way
	Buckets map[int32]Load `json:"b"`
	Samples float64        `json:"s"` // on how many samples Buckets rest
	Squares float64        `json:"q"` // the sum of the squares of the costs that these stand for
}

// Parts says what a report has beside the work of shards and databases.
type Parts uint8

// The parts, and all of them that one picture has.
const (
	KeyPart Parts = 1 << iota
	StatementPart
	BucketPart
	MomentPart // which another picture has: see NewRecent
	AllParts   = KeyPart | StatementPart | BucketPart
)

// Report returns the picture as it is now.
func (p *Picture) Report() Report { return p.Some(AllParts) }

// Some returns some parts of the picture as it is now.
func (p *Picture) Some(parts Parts) Report {
	keys, statements := 0, 0
	if parts&KeyPart != 0 {
		keys = maxListed
	}
	if parts&StatementPart != 0 {
		statements = maxListedStatements
	}
	r := p.report(keys, statements)
	if parts&BucketPart == 0 {
		return r
	}
	f := p.perSecond()
	for name, d := range p.databases {
		c := r.Databases[name]
		c.Buckets = d.grid.Buckets(f)
		r.Databases[name] = c
	}
	return r
}

// report returns the picture with so many keys and statements, and without buckets.
func (p *Picture) report(keys, statements int) Report {
	f := p.perSecond()
	r := Report{Shards: map[string]Shard{}, Databases: map[string]Database{}, Age: p.age}
	if keys > 0 {
		r.Keys = p.keys.Heaviest(keys).Times(f)
	}
	if statements > 0 {
		r.Statements = p.statements.Heaviest(statements).Times(f)
	}
	for name, s := range p.shards {
		c := *s
		c.Load, c.Loose = c.Load.Times(f), c.Loose.Times(f)
		r.Shards[name] = c
	}
	for name, d := range p.databases {
		c := Database{Load: d.load.Times(f), Ways: d.ways, Samples: d.grid.samples, Squares: d.grid.squares * f * f}
		for i := range c.Ways {
			c.Ways[i] *= f
		}
		r.Databases[name] = c
	}
	return r
}

// Merge returns two reports together.
func Merge(a, b Report) Report {
	r := Report{
		Keys: a.Keys.Merge(b.Keys, maxListed), Statements: a.Statements.Merge(b.Statements, maxListedStatements),
		Shards: map[string]Shard{}, Databases: map[string]Database{}, Age: max(a.Age, b.Age), Moment: a.Moment.merge(b.Moment),
	}
	for _, x := range []Report{a, b} {
		for name, s := range x.Shards {
			sum := r.Shards[name]
			sum.Load, sum.Loose = sum.Load.Plus(s.Load), sum.Loose.Plus(s.Loose)
			sum.Times.Merge(&s.Times, 1)
			sum.Waits.Merge(&s.Waits, 1)
			r.Shards[name] = sum
		}
		for name, d := range x.Databases {
			sum := r.Databases[name]
			if sum.Buckets == nil {
				sum.Buckets = make(map[int32]Load, len(d.Buckets))
			}
			sum.Load, sum.Samples, sum.Squares = sum.Load.Plus(d.Load), sum.Samples+d.Samples, sum.Squares+d.Squares
			for i := range sum.Ways {
				sum.Ways[i] += d.Ways[i]
			}
			for i, l := range d.Buckets {
				sum.Buckets[i] = sum.Buckets[i].Plus(l)
			}
			r.Databases[name] = sum
		}
	}
	return r
}

// Effective returns from how many samples of equal cost the work of buckets would be known as well. A
// few statements that cost much more than others leave less known than their number says.
func (d Database) Effective() float64 {
	sum := 0.0
	for _, l := range d.Buckets {
		sum += l.Cost()
	}
	if d.Squares <= 0 {
		return 0
	}
	return sum * sum / d.Squares
}

// Share returns which share of the statements of a database went one of these ways.
func (d Database) Share(of ...Way) float64 {
	some, all := 0.0, 0.0
	for _, n := range d.Ways {
		all += n
	}
	for _, w := range of {
		some += d.Ways[w]
	}
	if all == 0 {
		return 0
	}
	return some / all
}

// TwoPhase returns which share of the commits of a database were of several shards.
func (d Database) TwoPhase() float64 {
	if all := d.Ways[Commit] + d.Ways[TwoPhase]; all > 0 {
		return d.Ways[TwoPhase] / all
	}
	return 0
}
