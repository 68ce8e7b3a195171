package heat

import (
	"cmp"
	"maps"
	"slices"
)

// Metric is what a History remembers of a bucket or a shard, each in amounts per second.
type Metric uint8

// The metrics, and how many there are.
const (
	Reads  Metric = iota // statements that read
	Writes               // statements that may change rows
	Busy                 // milliseconds for which backends are busy
	Metrics
)

// of returns an amount of work by metric.
func (m Metric) of(l Load) float64 {
	switch m {
	case Reads:
		return l.Read.Calls
	case Writes:
		return l.Write.Calls
	}
	return l.Busy() / 1e6
}

// Span is how far a map of a History goes back, and how finely.
type Span uint8

// The spans, and how many there are.
const (
	Hour Span = iota // an hour in steps of 10 seconds
	Day              // a day in steps of 5 minutes
	spans
)

// Step returns the seconds of one column.
func (s Span) Step() int64 {
	if s == Day {
		return 300
	}
	return 10
}

// Columns returns how many columns the span has.
func (s Span) Columns() int {
	if s == Day {
		return 288
	}
	return 360
}

const (
	// MaxRows bounds the rows of a map.
	MaxRows = 1024
	// maxHistories bounds the databases and maxSeries the shards that a History knows.
	maxHistories = 4
	maxSeries    = 256
)

// Instant is the work of all buckets and shards at one moment.
type Instant struct {
	// Buckets has the levels of buckets by database: the buckets behind the last one with work are left out.
	Buckets map[string]*[Metrics][]byte `json:"b,omitempty"`
	// Shards has amounts.
	Shards map[string][Metrics]float32 `json:"s,omitempty"`
}

// Instant returns what a picture says of this moment.
func (p *Picture) Instant() Instant {
	f := p.perSecond()
	out := Instant{Buckets: map[string]*[Metrics][]byte{}, Shards: map[string][Metrics]float32{}}
	for name, s := range p.shards {
		var amounts [Metrics]float32
		for m := range Metrics {
			amounts[m] = float32(f * m.of(s.Load))
		}
		out.Shards[name] = amounts
	}
	for name, d := range p.databases {
		last := len(d.grid.buckets)
		for last > 0 && d.grid.buckets[last-1] == (Load{}) {
			last--
		}
		if last == 0 {
			continue
		}
		levels := new([Metrics][]byte)
		for m := range Metrics {
			levels[m] = make([]byte, last)
			for b, l := range d.grid.buckets[:last] {
				if l != (Load{}) {
					levels[m][b] = Level(f * m.of(l))
				}
			}
		}
		out.Buckets[name] = levels
	}
	return out
}

// Join adds the work that another proxy has seen at the same moment.
func (i *Instant) Join(other Instant) {
	for name, amounts := range other.Shards {
		sum := i.Shards[name]
		for m := range amounts {
			sum[m] += amounts[m]
		}
		i.Shards[name] = sum
	}
	for name, theirs := range other.Buckets {
		ours := i.Buckets[name]
		if ours == nil {
			i.Buckets[name] = theirs
			continue
		}
		for m := range theirs {
			if more := len(theirs[m]) - len(ours[m]); more > 0 {
				ours[m] = append(ours[m], make([]byte, more)...)
			}
			for b, level := range theirs[m] {
				if level > 0 {
					ours[m][b] = Level(float64(Amount(level)) + float64(Amount(ours[m][b])))
				}
			}
		}
	}
}

// History is the work of the buckets of each database over the last hour and the last day, and of shards
// over the last hour. It is not safe for concurrent use.
type History struct {
	databases map[string]*annals
	shards    map[string]*series
	now       int64 // of the last Record, in seconds
}

// NewHistory returns an empty history.
func NewHistory() *History {
	return &History{databases: map[string]*annals{}, shards: map[string]*series{}}
}

// Record adds a moment. at is its time in seconds and must not go back; strips says how the rows of a
// database's map are made at this moment.
func (h *History) Record(at int64, in Instant, strips func(database string) []Strip) {
	if at < h.now {
		return
	}
	h.now = at
	for _, name := range slices.Sorted(maps.Keys(in.Buckets)) {
		if a := h.annals(name); a != nil {
			a.last = at
		}
	}
	for name, a := range h.databases {
		a.relay(strips(name))
		a.add(at, in.Buckets[name])
	}
	for name, amounts := range in.Shards {
		s := h.shards[name]
		if s == nil && len(h.shards) < maxSeries {
			s = &series{}
			h.shards[name] = s
		}
		if s != nil {
			s.add(at/Hour.Step(), amounts)
		}
	}
	maps.DeleteFunc(h.shards, func(_ string, s *series) bool { return s.newest+int64(Hour.Columns()) < at/Hour.Step() })
}

// annals returns the history of a database that has work now, nil if there is no room for it. A database
// that has had no work for a day makes room.
func (h *History) annals(name string) *annals {
	if a := h.databases[name]; a != nil {
		return a
	}
	if len(h.databases) >= maxHistories {
		idle, found := "", false
		for other, a := range h.databases {
			if h.now-a.last > Day.Step()*int64(Day.Columns()) {
				idle, found = other, true
			}
		}
		if !found {
			return nil
		}
		delete(h.databases, idle)
	}
	a := newAnnals()
	h.databases[name] = a
	return a
}

// Databases lists the databases of which something is known, those with the latest work first.
func (h *History) Databases() []string {
	return slices.SortedFunc(maps.Keys(h.databases), func(a, b string) int {
		return cmp.Or(cmp.Compare(h.databases[b].last, h.databases[a].last), cmp.Compare(a, b))
	})
}

// Strips returns the rows of the maps of a database, and a number that changes when the rows do.
func (h *History) Strips(database string) ([]Strip, int) {
	a := h.databases[database]
	if a == nil {
		return nil, 0
	}
	return a.strips, a.layout
}

// Map is a part of the history of a database. Levels holds one column after the other, each with a level for
// each row; level 0 is no work.
type Map struct {
	Layout        int   // of the rows
	First         int64 // the first column: column × step is its time in seconds
	Columns, Rows int
	Levels        []byte
}

// Map returns the columns of a database from a column on, up to now.
func (h *History) Map(database string, span Span, m Metric, from int64) Map {
	a := h.databases[database]
	if a == nil || m >= Metrics || span >= spans {
		return Map{}
	}
	newest := h.now / span.Step()
	from = max(from, newest-int64(span.Columns())+1, 0)
	out := Map{Layout: a.layout, First: from, Rows: len(a.strips)}
	for at := from; at <= newest; at++ {
		out.Columns++
		if c := a.rings[span].column(at); c != nil && len(c[m]) == out.Rows {
			out.Levels = append(out.Levels, c[m]...)
		} else {
			out.Levels = append(out.Levels, make([]byte, out.Rows)...)
		}
	}
	return out
}

// Series returns the amounts of each shard over the last hour: one for each column from first on.
func (h *History) Series(m Metric) (first int64, out map[string][]float32) {
	newest := h.now / Hour.Step()
	first = max(newest-int64(Hour.Columns())+1, 0)
	out = map[string][]float32{}
	for name, s := range h.shards {
		list := make([]float32, 0, Hour.Columns())
		for at := first; at <= newest; at++ {
			list = append(list, s.at(at, m))
		}
		out[name] = list
	}
	return first, out
}

// Bytes is how much memory the levels and amounts take.
func (h *History) Bytes() int {
	n := 0
	for _, a := range h.databases {
		for s := range a.rings {
			for _, c := range a.rings[s].columns {
				if c != nil {
					n += len(c[0]) * int(Metrics)
				}
			}
		}
		n += 4 * len(a.rowOf)
	}
	return n + len(h.shards)*Hour.Columns()*int(Metrics)*4
}
