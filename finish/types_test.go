package finish_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/finish"
	"weft/pool"
)

// schema has users' types.
const schema = `
DROP SCHEMA IF EXISTS kinds CASCADE;
CREATE SCHEMA kinds;
SET search_path = kinds, public;
CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'Happy "x"');
CREATE TYPE pair AS (a int, b text, at timestamptz);
CREATE TYPE nest AS (p pair, list int[], m mood, pairs pair[]);
CREATE TYPE keeper AS (a int, acl aclitem[]);
CREATE DOMAIN pos AS int CHECK (VALUE > 0);
CREATE DOMAIN ints AS int[];
CREATE DOMAIN price AS numeric(10,2);
CREATE TYPE span AS RANGE (SUBTYPE = float8);
CREATE TABLE rowtype(gone int, a int, b text);
ALTER TABLE rowtype DROP COLUMN gone;`

// kinds are types with edge values. NULL is tried with each.
var kinds = []struct {
	typ    string
	values []string
}{
	{"bool", []string{"true", "false"}},
	{"int2", []string{"-32768", "32767"}},
	{"int4", []string{"-2147483648", "0", "2147483647"}},
	{"int8", []string{"-9223372036854775808", "9223372036854775807"}},
	{"float4", []string{"NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38", "0.1"}},
	{"float8", []string{"NaN", "Infinity", "-Infinity", "-0", "5e-324", "1.7976931348623157e308", "0.1"}},
	{"numeric", []string{"NaN", "Infinity", "-Infinity", "0", "0.000", "1.10", "-1e-50", "123456789012345678901234567890.123456789"}},
	{"numeric(10,2)", []string{"1.1", "-99999999.99", "NaN"}},
	{"numeric(3,-2)", []string{"12300"}},
	{"money", []string{"-92233720368547758.08", "0", "1.23"}},
	{"text", []string{"", " ", "NULL", "null", `{}`, `"`, `\`, "ä€𝄞", "a\nb", strings.Repeat("x", 100000)}},
	{"varchar", []string{"", "x  "}},
	{"varchar(3)", []string{"", "ab ", "äö€"}},
	{"char(5)", []string{"", "ab", "ab  c"}},
	{"bpchar", []string{"", "ab  "}},
	{`"char"`, []string{"", "a", `\377`}},
	{"name", []string{"", "pg_class"}},
	{"bytea", []string{"", `\x00ff`, `\xdeadbeef`}},
	{"bit(3)", []string{"101"}},
	{"bit", []string{"1"}},
	{"varbit", []string{"", "1", "101010101"}},
	{"varbit(5)", []string{"", "10101"}},
	{"date", []string{"infinity", "-infinity", "4713-01-01 BC", "5874897-12-31", "2000-01-01"}},
	{"time", []string{"00:00", "24:00", "12:34:56.789012"}},
	{"time(2)", []string{"12:34:56.78"}},
	{"timetz", []string{"00:00+15:59", "24:00-15:59"}},
	{"timestamp", []string{"infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999"}},
	{"timestamp(0)", []string{"2024-02-29 12:00:01"}},
	{"timestamptz", []string{"infinity", "-infinity", "2024-03-31 01:30:00.123456+00"}},
	{"timestamptz(3)", []string{"2024-03-31 01:30:00.123+00"}},
	{"interval", []string{"0", "178000000 years", "-1 mon +2 days -03:04:05.678901", "1 mon -1 day"}},
	{"interval day to second(2)", []string{"1 day 2:03:04.05"}},
	{"interval year to month", []string{"3 years 2 mons"}},
	{"uuid", []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"}},
	{"json", []string{"null", `{"b" : 1, "a":[1 , 2], "a":3}`, `"\u0041"`}},
	{"jsonb", []string{"null", `{"b":1,"a":[1,2.50]}`, `"x"`}},
	{"jsonpath", []string{"$.a[*] ? (@ > 1)"}},
	{"xml", []string{"", "<a><b/>text</a>", "no element"}},
	{"inet", []string{"1.2.3.4", "1.2.3.4/24", "::1/64"}},
	{"cidr", []string{"10.0.0.0/8", "::/0"}},
	{"macaddr", []string{"08:00:2b:01:02:03"}},
	{"macaddr8", []string{"08:00:2b:01:02:03:04:05"}},
	{"tsvector", []string{"", "'a':1A,2 'b c':3"}},
	{"tsquery", []string{"", "'a' & !'b':A* | 'c' <2> 'd'"}},
	{"point", []string{"(0,-0)", "(1e300,NaN)"}},
	{"line", []string{"{1,2,3}"}},
	{"lseg", []string{"[(0,0),(1,1)]"}},
	{"box", []string{"(1,1),(0,0)"}},
	{"path", []string{"((0,0),(1,1))", "[(0,0)]"}},
	{"polygon", []string{"((0,0),(1,1),(2,0))"}},
	{"circle", []string{"<(0,0),1.5>"}},
	{"oid", []string{"0", "4294967295"}},
	{"xid", []string{"5"}},
	{"xid8", []string{"18446744073709551615"}},
	{"tid", []string{"(1,2)"}},
	{"pg_lsn", []string{"16/B374D848"}},
	{"pg_snapshot", []string{"10:20:10,14"}},
	{"regclass", []string{"pg_class", "0", "kinds.rowtype"}},
	{"regtype", []string{"int4", "kinds.mood"}},
	{"regproc", []string{"pg_catalog.now", "0"}},
	{"regprocedure", []string{"pg_catalog.abs(integer)"}},
	{"regrole", []string{"postgres"}},
	{"regnamespace", []string{"kinds"}},
	{"regconfig", []string{"english"}},
	{"refcursor", []string{"x"}},
	{"int2vector", []string{"", "1 2"}},
	{"oidvector", []string{"", "1 2"}},
	{"aclitem", []string{"postgres=arwdDxt/postgres"}},
	{"aclitem[]", []string{"{}", "{postgres=r/postgres,NULL}"}},
	{"int4range", []string{"empty", "[1,5)", "(,)", "(,5)"}},
	{"numrange", []string{"[1.10,2.0]"}},
	{"tstzrange", []string{"[2024-01-01 00:00+00,infinity]"}},
	{"int4multirange", []string{"{}", "{[1,2),[5,8)}"}},
	{"int4[]", []string{"{}", "{NULL}", "{1,2}", "{{1,2},{3,NULL}}", "[0:1]={1,2}", "[-1:-1][2:3]={{1,2}}"}},
	{"float8[]", []string{"{0.1,NaN}"}},
	{"text[]", []string{"{}", `{"",NULL,"NULL","a,b","\"","\\"}`, `{{a},{b}}`}},
	{"numeric(4,1)[]", []string{"{1.5,2.0}"}},
	{"varchar(3)[]", []string{"{abc,\"\"}"}},
	{"timestamptz[]", []string{"{2024-03-31 01:30:00.123+00}"}},
	{"interval[]", []string{"{-1 mon +2 days}"}},
	{"tsvector[]", []string{`{"'a':1"}`}},
	{"int4range[]", []string{`{"[1,2)"}`}},
	{"mood", []string{"sad", "it's ok", `Happy "x"`}},
	{"mood[]", []string{"{sad}", "{}"}},
	{"pair", []string{"(,,)", `(1,"a ""b""",2024-01-01 00:00+00)`}},
	{"pair[]", []string{`{"(1,x,)",NULL}`}},
	{"nest", []string{`("(1,x,)","{1,2}",sad,"{""(2,y,)""}")`}},
	{"keeper", []string{`(1,{postgres=r/postgres})`}},
	{"rowtype", []string{`(1,x)`}},
	{"pos", []string{"1"}},
	{"pos[]", []string{"{1,2}"}},
	{"ints", []string{"{1,2}"}},
	{"price", []string{"1.50"}},
	{"span", []string{"[0.1,0.2]"}},
	{"span[]", []string{`{"[0.1,0.2]"}`}},
	{"span_multirange", []string{"{[0.1,0.2]}"}},
}

// makeKinds makes a table for each type, kinds.k0 and so on, of a number and a
// value.
func makeKinds(t *testing.T, c *pool.Conn) {
	t.Helper()
	run(t, c, schema)
	for i, k := range kinds {
		var b strings.Builder
		fmt.Fprintf(&b, "CREATE TABLE k%d(n int, v %s); INSERT INTO k%d VALUES (0, NULL)", i, k.typ, i)
		for n, v := range k.values {
			fmt.Fprintf(&b, ", (%d, %s)", n+1, literal(v))
		}
		run(t, c, b.String())
	}
}

func literal(s string) string {
	if strings.Contains(s, "\n") {
		return "E'" + strings.ReplaceAll(s, "\n", `\n`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// settings under which a value's text may be rounded, or be read as another.
var settings = []string{
	"RESET DateStyle",
	"SET DateStyle = 'SQL, DMY'; SET IntervalStyle = 'sql_standard'; SET extra_float_digits = -3; SET bytea_output = 'escape'; SET TimeZone = 'Asia/Kolkata'",
	"SET client_encoding = 'GB18030'",
}

// TestEveryType carries a table of each type and compares what the remainder
// sees with the table.
func TestEveryType(t *testing.T) {
	c, to := backend(t), backend(t)
	makeKinds(t, c)
	run(t, to, "SET search_path = kinds, public")
	for _, set := range settings {
		run(t, c, set)
		run(t, to, set)
		for i, k := range kinds {
			sql := fmt.Sprintf("SELECT n, v, v AS \"a \"\"name\", n AS c1 FROM k%d ORDER BY n", i)
			_, cols, err := finish.Describe(c, sql, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := finish.Carriable(cols); err != nil {
				t.Fatalf("%s: %v", k.typ, err)
			}
			g := &gathering{conn: c, pieces: []string{sql}, shapes: []finish.Shape{{Columns: cols}}}
			want := fetch(t, c, sql, nil, nil)
			compare(t, k.typ+" inline", g.inline(t, "SELECT * FROM %[1]s x", nil, nil), want)
			compare(t, k.typ+" staged", g.staged(t, to, "SELECT * FROM %[1]s x", nil, nil), want)
			empty := *g
			empty.pieces = []string{fmt.Sprintf("SELECT n, v, v, n FROM k%d WHERE n < 0", i)}
			want.rows = nil
			compare(t, k.typ+" inline without rows", empty.inline(t, "SELECT * FROM %[1]s x", nil, nil), want)
			compare(t, k.typ+" staged without rows", empty.staged(t, to, "SELECT * FROM %[1]s x", nil, nil), want)
		}
	}
}

// TestBuiltinTypes carries a NULL of every type of pg_catalog, all at once: those
// that are arrays, those that are not, and the rows of all its tables.
func TestBuiltinTypes(t *testing.T) {
	c, to := backend(t), backend(t)
	var pieces []string
	for _, where := range []string{"typtype IN ('b', 'e', 'r', 'm') AND typelem = 0", "typelem <> 0 AND typname NOT LIKE '\\_pg\\_%'", "typtype = 'c'"} {
		rows := run(t, c, `SELECT 'NULL::' || format_type(oid, -1) FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND `+where+`
 AND typtype <> 'p' AND typname NOT IN ('pg_node_tree', 'pg_ndistinct', 'pg_dependencies', 'pg_mcv_list', 'gtsvector', '_gtsvector', '_cstring',
  'pg_brin_bloom_summary', 'pg_brin_minmax_multi_summary')
 AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = typrelid AND atttypid IN ('anyarray'::regtype, 'pg_node_tree'::regtype, 'pg_ndistinct'::regtype,
  'pg_dependencies'::regtype, 'pg_mcv_list'::regtype, 'pg_statistic[]'::regtype))
 ORDER BY oid`)
		if len(rows) < 50 {
			t.Fatalf("only %d types where %s", len(rows), where)
		}
		var items []string
		for i, r := range rows {
			items = append(items, fmt.Sprintf("%s AS v%d", r[0], i))
		}
		pieces = append(pieces, "SELECT "+strings.Join(items, ", "))
	}
	g := several(t, c, nil, pieces...)
	for i := range pieces {
		if err := finish.Carriable(g.shapes[i].Columns); err != nil {
			t.Error(err)
		}
		want := fetch(t, c, pieces[i], nil, nil)
		compare(t, pieces[i]+" inline", g.inline(t, fmt.Sprintf("SELECT * FROM %%[%d]s x", i+1), nil, nil), want)
		compare(t, pieces[i]+" staged", g.staged(t, to, fmt.Sprintf("SELECT * FROM %%[%d]s x", i+1), nil, nil), want)
	}
}

// TestShapes: domains and collations are given back where the plan says so, and
// a collation is the column's, not the expression's.
func TestShapes(t *testing.T) {
	c, to := backend(t), backend(t)
	run(t, c, schema)
	run(t, to, "SET search_path = kinds, public")
	run(t, c, `CREATE TABLE names(p pos, i ints, x text COLLATE "C", y varchar(3) COLLATE "POSIX"); INSERT INTO names VALUES (1, '{1}', 'a', 'abc'), (2, NULL, 'B', 'b')`)
	sql := "SELECT * FROM names"
	_, cols, err := finish.Describe(c, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &gathering{conn: c, pieces: []string{sql}, shapes: []finish.Shape{{
		Columns: cols, Types: []string{"kinds.pos", "kinds.ints"}, Collations: []string{2: `pg_catalog."C"`, 3: `"POSIX"`},
	}}}
	for _, q := range []string{
		`SELECT pg_typeof(p), pg_typeof(i), pg_collation_for(x), pg_collation_for(y), * FROM %[1]s x ORDER BY x`,
		`SELECT * FROM %[1]s x ORDER BY x COLLATE "POSIX" DESC, y`,
	} {
		want := fetch(t, c, fmt.Sprintf(q, "names"), nil, nil)
		compare(t, "inline: "+q, g.inline(t, q, nil, nil), want)
		compare(t, "staged: "+q, g.staged(t, to, q, nil, nil), want)
	}
}

func compare(t *testing.T, what string, got, want answer) {
	t.Helper()
	if len(got.cols) != len(want.cols) {
		t.Errorf("%s: %d columns, want %d", what, len(got.cols), len(want.cols))
		return
	}
	for i := range got.cols {
		g, w := got.cols[i], want.cols[i]
		if g.Name != w.Name || g.Type != w.Type || g.Mod != w.Mod || g.Size != w.Size {
			t.Errorf("%s: column %+v, want %+v", what, g, w)
		}
	}
	if len(got.rows) != len(want.rows) {
		t.Errorf("%s: %d rows, want %d", what, len(got.rows), len(want.rows))
		return
	}
	for i := range got.rows {
		if got.rows[i] != want.rows[i] {
			t.Errorf("%s: row %q, want %q", what, clip(got.rows[i]), clip(want.rows[i]))
		}
	}
}

func clip(s string) string { return s[:min(len(s), 400)] }
