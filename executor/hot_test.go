package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/plan"
	"weft/planner"
)

// hotPath is what a session has to route statements by, in a cluster of some size.
type hotPath struct {
	snap  *directory.Snapshot
	env   *planner.Env
	facts *parser.Cache
	plans *planner.Cache
	scan  parser.Scanner
	bind  Binder
	args  Args
}

func newHotPath(t testing.TB, buckets, shards, tables int) *hotPath {
	t.Helper()
	snap := cluster(buckets, shards)
	var ddl strings.Builder
	for i := range tables {
		name := "orders"
		if i > 0 {
			name = fmt.Sprintf("orders_%d", i)
		}
		fmt.Fprintf(&ddl, "CREATE TABLE public.%s (id bigint, customer_id bigint, status text);\n", name)
		snap.Tables = append(snap.Tables, directory.Table{
			Database: "app", Schema: "public", Name: name, Kind: directory.Sharded, Vindex: directory.Vindex{Kind: "hash"},
			Columns: []directory.Column{{Name: "customer_id", Type: uint32(datum.Int8), TypeName: "bigint", Mod: -1}},
		})
	}
	schema, err := catalog.FromDump(ddl.String())
	if err != nil {
		t.Fatal(err)
	}
	h := &hotPath{
		snap: snap, facts: parser.NewCache(8 << 20), plans: planner.NewCache(8 << 20),
		env: &planner.Env{
			ID: planner.NewID(), Database: "app", Path: []string{"pg_catalog", "public"},
			Schema: schema, Tables: planner.NewTables(snap, "app"), Home: snap.Home,
		},
	}
	// The caches are not empty in real life.
	for i := range min(tables, 2000) {
		h.simple(t, fmt.Appendf(nil, "SELECT * FROM orders_%d WHERE customer_id = 1", max(i, 1)))
	}
	return h
}

const (
	hotSimple   = "SELECT * FROM orders WHERE customer_id = 12345 AND status = 'x'"
	hotExtended = "SELECT * FROM orders WHERE customer_id = $1 AND status = $2"
)

// simple does what a session does with a simple query before it asks for a backend.
func (h *hotPath) simple(t testing.TB, text []byte) int {
	if f := h.facts.Facts(&h.scan, text, h.env.Options); f.Err != nil {
		t.Fatal(f.Err)
	}
	p := h.plans.Plan(h.env, &h.scan, text, nil)
	h.args = Args{Text: text, Literals: h.scan.Literals, Options: h.env.Options}
	return h.one(t, p)
}

// extended does so with a Parse and a Bind.
func (h *hotPath) extended(t testing.TB, text, oids, bind []byte) int {
	if f := h.facts.Facts(&h.scan, text, h.env.Options); f.Err != nil {
		t.Fatal(f.Err)
	}
	p := h.plans.Plan(h.env, &h.scan, text, oids)
	params, ok := DecodeParams(bind)
	if !ok {
		t.Fatal("malformed")
	}
	h.args = Args{Text: text, Literals: h.scan.Literals, Options: h.env.Options, Params: params}
	return h.one(t, p)
}

func (h *hotPath) one(t testing.TB, p *plan.Plan) int {
	s, err := h.bind.Bind(p, h.snap, &h.args)
	shard, ok := s.One()
	if err != nil || !ok || s.Any() {
		t.Fatalf("%+v, %v, of %s", s, err, p)
	}
	return shard
}

// runs returns the two statements as functions.
func (h *hotPath) runs(t testing.TB) map[string]func() {
	simple, extended := []byte(hotSimple), []byte(hotExtended)
	oids := []byte{0, 2, 0, 0, 0, 20, 0, 0, 0, 25}
	bind := bindBody([]int{1, 0}, be(12345, 8), "x")
	if a, b := h.simple(t, simple), h.extended(t, extended, oids, bind); a != b {
		t.Fatalf("the same customer is on shard %d and %d", a, b)
	}
	return map[string]func(){
		"simple":   func() { h.simple(t, simple) },
		"extended": func() { h.extended(t, extended, oids, bind) },
	}
}

func TestRoutingDoesNotAllocate(t *testing.T) {
	for name, run := range newHotPath(t, 4096, 4, 10).runs(t) {
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// sizes go from a small cluster to the largest there is to be.
var sizes = []struct{ buckets, shards, tables int }{
	{1 << 10, 2, 10},
	{1 << 16, 2, 10},
	{1 << 10, 64, 10},
	{1 << 10, 2, 10_000},
	{1 << 16, 64, 10_000},
}

// TestRoutingCostIsFlat: the cost of routing does not grow with the cluster. The sizes take turns and the best of each counts,
// so that what else the machine does hits all alike; a cost that grew with any of them would be many times the factor.
func TestRoutingCostIsFlat(t *testing.T) {
	const rounds, factor = 200, 3
	var runs []map[string]func()
	for _, s := range sizes {
		runs = append(runs, newHotPath(t, s.buckets, s.shards, s.tables).runs(t))
	}
	for name := range runs[0] {
		best := make([]time.Duration, len(runs))
		for range rounds {
			for i, r := range runs {
				start := time.Now()
				for range 100 {
					r[name]()
				}
				if d := time.Since(start) / 100; best[i] == 0 || d < best[i] {
					best[i] = d
				}
			}
		}
		for i, d := range best {
			t.Logf("%s: %+v: %v", name, sizes[i], d)
			if d > factor*best[0] {
				t.Errorf("%s: with %+v a statement takes %v, with %+v %v", name, sizes[i], d, sizes[0], best[0])
			}
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	for _, s := range sizes {
		for name, run := range newHotPath(b, s.buckets, s.shards, s.tables).runs(b) {
			b.Run(fmt.Sprintf("%s/buckets=%d/shards=%d/tables=%d", name, s.buckets, s.shards, s.tables), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
			})
		}
	}
}

func BenchmarkBind(b *testing.B) {
	snap := cluster(4096, 4)
	table := declare(b, "hash", nil, 4096, column{"customer_id", datum.Int8})
	p := keyed(table, sets(set(lit(0, datum.Int4))))
	a := scanned(b, hotSimple)
	var binder Binder
	b.ReportAllocs()
	for b.Loop() {
		s, err := binder.Bind(p, snap, a)
		if _, ok := s.One(); !ok || err != nil {
			b.Fatal(s, err)
		}
	}
}

func TestBindDoesNotAllocate(t *testing.T) {
	const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	snap := cluster(4096, 4)
	param := func(t datum.Type) plan.Source { return plan.Source{Kind: plan.Param, Index: 0, Type: t} }
	typed := func(a *Args, t datum.Type) *Args { a.Types = []datum.Type{t}; return a }
	for _, test := range []struct {
		typ    datum.Type
		source plan.Source
		args   *Args
	}{
		{datum.Int8, lit(0, datum.Int4), scanned(t, "12345")},
		{datum.Int8, plan.Source{Kind: plan.Literal, Negative: true}, scanned(t, "-12345")},
		{datum.Text, lit(0), scanned(t, "'it''s'")},
		{datum.UUID, lit(0), scanned(t, "'"+uuid+"'")},
		{datum.Date, lit(0), scanned(t, "'2024-02-29'")},
		{datum.Int8, param(0), params(t, nil, "12345")},
		{datum.Int8, param(datum.Int8), typed(params(t, []int{1}, be(12345, 8)), datum.Int8)},
		{datum.Int8, plan.Source{Kind: plan.ParamArray, Type: datum.Int8}, params(t, []int{1}, binaryArray(datum.Int8, be(1, 8), be(1, 8)))},
		{datum.Int8, plan.Source{Kind: plan.Array}, scanned(t, "'{1,1}'")},
	} {
		p := keyed(declare(t, "hash", nil, 4096, column{"k", test.typ}), sets(set(test.source)))
		var b Binder
		if s, err := b.Bind(p, snap, test.args); err != nil || s.Len() != 1 || s.Any() {
			t.Fatalf("%v of %v: %+v, %v", test.source, test.typ, s, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = b.Bind(p, snap, test.args) }); n != 0 {
			t.Errorf("%+v of %v: %v allocations", test.source, test.typ, n)
		}
	}
}
