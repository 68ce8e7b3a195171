package stream

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgerr"
	"weft/plan"
)

// aggregate is one that shards do in part.
type aggregate struct {
	whole   string // over v
	partial string // one column, or two for an average
	kind    plan.Combine
	result  Type // of the first partial column
	typ     string
	random  func(*rand.Rand) string
	edges   []string
}

// dyadic makes numbers whose sums are exact in a float, whatever the order.
func dyadic(r *rand.Rand) string { return fmt.Sprint(float64(r.IntN(4096)-2048) / 64) }

func aggregates() []aggregate {
	var out []aggregate
	add := func(whole, partial string, kind plan.Combine, result uint32, typ string, random func(*rand.Rand) string, edges ...string) {
		t := Type{OID: result, Mod: -1, Bytes: true, Deterministic: true, ISO: true, Shortest: true}
		out = append(out, aggregate{whole, partial, kind, t, typ, random, edges})
	}
	specials := []string{"NaN", "Infinity", "-Infinity"}
	add("count(v)", "count(v)", plan.CombineCount, oidInt8, "int4", integer(32))
	add("count(*)", "count(*)", plan.CombineCount, oidInt8, "int4", integer(32))
	for _, typ := range []string{"int2", "int4"} {
		bits, oid := 16, uint32(oidInt2)
		if typ == "int4" {
			bits, oid = 32, oidInt4
		}
		add("sum(v)", "sum(v)", plan.CombineSum, oidInt8, typ, integer(bits))
		add("avg(v)", "sum(v), count(v)", plan.CombineAvg, oidInt8, typ, integer(bits))
		add("avg(v)", "sum(v), count(v)", plan.CombineAvg, oidInt8, typ, func(*rand.Rand) string { return "0" })
		add("bit_and(v)", "bit_and(v)", plan.CombineBitAnd, oid, typ, integer(bits))
		add("bit_or(v)", "bit_or(v)", plan.CombineBitOr, oid, typ, integer(bits))
	}
	add("bit_and(v)", "bit_and(v)", plan.CombineBitAnd, oidInt8, "int8", integer(64))
	add("bit_or(v)", "bit_or(v)", plan.CombineBitOr, oidInt8, "int8", integer(64))
	add("bool_and(v)", "bool_and(v)", plan.CombineAnd, oidBool, "bool", func(r *rand.Rand) string { return []string{"t", "f", "t", "t", "t", "t", "t"}[r.IntN(7)] })
	add("every(v)", "every(v)", plan.CombineAnd, oidBool, "bool", func(*rand.Rand) string { return "t" })
	add("bool_or(v)", "bool_or(v)", plan.CombineOr, oidBool, "bool", func(r *rand.Rand) string { return []string{"t", "f", "f", "f", "f", "f", "f"}[r.IntN(7)] })
	for _, d := range []struct {
		typ    string
		random func(*rand.Rand) string
		edges  []string
	}{
		{"int8", integer(64), nil},
		{"numeric", decimalText, nil},
		{"numeric", decimalText, []string{"1e1000", "-1e1000", "1e-500", "1e130000"}},
		{"numeric", decimalText, []string{"NaN"}},
		{"numeric", decimalText, []string{"Infinity"}},
		{"numeric", decimalText, []string{"-Infinity"}},
		{"numeric", decimalText, specials[1:]},
		{"numeric(12,3)", func(r *rand.Rand) string { return fmt.Sprintf("%d.%03d", r.IntN(200001)-100000, r.IntN(1000)) }, nil},
		{"numeric", func(r *rand.Rand) string { return []string{"0.5", "-0.5", "1", "-1"}[r.IntN(4)] }, nil},
		{"numeric", func(r *rand.Rand) string { return []string{"0", "0.000"}[r.IntN(2)] }, nil},
	} {
		add("sum(v)", "sum(v)", plan.CombineSum, oidNumeric, d.typ, d.random, d.edges...)
		add("avg(v)", "sum(v), count(v)", plan.CombineAvg, oidNumeric, d.typ, d.random, d.edges...)
	}
	for _, typ := range []string{"float4", "float8"} {
		oid := uint32(oidFloat4)
		if typ == "float8" {
			oid = oidFloat8
		}
		for _, edges := range [][]string{nil, {"NaN"}, {"Infinity"}, {"-Infinity"}, {"Infinity", "-Infinity"}} {
			add("sum(v)", "sum(v)", plan.CombineSum, oid, typ, dyadic, edges...)
			if oid == oidFloat8 {
				add("avg(v)", "sum(v), count(v)", plan.CombineAvg, oid, typ, dyadic, edges...)
			}
		}
	}
	for _, s := range samples {
		switch s.oid {
		case oidNumeric: // of equal ones, which scale goes out is anybody's guess
			s.sql, s.edges, s.random = "numeric(30,6)", nil, func(r *rand.Rand) string { return fmt.Sprint(r.Int64()>>r.IntN(64)) + ".5" }
		case oidFloat4, oidFloat8:
			s.edges = slices.DeleteFunc(slices.Clone(s.edges), func(v string) bool { return v == "-0" })
		case oidInt2, oidInt4, oidInt8, oidOid, oidDate, oidTimestamp, oidTimestamptz, oidTime, oidTimetz, oidInet, oidMoney, oidText:
		default:
			continue // without min, or equal values differ
		}
		add("min(v)", "min(v)", plan.CombineMin, s.oid, s.sql, s.random, s.edges...)
		add("max(v)", "max(v)", plan.CombineMax, s.oid, s.sql, s.random, s.edges...)
	}
	return out
}

// TestGroupServer splits random rows into parts, lets the server aggregate each
// part, puts the results together here and compares with what the server makes
// of all rows.
func TestGroupServer(t *testing.T) {
	conn := connect(t)
	exec(t, conn, sessions[0].sql)
	rng := rand.New(rand.NewPCG(5, 6))
	natively := 0
	for _, a := range aggregates() {
		for _, format := range []int16{textFormat, binaryFormat} {
			t.Run(fmt.Sprintf("%s/%s/%v/%d", a.whole, a.typ, a.edges, format), func(t *testing.T) {
				for range 6 {
					if !compareAggregate(t, conn, a, format, rng) {
						return
					}
				}
				natively++
			})
		}
	}
	if natively < 120 {
		t.Errorf("only %d of the aggregates were put together here", natively)
	}
}

func compareAggregate(t *testing.T, conn *pgx.Conn, a aggregate, format int16, rng *rand.Rand) bool {
	groups, parts := 1+rng.IntN(40), 1+rng.IntN(5)
	var values []*string
	var gs, ps []*int
	for i := range rng.IntN(200) {
		v, g, p := a.random(rng), rng.IntN(groups), rng.IntN(parts)
		if i < len(a.edges) || len(a.edges) > 0 && rng.IntN(5) == 0 {
			v = a.edges[rng.IntN(len(a.edges))]
		}
		values, gs, ps = append(values, &v), append(gs, &g), append(ps, &p)
		if g%7 == 0 || rng.IntN(10) == 0 {
			values[i] = nil
		}
		if g == 3 {
			gs[i] = nil
		}
	}
	s := sample{sql: a.typ}
	from := ` FROM (SELECT g, p, ` + s.cast("v") + ` AS v FROM unnest($1::text[], $2::int[], $3::int[]) AS u(v, g, p)) AS x`
	args := []any{values, gs, ps}

	types := []Type{{OID: oidInt4, Format: format}, a.result, {OID: oidInt8, Format: format}}
	types[1].Format = format
	spec := &plan.Aggregate{Grouped: true, Groups: []int{0}, Outputs: []plan.Output{{Kind: plan.Group}, {Kind: a.kind, Column: 1, Count: 2}}}
	if !CanGroup(spec, types) {
		return false
	}
	check := func(group func(Rows, *plan.Aggregate, []Type, int64) (Rows, error), spec *plan.Aggregate, partial, whole string) {
		t.Helper()
		rows, err := group(&source{rows: ask(t, conn, format, partial, args...)}, spec, types, 0)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, r := range ask(t, conn, format, whole, args...) {
			want = append(want, text(t, r))
		}
		got, err := collect(t, rows)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(got) != len(want) {
			t.Fatalf("%d groups, want %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("got %.200q\nwant %.200q", got[i], want[i])
			}
		}
	}
	check(Group, spec, "SELECT g, "+a.partial+from+" GROUP BY p, g", "SELECT g, "+a.whole+from+" GROUP BY g")
	check(GroupSorted, spec, "SELECT g, "+a.partial+from+" GROUP BY p, g ORDER BY g", "SELECT g, "+a.whole+from+" GROUP BY g")
	// A shard without rows gives NULL or 0.
	for _, none := range []string{"", " WHERE false"} {
		union := "SELECT 0, " + a.partial + from + none + " UNION ALL SELECT 0, " + a.partial + from + " WHERE false"
		for p := range parts {
			if p == 0 {
				union = "SELECT 0, " + a.partial + from + " WHERE false"
			}
			if none == "" {
				union += fmt.Sprintf(" UNION ALL SELECT 0, "+a.partial+from+" WHERE p = %d", p)
			}
		}
		check(Group, &plan.Aggregate{Outputs: spec.Outputs[1:]}, union, "SELECT "+a.whole+from+none)
	}
	return true
}

func TestGroupNothing(t *testing.T) {
	types := []Type{{OID: oidInt8}, {OID: oidInt8}, {OID: oidBool}}
	outputs := []plan.Output{{Kind: plan.CombineCount}, {Kind: plan.CombineSum}, {Kind: plan.CombineMax}, {Kind: plan.CombineAvg, Count: 1}, {Kind: plan.CombineOr, Column: 2}}
	r, err := Group(lines(), &plan.Aggregate{Outputs: outputs}, types, 0)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, r, "0,NULL,NULL,NULL,NULL")
	if r, err = Group(lines(), &plan.Aggregate{Grouped: true, Groups: []int{0}, Outputs: outputs}, types, 0); err != nil {
		t.Fatal(err)
	}
	expect(t, r)
}

// Sorted groups come out when the next one begins, not before and not later.
func TestGroupSorted(t *testing.T) {
	types := []Type{{OID: oidInt4}, {OID: oidInt8}}
	a := &plan.Aggregate{Grouped: true, Groups: []int{0}, Outputs: []plan.Output{{Kind: plan.CombineSum, Column: 1}, {Kind: plan.Group}}}
	sorted := func(s *source, limit int64) Rows {
		t.Helper()
		r, err := GroupSorted(s, a, types, limit)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	expect(t, sorted(lines(), 0))
	expect(t, sorted(lines("1,5"), 0), "5,1")
	s := lines("1,5", "1,6", "2,NULL", "2,NULL", "3,1", "NULL,7", "NULL,8")
	r := sorted(s, 0)
	if row, err := r.Next(); err != nil || text(t, row) != "11,1" || s.asked != 3 {
		t.Errorf("%q, %v, asked %d times", row, err, s.asked)
	}
	expect(t, r, "NULL,2", "1,3", "15,NULL")

	s = lines("1,5", "2,6")
	s.err = errors.New("gone")
	if got, err := collect(t, sorted(s, 0)); !slices.Equal(got, []string{"5,1"}) || err != s.err {
		t.Errorf("%q, %v", got, err)
	}
	// A row that overflows comes after a group that does not.
	if got, err := collect(t, sorted(lines("1,5", "2,9223372036854775807", "2,1"), 0)); !slices.Equal(got, []string{"5,1"}) || err == nil {
		t.Errorf("%q, %v", got, err)
	}
	many := &source{}
	for i := range 10000 {
		many.rows = append(many.rows, row(fmt.Sprint(i), "1"))
	}
	if got, err := collect(t, sorted(many, 1000)); len(got) != 10000 || err != nil {
		t.Errorf("%d, %v", len(got), err)
	}
	if got, err := collect(t, sorted(lines(strings.Repeat("1", 2000)+",1"), 1000)); len(got) != 0 || err == nil {
		t.Errorf("%d, %v", len(got), err)
	}
	if _, err := GroupSorted(lines(), &plan.Aggregate{Outputs: a.Outputs[:1]}, types, 0); err == nil {
		t.Error("sorted by nothing")
	}
}

func TestGroupErrors(t *testing.T) {
	sum := &plan.Aggregate{Outputs: []plan.Output{{Kind: plan.CombineSum}}}
	for _, c := range []struct {
		oid  uint32
		rows []string
		want string
	}{
		{oidInt8, []string{"9223372036854775807", "0", "1"}, "bigint out of range"},
		{oidInt8, []string{"-9223372036854775808", "-1"}, "bigint out of range"},
		{oidFloat8, []string{"1e308", "1e308"}, "value out of range: overflow"},
		{oidFloat4, []string{"3e38", "3e38"}, "value out of range: overflow"},
		{oidNumeric, []string{"1" + strings.Repeat("0", 131072)}, "value overflows numeric format"},
		{oidNumeric, []string{"9" + strings.Repeat("0", 131071), "9" + strings.Repeat("0", 131071)}, "value overflows numeric format"},
		{oidInt8, []string{"x"}, "malformed value"},
		{oidInt8, []string{""}, "malformed value"},
		{oidInt8, []string{"9223372036854775808"}, "malformed value"},
		{oidNumeric, []string{"1e5"}, "malformed value"},
		{oidNumeric, []string{"1.2.3"}, "malformed value"},
		{oidNumeric, []string{"."}, "malformed value"},
		{oidNumeric, []string{"-"}, "malformed value"},
		{oidFloat8, []string{"."}, "malformed value"},
	} {
		r, err := Group(lines(c.rows...), sum, []Type{{OID: c.oid, Shortest: true}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Next()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.50q: %v", c.rows, err)
		}
		if _, again := r.Next(); again != err {
			t.Errorf("then %v", again)
		}
	}
	broken := lines("1")
	broken.err = errors.New("gone")
	r, _ := Group(broken, sum, []Type{{OID: oidInt8}}, 0)
	if _, err := r.Next(); err != broken.err {
		t.Error(err)
	}
}

func TestCanGroup(t *testing.T) {
	group := func(kind plan.Combine, t Type) bool {
		return CanGroup(&plan.Aggregate{Outputs: []plan.Output{{Kind: kind, Count: 1}}}, []Type{t, {OID: oidInt8}})
	}
	for _, c := range []struct {
		kind plan.Combine
		t    Type
		want bool
	}{
		{plan.CombineSum, Type{OID: oidInt8}, true},
		{plan.CombineSum, Type{OID: oidInterval}, false},
		{plan.CombineSum, Type{OID: oidMoney}, false},
		{plan.CombineSum, Type{OID: oidFloat8}, false},
		{plan.CombineSum, Type{OID: oidFloat8, Shortest: true}, true},
		{plan.CombineSum, Type{OID: oidFloat8, Format: 1}, true},
		{plan.CombineAvg, Type{OID: oidFloat4, Format: 1}, false},
		{plan.CombineMax, Type{OID: oidText}, false},
		{plan.CombineMax, Type{OID: oidText, Bytes: true}, true},
		{plan.CombineMax, Type{OID: oidTimestamptz}, false},
		{plan.CombineMax, Type{OID: oidTimestamptz, ISO: true}, true},
		{plan.CombineMax, Type{OID: 16999, Enum: true}, false},
		{plan.CombineAnd, Type{OID: oidInt4}, false},
		{plan.CombineBitOr, Type{OID: oidBit}, false},
		{plan.CombineCount, Type{OID: oidInt4}, false},
		{plan.Group, Type{OID: oidInt4}, false}, // is not among the groups
		{plan.Combine(99), Type{OID: oidInt4}, false},
	} {
		if got := group(c.kind, c.t); got != c.want {
			t.Errorf("%d of %+v: %v", c.kind, c.t, got)
		}
	}
	if CanGroup(&plan.Aggregate{Groups: []int{0}, Grouped: true}, []Type{{OID: oidNumeric}}) {
		t.Error("1.0 and 1.00 are one group")
	}
	if _, err := Group(lines(), &plan.Aggregate{Groups: []int{3}}, []Type{{OID: oidInt4}}, 0); err == nil {
		t.Error("a column that is not there")
	}
}

func TestGatherLimit(t *testing.T) {
	many := &source{}
	for i := range 10000 {
		many.rows = append(many.rows, row(fmt.Sprint(i), strings.Repeat("x", i%100)))
	}
	types := []Type{{OID: oidInt8}, {OID: oidText, Deterministic: true, Bytes: true}}
	over := func(r Rows, err error) bool {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		_, err = collect(t, r)
		var e *pgerr.Error
		if err != nil && (!errors.As(err, &e) || e.Code != pgerr.ConfigurationLimitExceeded) {
			t.Fatal(err)
		}
		return err != nil
	}
	for _, c := range []struct {
		limit int64
		want  bool
	}{{100_000, true}, {10_000_000, false}, {0, false}} {
		if got := over(Distinct(&source{rows: many.rows}, types, c.limit)); got != c.want {
			t.Errorf("distinct with %d bytes: %v", c.limit, got)
		}
		a := &plan.Aggregate{Grouped: true, Groups: []int{0}, Outputs: []plan.Output{{Kind: plan.CombineMax, Column: 1}}}
		if got := over(Group(&source{rows: many.rows}, a, types, c.limit)); got != c.want {
			t.Errorf("group with %d bytes: %v", c.limit, got)
		}
	}
	// One group can be much, too.
	big := &source{rows: [][]byte{row("1", "x"), row("1", strings.Repeat("y", 200_000))}}
	if !over(Group(big, &plan.Aggregate{Outputs: []plan.Output{{Kind: plan.CombineMax, Column: 1}}}, types, 100_000)) {
		t.Error("a large value is free")
	}
}

func TestDistinct(t *testing.T) {
	types := []Type{{OID: oidInt4}, {OID: oidText, Deterministic: true}}
	r, err := Distinct(lines("1,a,x", "1,NULL,x", "1,a,y", "1,,x", "11,,x", "1,NULL,z", "NULL,1,x", "2,a,x"), types, 0)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, r, "1,a,x", "1,NULL,x", "1,,x", "11,,x", "NULL,1,x", "2,a,x")
	if _, err := Distinct(lines(), []Type{{OID: oidNumeric}}, 0); err == nil {
		t.Error("1.0 and 1.00 are two rows")
	}
	r, _ = Distinct(lines("1"), types, 0)
	if _, err := r.Next(); err != errRow {
		t.Error(err)
	}
}

// repeat yields the same rows over and over.
type repeat struct {
	rows [][]byte
	next int
}

func (r *repeat) Next() ([]byte, error) {
	r.next++
	return r.rows[r.next%len(r.rows)], nil
}

// A row of a group that is there costs no allocation.
func TestGroupNoAllocations(t *testing.T) {
	for _, format := range []int16{textFormat, binaryFormat} {
		rows := &repeat{rows: partials(1000, 100, format)}
		a, types := benchAggregate(format)
		r, err := Group(rows, a, types, 0)
		if err != nil {
			t.Fatal(err)
		}
		g := r.(*grouped)
		step := func() {
			row, _ := rows.Next()
			if err := g.add(row); err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 {
			step()
		}
		if n := testing.AllocsPerRun(2000, step); n > 0 {
			t.Errorf("format %d: %v allocations per row", format, n)
		}
		r, err = Distinct(rows, types[:1], 0)
		if err != nil {
			t.Fatal(err)
		}
		d := r.(*distinct)
		for range 1000 {
			d.next()
		}
		if n := testing.AllocsPerRun(2000, func() { d.next() }); n > 0 {
			t.Errorf("format %d: %v allocations per row that is dropped", format, n)
		}
	}
}

// Many keys, large and small, keep their numbers.
func TestTable(t *testing.T) {
	m := &memory{}
	table := newTable(m)
	key := func(i int) []byte { return []byte(strings.Repeat("k", i%300*(i%300)) + fmt.Sprint(i)) }
	for round := range 2 {
		for i := range 3000 {
			if n, added, err := table.add(key(i)); n != i || added != (round == 0) || err != nil {
				t.Fatalf("%d: %d, %v, %v", i, n, added, err)
			}
		}
	}
	if len(table.entries) != 3000 {
		t.Errorf("%d entries", len(table.entries))
	}
	size := int64(0)
	for i := range 3000 {
		size += int64(len(key(i)))
	}
	if m.used < size || m.used > 2*size {
		t.Errorf("%d bytes are said to be %d", size, m.used)
	}
}
