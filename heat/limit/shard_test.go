package limit

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"weft/heat"
)

// kind is a kind of statements.
type kind struct {
	id    uint64
	alone float64 // nanoseconds that one takes on a shard with room
	part  float64 // of the statements that clients send
}

// shard is a simulated server with clients that each send a statement as soon as they have an answer.
type shard struct {
	kinds   []kind
	clients float64
	cores   float64 // that statements share; 0: they do not disturb each other
	thrash  float64 // by how much each backend beyond the cores slows all of them
	gap     float64 // nanoseconds that a backend waits for its next statement
	slow    float64 // how many times as long everything takes
	locks   float64 // backends that wait for locks
	fixed   float64
	silent  bool // the shard does not say how many cores it has

	// observed: nobody obeys the limit.
	observed bool

	// even: as many statements come in each second.
	even bool

	r      *rand.Rand
	recent map[uint64]*heat.Pace // with a half-life of a second
	mass   float64
	done   float64 // work of the last second, in nanoseconds
}

func newShard(kinds ...kind) *shard {
	return &shard{kinds: kinds, slow: 1, fixed: 80, r: rand.New(rand.NewPCG(6, 2)), recent: map[uint64]*heat.Pace{}}
}

// second lets the shard work under a limit.
func (s *shard) second(most float64) *Facts {
	if s.observed {
		most = s.fixed
	}
	lent := min(s.clients, most)
	speed := 1 / s.slow
	if s.cores > 0 && lent > s.cores {
		speed *= s.cores / lent / (1 + s.thrash*(lent-s.cores))
	}
	mean := 0.0
	for _, k := range s.kinds {
		mean += k.part * k.alone / speed
	}
	if s.gap > 0 { // what the cores can do, and what the backends would do alone, are approached but not reached
		alone := mean * speed * s.slow
		cores, backends := s.cores/alone, lent/(s.gap+alone)
		x := 1 / math.Hypot(1/cores, 1/backends)
		mean = lent / x
		speed = alone / s.slow / (mean - s.gap)
	}
	rate := lent / mean * 1e9
	for _, p := range s.recent {
		p.Times.Decay(0.5)
		p.Calls /= 2
	}
	s.mass, s.done = s.mass/2+1, 0
	f := &Facts{Lent: lent, Waiting: s.clients - lent, Fixed: s.fixed, Proxies: 2, Active: lent, CPU: lent, Locks: min(s.locks, lent), Cores: s.cores, Observed: s.observed}
	if s.cores == 0 || s.silent {
		f.CPU, f.Cores = 0, 0
	}
	for _, k := range s.kinds {
		p := s.recent[k.id]
		if p == nil {
			p = &heat.Pace{ID: k.id}
			s.recent[k.id] = p
		}
		calls := rate * k.part
		if !s.even {
			calls *= 0.9 + 0.2*s.r.Float64()
		}
		for range 20 {
			p.Times.Add(int64(k.alone/speed*math.Exp(0.4*s.r.NormFloat64())), calls/20)
		}
		p.Calls += calls
		s.done += calls * k.alone
		now := *p
		now.Calls /= s.mass
		f.Paces = append(f.Paces, now)
	}
	return f
}

// run lets so many seconds pass, and returns the mean work of a second.
func (s *shard) run(l *Limit, seconds int) (work float64) {
	for range seconds {
		*l = l.Next(s.second(max(l.Most, 1)), 1)
		work += s.done / float64(seconds)
	}
	return work
}

// fixedWork returns the most work that any fixed limit lets the shard do, and that of the limit that the configuration has.
func (s *shard) fixedWork() (best, configured float64) {
	s.even = true
	defer func() { s.even = false }()
	for n := 2.0; n <= s.fixed; n++ {
		s.second(n)
		if best = max(best, s.done); n == s.fixed {
			configured = s.done
		}
	}
	return best, configured
}

// warm lets few clients show what statements take.
func (s *shard) warm() (l Limit) {
	s.clients = 3
	s.run(&l, 60)
	return l
}

var quick = kind{1, 1e6, 1}

// A limit that has nothing to limit is the fixed one.
func TestOpen(t *testing.T) {
	s := newShard(quick)
	l := s.warm()
	if !l.Open() || l.Most != 80 || l.Slowdown < 0.8 || l.Slowdown > 1.4 {
		t.Errorf("%+v", l)
	}
	s.fixed = 160
	if s.run(&l, 1); l.Most != 160 {
		t.Errorf("%v after another proxy came", l.Most)
	}
}

// A shard whose backends disturb each other gets more done with a limit than with all of them, as much as with the best limit
// when it is four times as slow for a minute, and returns to what it was.
func TestSlowed(t *testing.T) {
	s := newShard(quick)
	s.cores, s.thrash = 4, 0.02
	l := s.warm()
	s.clients = 64
	s.run(&l, 60)
	before := s.run(&l, 30)
	best, fixed := s.fixedWork()
	t.Logf("limit %v: %.2f of the best, the fixed limit %.2f", l.Most, before/best, fixed/best)
	if before < 0.8*best || before < fixed {
		t.Errorf("limit %+v does %v, the best does %v and the fixed one %v", l, before, best, fixed)
	}
	s.slow = 4
	slowed := s.run(&l, 60)
	best, _ = s.fixedWork()
	t.Logf("slow: limit %v: %.2f of the best", l.Most, slowed/best)
	if slowed < 0.8*best {
		t.Errorf("slow: limit %+v does %v, the best does %v", l, slowed, best)
	}
	s.slow = 1
	s.run(&l, 30)
	after := s.run(&l, 10)
	if after < 0.9*before {
		t.Errorf("limit %v does %v after the minute, %v before", l.Most, after, before)
	}
}

// A shard whose backends wait for their clients between statements needs more backends than cores. A limit costs such a shard about a
// fifth of its work at most, also while the shard is four times as slow for a minute, after that minute, and ten minutes later.
func TestReturns(t *testing.T) {
	for _, gap := range []float64{0.2e6, 0.5e6, 1e6, 2e6} {
		s := newShard(quick)
		s.cores, s.gap = 4, gap
		l := s.warm()
		s.clients = 80
		s.run(&l, 20)
		before := s.run(&l, 60)
		best, _ := s.fixedWork()
		s.slow = 4
		slowed := s.run(&l, 60)
		bestSlowed, _ := s.fixedWork()
		s.slow = 1
		s.run(&l, 10)
		after := s.run(&l, 60)
		s.run(&l, 600)
		late := s.run(&l, 60)
		t.Logf("gap %.1f ms: limit %v: %.2f of the best, slow %.2f of the best, then %.2f of before, in the end %.2f of the best", gap/1e6, l.Most, before/best, slowed/bestSlowed, after/before, late/best)
		if before < 0.75*best || slowed < 0.8*bestSlowed || after < 0.9*before || late < 0.8*best {
			t.Errorf("gap %.1f ms: the work is %v of %v, slow %v of %v, then %v, in the end %v", gap/1e6, before, best, slowed, bestSlowed, after, late)
		}
	}
}

// A shard that is slow whatever the number of its backends needs all of them.
func TestSlowNotCrowded(t *testing.T) {
	s := newShard(quick)
	l := s.warm()
	s.clients = 70
	s.run(&l, 30)
	s.slow = 4
	work := s.run(&l, 120)
	best, _ := s.fixedWork()
	t.Logf("%.2f of the best", work/best)
	if work < 0.9*best {
		t.Errorf("limit %+v does %v, the best does %v", l, work, best)
	}
}

// Short and long statements may be mixed in any way: more of the long ones is no slowdown.
func TestMixture(t *testing.T) {
	short, long := kind{1, 0.2e6, 0.999}, kind{2, 2e9, 0.001}
	s := newShard(short, long)
	l := s.warm()
	s.clients = 78
	for i := range 600 {
		s.kinds[1].part = 0.5 * float64(i) / 600
		s.kinds[0].part = 1 - s.kinds[1].part
		s.run(&l, 1)
		if l.Most < 80 {
			t.Fatalf("second %d: %+v", i, l)
		}
	}
}

// A limit does not drift while there is too much to do all the time.
func TestSteady(t *testing.T) {
	s := newShard(quick)
	s.cores, s.thrash = 4, 0.01
	l := s.warm()
	s.clients = 200
	s.run(&l, 120)
	early := s.run(&l, 60)
	least, most := l.Most, l.Most
	for range 3600 {
		s.run(&l, 1)
		least, most = min(least, l.Most), max(most, l.Most)
	}
	late := s.run(&l, 60)
	t.Logf("between %v and %v, work %.3f", least, most, late/early)
	if most > 4*s.cores || math.Abs(late/early-1) > 0.05 {
		t.Errorf("between %v and %v, work %v and then %v", least, most, early, late)
	}
}

// Backends that wait for locks leave the limit as it is.
func TestLocks(t *testing.T) {
	s := newShard(quick)
	s.cores = 4
	l := s.warm()
	s.clients, s.locks = 100, 80
	if s.run(&l, 60); !l.Open() {
		t.Errorf("%+v", l)
	}
	s.locks = 0
	if s.run(&l, 60); l.Most > 12 {
		t.Errorf("%+v", l)
	}
}

// A limit is at least as high as the cores of the shard and the number of proxies, and never above the fixed limit.
func TestBounds(t *testing.T) {
	for _, x := range []struct {
		cores, fixed, least float64
		silent              bool
	}{{6, 80, 6, false}, {1, 80, 2, false}, {1, 80, 4, true}, {16, 8, 8, false}} {
		s := newShard(quick)
		s.cores, s.fixed, s.silent = x.cores, x.fixed, x.silent
		var l Limit
		s.clients = 1
		s.run(&l, 60)
		s.clients, s.slow = 200, 20
		for range 300 {
			if s.run(&l, 1); l.Most < x.least || l.Most > x.fixed {
				t.Fatalf("%v cores: %+v", x.cores, l)
			}
		}
		if l.Most > max(2*x.cores, x.least+2) {
			t.Errorf("%v cores: %+v", x.cores, l)
		}
	}
}

// A limit that is only observed comes to what would do, and rises when there is less to do.
func TestObserved(t *testing.T) {
	s := newShard(quick)
	s.cores, s.observed = 4, true
	l := s.warm()
	s.clients = 64
	if s.run(&l, 30); l.Most < 4 || l.Most > 12 {
		t.Errorf("%+v", l)
	}
	s.clients = 3
	if s.run(&l, 60); !l.Open() {
		t.Errorf("%+v", l)
	}
}

// Without clients, a limit that was lowered returns to the fixed one after a while, and so does one of unknown statements.
func TestForgets(t *testing.T) {
	lowered := func() (*shard, Limit) {
		s := newShard(quick)
		s.cores = 4
		l := s.warm()
		s.clients = 100
		if s.run(&l, 60); l.Most > 12 {
			t.Fatalf("%+v", l)
		}
		return s, l
	}
	s, l := lowered()
	before := l.Most
	s.clients = 1
	if s.run(&l, 30); l.Most > before {
		t.Errorf("%v became %v within half a minute", before, l.Most)
	}
	if s.run(&l, 120); !l.Open() {
		t.Errorf("%+v", l)
	}
	s, l = lowered()
	s.kinds[0].id = 9
	if s.run(&l, 60); !l.Open() {
		t.Errorf("%+v", l)
	}
}

// Another proxy can go on where one has stopped.
func TestTold(t *testing.T) {
	s := newShard(quick)
	s.cores = 4
	l := s.warm()
	s.clients = 64
	for range 40 {
		f := s.second(l.Most)
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var told Limit
		if err := json.Unmarshal(text, &told); err != nil {
			t.Fatal(err)
		}
		l = l.Next(f, 1)
		if told = told.Next(f, 1); told.Most != l.Most || told.Slowdown != l.Slowdown {
			t.Fatalf("%+v, told %+v", l, told)
		}
	}
	if l.Open() || len(l.Bases) != 1 {
		t.Errorf("%+v", l)
	}
}

// Only some statements are remembered: those that were seen last.
func TestFewBases(t *testing.T) {
	s := newShard(quick)
	s.clients = 2
	var l Limit
	for i := range 100 {
		s.kinds[0].id = uint64(i)
		s.recent = map[uint64]*heat.Pace{}
		s.run(&l, 1)
	}
	if _, ok := l.Bases[99]; len(l.Bases) != mostBases || !ok {
		t.Errorf("%d bases", len(l.Bases))
	}
}
