package vindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/datum"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// column makes a Column of a built-in type by its SQL name.
func column(name, typ string) Column {
	oids := map[string]datum.Type{
		"int2": datum.Int2, "int4": datum.Int4, "int8": datum.Int8, "text": datum.Text, "varchar": datum.Varchar, "bpchar": datum.Bpchar,
		"uuid": datum.UUID, "date": datum.Date, "timestamp": datum.Timestamp, "timestamptz": datum.Timestamptz, "numeric": datum.Numeric,
		"bool": datum.Bool, "float4": datum.Float4, "float8": datum.Float8,
	}
	return Column{Name: name, Column: datum.Column{Type: oids[typ], Mod: -1}, TypeName: typ}
}

func columns(types string) (cs []Column) {
	for i, t := range strings.Fields(types) {
		cs = append(cs, column(string(rune('a'+i)), t))
	}
	return cs
}

var keyTypes = []string{"int2", "int4", "int8", "text", "varchar", "bpchar", "uuid", "date", "timestamp", "timestamptz", "numeric"}

type list = []any

// examples are declarations of every kind, over every type it takes.
func examples() (ds []Declaration) {
	add := func(kind, types string, buckets int, p Params) {
		ds = append(ds, Declaration{kind, columns(types), p, buckets})
	}
	for _, t := range keyTypes {
		add("hash", t, 4096, nil)
		add("lookup", t, 4096, nil)
		add("lookup_unique", t, 4096, nil)
		add("salted", t+" int8", 4096, Params{"spread": 16})
		add("composite", t+" "+t, 4096, Params{"bits": list{7}})
	}
	for i, t := range []string{"int2", "int4", "int8"} {
		add("identity", t, 1<<(4*i), nil)
		add("reverse_bits", t, 65536>>(8*i), nil)
	}
	add("salted", "int8 uuid", 2, Params{"spread": 2})
	add("composite", "int8 text uuid", 1024, Params{"bits": list{1, 1, 62}})
	add("composite", "int8", 4096, Params{"bits": list{64}})
	add("composite", "int8 date text", 65536, Params{"bits": list{4, 3, 2}}) // bits left over
	add("composite", "int8 int4 int8", 4096, Params{"parts": list{
		map[string]any{"bits": 5, "kind": "reverse_bits"},
		map[string]any{"bits": 3, "kind": "identity"},
		map[string]any{"kind": "hash"},
	}})
	for _, t := range []string{"date", "timestamp", "timestamptz"} {
		for _, unit := range []string{"hour", "day", "week", "month", "quarter", "year"} {
			add("composite", "int8 "+t, 4096, Params{"parts": list{
				map[string]any{"bits": 6},
				map[string]any{"kind": "time_bucket", "unit": unit},
			}})
		}
	}
	zonesOf := map[string][3]any{ // ascending
		"int2": {-100, "0", 12}, "int4": {-1, 0, 100000}, "int8": {-1 << 40, 0, 5.0}, "text": {"", `it's a \ Zoë`, "x"}, "varchar": {"B", "a", "b "},
		"bpchar": {"B", "a  ", "é"}, "uuid": {"00000000-0000-0000-0000-000000000000", "{80000000000000000000000000000000}", "c0000000-0000-0000-0000-000000000000"},
		"date": {"-infinity", "2000-01-01", "2024-02-29"}, "timestamp": {"1990-01-01", "2024-02-29 12:30:00.5", "infinity"},
		"timestamptz": {"-infinity", "2024-02-29 12:30:00.5+01:30", "2025-01-01T00:00:00Z"}, "numeric": {"-Infinity", -0.5, "1e3"},
	}
	for _, t := range keyTypes {
		z := zonesOf[t]
		ranges := Params{"zones": list{
			map[string]any{"below": z[0], "buckets": "0-9"},
			map[string]any{"below": z[1], "buckets": "10-1023"},
			map[string]any{"below": z[2], "buckets": 4095},
			map[string]any{"buckets": "1024-2048"},
		}}
		lists := Params{"zones": list{
			map[string]any{"values": list{z[0], z[2]}, "buckets": "0-9"},
			map[string]any{"buckets": "10-1023"},
			map[string]any{"values": list{z[1]}, "buckets": "0-9"},
		}}
		add("range", t, 4096, ranges)
		add("list", t, 4096, lists)
		add("composite", t+" int8", 4096, Params{"parts": list{
			map[string]any{"kind": "list", "zones": lists["zones"]},
			map[string]any{},
		}})
		add("composite", t+" int8 text", 4096, Params{"parts": list{
			map[string]any{"kind": "range", "zones": ranges["zones"]},
			map[string]any{"bits": 4},
			map[string]any{},
		}})
	}
	add("range", "int8", 1, Params{"zones": list{map[string]any{"buckets": 0}}})
	add("list", "text", 16, Params{"zones": list{ // no zone for other values
		map[string]any{"values": list{"a", ""}, "buckets": "0-7"},
		map[string]any{"values": list{"b"}, "buckets": "8-15"},
	}})
	return ds
}

// values returns spellings of values of a type: NULL, the edges, then random
// ones.
func values(rnd *rand.Rand, typ string, n int) []*string {
	edges := map[string]string{
		"int2":        "0 1 -1 32767 -32768",
		"int4":        "0 1 -1 32767 -32768 2147483647 -2147483648",
		"int8":        "0 1 -1 2147483647 -2147483648 2147483648 -2147483649 4294967295 4294967296 -4294967296 9223372036854775807 -9223372036854775808",
		"text":        `a b x abc abcd abcdefg abcdefgh abcdefghijk abcdefghijkl abcdefghijklm ä € 𝄞 it's_a_\`,
		"varchar":     "a B ab",
		"bpchar":      "a b é B",
		"uuid":        "00000000-0000-0000-0000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff 80000000-0000-0000-0000-000000000000",
		"date":        "2000-01-01 1999-12-31 2024-02-29 infinity -infinity 4714-11-24_BC 0001-01-01_BC 5874897-12-31 294276-12-31 294277-01-01",
		"timestamp":   "2000-01-01 1999-12-31_23:59:59.999999 infinity -infinity 4714-11-24_00:00:00_BC 4714-12-31_BC 294276-12-31_23:59:59.999999",
		"timestamptz": "2000-01-01Z 1999-12-31_23:59:59.999999Z infinity -infinity 4714-11-24_00:00:00Z_BC 294276-12-31_23:59:59.999999Z",
		"numeric": "0 0.00 1 1.0 -1 10 10000 10000.0001 0.0001 0.00010000 -0.5 NaN Infinity -Infinity 1e1000 1e-1000 9999999999999999 99990000 0.00000001 " +
			"123456789012345678901234567890.123456789",
	}
	letters := []rune("abcdefghijklmnopqrstuvwxyz0123456789  ÄÖßé€日本語𝄞")
	all := []*string{nil}
	add := func(s string) { all = append(all, &s) }
	for _, s := range strings.Fields(edges[typ]) {
		add(strings.ReplaceAll(s, "_", " "))
	}
	if typ == "text" || typ == "varchar" || typ == "bpchar" {
		add("")
		add("  ")
		add("a  ")
	}
	for len(all) < n {
		switch typ {
		case "int2":
			add(fmt.Sprint(int16(rnd.Uint64())))
		case "int4":
			add(fmt.Sprint(int32(rnd.Uint64()) >> rnd.IntN(32)))
		case "int8":
			add(fmt.Sprint(int64(rnd.Uint64()) >> rnd.IntN(64)))
		case "text", "varchar", "bpchar":
			var b strings.Builder
			for range rnd.IntN(40) {
				b.WriteRune(letters[rnd.IntN(len(letters))])
			}
			add(b.String())
		case "uuid":
			add(fmt.Sprintf("%016x%016x", rnd.Uint64(), rnd.Uint64()))
		case "date":
			add(time.Unix(epoch+int64(rnd.IntN(1<<16)-1<<15)*86400, 0).UTC().Format("2006-01-02"))
		case "timestamp", "timestamptz":
			// Also far before and after, but within what Go writes as four digits.
			add(time.UnixMicro(rnd.Int64N(1<<57) - 1<<55).UTC().Format("2006-01-02 15:04:05.999999Z"))
		case "numeric":
			add(fmt.Sprintf("%d.%de%d", int64(rnd.Uint64())>>rnd.IntN(64), rnd.Uint64()>>rnd.IntN(64), rnd.IntN(40)-20))
		}
	}
	return all
}

func connect(tb testing.TB) *pgx.Conn {
	tb.Helper()
	srv := pgtest.Start(tb, pgserver.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func exec(tb testing.TB, conn *pgx.Conn, sql string, args ...any) {
	tb.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// TestConformance holds every kind to what its interfaces promise.
func TestConformance(t *testing.T) {
	conn := connect(t)
	var covered []string
	for _, d := range examples() {
		covered = append(covered, d.Kind)
		if parts, ok := d.Params["parts"].(list); ok {
			for _, p := range parts {
				if k, ok := p.(map[string]any)["kind"].(string); ok {
					covered = append(covered, k)
				}
			}
		}
		name := d.Kind
		for _, c := range d.Columns {
			name += " " + c.TypeName
		}
		t.Run(name, func(t *testing.T) {
			v, err := New(d)
			if err != nil {
				t.Fatal(err)
			}
			conform(t, conn, d, v)
		})
	}
	for _, k := range Kinds() {
		if !slices.Contains(covered, k) {
			t.Errorf("no example of kind %s", k)
		}
	}
}

func conform(t *testing.T, conn *pgx.Conn, d Declaration, v Vindex) {
	if v.Kind() != d.Kind || len(v.Columns()) != len(d.Columns) {
		t.Fatalf("declared %s of %d columns, got %s of %d", d.Kind, len(d.Columns), v.Kind(), len(v.Columns()))
	}
	twin, err := New(d)
	if err != nil {
		t.Fatal(err)
	}
	typo := d
	typo.Params = Params{"no_such_parameter": 1}
	maps.Copy(typo.Params, d.Params)
	if _, err := New(typo); err == nil || !strings.Contains(err.Error(), "no_such_parameter") {
		t.Errorf("an unknown parameter: %v", err)
	}

	rows := store(t, conn, d)
	switch v := v.(type) {
	case Computed:
		conformComputed(t, conn, d, v, twin.(Computed), rows)
		if _, err := v.ID(nil); err == nil {
			t.Error("ID took no keys for an answer")
		}
		if _, err := v.Ranges(nil, make([]datum.Key, len(d.Columns)+1)); err == nil {
			t.Error("Ranges took more keys than columns")
		}
	case Lookup:
		conformLookup(t, v, twin.(Lookup), rows)
	default:
		t.Fatalf("%T is neither Computed nor Lookup", v)
	}
}

// row is one row of the table t: its number and the keys of its columns, as
// the server stores them.
type row struct {
	n    int
	keys []datum.Key
}

// store fills a table with the columns of d, and reads them back.
func store(t *testing.T, conn *pgx.Conn, d Declaration) (rows []row) {
	n := 300
	if d.Kind == "hash" {
		n = 10000
	}
	rnd := rand.New(rand.NewPCG(7, uint64(len(d.Columns))))
	var defs, sources, names []string
	var args []any
	for i, c := range d.Columns {
		vals := values(rnd, c.TypeName, n)
		if i > 0 {
			rnd.Shuffle(n, func(i, j int) { vals[i], vals[j] = vals[j], vals[i] })
		}
		defs = append(defs, c.Name+" "+c.TypeName)
		names = append(names, c.Name)
		sources = append(sources, fmt.Sprintf("($%d::text[])[n]::%s", i+1, c.TypeName))
		args = append(args, vals[:n])
	}
	exec(t, conn, "SET TimeZone = 'America/New_York'") // nothing may depend on it
	exec(t, conn, "DROP TABLE IF EXISTS t CASCADE")
	exec(t, conn, "CREATE TABLE t (n int4, "+strings.Join(defs, ", ")+")")
	exec(t, conn, fmt.Sprintf("INSERT INTO t SELECT n, %s FROM generate_series(1, %d) n", strings.Join(sources, ", "), n), args...)

	r := conn.PgConn().ExecParams(context.Background(), "SELECT "+strings.Join(names, ", ")+" FROM t ORDER BY n", nil, nil, nil, []int16{1}).Read()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if len(r.Rows) != n {
		t.Fatalf("stored %d rows, want %d", len(r.Rows), n)
	}
	for i, fields := range r.Rows {
		keys := make([]datum.Key, len(fields))
		for j, f := range fields {
			var err error
			if keys[j], err = d.Columns[j].Store(datum.Value{Type: d.Columns[j].Type, Format: datum.BinaryFormat, Bytes: f}); err != nil {
				t.Fatalf("row %d: %v", i, err)
			}
		}
		rows = append(rows, row{i + 1, keys})
	}
	return rows
}

func conformComputed(t *testing.T, conn *pgx.Conn, d Declaration, v, twin Computed, rows []row) {
	ctx := context.Background()
	var names []string
	for _, c := range d.Columns {
		names = append(names, c.Name)
	}
	bits, err := Bits(d.Buckets)
	if err != nil {
		t.Fatal(err)
	}
	bucketSQL, err := BucketSQL(v, names, d.Buckets)
	if err != nil {
		t.Fatal(err)
	}

	ids := map[int]ID{}
	for _, r := range rows {
		id, err := v.ID(r.keys)
		id2, err2 := twin.ID(r.keys)
		if id != id2 || (err == nil) != (err2 == nil) {
			t.Fatalf("row %d: %x (%v), then %x (%v)", r.n, id, err, id2, err2)
		}
		if err != nil {
			if !errors.Is(err, ErrNoPlace) {
				t.Fatalf("row %d: %v", r.n, err)
			}
			// A shard must not know a place either: NULL, or an error.
			var bucket *int64
			if err := conn.QueryRow(ctx, "SELECT "+bucketSQL+" FROM t WHERE n = $1", r.n).Scan(&bucket); err == nil && bucket != nil {
				t.Errorf("row %d has no place, but the server finds bucket %d", r.n, *bucket)
			}
			exec(t, conn, "DELETE FROM t WHERE n = $1", r.n)
			continue
		}
		ids[r.n] = id
		if b := id.Bucket(bits); b < 0 || b >= d.Buckets {
			t.Fatalf("row %d: bucket %d of %d", r.n, b, d.Buckets)
		}
		// Whatever leading columns are known, the row is in what they leave.
		for known := range len(r.keys) + 1 {
			ranges, err := v.Ranges(nil, r.keys[:known])
			if err != nil {
				t.Fatalf("row %d, %d columns known: %v", r.n, known, err)
			}
			if !slices.ContainsFunc(ranges, func(r Range) bool { return r.First <= id && id <= r.Last }) {
				t.Fatalf("row %d, %d columns known: %x is not in %x", r.n, known, id, ranges)
			}
			if known == len(r.keys) && !slices.Equal(ranges, []Range{{id, id}}) {
				t.Fatalf("row %d, all columns known: %x, want just %x", r.n, ranges, id)
			}
			if known == 0 && !slices.Equal(ranges, []Range{All}) {
				t.Fatalf("nothing known: %x", ranges)
			}
			if first, last := ranges[0].Buckets(bits); first < 0 || last >= d.Buckets || first > last {
				t.Fatalf("row %d, %d columns known: buckets %d to %d", r.n, known, first, last)
			}
		}
		if o, ok := v.(Ordered); ok && !r.keys[0].IsNull() {
			for _, ends := range [][2]datum.Key{{r.keys[0], r.keys[0]}, {{}, r.keys[0]}, {r.keys[0], {}}, {}} {
				ranges := o.Between(nil, ends[0], ends[1])
				if !slices.ContainsFunc(ranges, func(r Range) bool { return r.First <= id && id <= r.Last }) {
					t.Fatalf("row %d: %x is not between %x", r.n, id, ranges)
				}
			}
		}
	}
	if len(ids) < 3 {
		t.Fatalf("only %d rows have a place", len(ids))
	}

	// The server agrees, on the ID and on the bucket.
	got, _ := conn.Query(ctx, "SELECT n, "+v.SQL(names)+", "+bucketSQL+" FROM t")
	var n int
	var id, bucket int64
	seen := 0
	if _, err := pgx.ForEachRow(got, []any{&n, &id, &bucket}, func() error {
		seen++
		if want := ids[n]; ID(id) != want || int(bucket) != want.Bucket(bits) {
			t.Errorf("row %d %s: the server says %x, bucket %d; want %x, bucket %d", n, spell(rows[n-1].keys), uint64(id), bucket, want, want.Bucket(bits))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen != len(ids) {
		t.Errorf("the server placed %d rows, want %d", seen, len(ids))
	}
	// And accepts the bucket as a filter of rows to replicate.
	exec(t, conn, "DROP PUBLICATION IF EXISTS p")
	exec(t, conn, "CREATE PUBLICATION p FOR TABLE t WHERE ("+bucketSQL+" = 0)")
}

func conformLookup(t *testing.T, v, twin Lookup, rows []row) {
	for _, r := range rows {
		a, err := v.Request(r.keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := twin.Request(r.keys, make([]byte, 0, 100))
		if err != nil || !bytes.Equal(a.Key, b.Key) || a.Default != b.Default || a.Unique != b.Unique {
			t.Fatalf("row %d: %v, then %v (%v)", r.n, a, b, err)
		}
		if (a.Key == nil) != r.keys[0].IsNull() {
			t.Fatalf("row %d: key %q for a value that is NULL: %v", r.n, a.Key, r.keys[0].IsNull())
		}
		if a.Unique != (v.Kind() == "lookup_unique") {
			t.Fatalf("%s: unique is %v", v.Kind(), a.Unique)
		}
		for _, o := range rows[:min(50, len(rows))] {
			c, err := v.Request(o.keys, nil)
			if err != nil {
				t.Fatal(err)
			}
			if same := r.keys[0].Compare(o.keys[0]) == 0; same != (bytes.Equal(a.Key, c.Key) && (a.Key == nil) == (c.Key == nil)) || same && a.Default != c.Default {
				t.Fatalf("rows %d and %d: equal is %v, but the keys are %q and %q", r.n, o.n, same, a.Key, c.Key)
			}
		}
	}
	if _, err := v.Request(nil, nil); err == nil {
		t.Error("Request took no keys for an answer")
	}
}

func spell(keys []datum.Key) string {
	var s []string
	for _, k := range keys {
		if k.IsNull() {
			s = append(s, "NULL")
		} else {
			s = append(s, string(k.AppendText(nil)))
		}
	}
	return "(" + strings.Join(s, ", ") + ")"
}
