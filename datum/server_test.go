package datum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// types names the types with a canonical form, in SQL.
var types = []struct {
	oid  Type
	name string
}{
	{Int2, "int2"},
	{Int4, "int4"},
	{Int8, "int8"},
	{Text, "text"},
	{Varchar, "varchar"},
	{Bpchar, "bpchar"},
	{UUID, "uuid"},
	{Date, "date"},
	{Timestamp, "timestamp"},
	{Timestamptz, "timestamptz"},
	{Numeric, "numeric"},
}

// settings are sessions in which the same text may mean different things.
var settings = []string{
	"SET DateStyle = 'ISO, MDY'; SET TimeZone = 'UTC'",
	"SET DateStyle = 'German, DMY'; SET TimeZone = 'America/New_York'",
	"SET DateStyle = 'SQL, YMD'; SET TimeZone = 'Asia/Kolkata'; SET timezone_abbreviations = 'India'",
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
	exec(tb, conn, canonSQL)
	return conn
}

func exec(tb testing.TB, conn *pgx.Conn, sql string) {
	tb.Helper()
	if err := conn.PgConn().Exec(context.Background(), sql).Close(); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// canon is Match for a literal as the server itself would do it: the canonical
// spelling of v as a value of a type, NULL if it is none.
const canonSQL = `
CREATE FUNCTION canon(type text, v text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; epoch text := '2000-01-01 00:00:00+00';
BEGIN
  CASE type
  WHEN 'int2' THEN r := v::int2;
  WHEN 'int4' THEN r := v::int4;
  WHEN 'int8' THEN r := v::int8;
  WHEN 'text' THEN r := v;
  WHEN 'varchar' THEN r := v::varchar;
  WHEN 'bpchar' THEN r := v::bpchar::text;
  WHEN 'uuid' THEN r := v::uuid;
  WHEN 'date' THEN
    r := CASE WHEN isfinite(v::date) THEN v::date - '2000-01-01'::date ELSE sign(extract(epoch FROM v::date)::float8) * 2147483647.5 - 0.5 END;
  WHEN 'timestamp' THEN
    r := CASE WHEN isfinite(v::timestamp) THEN extract(epoch FROM v::timestamp - '2000-01-01'::timestamp) * 1000000
      ELSE sign(extract(epoch FROM v::timestamp)::float8)::numeric * 9223372036854775807.5 - 0.5 END;
  WHEN 'timestamptz' THEN
    r := CASE WHEN isfinite(v::timestamptz) THEN extract(epoch FROM v::timestamptz - epoch::timestamptz) * 1000000
      ELSE sign(extract(epoch FROM v::timestamptz)::float8)::numeric * 9223372036854775807.5 - 0.5 END;
  WHEN 'numeric' THEN r := trim_scale(v::numeric);
  END CASE;
  IF type IN ('date', 'timestamp', 'timestamptz') THEN r := r::numeric::int8; END IF;
  RETURN r;
EXCEPTION WHEN data_exception THEN RETURN NULL;
END $$`

// agree compares Match on literals with what the server reads in them.
func agree(tb testing.TB, conn *pgx.Conn, oid Type, name string, literals []string) (decided int) {
	tb.Helper()
	// Numerics are compared as the server writes them, without our exponents.
	ours := make([]string, len(literals))
	errs := make([]error, len(literals))
	for i, s := range literals {
		k, err := Column{oid, -1}.Match(Literal([]byte(s)))
		ours[i], errs[i] = string(k.AppendText(nil)), err
	}
	rows, _ := conn.Query(context.Background(), `SELECT canon($1, v), CASE WHEN $1 = 'numeric' AND o <> '' THEN canon($1, o) ELSE o END
		FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u(v, o, i) ORDER BY i`, name, literals, ours)
	var theirs, our *string
	i := 0
	_, err := pgx.ForEachRow(rows, []any{&theirs, &our}, func() error {
		switch err := errs[i]; {
		case errors.Is(err, Undecided):
		case errors.Is(err, Invalid):
			if theirs != nil {
				tb.Errorf("%s %q: %v, but the server reads %q", name, literals[i], err, *theirs)
			}
		case err != nil:
			tb.Errorf("%s %q: %v", name, literals[i], err)
		case theirs == nil:
			tb.Errorf("%s %q: read as %q, but the server refuses it", name, literals[i], *our)
		case *theirs != *our:
			tb.Errorf("%s %q: read as %q, the server says %q", name, literals[i], *our, *theirs)
		default:
			decided++
		}
		i++
		return nil
	})
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return decided
}

// TestMatchAgreesWithServer is the short form of FuzzMatch: many random
// spellings of each type, in sessions of different settings.
func TestMatchAgreesWithServer(t *testing.T) {
	conn := connect(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, set := range settings {
		exec(t, conn, set)
		for _, typ := range types {
			literals := make([]string, 3000)
			for i := range literals {
				literals[i] = spell(rnd, typ.oid)
			}
			decided := agree(t, conn, typ.oid, typ.name, literals)
			t.Logf("%s: %d of %d decided", typ.name, decided, len(literals))
			if decided < len(literals)/10 {
				t.Errorf("%s: only %d of %d spellings were decided: the test has lost its teeth", typ.name, decided, len(literals))
			}
		}
	}
}

func FuzzMatch(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i, typ := range types {
		for range 20 {
			f.Add(uint8(i), spell(rnd, typ.oid))
		}
	}
	conn := connect(f)
	exec(f, conn, settings[1])
	f.Fuzz(func(t *testing.T, i uint8, literal string) {
		typ := types[int(i)%len(types)]
		literal = strings.ToValidUTF8(strings.ReplaceAll(literal, "\x00", ""), "")
		agree(t, conn, typ.oid, typ.name, []string{literal})
	})
}

// spell makes a text that is, or nearly is, a value of a type.
func spell(rnd *rand.Rand, oid Type) string {
	one := func(choices ...string) string { return choices[rnd.IntN(len(choices))] }
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('0' + rnd.IntN(10))
		}
		return string(b)
	}
	space := func() string { return one("", "", "", " ", "\t\n", "\r\v\f ") }
	var s string
	switch oid {
	case Int2, Int4, Int8:
		s = space() + one("", "", "-", "+") + one(digits(1+rnd.IntN(5)), digits(1+rnd.IntN(10)), digits(1+rnd.IntN(20)),
			"32767", "32768", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "0") + space()
	case Numeric:
		s = space() + one("", "", "-", "+") + digits(rnd.IntN(10)) + one("", ".", ".") + digits(rnd.IntN(8)) +
			one("", "", "e"+digits(1), "E-"+digits(2), "e+"+digits(1)) + space()
		if rnd.IntN(10) == 0 {
			s = one("nan", "NaN ", "inf", "-Infinity", "+INF", "0", "-0", "0.000", "1"+strings.Repeat("0", rnd.IntN(60)), digits(60)+"."+digits(60))
		}
	case Text, Varchar, Bpchar:
		s = one("", "a", "Zoë", "日本語", " ", "x\ty", "12") + digits(rnd.IntN(4)) + one("", " ", "   ", "\u00a0")
	case UUID:
		const hexes = "0123456789abcdefABCDEF"
		every := one("4", "8", "0", "dash")
		for i := range 32 {
			if i > 0 && (every == "4" && i%4 == 0 || every == "8" && i%8 == 0 || every == "dash" && (i == 8 || i == 12 || i == 16 || i == 20)) {
				s += "-"
			}
			s += string(hexes[rnd.IntN(len(hexes))])
		}
		if rnd.IntN(4) == 0 {
			s = "{" + s + "}"
		}
	case Date, Timestamp, Timestamptz:
		if rnd.IntN(30) == 0 {
			return one("infinity", "-infinity", "INFINITY", "Infinity", "+infinity", "inf", "epoch", "now", "today", "allballs")
		}
		s = fmt.Sprintf("%04d-%02d-%02d", rnd.IntN(10000), 1+rnd.IntN(12), 1+rnd.IntN(31))
		if oid != Date && rnd.IntN(8) > 0 {
			s += one(" ", "T") + fmt.Sprintf("%02d:%02d", rnd.IntN(25), rnd.IntN(60))
			if rnd.IntN(3) > 0 {
				s += fmt.Sprintf(":%02d", rnd.IntN(61)) + one("", "", "."+digits(rnd.IntN(8)))
			}
		}
		if oid == Timestamptz || rnd.IntN(20) == 0 {
			s += one("Z", "+", "-", "+", "-")
			if !strings.HasSuffix(s, "Z") {
				s += fmt.Sprintf("%02d", rnd.IntN(17)) + one("", "", ":30", "45", ":00:00")
			}
		}
	}
	// One in four gets a mistake, or a rarity.
	if b := []byte(s); len(b) > 0 && rnd.IntN(4) == 0 {
		const alphabet = "0159+-._: \t{}eExXoObBTZzaAfFnN/J"
		c, at := alphabet[rnd.IntN(len(alphabet))], rnd.IntN(len(b))
		switch rnd.IntN(3) {
		case 0:
			b[at] = c
		case 1:
			b = slices.Insert(b, at, c)
		case 2:
			b = slices.Delete(b, at, at+1)
		}
		s = strings.ToValidUTF8(string(b), "?")
	}
	return s
}

// samples are values of each type of which some are equal to samples of others.
var samples = map[Type][]string{
	Int2:        {"0", "1", "-1", "42", "32767"},
	Int4:        {"0", "1", "-1", "42", "32767", "2147483647"},
	Int8:        {"0", "1", "-1", "42", "2147483647", "9223372036854775807", "-9223372036854775808", "9007199254740993"},
	Numeric:     {"0", "0.00", "1", "1.0", "1.5", "-1.00", "42.0", "42.4999", "2147483647", "9223372036854775807", "9223372036854775808", "1e30", "NaN", "Infinity", "-Infinity", "9007199254740993"},
	Float8:      {"0", "1", "42", "9007199254740992"},
	Text:        {"", "a", "a ", "a  ", " a", "42", "ä"},
	Varchar:     {"", "a", "a ", "a  ", " a", "42", "ä"},
	Bpchar:      {"", "a", "a ", "a  ", " a", "42", "ä"},
	UUID:        {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}", "00000000-0000-0000-0000-000000000000"},
	Date:        {"2000-01-01", "2024-03-31", "1999-12-31", "infinity", "-infinity", "0001-01-01"},
	Timestamp:   {"2000-01-01 00:00:00", "2024-03-31 00:00:00", "2024-03-31 02:30:00", "1999-12-31 19:00:00", "infinity", "-infinity", "0001-01-01 00:00:00", "1999-12-31 23:59:59.5"},
	Timestamptz: {"2000-01-01 00:00:00+00", "2024-03-31 00:00:00+00", "2024-03-31 04:00:00Z", "1999-12-31 19:00:00-05", "infinity", "-infinity", "1999-12-31 23:59:59.5+00"},
}

// sampled are the types of samples, and one that is never decided.
var sampled = append(slices.Clone(types), struct {
	oid  Type
	name string
}{Float8, "float8"})

// values returns the samples of a type as Values in both formats, the binary
// ones as the server writes them.
func values(t *testing.T, conn *pgx.Conn, oid Type, name string) (all []Value, texts []string) {
	for _, s := range samples[oid] {
		all = append(all, Value{oid, TextFormat, []byte(s)})
		r := conn.PgConn().ExecParams(context.Background(), "SELECT $1::"+name, [][]byte{[]byte(s)}, nil, nil, []int16{1}).Read()
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		all = append(all, Value{oid, BinaryFormat, r.Rows[0][0]})
		texts = append(texts, s, s)
	}
	return all, texts
}

// TestMatchFindsEqual: whenever the server holds a stored value equal to another
// of any type, Match must lead to that stored value, or decline.
func TestMatchFindsEqual(t *testing.T) {
	conn := connect(t)
	exec(t, conn, settings[1])
	decided := map[string]int{}
	for _, col := range types {
		for _, typ := range sampled {
			vals, texts := values(t, conn, typ.oid, typ.name)
			stored := samples[col.oid]
			rows, err := conn.Query(context.Background(), fmt.Sprintf(`SELECT i::int, j::int, s = v FROM unnest($1::text[]::%s[]) WITH ORDINALITY a(s, i), unnest($2::text[]::%s[]) WITH ORDINALITY b(v, j)`, col.name, typ.name), pgx.QueryExecModeExec, stored, texts)
			if err != nil {
				t.Fatal(err)
			}
			pairs := 0
			for rows.Next() {
				var i, j int
				var equal bool
				if err := rows.Scan(&i, &j, &equal); err != nil {
					t.Fatal(err)
				}
				pairs++
				i, j = i-1, j-1
				row, err := Column{col.oid, -1}.Store(Value{col.oid, TextFormat, []byte(stored[i])})
				if err != nil {
					t.Fatalf("%s %q: %v", col.name, stored[i], err)
				}
				k, err := Column{col.oid, -1}.Match(vals[j])
				what := fmt.Sprintf("%s %q, %s %q (format %d)", col.name, stored[i], typ.name, texts[j], vals[j].Format)
				switch {
				case errors.Is(err, Undecided):
				case err != nil && equal:
					t.Errorf("%s: the server says equal, we say %v", what, err)
				case err == nil:
					decided[col.name+" = "+typ.name]++
					if same := k.Compare(row) == 0; equal && !same {
						t.Errorf("%s: the server says equal, the keys are %q and %q", what, row.AppendText(nil), k.AppendText(nil))
					} else if !equal && same && !(col.oid == Bpchar && typ.oid == Text) {
						// Text against bpchar keeps the spaces of the text: the
						// key only leads to where the shard says no.
						t.Errorf("%s: the server says not equal, both keys are %q", what, k.AppendText(nil))
					}
				}
			}
			if err := rows.Err(); err != nil && !strings.Contains(err.Error(), "operator does not exist") {
				t.Fatalf("%s = %s: %v", col.name, typ.name, err)
			}
			if col.oid == typ.oid && pairs == 0 {
				t.Errorf("nothing was compared for %s", col.name)
			}
		}
	}
	// What must be decided; the rest may be.
	for _, pair := range []string{
		"int2 = int8", "int8 = int2", "int4 = int8", "int4 = numeric", "numeric = int4", "text = varchar", "varchar = text", "text = bpchar",
		"bpchar = text", "bpchar = varchar", "date = timestamp", "timestamp = date", "uuid = uuid", "timestamptz = timestamptz", "numeric = numeric",
	} {
		if decided[pair] == 0 {
			t.Errorf("%s: nothing was decided", pair)
		}
	}
	for _, pair := range []string{"int8 = float8", "numeric = float8", "varchar = bpchar", "date = timestamptz", "timestamp = timestamptz", "timestamptz = timestamp", "timestamptz = date"} {
		if decided[pair] > 0 {
			t.Errorf("%s: %d values were decided, though the server's answer depends on more than the value", pair, decided[pair])
		}
	}
}

// TestStoreIsWhatIsStored inserts each sample into columns of each type and asks
// what they hold.
func TestStoreIsWhatIsStored(t *testing.T) {
	conn := connect(t)
	exec(t, conn, settings[1])
	ctx := context.Background()
	for _, col := range []struct {
		oid  Type
		name string
	}{
		{Int2, "int2"},
		{Int4, "int4"},
		{Int8, "int8"},
		{Text, "text"},
		{Varchar, "varchar"},
		{Varchar, "varchar(2)"},
		{Varchar, "varchar(1)"},
		{Bpchar, "bpchar"},
		{Bpchar, "char(2)"},
		{Bpchar, "char(1)"},
		{UUID, "uuid"},
		{Date, "date"},
		{Timestamp, "timestamp"},
		{Timestamp, "timestamp(0)"},
		{Timestamp, "timestamp(3)"},
		{Timestamptz, "timestamptz"},
		{Timestamptz, "timestamptz(0)"},
		{Numeric, "numeric"},
		{Numeric, "numeric(10,2)"},
		{Numeric, "numeric(40,0)"},
		{Numeric, "numeric(3,-2)"},
	} {
		exec(t, conn, "DROP TABLE IF EXISTS t; CREATE TABLE t (k "+col.name+")")
		column := Column{Type: col.oid}
		if err := conn.QueryRow(ctx, "SELECT atttypmod FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'k'").Scan(&column.Mod); err != nil {
			t.Fatal(err)
		}
		decided := 0
		store := func(v Value, insert, text string) {
			var held *string
			err := conn.QueryRow(ctx, insert+" RETURNING canon($1, k::text)", pgx.QueryExecModeExec, types[slices.IndexFunc(types, func(n struct {
				oid  Type
				name string
			},
			) bool {
				return n.oid == col.oid
			})].name).Scan(&held)
			k, ours := column.Store(v)
			what := fmt.Sprintf("%s ← %s %q (format %d)", col.name, v.Type, text, v.Format)
			switch {
			case errors.Is(ours, Undecided):
			case errors.Is(ours, Invalid):
				if err == nil {
					t.Errorf("%s: %v, but the server stored %q", what, ours, *held)
				}
			case ours != nil:
				t.Errorf("%s: %v", what, ours)
			case err == nil:
				decided++
				got := string(k.AppendText(nil))
				if col.oid == Numeric {
					if err := conn.QueryRow(ctx, "SELECT canon('numeric', $1)", got).Scan(&got); err != nil {
						t.Fatal(err)
					}
				}
				if got != *held {
					t.Errorf("%s: we hash %q, the server stored %q", what, got, *held)
				}
			}
		}
		for _, typ := range sampled {
			vals, texts := values(t, conn, typ.oid, typ.name)
			for i, v := range vals {
				store(v, fmt.Sprintf("INSERT INTO t VALUES ('%s'::%s)", texts[i], typ.name), texts[i])
				if i%2 == 0 {
					store(Literal(v.Bytes), fmt.Sprintf("INSERT INTO t VALUES ('%s')", texts[i]), texts[i])
				}
			}
		}
		if decided < 4 {
			t.Errorf("%s: only %d values decided", col.name, decided)
		}
	}
}
