package heat

import (
	"math"
	"slices"
)

const (
	// lowest is the amount of level 1, highest that of level 255: nine powers of ten, in steps of 8 percent.
	lowest  = 1e-2
	highest = 1e7
)

// Level returns an amount on a scale of 255 steps, each of which is the same factor. Only an amount of
// nothing is at level 0.
func Level(amount float64) byte {
	if !(amount > 0) {
		return 0
	}
	at := 1 + 254*math.Log(amount/lowest)/math.Log(highest/lowest)
	return byte(math.Round(min(max(at, 1), 255)))
}

// amounts are the amounts of all levels.
var amounts = func() (out [256]float32) {
	for level := 1; level < len(out); level++ {
		out[level] = float32(lowest * math.Pow(highest/lowest, float64(level-1)/254))
	}
	return out
}()

// Amount is about the amount of a level.
func Amount(level byte) float32 { return amounts[level] }

// Strip is one row of a map: a bucket, or buckets of one shard that follow each other there.
type Strip struct {
	Shard   string  `json:"shard"`
	Buckets []int32 `json:"buckets"`
}

// Strips returns the rows of a map of at most so many rows, shard by shard. placed has the number of the
// shard of each bucket. If there are too many buckets, neighbours on a shard share a row.
func Strips(placed []uint16, shards []string, most int) []Strip {
	by := make([][]int32, len(shards))
	for b, on := range placed {
		if int(on) < len(shards) {
			by[on] = append(by[on], int32(b))
		}
	}
	each := max(1, (len(placed)+most-1)/most)
	for ; each < len(placed); each++ {
		rows := 0
		for _, list := range by {
			rows += (len(list) + each - 1) / each
		}
		if rows <= most {
			break
		}
	}
	var out []Strip
	for on, list := range by {
		for some := range slices.Chunk(list, each) {
			out = append(out, Strip{shards[on], some})
		}
	}
	return out[:min(len(out), most)]
}

// annals is the history of one database. The level of a row is that of its busiest bucket.
type annals struct {
	strips []Strip
	rowOf  []int32 // by bucket; -1 for none
	layout int
	rings  [spans]ring
	last   int64 // when there was work, in seconds

	// The column of the day that is being made: sums of amounts, and of how many columns of the hour.
	sums [Metrics][]float32
	of   int
	day  int64 // which column it is
}

func newAnnals() *annals {
	a := &annals{}
	for s := range spans {
		a.rings[s].columns = make([]*[Metrics][]byte, s.Columns())
	}
	return a
}

// relay makes the rows anew if they have changed. The past of a bucket goes where the bucket is now.
func (a *annals) relay(strips []Strip) {
	if slices.EqualFunc(a.strips, strips, func(x, y Strip) bool { return x.Shard == y.Shard && slices.Equal(x.Buckets, y.Buckets) }) {
		return
	}
	sources := make([][]int32, len(strips)) // the former rows that a row is made of
	last := int32(-1)
	for r, s := range strips {
		for _, b := range s.Buckets {
			last = max(last, b)
			if int(b) < len(a.rowOf) && a.rowOf[b] >= 0 && !slices.Contains(sources[r], a.rowOf[b]) {
				sources[r] = append(sources[r], a.rowOf[b])
			}
		}
	}
	for s := range a.rings {
		a.rings[s].relay(sources)
	}
	for m := range a.sums {
		sums := make([]float32, len(strips))
		for r, from := range sources {
			for _, row := range from {
				sums[r] = max(sums[r], a.sums[m][row])
			}
		}
		a.sums[m] = sums
	}
	a.strips, a.rowOf = strips, slices.Repeat([]int32{-1}, int(last)+1)
	a.layout++
	for r, s := range strips {
		for _, b := range s.Buckets {
			a.rowOf[b] = int32(r)
		}
	}
}

// add records the levels of buckets at a time; nil for no work.
func (a *annals) add(at int64, levels *[Metrics][]byte) {
	column := a.rings[Hour].next(at/Hour.Step(), len(a.strips))
	if levels != nil {
		for m := range levels {
			for b, level := range levels[m] {
				if b < len(a.rowOf) && a.rowOf[b] >= 0 && column[m][a.rowOf[b]] < level {
					column[m][a.rowOf[b]] = level
				}
			}
		}
	}
	if day := at / Day.Step(); day != a.day {
		a.day, a.of = day, 0
		for m := range a.sums {
			clear(a.sums[m])
		}
	}
	a.of++
	mean := a.rings[Day].next(a.day, len(a.strips))
	for m := range a.sums {
		for r, level := range column[m] {
			a.sums[m][r] += Amount(level)
			mean[m][r] = Level(float64(a.sums[m][r]) / float64(a.of))
		}
	}
}

// ring is the last columns of a map, by their number modulo how many there are.
type ring struct {
	columns []*[Metrics][]byte // nil for one that has never been
	newest  int64
}

// next returns the column of that number, which is the newest one, or a later one that is empty.
func (r *ring) next(number int64, rows int) *[Metrics][]byte {
	for at := max(r.newest+1, number-int64(len(r.columns))+1); at < number; at++ {
		r.columns[at%int64(len(r.columns))] = nil
	}
	i := number % int64(len(r.columns))
	if number != r.newest || r.columns[i] == nil {
		c := new([Metrics][]byte)
		for m := range c {
			c[m] = make([]byte, rows)
		}
		r.columns[i] = c
	}
	r.newest = number
	return r.columns[i]
}

// column returns a column, nil if nothing is known of that time.
func (r *ring) column(number int64) *[Metrics][]byte {
	if number > r.newest || number <= r.newest-int64(len(r.columns)) || number < 0 {
		return nil
	}
	return r.columns[number%int64(len(r.columns))]
}

// relay makes each row of all columns the highest of some former rows.
func (r *ring) relay(sources [][]int32) {
	for _, c := range r.columns {
		if c == nil {
			continue
		}
		for m := range c {
			row := make([]byte, len(sources))
			for i, from := range sources {
				for _, f := range from {
					row[i] = max(row[i], c[m][f])
				}
			}
			c[m] = row
		}
	}
}

// series is the amounts of one shard over the last hour.
type series struct {
	amounts [360][Metrics]float32
	newest  int64
}

func (s *series) add(number int64, amounts [Metrics]float32) {
	n := int64(len(s.amounts))
	for at := max(s.newest+1, number-n+1); at < number; at++ {
		s.amounts[at%n] = [Metrics]float32{}
	}
	s.newest = number
	s.amounts[number%n] = amounts
}

func (s *series) at(number int64, m Metric) float32 {
	n := int64(len(s.amounts))
	if number > s.newest || number <= s.newest-n {
		return 0
	}
	return s.amounts[number%n][m]
}
