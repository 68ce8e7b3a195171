package verdict

import (
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"weft/heat"
	"weft/heat/trend"
)

const (
	// warmUp is how many seconds a picture needs until one heavy statement is little of it.
	warmUp           = 30
	simulatedShards  = 4
	simulatedBuckets = 256
)

// simulation is a cluster whose statements are drawn at random, in a time of its own.
type simulation struct {
	*testing.T
	r       *rand.Rand
	t       *Tracker
	now     []*heat.Picture // of each proxy
	recent  []*heat.Picture
	words   map[string]Word
	draw    func() int // the key of a statement
	hot     int        // key of a statement with the chance chance, see chance
	chance  float64
	busy    func(key int) int64
	waited  func(shard string) int64
	write   bool
	samples int     // per second
	weight  float64 // of each
	found   []Finding
	begun   []Finding // since the beginning
	ended   []Finding
	spread  trend.Skew
}

var shardNames = []string{"s0", "s1", "s2", "s3"}

func place(_ string, bucket int32) string { return shardNames[int(bucket)%simulatedShards] }

// mix spreads numbers over buckets.
func mix(key int) uint64 {
	x := uint64(key+1) * 0x9e3779b97f4a7c15
	x ^= x >> 29
	return x * 0xbf58476d1ce4e5b9
}

func bucketOf(key int) int32 { return int32(mix(key) >> 32 % simulatedBuckets) }

func newSimulation(t *testing.T, seed uint64, proxies int) *simulation {
	s := &simulation{T: t, r: rand.New(rand.NewPCG(16, seed)), t: NewTracker(nil), samples: 400, weight: 10, words: map[string]Word{}}
	for range proxies {
		s.now, s.recent = append(s.now, heat.NewPicture()), append(s.recent, heat.NewRecent())
	}
	s.draw = func() int { return s.r.IntN(100_000) }
	s.busy = func(int) int64 { return int64(300e3 * math.Exp(0.6*s.r.NormFloat64())) }
	s.waited = func(string) int64 { return 0 }
	return s
}

// zipf draws keys of 100,000 by the exponent.
func (s *simulation) zipf(exponent float64) {
	sums := make([]float64, 100_000)
	sum := 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -exponent)
		sums[i] = sum
	}
	s.draw = func() int { return sort.SearchFloat64s(sums, s.r.Float64()*sum) }
}

// pass lets so many seconds pass.
func (s *simulation) pass(seconds float64) {
	for i := range int(float64(s.samples) * seconds) {
		key := s.draw()
		if s.r.Float64() < s.chance {
			key = s.hot
		}
		bucket := bucketOf(key)
		x := heat.Sample{
			Weight: s.weight, Busy: s.busy(key), Bytes: 200, Rows: 1, Database: "app", User: "u", Way: heat.One, Shard: place("", bucket), Write: s.write,
			Text: "select " + string(rune('a'+s.r.IntN(8))),
			Keys: [heat.MaxKeys]heat.Key{{Group: 1, Bucket: bucket, ID: mix(key)}}, KeyCount: 1,
		}
		if x.Waited = s.waited(x.Shard); x.Busy > 50e6 {
			x.Weight = 1 // a heavy statement is sampled for sure
		}
		s.now[i%len(s.now)].Add(&x)
		s.recent[i%len(s.now)].Add(&x)
	}
	for i := range s.now {
		s.now[i].Decay(seconds)
		s.recent[i].Decay(seconds)
	}
}

// second lets a second pass and judges it.
func (s *simulation) second() {
	s.pass(1)
	before := s.found
	s.found = s.t.Second(s.facts(), 1)
	begun, ended := Changes(before, s.found)
	s.begun, s.ended = append(s.begun, begun...), append(s.ended, ended...)
}

// warming returns the keys that the last moment of all proxies shows to be warm.
func (s *simulation) warming() map[heat.Name]bool {
	r := heat.Report{Moment: s.recent[0].Moment()}
	for _, p := range s.recent[1:] {
		r = heat.Merge(r, heat.Report{Moment: p.Moment()})
	}
	return Warming(&r.Moment, place)
}

func (s *simulation) facts() *Facts {
	f := &Facts{Place: place, Home: "s0"}
	for i := range s.now {
		b := heat.NewBrief(s.now[i], s.recent[i], simulatedBuckets)
		if i == 0 {
			f.Brief = b
		} else {
			f.Brief = heat.MergeBriefs(f.Brief, b)
		}
	}
	if s.spread.Warned {
		f.Skews = []Skew{{Database: "app", Now: s.spread.Now, Usual: s.spread.Usual, Top: s.spread.Top, First: int32(s.spread.First)}}
	}
	for _, name := range shardNames {
		f.Servers = append(f.Servers, Server{Name: name, Weight: 1, Word: s.words[name]})
	}
	return f
}

// look notes how evenly work is spread, so many seconds after the last time.
func (s *simulation) look(elapsed float64) {
	r := s.now[0].Report()
	for _, p := range s.now[1:] {
		r = heat.Merge(r, p.Report())
	}
	amounts := make([]float64, simulatedBuckets)
	for b, l := range r.Databases["app"].Buckets {
		amounts[b] = l.Cost()
	}
	d := r.Databases["app"]
	s.spread = s.spread.Next(heat.NewSkew(amounts, d.Samples), simulatedBuckets, d.Effective(), elapsed)
}

func (s *simulation) has(v Verdict, k Kind) *Finding {
	for i := range s.found {
		if s.found[i].Verdict == v && s.found[i].Kind == k {
			return &s.found[i]
		}
	}
	return nil
}

// Half an hour of even work, and one of a few keys with much of it, is no reason for a warning as long
// as no shard is saturated. Statements may wait a little, and now and then one takes long.
func TestNoFalseAlarms(t *testing.T) {
	for _, c := range []struct {
		name     string
		exponent float64
		calm     bool // nothing is warm
	}{{"uniform", 0, true}, {"zipf", 0.99, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSimulation(t, 1, 1)
			if c.exponent > 0 {
				s.zipf(c.exponent)
			}
			busy := s.busy
			s.busy = func(key int) int64 {
				if s.r.IntN(2_000) == 0 {
					return 400e6
				}
				return busy(key)
			}
			s.waited = func(string) int64 { return int64(max(0, s.r.NormFloat64()-1) * 5e6) }
			for second := range simulatedSeconds {
				for _, name := range shardNames {
					s.words[name] = s.words[name].Then(Word{Known: true, CPU: float64(s.r.IntN(4)), Lock: float64(s.r.IntN(2)), Cores: 4}, 1)
				}
				if second%15 == 14 {
					s.look(15)
				}
				s.second()
				if len(s.begun) > 0 || c.calm && second >= warmUp && len(s.found) > 0 {
					t.Fatalf("second %d: %+v", second, s.found)
				}
				if keys := s.warming(); c.calm && len(keys) > 0 {
					t.Fatalf("second %d: %v", second, keys)
				}
			}
		})
	}
}

// A key with a fifth of all statements is found within three seconds, with its shard, once the shard is
// saturated; and it ends by itself.
func TestHotKeyIsFound(t *testing.T) {
	for seed := range uint64(3) {
		s := newSimulation(t, seed, 2)
		s.hot = 7
		on := place("", bucketOf(s.hot))
		for range 30 {
			s.second()
		}
		s.chance = 0.2
		s.waited = func(shard string) int64 {
			if shard == on {
				return 60e6
			}
			return 0
		}
		took := 0
		for s.has(Hot, Key) == nil {
			s.second()
			if took++; took > 3 {
				t.Fatalf("seed %d: not found in %d s: %+v", seed, took, s.found)
			}
		}
		for range 25 {
			s.second()
		}
		f := s.has(Hot, Key)
		if f == nil || f.ID != mix(s.hot) || f.On != on || f.In != bucketOf(s.hot) || f.Reason != SingleKey || f.Class != Read || f.Share < 0.35 || f.Share > 0.65 {
			t.Errorf("seed %d: %+v", seed, f)
		}
		shard, bucket := s.has(Saturated, Shard), s.has(Hot, Bucket)
		if shard == nil || shard.Shard != on || shard.Reason != SingleKey || bucket == nil || bucket.Bucket != f.In || bucket.Reason != SingleKey {
			t.Errorf("seed %d: shard %+v, bucket %+v", seed, shard, bucket)
		}
		for _, f := range s.begun {
			if f.On != on {
				t.Errorf("seed %d: another shard: %+v", seed, f)
			}
		}
		s.chance, s.waited = 0, func(string) int64 { return 0 }
		gone := 0
		for s.has(Hot, Key) != nil {
			s.second()
			if gone++; gone > 25 {
				t.Fatalf("seed %d: still there after %d s", seed, gone)
			}
		}
		if gone < 14 {
			t.Errorf("seed %d: gone after %d s", seed, gone)
		}
	}
}

// A tracker that begins in the middle of an incident finds it as fast, and one that goes on from what
// another one has found begins nothing anew.
func TestBeginInTheMiddle(t *testing.T) {
	s := newSimulation(t, 3, 2)
	s.hot, s.chance, s.waited = 7, 0.2, func(string) int64 { return 60e6 }
	for range 60 {
		s.second()
	}
	before, age := s.found, s.has(Hot, Key).Age
	s.t, s.found, s.begun = NewTracker(nil), nil, nil
	for range 2 {
		s.second()
	}
	if s.has(Hot, Key) == nil || s.has(Hot, Key).Age > 2 {
		t.Errorf("%+v", s.found)
	}
	s.t, s.found, s.begun, s.ended = NewTracker(before), before, nil, nil
	for range 20 {
		s.second()
	}
	if f := s.has(Hot, Key); len(s.begun)+len(s.ended) != 0 || f == nil || f.Age < age+20 {
		t.Errorf("begun %+v, ended %+v, %+v", s.begun, s.ended, f)
	}
}

// Statements of one key that take far longer than those of others make it slow, not hot.
func TestSlowKey(t *testing.T) {
	s := newSimulation(t, 4, 2)
	s.draw = func() int { return s.r.IntN(50) }
	busy := s.busy
	s.busy = func(key int) int64 {
		if key == 9 && s.r.IntN(2) == 0 {
			return 80e6
		}
		return busy(key)
	}
	for range 10 {
		s.second()
	}
	f := s.has(Slow, Key)
	if f == nil || f.ID != mix(9) || f.Slow < 60 || f.Usual > 5 || f.Reason != "" || s.has(Hot, Key) != nil {
		t.Errorf("%+v", s.found)
	}
}

// Work that gathers on a part of the buckets is warned of while no shard is saturated, and the warning ends when the work is spread
// again.
func TestWorkGathers(t *testing.T) {
	s := newSimulation(t, 6, 1)
	s.samples = 150
	part := 0.0
	s.draw = func() int {
		key := s.r.IntN(100_000)
		for s.r.Float64() < part && bucketOf(key) >= simulatedBuckets/10 {
			key = s.r.IntN(100_000)
		}
		return key
	}
	minutes := func(n int, until func() bool) (took int) {
		for ; took < 60*n && !until(); took++ {
			if took%15 == 14 {
				s.look(15)
			}
			s.second()
		}
		return took
	}
	minutes(25, func() bool { return false })
	if len(s.begun) > 0 {
		t.Fatalf("%+v", s.begun)
	}
	part = 0.99
	took := minutes(6, func() bool { return s.has(Skewed, Database) != nil })
	f := s.has(Skewed, Database)
	if f == nil || f.Usual < 200 || f.Buckets > 60 || len(Warnings(s.found)) != 1 {
		t.Fatalf("%+v", s.found)
	}
	w := f.Words(names)
	if w.Severity != Notice || w.Object != "database app" || !strings.Contains(w.Message, "gathers on few buckets") || !strings.Contains(w.SQL, "database = 'app'") {
		t.Errorf("%+v", w)
	}
	t.Logf("warned after %d seconds: %s", took, w.Message)
	part = 0
	if took := minutes(15, func() bool { return s.has(Skewed, Database) == nil }); s.has(Skewed, Database) != nil {
		t.Errorf("still there after %d seconds: %+v", took, s.spread)
	}
}
