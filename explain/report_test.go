package explain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weft/plan"
)

func text(parts ...plan.Part) plan.Text { return parts }

func sql(s string) plan.Part { return plan.Part{Kind: plan.SQL, SQL: s} }

// example has a piece of sharded tables and one of the home shard's.
func example() *Execution {
	return &Execution{
		Gather: &plan.Gather{
			Pieces: []plan.Piece{
				{Text: text(sql("SELECT x FROM a WHERE k = "), plan.Part{Kind: plan.Lit, Index: 1}, sql(" AND t < "), plan.Part{Kind: plan.Now}), Instances: []plan.Instance{
					{Name: "a", Keys: [][]plan.Set{{{{Kind: plan.Literal, Index: 1}}, {{Kind: plan.Param}, {Kind: plan.Null}}}, nil}},
					{Name: "a b", Keys: [][]plan.Set{{{{Kind: plan.Null}}, {}, {{Kind: plan.ParamArray, Index: 1}}, {{Kind: plan.Literal, Index: 0, Negative: true}}}}},
					{Name: "c", Keys: [][]plan.Set{{{{Kind: plan.Computed, Expr: &plan.Expr{Op: '+', Left: plan.Source{Kind: plan.Param}, Right: plan.Source{Kind: plan.Constant, Text: "it's"}}}}}}},
				}},
				{Text: text(sql("SELECT y FROM h")), Where: plan.OnHome},
				{Text: text(sql("SELECT z FROM r")), Where: plan.OnCopy},
			},
			Remainder: text(sql("SELECT * FROM "), plan.Part{Kind: plan.Input}, sql(", "), plan.Part{Kind: plan.Input, Index: 1}, sql("::"), plan.Part{Kind: plan.TypeOf, Index: 1}),
			Why:       []string{"b is elsewhere"},
		},
		Literal: func(i int) string { return []string{"7", "'x\ny'"}[i] },
		Shards:  []string{"s0", "s1", "s2"}, Home: "s0",
		Visits: [][]int{{0, 1, 2}, nil, {0}},
	}
}

func TestLines(t *testing.T) {
	x := example()
	want := `
Weft Remainder on s0  (inline or staged)
  Shards: 2 of 3
  Why: b is elsewhere
  Remainder: SELECT * FROM <piece 1>, <piece 2>::<type of column 1 of piece 2>
  Piece 1: SELECT x FROM a WHERE k = 'x
  y' AND t < now()
    Shards: s0, s2
    Why: a: key 1 = 'x
    y', key 1 IN ($1, NULL), no condition on key 2
    Why: a b: key 1 IS NULL, key 1 is never true, key 1 = ANY ($2), key 1 = -7
    Why: c: key 1 = ($1 + 'it''s')
  Piece 2: SELECT y FROM h
    Shards: s0
    Why: its tables are on the home shard
  Piece 3: SELECT z FROM r
    Shards: s0
    Why: every shard has its rows
  ->  Shard s0  (pieces 1, 2, 3)
        ->  Append
              ->  Seq Scan on a
  ->  Shard s2  (piece 1)
`
	r := New(x)
	if err := r.Plan.Shards[0].Answer([]string{"Append", "  ->  Seq Scan on a"}, false); err != nil {
		t.Fatal(err)
	}
	if got := "\n" + strings.Join(r.Lines(), "\n") + "\n"; got != want {
		t.Errorf("printed%swant%s", got, want)
	}
}

// TestNative: what weft does itself, known and not.
func TestNative(t *testing.T) {
	limit := &plan.Count{Source: plan.Source{Kind: plan.Literal}}
	for _, test := range []struct {
		native plan.Native
		names  []string
		want   string
	}{
		{plan.Native{Columns: 1, Order: []plan.SortKey{{Column: 1, Desc: true}, {Column: 2, NullsFirst: true}}, Limit: limit}, []string{"a", "b", "b"}, `
Weft Merge  (native)
  Merge Key: b (column 2) DESC NULLS LAST, b (column 3) NULLS FIRST
  Limit: 7
`},
		{plan.Native{Columns: 1, Distinct: true, Offset: limit}, []string{"a"}, "\nWeft Distinct  (native)\n  Offset: 7\n"},
		{plan.Native{Aggregate: &plan.Aggregate{Grouped: true, Groups: []int{0}, Outputs: []plan.Output{
			{Kind: plan.Group}, {Kind: plan.CombineCount, Column: 1}, {Kind: plan.CombineAvg, Column: 2, Count: 1}, {Kind: plan.CombineMax, Column: 2},
		}}}, nil, `
Weft Aggregate  (native if the types allow it, else inline or staged)
  Group Key: column 1
  Output: column 1, sum(column 2), sum(column 3) / sum(column 2), max(column 3)
  Remainder: SELECT 1
`},
	} {
		x := example()
		x.Gather = &plan.Gather{Native: &test.native, Remainder: text(sql("SELECT 1"))}
		x.Visits = nil
		if test.names != nil {
			x.Native, x.Known = true, &plan.Description{Pieces: make([][]plan.Column, 1)}
			for _, n := range test.names {
				x.Known.Pieces[0] = append(x.Known.Pieces[0], plan.Column{Name: n})
			}
		}
		if got := "\n" + strings.Join(New(x).Lines(), "\n") + "\n"; got != test.want {
			t.Errorf("printed%swant%s", got, test.want)
		}
	}
}

// TestAnswers: what shards say comes into the JSON as they said it.
func TestAnswers(t *testing.T) {
	r := New(example())
	for i := range r.Plan.Shards {
		if err := r.Plan.Shards[i].Answer([]string{`[{"Plan": {"Node Type": "Result", "Startup Cost": 0.00}, "Planning Time": 0.1}]`}, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range [][]string{nil, {"x"}, {"[]"}, {`[{"a": 1}]`}, {"[]", "[]"}} {
		if err := r.Plan.Shards[0].Answer(bad, true); err == nil {
			t.Errorf("%q is no plan", bad)
		}
	}
	long := strings.Repeat("ä", longest)
	if err := r.Plan.Remains([]string{`[{"Plan": {"Filter": "` + long + `", "b": ["\"", "\\"], "c": 1}}]`}, true); err != nil {
		t.Fatal(err)
	}
	r.PlanningTime = Since(time.Time{}, time.Time{}.Add(1500*time.Microsecond))
	out, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{`"Startup Cost": 0.00`, `"Planning Time": 1.500`, `t < now()`, `"\""`, `"\\"`, "…"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if strings.Contains(out, long) {
		t.Error("a long constant is shown whole")
	}
}

// TestShortenStrings: wherever it cuts, what is left is JSON.
func TestShortenStrings(t *testing.T) {
	for _, unit := range []string{"a", "é", `"`, `\`, "\x01", "\n", "x\\\"\x02"} {
		for pad := range 12 {
			in, err := json.Marshal([]string{strings.Repeat("p", pad) + strings.Repeat(unit, longest), "next"})
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			if err := json.Unmarshal(shortenStrings(in), &out); err != nil || len(out) != 2 || out[1] != "next" || len(out[0]) > longest+len("…") {
				t.Errorf("%q after %d: %v, %q", unit, pad, err, out)
			}
		}
	}
}
