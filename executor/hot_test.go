package executor

import (
	"fmt"
	"testing"

	"weft/datum"
	"weft/plan"
)

func BenchmarkBind(b *testing.B) {
	for _, buckets := range []int{1 << 10, 1 << 16} {
		for _, shards := range []int{2, 64} {
			snap := cluster(buckets, shards)
			table := declare(b, "hash", nil, buckets, column{"customer_id", datum.Int8})
			p := keyed(table, sets(set(lit(0, datum.Int4))))
			a := scanned(b, "SELECT * FROM orders WHERE customer_id = 12345 AND status = 'x'")
			b.Run(fmt.Sprintf("buckets=%d/shards=%d", buckets, shards), func(b *testing.B) {
				var binder Binder
				b.ReportAllocs()
				for b.Loop() {
					s, err := binder.Bind(p, snap, a)
					if _, ok := s.One(); !ok || err != nil {
						b.Fatal(s, err)
					}
				}
			})
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
