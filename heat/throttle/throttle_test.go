package throttle

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"weft/pgerr"
)

var start = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// after is so many milliseconds after start.
func after(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// aRule is a valid rule.
func aRule(change ...func(*Rule)) Rule {
	r := Rule{
		ID: 12, Revision: 1, Left: time.Minute, Lasts: time.Minute, MaxWait: UsualWait, Class: Any, Mode: Enforce, Origin: Manual, Created: start,
		Target: Target{Kind: Key, Database: "app", Name: "public.orders", Group: 3, ID: 99, Value: []byte("7"), Shown: "7"}, Limit: Limit{Rate: 200},
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func live(change ...func(*Rule)) *Live { return NewLive(aRule(change...), nil, NewMetrics(), start) }

func TestValidate(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*Rule)
		want   string
	}{
		"valid":          {func(*Rule) {}, ""},
		"refuse":         {func(r *Rule) { r.Limit = Limit{Refuse: true} }, ""},
		"share":          {func(r *Rule) { r.Limit = Limit{Share: 0.1} }, ""},
		"no limit":       {func(r *Rule) { r.Limit = Limit{} }, "one limit, not 0"},
		"two limits":     {func(r *Rule) { r.Limit.Refuse = true }, "one limit, not 2"},
		"negative rate":  {func(r *Rule) { r.Limit.Rate = -1 }, "a rate is from"},
		"no number":      {func(r *Rule) { r.Limit.Rate = math.NaN() }, "a rate is from"},
		"negative slots": {func(r *Rule) { r.Limit = Limit{Concurrency: -1} }, "a concurrency is from"},
		"large share":    {func(r *Rule) { r.Limit = Limit{Share: 1.1} }, "a share is"},
		"no time":        {func(r *Rule) { r.Lasts = 0 }, "lasts longer than"},
		"too long":       {func(r *Rule) { r.Lasts = MaxLasts + 1 }, "at most 30 days"},
		"long wait":      {func(r *Rule) { r.MaxWait = 2 * MaxWait }, "max_wait"},
		"class":          {func(r *Rule) { r.Class = "reads" }, "class"},
		"mode":           {func(r *Rule) { r.Mode = "" }, "mode"},
		"below":          {func(r *Rule) { r.Below = "low" }, "below"},
		"no target":      {func(r *Rule) { r.Target = Target{} }, "no target"},
		"no name":        {func(r *Rule) { r.Target = Target{Kind: User} }, "does not name a username"},
		"range":          {func(r *Rule) { r.Target = Target{Kind: Bucket, First: 5, Last: 4} }, "not a range"},
		"reason":         {func(r *Rule) { r.Reason = strings.Repeat("x", 2000) }, "the reason has"},
	} {
		r := aRule(x.change)
		err := r.Validate()
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want) || pgerr.From(err).Code != pgerr.InvalidParameterValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rate is kept: what comes faster waits in order, and what would wait for too long is refused.
func TestRate(t *testing.T) {
	l := live(func(r *Rule) { r.Limit.Rate = 10 })
	var last time.Duration
	passed, refused := 0, 0
	for range 20 {
		x := Ask([]*Live{l}, nil, start)
		switch {
		case x.Refusal != nil:
			refused++
			if x.Wait != UsualWait {
				t.Errorf("a refusal comes after %v", x.Wait)
			}
		case x.Wait < last:
			t.Errorf("waits %v after %v", x.Wait, last)
		default:
			passed, last = passed+1, x.Wait
		}
	}
	if passed != 6 || refused != 14 { // one at once, and five in half a second
		t.Errorf("%d passed, %d were refused", passed, refused)
	}
	f := l.Figures()
	if f.Passed != 1 || f.Delayed != 5 || f.Refused != 14 || f.DelayP99 < 300 {
		t.Errorf("%+v", f)
	}
	// Those who come back when they are told to pass.
	if x := Ask([]*Live{l}, nil, after(600)); x.Refusal != nil || x.Wait > 100*time.Millisecond {
		t.Errorf("%+v", x)
	}
}

// Over a long time a closed loop of clients gets the rate, whatever they do.
func TestRateOverTime(t *testing.T) {
	l := live(func(r *Rule) { r.Limit.Rate, r.Left = 50, time.Hour })
	next := make([]time.Time, 40) // when each client asks again
	for i := range next {
		next[i] = start
	}
	passed := 0
	for now := start; now.Before(after(20_000)); now = now.Add(time.Millisecond) {
		for i := range next {
			if next[i].After(now) {
				continue
			}
			x := Ask([]*Live{l}, nil, now)
			if x.Refusal == nil {
				passed++
			}
			next[i] = now.Add(x.Wait + time.Millisecond)
		}
	}
	if passed < 950 || passed > 1050 {
		t.Errorf("%d passed in 20 seconds", passed)
	}
}

// Of several rules the strictest decides, and the others give back what was taken.
func TestStrictest(t *testing.T) {
	wide, narrow := live(func(r *Rule) { r.Limit.Rate = 10 }), live(func(r *Rule) { r.ID, r.Limit = 13, Limit{Rate: 1} })
	if x := Ask([]*Live{wide, narrow}, nil, start); x.Wait != 0 || x.Refusal != nil {
		t.Fatalf("%+v", x)
	}
	for range 5 {
		x := Ask([]*Live{wide, narrow}, nil, start)
		if x.Refusal == nil || !strings.Contains(x.Refusal.Detail, "Throttle 13 ") {
			t.Fatalf("%+v", x)
		}
	}
	if x := Ask([]*Live{wide}, nil, start); x.Wait > 101*time.Millisecond {
		t.Errorf("waits %v for what nobody used", x.Wait)
	}
}

func TestRefusal(t *testing.T) {
	l := live(func(r *Rule) { r.Reason = "import" })
	l.state.perSec = 1899.6
	var e *pgerr.Error
	for e == nil {
		e = Ask([]*Live{l}, nil, start).Refusal
	}
	if e.Code != "53400" || e.Message != "key 7 of orders is limited to 200 statements per second" ||
		!strings.HasPrefix(e.Detail, "Demand is 1900 per second. Throttle 12 (manual: import) ends in 59 s. retry_after_ms=") ||
		!strings.HasPrefix(e.Hint, "Try again after 0.1 s, and less often. weft.throttles has") {
		t.Errorf("%s\n%s\n%s", e, e.Detail, e.Hint)
	}
	closed := live(func(r *Rule) { r.Limit, r.Class = Limit{Refuse: true}, Write })
	x := Ask([]*Live{closed}, nil, start)
	if x.Refusal == nil || x.Wait != UsualWait || x.Refusal.Message != "key 7 of orders is closed to writes for now" {
		t.Errorf("%+v, %v", x, x.Refusal)
	}
}

// A rule ends by the clock of the proxy, also if the directory brings it again and again.
func TestEnds(t *testing.T) {
	l := live(func(r *Rule) { r.Limit = Limit{Refuse: true}; r.Left = time.Second })
	again := NewLive(aRule(func(r *Rule) { r.Limit = Limit{Refuse: true}; r.Left = time.Second }), l, nil, after(900))
	if again.Ends != after(1000) || !again.Over(after(1000)) || again.Over(after(999)) {
		t.Errorf("ends at %v", again.Ends)
	}
	if x := Ask([]*Live{again}, nil, after(1001)); x.Refusal != nil || x.Wait != 0 {
		t.Errorf("%+v", x)
	}
	renewed := NewLive(aRule(func(r *Rule) { r.Limit = Limit{Refuse: true}; r.Left = time.Second; r.Revision = 2 }), again, nil, after(900))
	if renewed.Ends != after(1900) || len(Without([]*Live{again, renewed}, after(1500))) != 1 {
		t.Errorf("ends at %v", renewed.Ends)
	}
}

// A rule that is observed counts what it would do, and does nothing.
// A declared rule has no end, and says so.
func TestDeclared(t *testing.T) {
	r := aRule(func(r *Rule) { r.Limit, r.Origin, r.Lasts, r.Left = Limit{Refuse: true}, Declared, 0, 0 })
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	l := NewLive(r, nil, NewMetrics(), now)
	l = NewLive(r, l, NewMetrics(), now.Add(time.Hour))
	if later := now.Add(20 * 365 * 24 * time.Hour); l.Over(later) || len(Without([]*Live{l}, later)) != 1 {
		t.Error("it has ended")
	}
	if e := l.Refused(now); !strings.Contains(e.Detail, "(declared) has no end") {
		t.Errorf("%s", e.Detail)
	}
	if r.Lasts = time.Hour; r.Validate() == nil {
		t.Error("one with an end is declared")
	}
	if r.Origin, r.Lasts = Manual, 0; r.Validate() == nil {
		t.Error("one of a user has no end")
	}
}

func TestObserve(t *testing.T) {
	m := NewMetrics()
	l := NewLive(aRule(func(r *Rule) { r.Mode, r.Limit.Rate = Observe, 10 }), nil, m, start)
	for range 20 {
		if x := Ask([]*Live{l}, nil, start); x.Refusal != nil || x.Wait != 0 {
			t.Fatalf("%+v", x)
		}
	}
	if f := l.Figures(); f.Passed != 1 || f.Delayed != 5 || f.Refused != 14 {
		t.Errorf("%+v", f)
	}
	got := map[string]int64{}
	m.Each(func(o Origin, k Kind, action string, n int64) { got[action] += n })
	if got["would_delay"] != 5 || got["would_refuse"] != 14 || got["delayed"]+got["refused"] != 0 {
		t.Errorf("%v", got)
	}
}

// What could not wait is paid for by those who come later, up to a bound.
func TestCharge(t *testing.T) {
	l := live(func(r *Rule) { r.Limit.Rate = 10 })
	for range 10 {
		l.Charge(start)
	}
	if x := Ask([]*Live{l}, nil, start); x.Refusal == nil {
		t.Errorf("%+v", x)
	}
	for range 1000 {
		l.Charge(start)
	}
	if x := Ask([]*Live{l}, nil, after(5200)); x.Refusal != nil {
		t.Errorf("the debt has no bound: %v", x.Refusal.Detail)
	}
}

// A client that gives up while it waits takes nothing.
func TestCancel(t *testing.T) {
	l := live(func(r *Rule) { r.Limit.Rate = 2 })
	Ask([]*Live{l}, nil, start)
	for range 10 {
		x := Ask([]*Live{l}, nil, start)
		if x.Refusal != nil {
			t.Fatal("what was given back is not there")
		}
		x.Cancel(start)
	}
}

func TestPart(t *testing.T) {
	for _, x := range []struct {
		proxies  int
		own, all float64
		want     float64
	}{{1, 10, 10, 1}, {2, 0, 0, 0.5}, {2, 30, 40, 0.625}, {2, 0, 40, 0.25}, {4, 10, 10, 0.625}, {0, 0, 0, 1}} {
		if got := Part(x.proxies, x.own, x.all); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%+v: %v", x, got)
		}
	}
	l := live(func(r *Rule) { r.Limit.Rate = 100 })
	l.SetPart(0.25, nil, start)
	if got := float64(l.state.limiter.Limit()); got != 25 {
		t.Errorf("%v", got)
	}
}

// Places are given in order; a place that is given back goes to the next, and one that nobody waits for
// any more to the one after.
func TestSlots(t *testing.T) {
	l := live(func(r *Rule) { r.Limit = Limit{Concurrency: 2} })
	if x := Ask([]*Live{l}, nil, start); len(x.Enters) != 1 || x.Wait != 0 {
		t.Fatalf("%+v", x)
	}
	a, b, c, d := l.Enter(), l.Enter(), l.Enter(), l.Enter()
	if !a.Has() || !b.Has() || c.Has() || d.Has() {
		t.Fatal("two places are for two")
	}
	c.Leave()
	a.Leave()
	a.Leave()
	if !d.Has() || c.Has() {
		t.Error("the place goes to the next who waits")
	}
	e := l.Enter()
	b.Leave()
	if !e.Has() {
		t.Error("a place is free")
	}
	if err := l.Refused(start); err.Code != pgerr.ConfigurationLimitExceeded || !strings.Contains(err.Message, "2 transactions at a time") {
		t.Error(err)
	}
	seen := live(func(r *Rule) { r.Limit, r.Mode = Limit{Concurrency: 1}, Observe })
	for range 2 {
		if !seen.Enter().Has() {
			t.Error("a place is wanted")
		}
	}
	if seen.Figures().Delayed != 1 {
		t.Errorf("%+v", seen.Figures())
	}
}

// A share of a shard's time: statements that take long leave room for fewer of them.
func TestShare(t *testing.T) {
	l := live(func(r *Rule) { r.Limit, r.Left = Limit{Share: 0.1}, time.Hour })
	l.SetPart(1, map[string]float64{"a": 2}, start)
	busy := time.Duration(0)
	for now := start; now.Before(after(60_000)); {
		x := Ask([]*Live{l}, []string{"a"}, now)
		now = now.Add(x.Wait)
		if x.Refusal == nil {
			now = now.Add(50 * time.Millisecond)
			l.Spent("a", 50*time.Millisecond, now)
			busy += 50 * time.Millisecond
		}
	}
	if busy < 8*time.Second || busy > 16*time.Second { // a tenth of two processors is 12 s
		t.Errorf("%v of a minute", busy)
	}
	if x := Ask([]*Live{l}, []string{"b"}, after(60_000)); x.Wait != 0 || x.Refusal != nil {
		t.Errorf("another shard: %+v", x)
	}
}

func TestMatch(t *testing.T) {
	named := func(id int64, k Kind, name string) *Live {
		return live(func(r *Rule) { r.ID, r.Target = id, Target{Kind: k, Name: name} })
	}
	key := live(func(r *Rule) { r.ID = 1 })
	twin := live(func(r *Rule) { r.ID = 2; r.Target.Value = []byte("8") }) // another value with the same hash
	buckets := live(func(r *Rule) {
		r.ID, r.Target = 3, Target{Kind: Bucket, Database: "app", First: 4, Last: 6, Buckets: 64}
	})
	statement := live(func(r *Rule) { r.ID, r.Target = 4, Target{Kind: Statement, Database: "app", Statement: -5} })
	writes := live(func(r *Rule) { r.ID, r.Target, r.Class = 9, Target{Kind: User, Name: "report"}, Write })
	urgent := live(func(r *Rule) { r.ID, r.Target, r.Below = 10, Target{Kind: User, Name: "report"}, "normal" })
	table := NewTable([]*Live{
		key, twin, buckets, statement, named(5, Shard, "s1"), named(6, User, "report"), named(7, Database, "app"), named(8, Application, "etl"), writes, urgent,
	})
	if NewTable(nil) != nil || len(table.All()) != 10 || !table.Wants(Key) || !table.Wants(Application) || NewTable([]*Live{key}).Wants(Statement) {
		t.Error("tables")
	}
	places := table.Places
	found := places.Spelled(places.Named("app", 3, 99), []byte("7")) | places.Bucket("app", 5, 64) | places.Bucket("app", 4, 128) | places.Bucket("other", 5, 64)
	if len(places.Named("app", 3, 98))+len(places.Named("app", 4, 99))+len(places.Named("other", 3, 99)) != 0 {
		t.Error("keys that no rule means")
	}
	for _, x := range []struct {
		f    Facts
		want []int64
	}{
		{Facts{}, nil},
		{Facts{Found: found}, []int64{1, 3}},
		{Facts{Database: "app", Statement: -5}, []int64{4, 7}},
		{Facts{Database: "other", Statement: -5}, nil},
		{Facts{Shards: []string{"s0", "s1"}}, []int64{5}},
		{Facts{User: "report", Priority: 1}, []int64{6}},
		{Facts{User: "report", Priority: -1}, []int64{6, 10}},
		{Facts{User: "report", Write: true}, []int64{6, 9}},
		{Facts{Application: "etl", User: "web"}, []int64{8}},
	} {
		var got []int64
		for _, l := range table.Match(&x.f, nil) {
			got = append(got, l.ID)
		}
		if len(got) != len(x.want) {
			t.Errorf("%+v: %v, not %v", x.f, got, x.want)
			continue
		}
		for i := range got {
			if got[i] != x.want[i] {
				t.Errorf("%+v: %v, not %v", x.f, got, x.want)
			}
		}
	}
}

func TestDemand(t *testing.T) {
	l := live(func(r *Rule) { r.Limit = Limit{Refuse: true} })
	for s := 1; s <= 10; s++ {
		for range 300 {
			Ask([]*Live{l}, nil, after(s*1000-500))
		}
		l.Tick(after(s * 1000))
	}
	if f := l.Figures(); f.Demand < 290 || f.Demand > 301 || f.Refused != 3000 {
		t.Errorf("%+v", f)
	}
	if f := (Figures{ID: 1, Demand: 2, Passed: 1, DelayP99: 5}).Plus(Figures{Demand: 3, Refused: 1, DelayP99: 4}); f != (Figures{1, 5, 1, 0, 1, 5}) {
		t.Errorf("%+v", f)
	}
}

func TestWords(t *testing.T) {
	for want, x := range map[string]Target{
		"key 7 of orders":   {Kind: Key, Name: "public.orders", Shown: "7"},
		"bucket 4":          {Kind: Bucket, First: 4, Last: 4},
		"buckets 4-6":       {Kind: Bucket, First: 4, Last: 6},
		"shard s1":          {Kind: Shard, Name: "s1"},
		"statement -5":      {Kind: Statement, Statement: -5},
		"user report":       {Kind: User, Name: "report"},
		"database app":      {Kind: Database, Name: "app"},
		"application weird": {Kind: Application, Name: "weird"},
	} {
		if got := x.Words(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	for want, l := range map[string]Limit{"200/s": {Rate: 200}, "0.5/s": {Rate: 0.5}, "2 at a time": {Concurrency: 2}, "10 % of a shard": {Share: 0.1}, "nothing": {Refuse: true}} {
		if got := l.Words(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	for want, d := range map[string]time.Duration{"0.7 s": 740 * time.Millisecond, "0.1 s": 0, "8 s": 8 * time.Second, "90 s": 90 * time.Second, "10 min": 10 * time.Minute, "5 h": 5 * time.Hour, "7 days": 7 * 24 * time.Hour} {
		if got := duration(d); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// forty is as many rules as users may make, of all kinds.
func forty() *Table {
	var rules []*Live
	for i := range MaxManual {
		rules = append(rules, live(func(r *Rule) {
			r.ID = int64(i)
			switch name := fmt.Sprint("name ", i); Kinds[i%len(Kinds)] {
			case Key:
				r.Target.ID, r.Target.Value = uint64(i), []byte(name)
			case Bucket:
				r.Target = Target{Kind: Bucket, Database: "app", First: int32(i), Last: int32(i), Buckets: 64}
			case Statement:
				r.Target = Target{Kind: Statement, Database: "app", Statement: int64(i)}
			default:
				r.Target = Target{Kind: Kinds[i%len(Kinds)], Name: name}
			}
		}))
	}
	return NewTable(rules)
}

// match does what a statement costs that no rule concerns.
func match(t *Table, into []*Live, shards []string) []*Live {
	f := Facts{Database: "app", User: "web", Application: "shop", Shards: shards, Statement: 99}
	if len(t.Places.Named("app", 3, 4711)) == 0 {
		f.Found = t.Places.Bucket("app", 63, 64)
	}
	return t.Match(&f, into[:0])
}

func TestMatchAllocatesNothing(t *testing.T) {
	table, into, shards := forty(), make([]*Live, 0, 4), []string{"shard-1"}
	if n := testing.AllocsPerRun(100, func() { into = match(table, into, shards) }); n != 0 || len(into) != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	table, into, shards := forty(), make([]*Live, 0, 4), []string{"shard-1"}
	for b.Loop() {
		into = match(table, into, shards)
	}
}
