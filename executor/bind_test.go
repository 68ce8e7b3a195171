package executor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

// cluster returns a snapshot with buckets dealt to the shards in turn; shard n-1 is home.
func cluster(buckets, shards int) *directory.Snapshot {
	s := &directory.Snapshot{Version: 7, BucketCount: buckets, Home: fmt.Sprintf("s%d", shards-1)}
	for i := range shards {
		s.Shards = append(s.Shards, directory.Shard{Name: fmt.Sprintf("s%d", i), Weight: 1})
	}
	for i := range buckets {
		s.Placement = append(s.Placement, uint16(i%shards))
	}
	return s
}

type column struct {
	name string
	typ  datum.Type
}

func declare(t testing.TB, kind string, params vindex.Params, buckets int, columns ...column) *plan.Table {
	t.Helper()
	d := vindex.Declaration{Kind: kind, Params: params, Buckets: buckets}
	for _, c := range columns {
		d.Columns = append(d.Columns, vindex.Column{Name: c.name, Column: datum.Column{Type: c.typ, Mod: -1}})
	}
	v, err := vindex.New(d)
	if err != nil {
		t.Fatal(err)
	}
	table := &plan.Table{Schema: "public", Name: "t", Vindex: v}
	if _, ok := v.(vindex.Lookup); ok {
		table.Lookup = "dir"
	}
	return table
}

// keyed returns the plan of a text that names a table once.
func keyed(table *plan.Table, keys ...[]plan.Set) *plan.Plan {
	return &plan.Plan{Route: plan.Keyed, Instances: []plan.Instance{{Table: table, Name: "t", Keys: keys}}}
}

func storing(table *plan.Table, keys ...[]plan.Set) *plan.Plan {
	p := keyed(table, keys...)
	p.Instances[0].Stored = true
	return p
}

func sets(s ...plan.Set) []plan.Set { return s }
func set(s ...plan.Source) plan.Set { return append(plan.Set{}, s...) }
func lit(i int, t ...datum.Type) plan.Source {
	return plan.Source{Kind: plan.Literal, Index: i, Type: append(t, 0)[0]}
}
func constant(text string) plan.Source { return plan.Source{Kind: plan.Constant, Text: text} }

// scanned returns the Args of a simple query.
func scanned(t testing.TB, text string) *Args {
	t.Helper()
	var s parser.Scanner
	if !s.Scan([]byte(text), parser.Options{}) {
		t.Fatalf("%s does not scan", text)
	}
	return &Args{Text: []byte(text), Literals: slices.Clone(s.Literals)}
}

// bindBody writes what follows the names in a Bind message. A value is nil or a string.
func bindBody(formats []int, values ...any) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(formats)))
	for _, f := range formats {
		b = binary.BigEndian.AppendUint16(b, uint16(f))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		s := v.(string)
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return binary.BigEndian.AppendUint16(b, 0)
}

func params(t testing.TB, formats []int, values ...any) *Args {
	t.Helper()
	p, ok := DecodeParams(bindBody(formats, values...))
	if !ok {
		t.Fatal("malformed")
	}
	return &Args{Params: p}
}

func be(n int64, size int) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(n))
	return string(b[8-size:])
}

// buckets binds with a shard per bucket, so that shards are buckets. nil stands for all of them, an empty list for none.
func buckets(t testing.TB, p *plan.Plan, a *Args) []int {
	t.Helper()
	const n = 64
	snap := cluster(n, n)
	var b Binder
	s, err := b.Bind(p, snap, a)
	if err != nil {
		t.Fatal(err)
	}
	if s.Any() {
		if one, ok := s.One(); !ok || one != n-1 {
			t.Fatalf("no shard means the home shard, got %d, %v", one, ok)
		}
		return []int{}
	}
	if s.Len() == n {
		return nil
	}
	return slices.Collect(s.All())
}

// of returns the buckets that values of a column of a hash table go to.
func of(t testing.TB, table *plan.Table, texts ...string) []int {
	t.Helper()
	out := []int{}
	for _, text := range texts {
		k, err := table.Vindex.Columns()[0].Store(datum.Literal([]byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, vindex.ID(vindex.Hash(k)).Bucket(6))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestBindSources(t *testing.T) {
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	texts := declare(t, "hash", nil, 64, column{"k", datum.Text})
	uuids := declare(t, "hash", nil, 64, column{"k", datum.UUID})
	numerics := declare(t, "hash", nil, 64, column{"k", datum.Numeric})
	dates := declare(t, "hash", nil, 64, column{"k", datum.Date})
	all, none := []string(nil), []string{}

	neg := func(s plan.Source) plan.Source { s.Negative = true; return s }
	param := func(i int, t ...datum.Type) plan.Source {
		return plan.Source{Kind: plan.Param, Index: i, Type: append(t, 0)[0]}
	}
	arr := func(i int, t ...datum.Type) plan.Source {
		return plan.Source{Kind: plan.Array, Index: i, Type: append(t, 0)[0]}
	}
	parr := func(i int, t ...datum.Type) plan.Source {
		return plan.Source{Kind: plan.ParamArray, Index: i, Type: append(t, 0)[0]}
	}
	expr := func(op byte, l, r plan.Source) plan.Source {
		return plan.Source{Kind: plan.Computed, Expr: &plan.Expr{Op: op, Left: l, Right: r}}
	}
	typed := func(a *Args, types ...datum.Type) *Args { a.Types = types; return a }
	ascii := func(a *Args) *Args { a.ASCII = true; return a }
	off := func(a *Args, text string) *Args {
		var s parser.Scanner
		a.Options.NonStandardStrings = true
		if !s.Scan([]byte(text), a.Options) {
			t.Fatal(text)
		}
		a.Text, a.Literals = []byte(text), s.Literals
		return a
	}
	const uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

	for _, test := range []struct {
		name  string
		table *plan.Table
		set   plan.Set
		args  *Args
		want  []string // values whose buckets are visited; nil for all
	}{
		{"int", ints, set(lit(0)), scanned(t, "42"), []string{"42"}},
		{"int with zeros", ints, set(lit(0)), scanned(t, "0042"), []string{"42"}},
		{"negative", ints, set(neg(lit(0))), scanned(t, "- 42"), []string{"-42"}},
		{"least int4", ints, set(neg(lit(0, datum.Int4))), scanned(t, "-2147483648"), []string{"-2147483648"}},
		{"least int8", ints, set(neg(lit(0, datum.Int8))), scanned(t, "-9223372036854775808"), []string{"-9223372036854775808"}},
		{"more than int8", ints, set(lit(0)), scanned(t, "9223372036854775808"), none},
		{"numeric that is whole", ints, set(lit(0)), scanned(t, "42.0"), []string{"42"}},
		{"numeric that is not", ints, set(lit(0)), scanned(t, "42.5"), none},
		{"numeric cast to int rounds", ints, set(lit(0, datum.Int8)), scanned(t, "42.5"), all},
		{"int cast to int", ints, set(lit(0, datum.Int2)), scanned(t, "42"), []string{"42"}},
		{"int cast to numeric", ints, set(lit(0, datum.Numeric)), scanned(t, "42"), []string{"42"}},
		{"int cast to text", texts, set(lit(0, datum.Text)), scanned(t, "42"), all},
		{"int cast to float", ints, set(lit(0, datum.Float8)), scanned(t, "42"), all},
		{"hexadecimal", ints, set(lit(0)), scanned(t, "0x1f"), all},
		{"underscore", ints, set(lit(0)), scanned(t, "1_000"), all},
		{"string for an int", ints, set(lit(0)), scanned(t, "' 42'"), []string{"42"}},
		{"string cast", ints, set(lit(0, datum.Int4)), scanned(t, "'42'"), []string{"42"}},
		{"string that is no int", ints, set(lit(0)), scanned(t, "'x'"), none},
		{"minus a string", ints, set(neg(lit(0))), scanned(t, "-'42'"), all},
		{"text", texts, set(lit(0)), scanned(t, "'it''s'"), []string{"it's"}},
		{"empty text", texts, set(lit(0)), scanned(t, "''"), []string{""}},
		{"escapes", texts, set(lit(0)), scanned(t, `E'a\n\t\'\\\x41\101\q'`), []string{"a\n\t'\\AAq"}},
		{"escapes beyond ASCII", texts, set(lit(0)), scanned(t, `E'\xc3\xa9'`), all},
		{"a unicode escape", texts, set(lit(0)), scanned(t, `E'\u0041'`), all},
		{"no escapes", texts, set(lit(0)), scanned(t, `'a\n'`), []string{`a\n`}},
		{"escapes by setting", texts, set(lit(0)), off(&Args{}, `'a\''`), []string{`a'`}},
		{"dollars", texts, set(lit(0)), scanned(t, `$a$x'$$y$a$`), []string{"x'$$y"}},
		{"continued", texts, set(lit(0)), scanned(t, "'a' -- c'\n  'b'\n'c'"), []string{"abc"}},
		{"national", texts, set(lit(0)), scanned(t, "N'a'"), []string{"a"}},
		{"unicode string", texts, set(lit(0)), scanned(t, `U&'a'`), all},
		{"bits", texts, set(lit(0)), scanned(t, `B'1'`), all},
		{"utf8", texts, set(lit(0)), scanned(t, "'é'"), []string{"é"}},
		{"another encoding", texts, set(lit(0)), ascii(scanned(t, "'é'")), all},
		{"another encoding, but ASCII", texts, set(lit(0)), ascii(scanned(t, "'e'")), []string{"e"}},
		{"uuid", uuids, set(lit(0)), scanned(t, "'{"+strings.ToUpper(uuid)+"}'"), []string{uuid}},
		{"numeric", numerics, set(neg(lit(0))), scanned(t, "-1.50"), []string{"-1.5"}},
		{"int for a numeric", numerics, set(lit(0)), scanned(t, "15"), []string{"15"}},
		{"date", dates, set(lit(0)), scanned(t, "'2024-02-29'"), []string{"2024-02-29"}},
		{"date of a setting", dates, set(lit(0)), scanned(t, "'01/02/2024'"), all},
		{"today", dates, set(lit(0)), scanned(t, "'today'"), all},
		{"list", ints, set(lit(0), lit(1), lit(2)), scanned(t, "1, 2, 1"), []string{"1", "2"}},
		{"list with one undecided", dates, set(lit(0), lit(1)), scanned(t, "'2024-02-29', 'now'"), all},
		{"list with one that is none", ints, set(lit(0), lit(1)), scanned(t, "1, 2.5"), []string{"1"}},
		{"nothing", ints, set(), scanned(t, ""), none},
		{"no such literal", ints, set(lit(1)), scanned(t, "1"), all},

		{"text param", ints, set(param(0)), params(t, nil, "42"), []string{"42"}},
		{"second text param", ints, set(param(1)), params(t, nil, "a", "42"), []string{"42"}},
		{"params backwards", ints, set(param(2), param(0)), params(t, nil, "1", nil, "3"), []string{"1", "3"}},
		{"null param", ints, set(param(0)), params(t, nil, nil), none},
		{"no such param", ints, set(param(1)), params(t, nil, "42"), all},
		{"binary param of no type", ints, set(param(0)), params(t, []int{1}, be(42, 8)), all},
		{"binary param", ints, set(param(0)), typed(params(t, []int{1}, be(-42, 8)), datum.Int8), []string{"-42"}},
		{"binary int4 for an int8", ints, set(param(0, datum.Int8)), typed(params(t, []int{1}, be(42, 4)), datum.Int4), []string{"42"}},
		{"format of each", ints, set(param(1)), typed(params(t, []int{0, 1}, "1", be(42, 2)), 0, datum.Int2), []string{"42"}},
		{"a format that is none", ints, set(param(0)), typed(params(t, []int{2}, be(42, 8)), datum.Int8), none},
		{"cast param", ints, set(param(0, datum.Int8)), params(t, nil, "42"), []string{"42"}},
		{"text param cast to int", ints, set(param(0, datum.Int8)), typed(params(t, nil, "42"), datum.Text), all},
		{"varchar for text", texts, set(param(0, datum.Text)), typed(params(t, nil, "a"), datum.Varchar), []string{"a"}},
		{"minus a param", ints, set(neg(param(0))), typed(params(t, nil, "42"), datum.Int4), []string{"-42"}},
		{"minus a param of no type", ints, set(neg(param(0))), params(t, nil, "42"), all},
		{"text param in another encoding", texts, set(param(0)), ascii(params(t, nil, "é")), all},
		{"binary text in another encoding", texts, set(param(0)), ascii(typed(params(t, []int{1}, "é"), datum.Text)), all},
		{"binary int in another encoding", ints, set(param(0)), ascii(typed(params(t, []int{1}, be(200, 8)), datum.Int8)), []string{"200"}},

		{"lower case", texts, set(expr(plan.Lower, param(0), plan.Source{})), params(t, nil, "A-z9@X"), []string{"a-z9@x"}},
		{"upper case", texts, set(expr(plan.Upper, lit(0), plan.Source{})), scanned(t, "'A-z9@[`{'"), []string{"A-Z9@[`{"}},
		{"lower case of I", texts, set(expr(plan.Lower, param(0), plan.Source{})), params(t, nil, "I"), all},
		{"lower case of i", texts, set(expr(plan.Lower, param(0), plan.Source{})), params(t, nil, "i"), []string{"i"}},
		{"upper case of i", texts, set(expr(plan.Upper, param(0), plan.Source{})), params(t, nil, "i"), all},
		{"lower case beyond ASCII", texts, set(expr(plan.Lower, param(0), plan.Source{})), params(t, nil, "É"), all},
		{"lower case of NULL", texts, set(expr(plan.Lower, param(0), plan.Source{})), params(t, nil, nil), none},
		{"lower case of another type", texts, set(expr(plan.Lower, param(0), plan.Source{})), typed(params(t, nil, "A"), datum.Bpchar), all},

		{"array", ints, set(arr(0)), scanned(t, "'{1, 2 ,NULL}'"), []string{"1", "2"}},
		{"empty array", ints, set(arr(0)), scanned(t, "' { } '"), none},
		{"array with spaces", texts, set(arr(0)), scanned(t, `'{ a b , "c" }'`), []string{"a b", "c"}},
		{"array of texts", texts, set(arr(0)), scanned(t, `'{a b,"c,\"d"," e ",""}'`), []string{"a b", `c,"d`, " e ", ""}},
		{"NULL may be a text", texts, set(arr(0)), scanned(t, `'{null}'`), all},
		{"quoted NULL is a text", texts, set(arr(0)), scanned(t, `'{"NULL"}'`), []string{"NULL"}},
		{"array of arrays", ints, set(arr(0)), scanned(t, "'{{1},{2}}'"), all},
		{"array with bounds", ints, set(arr(0)), scanned(t, "'[2:3]={1,2}'"), all},
		{"broken array", ints, set(arr(0)), scanned(t, "'{1,,2}'"), all},
		{"array without end", texts, set(arr(0)), scanned(t, `'{"a}'`), all},
		{"array with junk", texts, set(arr(0)), scanned(t, `'{"a"b}'`), all},
		{"array and value", ints, set(arr(0), lit(1)), scanned(t, "'{1}', 5"), []string{"1", "5"}},
		{"array of a wrong type", ints, set(arr(0, datum.Float8)), scanned(t, "'{1}'"), all},
		{"text array param", ints, set(parr(0)), params(t, nil, "{1,2}"), []string{"1", "2"}},
		{"null array param", ints, set(parr(0)), params(t, nil, nil), none},
		{"typed array param", ints, set(parr(0)), typed(params(t, nil, "{1,2}"), 1016), []string{"1", "2"}},
		{"param of no array type", ints, set(parr(0)), typed(params(t, nil, "{1,2}"), 600), all},
		{"binary array", ints, set(parr(0)), params(t, []int{1}, binaryArray(datum.Int8, be(1, 8), nil, be(2, 8))), []string{"1", "2"}},
		{"empty binary array", ints, set(parr(0)), params(t, []int{1}, be(0, 8)+be(int64(datum.Int8), 4)), none},
		{"binary array of another type", ints, set(parr(0)), typed(params(t, []int{1}, binaryArray(datum.Int4, be(1, 4))), 1016), all},
		{"binary array of texts", texts, set(parr(0)), params(t, []int{1}, binaryArray(datum.Text, "a", "")), []string{"a", ""}},
		{"cut binary array", ints, set(parr(0)), params(t, []int{1}, binaryArray(datum.Int8, be(1, 8))[:25]), all},
		{"long binary array", ints, set(parr(0)), params(t, []int{1}, binaryArray(datum.Int8, be(1, 8))+"x"), all},

		{"sum", ints, set(expr('+', lit(0), lit(1))), scanned(t, "40 + 2"), []string{"42"}},
		{"difference", ints, set(expr('-', lit(0), lit(1))), scanned(t, "40 - 42"), []string{"-2"}},
		{"product", ints, set(expr('*', neg(lit(0)), lit(1))), scanned(t, "-21 * 2"), []string{"-42"}},
		{"nested", ints, set(expr('*', expr('+', lit(0), lit(1)), lit(2))), scanned(t, "(1 + 2) * 3"), []string{"9"}},
		{"minus a sum", ints, set(neg(expr('+', lit(0), lit(1)))), scanned(t, "-(1 + 2)"), []string{"-3"}},
		{"overflow of int4", ints, set(expr('+', lit(0), lit(1))), scanned(t, "2147483647 + 1"), all},
		{"no overflow as int8", ints, set(expr('+', lit(0, datum.Int8), lit(1))), scanned(t, "2147483647 + 1"), []string{"2147483648"}},
		{"overflow of int8", ints, set(expr('*', lit(0), lit(1))), scanned(t, "9223372036854775807 * 2"), all},
		{"division", ints, set(expr('/', lit(0), lit(1))), scanned(t, "4 / 2"), all},
		{"sum of numerics", ints, set(expr('+', lit(0), lit(1))), scanned(t, "1.5 + 1.5"), all},
		{"sum with a param", ints, set(expr('+', param(0, datum.Int4), plan.Source{Kind: plan.Constant, Text: "2", Type: datum.Int4})), params(t, nil, "40"), []string{"42"}},
		{"sum with NULL", ints, set(expr('+', param(0, datum.Int4), param(1, datum.Int4))), params(t, nil, "40", nil), none},
		{"sum for a numeric", numerics, set(expr('+', lit(0), lit(1))), scanned(t, "40 + 2"), []string{"42"}},
		{"sum for a text", texts, set(expr('+', lit(0), lit(1))), scanned(t, "40 + 2"), all},

		{"constant", texts, set(constant("é")), &Args{}, []string{"é"}},
		{"generated", ints, set(plan.Source{Kind: plan.Generated, Index: 1}), &Args{Generated: [][]byte{[]byte("1"), []byte("2")}}, []string{"2"}},
		{"not generated yet", ints, set(plan.Source{Kind: plan.Generated}), &Args{}, all},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := buckets(t, keyed(test.table, sets(test.set)), test.args)
			want := []int(nil)
			if test.want != nil {
				want = of(t, test.table, test.want...)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || (got == nil) != (want == nil) {
				t.Errorf("visits %v, want %v", got, want)
			}
			// The long way, of several sets, comes to the same.
			if again := buckets(t, keyed(test.table, sets(test.set, test.set)), test.args); fmt.Sprint(got) != fmt.Sprint(again) {
				t.Errorf("visits %v, by two sets %v", got, again)
			}
		})
	}
}

func binaryArray(t datum.Type, elements ...any) string {
	b := be(1, 4) + be(0, 4) + be(int64(t), 4) + be(int64(len(elements)), 4) + be(1, 4)
	for _, e := range elements {
		if e == nil {
			b += be(-1, 4)
			continue
		}
		b += be(int64(len(e.(string))), 4) + e.(string)
	}
	return b
}

func TestBindNullKey(t *testing.T) {
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	null := set(plan.Source{Kind: plan.Null})
	want := []int{0} // NULL hashes to 0
	if got := buckets(t, keyed(ints, sets(null)), &Args{}); !slices.Equal(got, want) {
		t.Errorf("IS NULL visits %v", got)
	}
	if got := buckets(t, storing(ints, sets(null)), &Args{}); !slices.Equal(got, want) {
		t.Errorf("storing NULL visits %v", got)
	}
	p := set(plan.Source{Kind: plan.Param})
	if got := buckets(t, storing(ints, sets(p)), params(t, nil, nil)); !slices.Equal(got, want) {
		t.Errorf("storing a parameter that is NULL visits %v", got)
	}
}

func TestBindStores(t *testing.T) {
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int4})
	for _, test := range []struct {
		text string
		want []string
	}{
		{"42", []string{"42"}},
		{"42.5", []string{"43"}}, // assignment rounds
		{"'42'", []string{"42"}},
		{"'x'", []string{}},
		{"0x10", nil},
	} {
		got := buckets(t, storing(ints, sets(set(lit(0)))), scanned(t, test.text))
		want := []int(nil)
		if test.want != nil {
			want = of(t, ints, test.want...)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %v, want %v", test.text, got, want)
		}
	}
}

func TestBindIntersectsAndUnites(t *testing.T) {
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	a := scanned(t, "1, 2, 3, 'today'")
	for _, test := range []struct {
		name string
		plan *plan.Plan
		want []int
	}{
		{"k IN (1,2) AND k IN (2,3)", keyed(ints, sets(set(lit(0), lit(1)), set(lit(1), lit(2)))), of(t, ints, "2")},
		{"k = 1 AND k = 2", keyed(ints, sets(set(lit(0)), set(lit(1)))), []int{}},
		{"k = 1 AND k = 0x…", keyed(ints, sets(set(lit(0)), set(lit(0, datum.Float8)))), of(t, ints, "1")},
		{"k = 0x… AND k = 1", keyed(ints, sets(set(lit(0, datum.Float8)), set(lit(0)))), of(t, ints, "1")},
		{"nothing known", keyed(ints, nil), nil},
		{"no keys at all", keyed(ints), nil},
		{"two tables", &plan.Plan{Route: plan.Keyed, Instances: append(
			keyed(ints, sets(set(lit(0)))).Instances, keyed(ints, sets(set(lit(2)))).Instances...)}, of(t, ints, "1", "3")},
		{"two tables, one without rows", &plan.Plan{Route: plan.Keyed, Instances: append(
			keyed(ints, sets(set())).Instances, keyed(ints, sets(set(lit(2)))).Instances...)}, of(t, ints, "3")},
		{"no tables", &plan.Plan{Route: plan.Keyed}, []int{}},
		{"every", &plan.Plan{Route: plan.Every}, nil},
		{"any", &plan.Plan{Route: plan.Any}, []int{}},
		{"any copy", &plan.Plan{Route: plan.AnyCopy}, []int{}},
	} {
		got := buckets(t, test.plan, a)
		if fmt.Sprint(got) != fmt.Sprint(test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestBindRoutes(t *testing.T) {
	snap := cluster(64, 3)
	var b Binder
	s, err := b.Bind(&plan.Plan{Route: plan.Home}, snap, &Args{})
	if one, ok := s.One(); err != nil || !ok || one != 2 || s.Any() {
		t.Errorf("home: %+v, %v", s, err)
	}
	refusal := pgerr.New(pgerr.FeatureNotSupported, "no")
	if _, err := b.Bind(&plan.Plan{Route: plan.Refused, Refusal: refusal}, snap, &Args{}); err != error(refusal) {
		t.Errorf("refused: %v", err)
	}
	one := cluster(64, 1)
	s, err = b.Bind(&plan.Plan{Route: plan.Every}, one, &Args{})
	if shard, ok := s.One(); err != nil || !ok || shard != 0 || !s.Has(0) || s.Has(1) {
		t.Errorf("every shard of one: %+v, %v", s, err)
	}
}

func TestBindComposite(t *testing.T) {
	// 3 bits of the first column, 3 of the second: 8 runs of 8 buckets.
	table := declare(t, "composite", vindex.Params{"bits": []any{3, 61}}, 64, column{"a", datum.Int8}, column{"b", datum.Int8})
	v := table.Vindex.(vindex.Computed)
	id := func(a, b int64) int {
		id, err := v.ID([]datum.Key{datum.IntegerKey(a), datum.IntegerKey(b)})
		if err != nil {
			t.Fatal(err)
		}
		return id.Bucket(6)
	}
	run := func(a int64) []int {
		first := id(a, 1) &^ 7
		var out []int
		for i := range 8 {
			out = append(out, first+i)
		}
		return out
	}
	unite := func(lists ...[]int) []int {
		out := slices.Concat(lists...)
		slices.Sort(out)
		return slices.Compact(out)
	}
	a := scanned(t, "1, 2, 3, 4")
	for _, test := range []struct {
		name string
		plan *plan.Plan
		want []int
	}{
		{"both", keyed(table, sets(set(lit(0))), sets(set(lit(1)))), []int{id(1, 2)}},
		{
			"product", keyed(table, sets(set(lit(0), lit(1))), sets(set(lit(2), lit(3)))),
			unite([]int{id(1, 3)}, []int{id(1, 4)}, []int{id(2, 3)}, []int{id(2, 4)}),
		},
		{"the first", keyed(table, sets(set(lit(0))), nil), run(1)},
		{"the first, not filled up", keyed(table, sets(set(lit(0)))), run(1)},
		{"the second", keyed(table, nil, sets(set(lit(0)))), nil},
		{"the first and an undecided one", keyed(table, sets(set(lit(0))), sets(set(lit(0, datum.Float8)))), run(1)},
		{"the second empty", keyed(table, nil, sets(set())), []int{}},
		{"two firsts", keyed(table, sets(set(lit(0), lit(1))), nil), unite(run(1), run(2))},
	} {
		got := buckets(t, test.plan, a)
		if fmt.Sprint(got) != fmt.Sprint(test.want) || (got == nil) != (test.want == nil) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestBindSalted(t *testing.T) {
	table := declare(t, "salted", vindex.Params{"spread": 4}, 64, column{"a", datum.Int8}, column{"b", datum.Int8})
	a := scanned(t, "1, 2")
	if got := buckets(t, keyed(table, sets(set(lit(0))), nil), a); len(got) != 4 {
		t.Errorf("by the key alone: %v", got)
	}
	if got := buckets(t, keyed(table, sets(set(lit(0))), sets(set(lit(1)))), a); len(got) != 1 {
		t.Errorf("by both: %v", got)
	}
}

func TestBindWithoutPlace(t *testing.T) {
	table := declare(t, "list", vindex.Params{"zones": []any{
		map[string]any{"values": []any{"eu"}, "buckets": "0-31"},
		map[string]any{"values": []any{"us"}, "buckets": "32-63"},
	}}, 64, column{"region", datum.Text})
	a := scanned(t, "'mars', 'eu'")
	if got := buckets(t, keyed(table, sets(set(lit(0)))), a); got == nil || len(got) != 0 {
		t.Errorf("reading: %v", got)
	}
	var b Binder
	_, err := b.Bind(storing(table, sets(set(lit(0)))), cluster(64, 4), a)
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.CheckViolation || !strings.Contains(e.Message, "region") || strings.Contains(e.Message+e.Detail, "mars") {
		t.Errorf("storing: %+v", err)
	}
	if got := buckets(t, storing(table, sets(set(lit(1)))), a); len(got) != 1 || got[0] > 31 {
		t.Errorf("storing eu: %v", got)
	}
}

func TestBindLookup(t *testing.T) {
	for _, kind := range []string{"lookup", "lookup_unique"} {
		table := declare(t, kind, nil, 64, column{"tenant", datum.Int8})
		snap := cluster(64, 64)
		snap.Placement = append(snap.Placement, 17) // bucket 64, of a pinned tenant
		snap.Entries = directory.NewEntries()
		snap.Entries.Put("dir", []byte("42"), 64, 1)
		snap.Entries.Put("dir", []byte("43"), 3, 1)
		var b Binder
		bind := func(p *plan.Plan, text string) ([]int, []Missing) {
			a := scanned(t, text)
			s, err := b.Bind(p, snap, a)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Collect(s.All()), s.Missing
		}
		read := keyed(table, sets(set(lit(0))))
		if got, missing := bind(read, "42"); fmt.Sprint(got) != "[17]" || missing != nil {
			t.Errorf("pinned: %v, %v", got, missing)
		}
		if got, missing := bind(read, "'43'"); fmt.Sprint(got) != "[3]" || missing != nil {
			t.Errorf("entered: %v, %v", got, missing)
		}
		def := of(t, table, "5")
		if got, missing := bind(read, "5"); !slices.Equal(got, def) || missing != nil {
			t.Errorf("reading without an entry: %v, %v", got, missing)
		}
		rows := &plan.Plan{Route: plan.Keyed, Instances: []plan.Instance{
			{Table: table, Stored: true, Keys: [][]plan.Set{sets(set(lit(0)))}},
			{Table: table, Stored: true, Keys: [][]plan.Set{sets(set(lit(1)))}},
			{Table: table, Stored: true, Keys: [][]plan.Set{sets(set(lit(2)))}},
		}}
		got, missing := bind(rows, "5, 42, '05'")
		if want := append(slices.Clone(def), 17); fmt.Sprint(sorted(got)) != fmt.Sprint(sorted(want)) {
			t.Errorf("storing: %v, want %v", got, want)
		}
		if len(missing) != 1 || missing[0].Lookup != "dir" || string(missing[0].Key) != "5" || snap.TopBucket(missing[0].Default) != def[0] {
			t.Errorf("missing: %+v", missing)
		}
		null := storing(table, sets(set(plan.Source{Kind: plan.Null})))
		if got, missing := bind(null, ""); fmt.Sprint(got) != "[0]" || missing != nil {
			t.Errorf("NULL: %v, %v", got, missing)
		}
	}
}

func sorted(s []int) []int { slices.Sort(s); return s }

func TestBindRefusesHoles(t *testing.T) {
	table := declare(t, "lookup_unique", nil, 64, column{"tenant", datum.Int8})
	p := keyed(table, sets(set(lit(0))))
	var b Binder
	for name, spoil := range map[string]func(*directory.Snapshot){
		"an entry beyond the placement": func(s *directory.Snapshot) { s.Entries.Put("dir", []byte("1"), 99, 1) },
		"an entry below it":             func(s *directory.Snapshot) { s.Entries.Put("dir", []byte("1"), -1, 1) },
		"a short placement":             func(s *directory.Snapshot) { s.Placement = s.Placement[:0] },
		"a shard that is not there":     func(s *directory.Snapshot) { s.Shards = s.Shards[:0] },
	} {
		snap, a := cluster(64, 4), scanned(t, "1")
		snap.Entries = directory.NewEntries()
		spoil(snap)
		_, err := b.Bind(p, snap, a)
		if err == nil || !strings.Contains(err.Error(), "bucket") || !strings.Contains(err.Error(), "version 7") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// However many values there are, none is forgotten.
func TestBindManyValues(t *testing.T) {
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	pair := declare(t, "composite", vindex.Params{"bits": []any{3, 61}}, 64, column{"a", datum.Int8}, column{"b", datum.Int8})
	var text strings.Builder
	same, other := plan.Set{}, plan.Set{}
	for i := range 30_000 {
		fmt.Fprintf(&text, "5,%d,", i)
		same, other = append(same, lit(2*i)), append(other, lit(2*i+1))
	}
	a := scanned(t, text.String())
	if got := buckets(t, keyed(ints, sets(same)), a); !slices.Equal(got, of(t, ints, "5")) {
		t.Errorf("one value many times: %v", got)
	}
	if got := buckets(t, keyed(ints, sets(other)), a); got != nil {
		t.Errorf("many values: %v", got)
	}
	// Too many to hold: the other set still counts, in whatever order.
	one := set(lit(0))
	for _, s := range [][]plan.Set{{other, one}, {one, other}} {
		if got := buckets(t, keyed(ints, s), a); !slices.Equal(got, of(t, ints, "5")) {
			t.Errorf("many values and one: %v", got)
		}
	}
	if got := buckets(t, keyed(pair, sets(one), sets(other)), a); len(got) != 8 {
		t.Errorf("a key of two columns, the second with many values: %v", got)
	}
	few := other[:2000]
	if got := buckets(t, keyed(pair, sets(few), sets(few)), a); got != nil {
		t.Errorf("too many combinations: %v", got)
	}
}

func TestDecodeParams(t *testing.T) {
	for _, body := range []string{
		"", "\x00", "\x00\x00", "\x00\x00\x00", "\x00\x01\x00\x00", // cut off
		"\x00\x02\x00\x00\x00\x00\x00\x01", // two formats for one value
	} {
		if _, ok := DecodeParams([]byte(body)); ok {
			t.Errorf("%q is accepted", body)
		}
	}
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	whole := bindBody(nil, "1", "42")
	for n := 4; n < len(whole)-2; n++ {
		p, ok := DecodeParams(whole[:n])
		if !ok {
			t.Fatalf("%d bytes refused", n)
		}
		if got := buckets(t, keyed(ints, sets(set(plan.Source{Kind: plan.Param, Index: 1}))), &Args{Params: p}); got != nil {
			t.Errorf("a message of %d bytes is routed to %v", n, got)
		}
	}
}

func TestShards(t *testing.T) {
	for _, total := range []int{1, 2, 63, 64, 65, 1000, 65536} {
		var c collection
		c.reset(&directory.Snapshot{Shards: make([]directory.Shard, total)})
		c.addAll()
		if c.count != total {
			t.Fatalf("%d of %d", c.count, total)
		}
		c.reset(&directory.Snapshot{Shards: make([]directory.Shard, total)})
		for i := 0; i < total; i += 7 {
			c.add(i)
			c.add(i)
		}
		s := Shards{first: c.first, count: c.count, set: c.set}
		want := 0
		for i := range s.All() {
			if i != want || !s.Has(i) {
				t.Fatalf("of %d: got %d, want %d", total, i, want)
			}
			want += 7
		}
		if want < total || s.Len() != (total+6)/7 || s.Has(total) {
			t.Fatalf("of %d: stopped at %d, %d", total, want, s.Len())
		}
	}
}
