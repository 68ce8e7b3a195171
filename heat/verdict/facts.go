package verdict

import (
	"math"

	"weft/heat"
)

// Facts are what is known of one second.
type Facts struct {
	heat.Brief
	// Servers are all shards of the cluster, and Home is the name of that with the undeclared tables.
	Servers []Server
	Home    string
	// Skews are the databases whose work is less evenly spread than usual.
	Skews []Skew
	// At is the time of this second, in seconds.
	At int64
	// Counts reports whether the IDs of the keys of a group are in the order of the keys' values, and neighbours are in one place.
	// Nil: they never are.
	Counts func(database string, group uint32) bool
	// Hidden: values of keys are not to be kept.
	Hidden bool
	// Place names the shard that a bucket of a database is on, "" if there is no such bucket.
	Place func(database string, bucket int32) string
}

// Skew says that the work of a database is on fewer buckets than usual: on how many that have effect, and how
// many are usual. Top is the share of the heaviest one, which is First.
type Skew struct {
	Database   string
	Now, Usual float64
	Top        float64
	First      int32
}

// Server is one shard of the cluster.
type Server struct {
	Name   string
	Weight float64
	Word   Word
}

// Word is what a shard says of its backends that are active, on average of the last seconds.
type Word struct {
	Known bool    `json:"k"`
	CPU   float64 `json:"cpu"`  // those that wait for nothing
	Lock  float64 `json:"lock"` // that wait for locks of others
	IO    float64 `json:"io"`   // that read or write files
	Other float64 `json:"other"`
	// Cores is how many the server has, 0 if that is not known.
	Cores float64 `json:"cores,omitempty"`
	// WAL is how many bytes of write-ahead log the server writes per second, and Machine which part of its processors' time is used, by
	// whatever runs there. Nil: not known.
	WAL     *float64 `json:"wal,omitempty"`
	Machine *float64 `json:"machine,omitempty"`
	// Counters are what both come from.
	Counters Counters `json:"counters,omitzero"`
}

// Counters are what a server has counted since some moment in the past. 0: it does not say.
type Counters struct {
	WAL  float64 `json:"wal,omitempty"`  // bytes
	Used float64 `json:"used,omitempty"` // of the time of processors, in any unit
	Time float64 `json:"time,omitempty"` // of processors, in the same unit
}

// wordHalfLife is after how many seconds what a shard has said counts half.
const wordHalfLife = 3.0

// Active is how many backends are.
func (w Word) Active() float64 { return w.CPU + w.Lock + w.IO + w.Other }

// Then returns what is known after the shard has said more, so many seconds later.
func (w Word) Then(next Word, seconds float64) Word {
	if !w.Known || !next.Known {
		return next
	}
	f := math.Exp2(-max(seconds, 0) / wordHalfLife)
	mix := func(a, b float64) float64 { return f*a + (1-f)*b }
	if next.Cores == 0 {
		next.Cores = w.Cores
	}
	return Word{
		Known: true, CPU: mix(w.CPU, next.CPU), Lock: mix(w.Lock, next.Lock), IO: mix(w.IO, next.IO), Other: mix(w.Other, next.Other), Cores: next.Cores,
		WAL:     smooth(w.WAL, rate(w.Counters.WAL, next.Counters.WAL, seconds), f),
		Machine: smooth(w.Machine, rate(w.Counters.Used, next.Counters.Used, next.Counters.Time-w.Counters.Time), f), Counters: next.Counters,
	}
}

// rate is by how much a counter has grown per unit of what passed meanwhile, nil if that cannot be told: it is not known, or another server
// has begun anew.
func rate(was, is, passed float64) *float64 {
	if was <= 0 || is < was || passed <= 0 {
		return nil
	}
	r := (is - was) / passed
	return &r
}

// smooth lets what was known before count by f.
func smooth(was, is *float64, f float64) *float64 {
	if was == nil || is == nil {
		return is
	}
	x := f**was + (1-f)**is
	return &x
}
