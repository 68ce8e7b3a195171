package planner

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/plan"
)

// ordersEnv returns an environment in which orders is sharded by customer_id.
func ordersEnv(t testing.TB) *Env {
	t.Helper()
	s, err := catalog.FromDump(`CREATE TABLE public.orders (id bigint, customer_id bigint, status text);
		CREATE TABLE public.plain (id bigint);`)
	if err != nil {
		t.Fatal(err)
	}
	snap := directory.New(64, "a", []directory.Shard{{Name: "a"}, {Name: "b"}})
	declare(t, snap, s, "sharded orders customer_id")
	return &Env{ID: NewID(), Database: "app", Path: []string{"pg_catalog", "public"}, Schema: s, Tables: NewTables(snap, "app"), Home: "a"}
}

// session is what a session has to ask for plans.
type session struct {
	cache *Cache
	scan  parser.Scanner
}

func (s *session) plan(env *Env, text string, oids ...uint32) *plan.Plan {
	s.scan.Scan([]byte(text), env.Options)
	wire := binary.BigEndian.AppendUint16(nil, uint16(len(oids)))
	for _, oid := range oids {
		wire = binary.BigEndian.AppendUint32(wire, oid)
	}
	return s.cache.Plan(env, &s.scan, []byte(text), wire)
}

func TestCacheFindsWhatIsTheSame(t *testing.T) {
	env := ordersEnv(t)
	s := &session{cache: NewCache(1 << 20)}
	first := s.plan(env, "SELECT * FROM orders WHERE customer_id = 1 AND status = 'x'")
	if first.Route != plan.Keyed || len(first.Instances) != 1 {
		t.Fatalf("%s", first)
	}
	for _, same := range []string{
		"SELECT * FROM orders WHERE customer_id = 12345 AND status = 'yy'",
		"SELECT * FROM orders WHERE customer_id = 7 AND status = $$z$$",
		"SELECT * FROM orders WHERE/* trace */customer_id = 7 AND status = E'z'",
	} {
		if s.plan(env, same) != first {
			t.Errorf("planned again: %s", same)
		}
	}
	for _, other := range []string{
		"SELECT * FROM orders WHERE customer_id = 12345678901 AND status = 'x'",
		"SELECT * FROM orders WHERE customer_id = 1.0 AND status = 'x'",
		"SELECT * FROM plain WHERE customer_id = 1 AND status = 'x'",
	} {
		if s.plan(env, other) == first {
			t.Errorf("taken for the same: %s", other)
		}
	}
}

// Whatever a plan depends on tells its entries apart.
func TestCacheKeepsEnvironmentsApart(t *testing.T) {
	s := &session{cache: NewCache(1 << 20)}
	env := ordersEnv(t)
	const text = "SELECT * FROM orders WHERE customer_id = $1"
	seen := map[*plan.Plan]string{}
	check := func(what string, p *plan.Plan) {
		if was := seen[p]; was != "" {
			t.Errorf("%s has the plan of %s", what, was)
		}
		seen[p] = what
	}
	check("no types", s.plan(env, text))
	check("int8", s.plan(env, text, 20))
	check("int4", s.plan(env, text, 23))
	check("two types", s.plan(env, text, 20, 23))
	other := *env
	other.ID, other.Path = NewID(), []string{"pg_catalog", "elsewhere"}
	check("another search path", s.plan(&other, text))
	undeclared := *env
	undeclared.ID, undeclared.Tables = NewID(), nil
	check("no declarations", s.plan(&undeclared, text))
	if p := s.plan(&undeclared, text); p.Route != plan.Home {
		t.Errorf("without declarations: %s", p)
	}
	if p := s.plan(env, text, 20); p.Route != plan.Keyed || p.Params[0] != datum.Int8 || seen[p] != "int8" {
		t.Errorf("int8 again: %s", p)
	}

	// No ID, or temporary tables: never kept.
	nameless := *env
	nameless.ID = 0
	temporary := *env
	temporary.Temporary = map[string]bool{"orders": true}
	before := s.cache.Bytes()
	for _, e := range []*Env{&nameless, &temporary} {
		if p := s.plan(e, text); p == s.plan(e, text) {
			t.Error("a plan that must not be kept was")
		}
	}
	if s.plan(&temporary, text).Route != plan.Home {
		t.Error("a temporary table is on the home shard")
	}
	if s.cache.Bytes() != before {
		t.Error("something was kept")
	}
}

// Plans that depend on literals are found by the text alone, under any order of arrival.
func TestCacheKeepsExactPlansApart(t *testing.T) {
	env := ordersEnv(t)
	planned := 0
	s := &session{cache: NewCache(1 << 20)}
	s.cache.planning = func(env *Env, text string, _ []parser.Literal, _ []uint32) *plan.Plan {
		planned++
		return &plan.Plan{Exact: !strings.Contains(text, "free"), Why: []string{text}}
	}
	for range 3 {
		for i := range 5 {
			text := fmt.Sprintf("SELECT f('%d')", i)
			if got := s.plan(env, text).Why[0]; got != text {
				t.Fatalf("%s has the plan of %s", text, got)
			}
		}
	}
	// The first of a Norm leaves a mark; its second coming is kept.
	if planned != 6 {
		t.Errorf("planned %d times", planned)
	}
	function := func(*Env, string, []parser.Literal, []uint32) *plan.Plan {
		return &plan.Plan{Route: plan.Call, Function: &plan.Function{Name: "pin"}}
	}
	s.cache.planning = function
	if s.plan(env, "SELECT weft.pin('a')") == s.plan(env, "SELECT weft.pin('b')") {
		t.Error("a call has the arguments of another")
	}
}

// A literal that does not parse must not spoil the plan of texts that do, nor the letters of U&"…" that of other names.
func TestCacheSurvivesBadLiterals(t *testing.T) {
	env := ordersEnv(t)
	s := &session{cache: NewCache(1 << 20)}
	for i := range 2 {
		// Later it has the plan of the good ones, and any shard's error is the same.
		if p := s.plan(env, `SELECT E'\u00' FROM orders WHERE customer_id = 1`); i == 0 && !p.Unread {
			t.Fatalf("%s", p)
		}
		if p := s.plan(env, `SELECT E'x' FROM orders WHERE customer_id = 1`); p.Route != plan.Keyed {
			t.Fatalf("%s", p)
		}
		if p := s.plan(env, `SELECT * FROM U&"pl!0061in" UESCAPE '!'`); p.Route != plan.Home {
			t.Fatalf("%s", p)
		}
		if p := s.plan(env, `SELECT * FROM U&"pl!0061in" UESCAPE '?'`); strings.Contains(fmt.Sprint(p.Why), "plain") {
			t.Fatalf("%s", p)
		}
	}
	// What cannot even be scanned is planned each time.
	before := s.cache.Bytes()
	if p := s.plan(env, "SELECT 'a"); !p.Unread {
		t.Errorf("%s", p)
	}
	if p := s.plan(env, "SELECT * FROM orders WHERE customer_id IN (1"+strings.Repeat(",1", maxCached)+")"); p.Route != plan.Keyed {
		t.Errorf("a long text: %s", p.Route)
	}
	if s.cache.Bytes() != before {
		t.Error("something was kept")
	}
}

func TestCacheHitDoesNotAllocate(t *testing.T) {
	env := ordersEnv(t)
	c := NewCache(1 << 20)
	var s parser.Scanner
	text := []byte("SELECT * FROM orders WHERE customer_id = $1 AND status = 'x'")
	oids := []byte{0, 1, 0, 0, 0, 20}
	s.Scan(text, env.Options)
	c.Plan(env, &s, text, oids)
	if n := testing.AllocsPerRun(100, func() { c.Plan(env, &s, text, oids) }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

// The bound holds, and the count is close to what the heap grows by.
func TestCacheCountsWhatItHolds(t *testing.T) {
	env := ordersEnv(t)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	c := NewCache(64 << 20)
	s := &session{cache: c}
	before, counted := heap(), c.Bytes()
	for i := range 500 {
		s.plan(env, fmt.Sprintf("SELECT a%d, b FROM orders o, plain p WHERE o.customer_id IN (1, 2, $1) AND status = 'x'", i))
		s.plan(env, fmt.Sprintf("INSERT INTO orders (id, customer_id, status) VALUES (1, 2, 'a%[1]d'), (3, $1, c%[1]d)", i))
	}
	grown, counted := heap()-before, c.Bytes()-counted
	if counted < grown*6/10 || counted > grown*2 {
		t.Errorf("the heap grew by %d, the cache counts %d", grown, counted)
	}
	runtime.KeepAlive(c)
	const limit = 256 << 10
	small := &session{cache: NewCache(limit)}
	for i := range 2000 {
		small.plan(env, fmt.Sprintf("SELECT a%d FROM orders WHERE customer_id = 1", i))
		if n := small.cache.Bytes(); n > limit {
			t.Fatalf("holds %d of %d", n, limit)
		}
	}
}

// Plans of environments that are gone leave by themselves, while one in use stays.
func TestCacheForgetsOldEnvironments(t *testing.T) {
	s := &session{cache: NewCache(1 << 20)}
	s.cache.planning = func(*Env, string, []parser.Literal, []uint32) *plan.Plan { return &plan.Plan{} }
	env := &Env{ID: NewID()}
	old := &Env{ID: NewID()}
	texts := make([]string, 200)
	for i := range texts {
		texts[i] = fmt.Sprintf("SELECT %s FROM t%d", strings.Repeat("x", i), i)
	}
	hot := s.plan(env, "SELECT hot")
	for _, text := range texts {
		s.plan(old, text)
	}
	lost := 0
	for range 60 {
		next := &Env{ID: NewID()}
		for _, text := range texts {
			s.plan(next, text)
			if p := s.plan(env, "SELECT hot"); p != hot {
				hot = p
				lost++
			}
		}
	}
	planned := 0
	s.cache.planning = func(*Env, string, []parser.Literal, []uint32) *plan.Plan { planned++; return &plan.Plan{} }
	for _, text := range texts {
		s.plan(old, text)
	}
	if planned != len(texts) || lost > 20 {
		t.Errorf("%d of %d old plans are gone, one in use was lost %d times", planned, len(texts), lost)
	}
}

func TestCacheIsSafeForManySessions(t *testing.T) {
	env := ordersEnv(t)
	c := NewCache(200 << 10)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			s := &session{cache: c}
			for i := range 300 {
				name := fmt.Sprintf("a%d", (i*7+g)%90)
				p := s.plan(env, fmt.Sprintf("SELECT %s FROM orders %s WHERE %s.customer_id = %d", name, name, name, i))
				if len(p.Instances) != 1 || !strings.HasSuffix(p.Instances[0].Name, " "+name) {
					t.Errorf("%s: %s", name, p)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCacheHit(b *testing.B) {
	env := ordersEnv(b)
	c := NewCache(1 << 20)
	text := []byte("SELECT * FROM orders WHERE customer_id = 12345 AND status = 'x'")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var s parser.Scanner
		s.Scan(text, parser.Options{})
		for pb.Next() {
			c.Plan(env, &s, text, nil)
		}
	})
}
