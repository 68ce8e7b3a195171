package executor

import (
	"testing"

	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/plan"
)

// FuzzBind: whatever a client sends, Bind neither panics nor names a shard that is not there, and a message that values were
// added to has them.
func FuzzBind(f *testing.F) {
	f.Add("SELECT '{1,\"a\\\"\",NULL}', E'\\x41', 1.5, -2", bindBody([]int{1}, be(7, 8), nil, binaryArray(datum.Int8, be(1, 8), nil)), int8(0))
	f.Add("SELECT N'a', U&'b', $$c$$, 0x1f", bindBody(nil, "{a,{b}}", "x"), int8(1))
	f.Add("'a'\n'b'", []byte{0, 0, 0xff, 0xff}, int8(2))
	snap := cluster(64, 5)
	var tables []*plan.Table
	types := []datum.Type{datum.Int8, datum.Text, datum.Numeric, datum.Timestamptz, datum.UUID, datum.Bpchar}
	for _, t := range types {
		tables = append(tables, declare(f, "hash", nil, 64, column{"k", t}))
	}
	f.Fuzz(func(t *testing.T, text string, body []byte, pick int8) {
		var s parser.Scanner
		opt := parser.Options{NonStandardStrings: pick < 0}
		s.Scan([]byte(text), opt)
		a := &Args{Text: []byte(text), Literals: s.Literals, Options: opt, ASCII: pick&1 != 0}
		p, ok := DecodeParams(body)
		if ok {
			a.Params = p
		}
		table := tables[int(uint8(pick))%len(tables)]
		var b Binder
		var list plan.Set
		for i := range max(len(s.Literals), min(p.Len(), 20)) {
			for _, kind := range []plan.SourceKind{plan.Literal, plan.Array, plan.Param, plan.ParamArray} {
				for _, typ := range append(types, 0, datum.Unknown) {
					src := plan.Source{Kind: kind, Index: i, Type: typ, Negative: pick&2 != 0}
					sum := plan.Source{Kind: plan.Computed, Expr: &plan.Expr{Op: "+-*/"[i&3], Left: src, Right: src}}
					list = append(list, src)
					for _, set := range []plan.Set{{src}, {sum}} {
						check(t, &b, keyed(table, sets(set)), snap, a)
						check(t, &b, storing(table, sets(set)), snap, a)
					}
				}
			}
		}
		check(t, &b, keyed(table, sets(list, list)), snap, a)
		if out, err := AppendBind(nil, body, [][]byte{[]byte("42")}); err == nil {
			q, ok := DecodeParams(out)
			if !ok || q.Len() != p.Len()+1 {
				t.Fatalf("%q becomes %q", body, out)
			}
			b.reset(&plan.Plan{}, snap, &Args{Params: q})
			if v, ok := b.param(q.Len() - 1); !ok || string(v) != "42" || q.format(q.Len()-1) != datum.TextFormat {
				t.Fatalf("%q becomes %q", body, out)
			}
		}
	})
}

func check(t *testing.T, b *Binder, p *plan.Plan, snap *directory.Snapshot, a *Args) {
	t.Helper()
	s, err := b.Bind(p, snap, a)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for shard := range s.All() {
		if shard < 0 || shard >= len(snap.Shards) || !s.Has(shard) {
			t.Fatalf("shard %d", shard)
		}
		n++
	}
	if n == 0 || n != s.Len() {
		t.Fatalf("%d shards, said to be %d", n, s.Len())
	}
}
