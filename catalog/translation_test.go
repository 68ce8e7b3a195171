package catalog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/catalog"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/wire"
)

// userTypes are made on both servers; on the second after others that are
// dropped again, so that all OIDs differ.
var userTypes = []string{
	`CREATE TYPE mood AS ENUM ('sad', 'ok')`,
	`CREATE TYPE pair AS (a int, m mood)`,
	`CREATE TYPE list AS (n text, ms mood[])`,
	`CREATE TYPE deep AS (p pair, ps pair[], l list)`,
	`CREATE DOMAIN small AS int CHECK (VALUE < 10)`,
	`CREATE DOMAIN dpair AS pair`,
	`CREATE DOMAIN moods AS mood[]`,
	`CREATE TYPE smallrange AS RANGE (subtype = small)`,
	`CREATE FUNCTION pairless(dpair, dpair) RETURNS boolean LANGUAGE sql AS 'SELECT ($1).a < ($2).a'`,
	`CREATE TYPE pairrange AS RANGE (subtype = pair)`,
	`CREATE SCHEMA "Other"`,
	`CREATE TYPE "Other"."My Mood" AS ENUM ('x')`,
	`CREATE TABLE t (id int PRIMARY KEY, m mood, p pair, small small, ds smallrange)`,
	`CREATE TABLE flat (id int, b text)`,
	`INSERT INTO t VALUES (1, 'ok', '(1,sad)', 5, '[1,3)')`,
}

// queries return values with OIDs in many places.
var queries = []string{
	`SELECT 'ok'::mood`,
	`SELECT ARRAY['ok','sad',NULL]::mood[]`,
	`SELECT '{{ok},{sad}}'::mood[]`,
	`SELECT '{}'::mood[], NULL::mood[]`,
	`SELECT '(1,ok)'::pair, '(,)'::pair`,
	`SELECT ARRAY['(1,ok)','(2,sad)',NULL]::pair[]`,
	`SELECT '(3,ok)'::dpair, ARRAY['(3,ok)']::dpair[]`,
	`SELECT ROW('x', '{ok,sad}')::list`,
	`SELECT ROW('(1,ok)', ARRAY['(2,sad)']::pair[], ROW('y','{ok}')::list)::deep`,
	`SELECT ARRAY[ROW('(1,ok)', ARRAY['(2,sad)']::pair[], ROW('y','{ok}')::list)::deep]`,
	`SELECT '{ok}'::moods, 5::small, ARRAY[5]::small[]`,
	`SELECT '[1,3)'::smallrange, 'empty'::smallrange, ARRAY['[1,]']::smallrange[]`,
	`SELECT smallmultirange('[1,3)'::smallrange)`,
	`SELECT pairrange('(1,ok)'::pair, '(2,ok)'::pair), pairrange(NULL, '(2,ok)'::pair, '[]')`,
	`SELECT pairmultirange(pairrange('(1,ok)'::pair, '(2,ok)'::pair), pairrange('(3,ok)'::pair, NULL))`,
	`SELECT ROW(1, 'ok'::mood, 'x'::text, ARRAY['ok']::mood[], NULL, ROW('(1,ok)'::pair))`,
	`SELECT ARRAY[ROW(1, 'ok'::mood), ROW(2, 'sad'::mood)]`,
	`SELECT 'x'::"Other"."My Mood", ARRAY['x']::"Other"."My Mood"[]`,
	`SELECT * FROM t`,
	`SELECT t, t.id, ARRAY[t] FROM t`,
	`SELECT 't'::regclass, 'mood'::regtype, 'mood[]'::regtype, ARRAY['t_pkey','pg_class']::regclass[], 0::regclass`,
	`SELECT ROW('t'::regclass, 'int'::regtype)`,
	`SELECT 1, 'x'::text, ARRAY[1,2], ROW(1, 'x'::text), now()::date, 'flat'::regclass`,
	`SELECT 16384::oid`,
	`SELECT * FROM flat`,
}

// twoServers returns connections to a home shard and to another one.
func twoServers(tb testing.TB) (home, shard *pgx.Conn) {
	tb.Helper()
	h, s := pgtest.Start(tb, pgserver.Config{}), pgtest.Start(tb, pgserver.Config{})
	home, shard = connect(tb, h, "postgres"), connect(tb, s, "postgres")
	for _, sql := range userTypes {
		must(tb, home, sql)
		// How far the numbers are apart differs, so that no constant shift would do.
		must(tb, shard, `CREATE TYPE other AS ENUM (); CREATE TABLE another (a other); DROP TABLE another; DROP TYPE other`)
		must(tb, shard, sql)
	}
	return home, shard
}

func types(tb testing.TB, c *pgx.Conn) *catalog.Types {
	tb.Helper()
	t, err := catalog.LoadTypes(runner(c))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// answer runs a query and returns the bodies of its RowDescription and rows.
func answer(tb testing.TB, c *pgx.Conn, sql string, format int16) (description []byte, rows [][]byte) {
	tb.Helper()
	r := c.PgConn().ExecParams(context.Background(), sql, nil, nil, nil, []int16{format})
	d := pgproto3.RowDescription{}
	for _, f := range r.FieldDescriptions() {
		d.Fields = append(d.Fields, pgproto3.FieldDescription{
			Name: []byte(f.Name), TableOID: f.TableOID, TableAttributeNumber: f.TableAttributeNumber,
			DataTypeOID: f.DataTypeOID, DataTypeSize: f.DataTypeSize, TypeModifier: f.TypeModifier, Format: format,
		})
	}
	b, err := d.Encode(nil)
	if err != nil {
		tb.Fatal(err)
	}
	for r.NextRow() {
		row, err := (&pgproto3.DataRow{Values: r.Values()}).Encode(nil)
		if err != nil {
			tb.Fatal(err)
		}
		rows = append(rows, row[5:])
	}
	if _, err := r.Close(); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return b[5:], rows
}

// TestTranslateAnswers: what a shard says becomes what the home shard says,
// byte by byte.
func TestTranslateAnswers(t *testing.T) {
	home, shard := twoServers(t)
	tr := catalog.NewTranslation(types(t, home), types(t, shard))
	if tr == nil {
		t.Fatal("nothing differs")
	}
	changed := 0
	for _, format := range []int16{0, 1} {
		for _, sql := range queries {
			wantDescription, wantRows := answer(t, home, sql, format)
			description, rows := answer(t, shard, sql, format)
			if !bytes.Equal(description, wantDescription) {
				changed++
			}
			columns, err := tr.RowDescription(description)
			if err != nil {
				t.Errorf("%s: %v", sql, err)
				continue
			}
			if !bytes.Equal(description, wantDescription) {
				t.Errorf("%s: description\n%q, want\n%q", sql, description, wantDescription)
			}
			for i, row := range rows {
				if columns.Deep() {
					if format == 0 {
						t.Errorf("%s: text has OIDs", sql)
					}
					if !bytes.Equal(row, wantRows[i]) {
						changed++
					}
					if err := tr.DataRow(row, columns); err != nil {
						t.Errorf("%s: %v", sql, err)
					}
				}
				if !bytes.Equal(row, wantRows[i]) {
					t.Errorf("%s: row\n%q, want\n%q", sql, row, wantRows[i])
				}
			}
		}
	}
	if changed < len(queries) {
		t.Errorf("only %d messages differed", changed)
	}
}

// TestTranslateParameters sends what a client of the home shard would send to
// the other one.
func TestTranslateParameters(t *testing.T) {
	ctx := context.Background()
	home, shard := twoServers(t)
	tr := catalog.NewTranslation(types(t, home), types(t, shard))
	for _, typ := range []string{
		"mood", "mood[]", "pair", "pair[]", "dpair", "dpair[]", "list", "deep", "deep[]", "moods", "small", "smallrange", "pairrange", "pairmultirange",
		`"Other"."My Mood"[]`, "regclass", "regtype[]", "t", "int[]", "text",
	} {
		value := map[string]string{
			"mood": "ok", "mood[]": "{ok,NULL}", "pair": "(1,ok)", "pair[]": `{"(1,ok)"}`, "dpair": "(1,ok)", "dpair[]": `{"(1,ok)"}`, "list": "(x,{ok})",
			"deep": `("(1,ok)","{""(1,ok)""}","(x,{ok})")`, "deep[]": `{"(\"(1,ok)\",,)"}`, "moods": "{ok}", "small": "5", "smallrange": "[1,3)",
			"pairrange": `["(1,ok)","(2,ok)")`, "pairmultirange": `{["(1,ok)","(2,ok)")}`, `"Other"."My Mood"[]`: "{x}", "regclass": "t", "regtype[]": "{mood}",
			"t": "(1,ok,,,)", "int[]": "{1}", "text": "x",
		}[typ]
		// The home shard's binary form of the value is what the client sends.
		_, rows := answer(t, home, "SELECT '"+value+"'::"+typ, 1)
		wireValue := rows[0][6:]
		sql := "SELECT $1::" + typ + "::text"
		sd, err := home.PgConn().Prepare(ctx, "", sql, nil)
		if err != nil {
			t.Fatal(err)
		}
		known := oidList(sd.ParamOIDs...)
		declared, err := tr.ParseOIDs(known)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		sd, err = shard.PgConn().Prepare(ctx, "", sql, []uint32{binary.BigEndian.Uint32(declared[2:])})
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		described := oidList(sd.ParamOIDs...)
		if err := tr.ParameterDescription(described); err != nil || !bytes.Equal(described, known) {
			t.Errorf("%s: described as %v, want %v (%v)", typ, described, known, err)
		}
		rest := bindRest(1, wireValue)
		before := bytes.Clone(rest)
		sent, err := tr.Bind(rest, known)
		if err != nil || !bytes.Equal(rest, before) {
			t.Errorf("%s: %v, changed %v", typ, err, !bytes.Equal(rest, before))
			continue
		}
		got := shard.PgConn().ExecPrepared(ctx, "", [][]byte{sent[10 : len(sent)-2]}, []int16{1}, nil).Read()
		if got.Err != nil || string(got.Rows[0][0]) != value {
			t.Errorf("%s: %v, %q, want %q", typ, got.Err, got.Rows, value)
		}
		// In text there is nothing to do.
		if sent, err := tr.Bind(bindRest(0, []byte(value)), known); err != nil || !bytes.Equal(sent, bindRest(0, []byte(value))) {
			t.Errorf("%s: text became %q, %v", typ, sent, err)
		}
	}
}

func oidList(oids ...uint32) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(oids)))
	for _, o := range oids {
		b = binary.BigEndian.AppendUint32(b, o)
	}
	return b
}

// bindRest is a Bind of one parameter, after the names.
func bindRest(format uint16, value []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = binary.BigEndian.AppendUint16(b, format)
	b = binary.BigEndian.AppendUint16(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	b = append(b, value...)
	return binary.BigEndian.AppendUint16(b, 0)
}

// TestTranslateNothing: equal servers need no translation, and one that is nil
// does nothing.
func TestTranslateNothing(t *testing.T) {
	home, shard := twoServers(t)
	h := types(t, home)
	if catalog.NewTranslation(h, types(t, home)) != nil {
		t.Error("a server differs from itself")
	}
	must(t, shard, `DROP SCHEMA "Other" CASCADE`)
	if catalog.NewTranslation(h, types(t, shard)) == nil {
		t.Error("other servers do not differ")
	}
	var none *catalog.Translation
	rows, err := none.RowDescription([]byte("anything"))
	if err != nil || rows.Deep() || none.DataRow(nil, rows) != nil || none.ParameterDescription(nil) != nil {
		t.Error("nil does something")
	}
	if b, err := none.ParseOIDs([]byte("x")); err != nil || string(b) != "x" {
		t.Error("nil changes types")
	}
	if b, err := none.Bind([]byte("x"), nil); err != nil || string(b) != "x" {
		t.Error("nil changes parameters")
	}

	// What has no counterpart is named.
	must(t, home, `CREATE TYPE lonely AS ENUM ('x')`)
	must(t, shard, `CREATE TYPE "Alone" AS ENUM ('x'); CREATE TABLE mine (a int); CREATE TEMP TABLE passing (a int)`)
	tr := catalog.NewTranslation(types(t, home), types(t, shard))
	var unknown *catalog.UnknownOID
	for _, sql := range []string{`SELECT 'x'::"Alone"`, `SELECT ARRAY['x'::"Alone"]`} {
		description, _ := answer(t, shard, sql, 1)
		if _, err := tr.RowDescription(description); !errors.As(err, &unknown) || unknown.Name.Name[:5] != "Alone" || !strings.Contains(err.Error(), `"Alone`) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for _, sql := range []string{`SELECT ROW('x'::"Alone")`, `SELECT 'mine'::regclass`, `SELECT ARRAY['"Alone"'::regtype]`} {
		description, data := answer(t, shard, sql, 1)
		rows, err := tr.RowDescription(description)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.DataRow(data[0], rows); !errors.As(err, &unknown) || unknown.Name.Name == "" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if _, err := tr.ParseOIDs(oidList(23, 999999)); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "999999") {
		t.Error(err)
	}
	// Tables of the shard's own are not told of.
	for _, sql := range []string{"SELECT * FROM mine", "SELECT * FROM passing"} {
		description, _ := answer(t, shard, sql, 1)
		if _, err := tr.RowDescription(description); err != nil || !bytes.Contains(description, []byte("a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17")) {
			t.Errorf("%s: %q, %v", sql, description, err)
		}
	}
}

// TestTranslateAllocs: where nothing is to change nothing is allocated.
func TestTranslateAllocs(t *testing.T) {
	home, shard := twoServers(t)
	tr := catalog.NewTranslation(types(t, home), types(t, shard))
	flat, data := answer(t, shard, "SELECT id, small, 'ok'::mood, ARRAY[1,2] FROM t", 1)
	fresh := bytes.Clone(flat)
	oids := oidList(23, 25, 1007)
	deep, deepData := answer(t, shard, "SELECT ARRAY[p] FROM t", 1)
	rows, err := tr.RowDescription(deep)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() error{
		"description": func() error { copy(flat, fresh); _, err := tr.RowDescription(flat); return err },
		"row":         func() error { return tr.DataRow(data[0], catalog.Rows{}) },
		"parse":       func() error { _, err := tr.ParseOIDs(oids); return err },
		"bind":        func() error { _, err := tr.Bind(bindRest1, oids); return err },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(name, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	// Also not where values change in place.
	first := bytes.Clone(deepData[0])
	if n := testing.AllocsPerRun(100, func() {
		copy(deepData[0], first)
		if err := tr.DataRow(deepData[0], rows); err != nil {
			t.Fatal(err)
		}
	}); n > 0 || bytes.Equal(first, deepData[0]) {
		t.Errorf("deep row: %v allocations", n)
	}
}

var bindRest1 = bindRest(1, []byte{0, 0, 0, 1})

// TestRowsFormats: a statement's description says nothing of formats.
func TestRowsFormats(t *testing.T) {
	home, shard := twoServers(t)
	tr := catalog.NewTranslation(types(t, home), types(t, shard))
	const sql = "SELECT id, p, m, ARRAY[m] FROM t"
	description, _ := answer(t, shard, sql, 0)
	rows, err := tr.RowDescription(description)
	if err != nil || rows.Deep() {
		t.Fatal(err, rows.Deep())
	}
	for _, tc := range []struct {
		codes []byte
		deep  bool
		bad   bool
	}{
		{[]byte{0, 0}, false, false},
		{[]byte{0, 1, 0, 1}, true, false},
		{[]byte{0, 1, 0, 0}, false, false},
		{[]byte{0, 4, 0, 1, 0, 0, 0, 1, 0, 0}, false, false},
		{[]byte{0, 4, 0, 0, 0, 0, 0, 0, 0, 1}, true, false},
		{[]byte{0, 2, 0, 1}, false, true},
		{nil, false, true},
	} {
		r, err := rows.Formats(tc.codes)
		if (err != nil) != tc.bad || r.Deep() != tc.deep {
			t.Errorf("%v: %v, %v", tc.codes, r.Deep(), err)
		}
	}
	if rows.Deep() {
		t.Error("the statement's rows changed")
	}
	bound, err := rows.Formats([]byte{0, 1, 0, 1})
	if err != nil {
		t.Fatal(err)
	}
	_, want := answer(t, home, sql, 1)
	_, got := answer(t, shard, sql, 1)
	if err := tr.DataRow(got[0], bound); err != nil || !bytes.Equal(got[0], want[0]) {
		t.Errorf("%q, want %q (%v)", got, want, err)
	}
}

// FuzzTranslate: no message makes it panic or read beyond its end.
func FuzzTranslate(f *testing.F) {
	made := func(shift int) *catalog.Types {
		n := func(i int) string { return string(rune('0' + (i+shift)%10)) }
		t, err := catalog.LoadTypes(func(string) ([][]string, error) {
			return [][]string{
				{"t", "2000" + n(0), "public", "mood", "e", "2000" + n(1), "", "", ""},
				{"t", "2000" + n(2), "public", "pair", "c", "2000" + n(3), "", "", ""},
				{"t", "2000" + n(4), "public", "rng", "r", "2000" + n(5), "", "2000" + n(2), ""},
				{"t", "2000" + n(6), "public", "mrng", "m", "2000" + n(7), "", "", "2000" + n(4)},
				{"t", "2000" + n(8), "public", "dom", "d", "2000" + n(9), "2000" + n(2), "", ""},
				{"a", "2000" + n(2), "2000" + n(1)},
				{"r", "30000", "public", "t"},
			}, nil
		})
		if err != nil {
			f.Fatal(err)
		}
		return t
	}
	tr := catalog.NewTranslation(made(0), made(3))
	for oid := uint32(20000); oid < 20010; oid++ {
		f.Add(oid, []byte("\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x4e\x23\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02ok"))
		f.Add(oid, []byte("\x00\x00\x00\x01\x00\x00\x4e\x24\x00\x00\x00\x04\x00\x00\x00\x00"))
	}
	f.Add(uint32(2249), []byte("\x00\x00\x00\x01\x00\x00\x08\xc9\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x08\xc9\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, oid uint32, value []byte) {
		check := func(err error) {
			var unknown *catalog.UnknownOID
			if err != nil && !errors.Is(err, wire.ErrMalformed) && !errors.As(err, &unknown) {
				t.Error(err)
			}
		}
		_, err := tr.RowDescription(bytes.Clone(value))
		check(err)
		check(tr.ParameterDescription(bytes.Clone(value)))
		_, err = tr.ParseOIDs(value)
		check(err)
		_, err = tr.Bind(value, oidList(oid))
		check(err)
		sent, err := tr.Bind(bindRest(1, value), oidList(oid))
		check(err)
		if err == nil && len(sent) != len(bindRest(1, value)) {
			t.Error("the length changed")
		}
		d, _ := (&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("a"), DataTypeOID: oid, Format: 1}}}).Encode(nil)
		rows, err := tr.RowDescription(d[5:])
		check(err)
		_, err = rows.Formats(value)
		check(err)
		check(tr.DataRow(bytes.Clone(value), rows))
		row, _ := (&pgproto3.DataRow{Values: [][]byte{value}}).Encode(nil)
		check(tr.DataRow(row[5:], rows))
	})
}
