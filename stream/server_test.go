package stream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

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

// ask returns all rows of a query, in a format, as DataRow bodies.
func ask(tb testing.TB, conn *pgx.Conn, format int16, sql string, args ...any) [][]byte {
	tb.Helper()
	rows, err := conn.Query(context.Background(), sql, append([]any{pgx.QueryResultFormats{format}}, args...)...)
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	var out [][]byte
	for rows.Next() {
		values := rows.RawValues()
		row := []byte{byte(len(values) >> 8), byte(len(values))}
		for _, v := range values {
			row = appendField(row, v)
		}
		out = append(out, row)
	}
	if err := rows.Err(); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return out
}

// column returns one column of rows.
func column(tb testing.TB, rows [][]byte, n int) [][]byte {
	tb.Helper()
	p := newPicker([]int{n})
	out := make([][]byte, len(rows))
	for i, r := range rows {
		if err := p.pick(r, out[i:]); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

// sample says how values of a type are made up: some that are known to be
// awkward, and a generator.
type sample struct {
	oid    uint32
	sql    string // the type's name, and its collation
	edges  []string
	random func(*rand.Rand) string
}

func integer(bits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return strconv.FormatInt(int64(r.Uint64())>>(64-bits+r.IntN(bits)), 10)
	}
}

func decimalText(r *rand.Rand) string {
	digits := func(n int) string {
		var b strings.Builder
		for range n {
			if r.IntN(3) == 0 {
				b.WriteByte('0')
			} else {
				b.WriteByte(byte('0' + r.IntN(10)))
			}
		}
		return b.String()
	}
	s := []string{"", "-"}[r.IntN(2)] + digits(1+r.IntN(12))
	if r.IntN(3) > 0 {
		s += "." + digits(r.IntN(12))
	}
	if r.IntN(6) == 0 {
		s += fmt.Sprintf("e%d", r.IntN(60)-30)
	}
	return s
}

func floatText(bits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		f := (r.Float64() - 0.5) * math.Pow(10, float64(r.IntN(40)-20))
		if r.IntN(4) == 0 {
			f = math.Trunc(f) + 0 // no -0
		}
		return strconv.FormatFloat(f, 'g', -1, bits)
	}
}

// words draws from few letters, so that prefixes and blanks come about.
func words(letters ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		var b strings.Builder
		for range r.IntN(6) {
			b.WriteString(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
}

func hexText(prefix string, n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = []byte{0, 1, 0x7f, 0x80, 0xff, byte(r.Uint32())}[r.IntN(6)]
		}
		if prefix != "" {
			b = b[:r.IntN(n+1)]
		}
		return prefix + hex.EncodeToString(b)
	}
}

func dateText(r *rand.Rand) string {
	year := []int{2000, 1999, 1970, 1, 9999, 10000, 200000, 1 + r.IntN(4000)}[r.IntN(8)]
	s := fmt.Sprintf("%04d-%02d-%02d", year, 1+r.IntN(12), 1+r.IntN(28))
	return s
}

func clockText(r *rand.Rand) string {
	s := fmt.Sprintf("%02d:%02d:%02d", r.IntN(24), r.IntN(3), r.IntN(60))
	if r.IntN(2) == 0 {
		s += fmt.Sprintf(".%06d", r.IntN(1_000_000))
	}
	return s
}

func zoneText(r *rand.Rand) string {
	return fmt.Sprintf("%+03d:%02d", r.IntN(29)-14, []int{0, 30, 45}[r.IntN(3)])
}

func bc(r *rand.Rand, s string) string {
	if r.IntN(6) == 0 && s[4] == '-' && s[0] < '4' {
		return s + " BC"
	}
	return s
}

func timestampText(r *rand.Rand) string {
	return bc(r, dateText(r)+" "+clockText(r))
}

func timestamptzText(r *rand.Rand) string {
	return bc(r, dateText(r)+" "+clockText(r)+zoneText(r))
}

func intervalText(r *rand.Rand) string {
	return fmt.Sprintf("%d months %d days %d seconds", r.IntN(5)-2, r.IntN(121)-60, (r.IntN(121)-60)*86400/(1+r.IntN(3)))
}

func inetText(r *rand.Rand) string {
	b := func() int { return []int{0, 1, 127, 128, 255, r.IntN(256)}[r.IntN(6)] }
	if r.IntN(3) == 0 {
		return fmt.Sprintf("%x:%x::%x:%x/%d", b(), b(), b(), b()<<8, r.IntN(129))
	}
	return fmt.Sprintf("%d.%d.%d.%d/%d", b(), b(), b(), b(), r.IntN(33))
}

var samples = []sample{
	{20001, "mood", []string{"sad", "Sad", " "}, func(r *rand.Rand) string { return []string{"ok", "happy"}[r.IntN(2)] }},
	{oidBool, "bool", []string{"t", "f"}, func(r *rand.Rand) string { return []string{"t", "f"}[r.IntN(2)] }},
	{oidInt2, "int2", []string{"0", "-1", "32767", "-32768", "255", "256", "-256"}, integer(16)},
	{oidInt4, "int4", []string{"0", "-1", "2147483647", "-2147483648", "65536"}, integer(32)},
	{oidInt8, "int8", []string{"0", "-1", "9223372036854775807", "-9223372036854775808"}, integer(64)},
	{oidOid, "oid", []string{"0", "2147483648", "4294967295"}, func(r *rand.Rand) string { return fmt.Sprint(r.Uint32() >> r.IntN(32)) }},
	{
		oidFloat4, "float4",
		[]string{"0", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "-1e-45", "3.4028235e38", "-3.4028235e38", "0.1"},
		floatText(32),
	},
	{
		oidFloat8, "float8",
		[]string{"0", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "-5e-324", "1.7976931348623157e308", "1e23", "0.1", "0.30000000000000004"},
		floatText(64),
	},
	{
		oidNumeric, "numeric",
		[]string{
			"0", "0.0", "0.000", "-0", "NaN", "Infinity", "-Infinity", "1", "1.0", "1.00000000", "10000", "9999", "9999.9999", "10000.00010", "0.0001",
			"0.00001", "-0.00001", "1e1000", "-1e1000", "1e-1000", "-1e-1000", "1e130000", "12345678901234567890.123456789", "1e4", "1e8", "100000000.00000001",
		},
		decimalText,
	},
	{oidDate, "date", []string{"infinity", "-infinity", "2000-01-01", "1999-12-31", "4714-11-24 BC", "5874897-12-31"}, func(r *rand.Rand) string { return bc(r, dateText(r)) }},
	{oidTimestamp, "timestamp", []string{"infinity", "-infinity", "2000-01-01", "1999-12-31 23:59:59.999999", "4714-11-24 BC", "294276-12-31 23:59:59.999999"}, timestampText},
	{oidTimestamptz, "timestamptz", []string{"infinity", "-infinity", "2000-01-01", "1999-12-31 23:59:59.999999Z"}, timestamptzText},
	{oidTime, "time", []string{"00:00", "24:00", "23:59:59.999999"}, clockText},
	{
		oidTimetz, "timetz",
		[]string{"00:00+00", "24:00+00", "24:00-15:59", "00:00+15:59", "12:00+01", "11:00+00", "13:00+02", "12:00:00.000001+01"},
		func(r *rand.Rand) string { return clockText(r) + zoneText(r) },
	},
	{
		oidInterval, "interval",
		[]string{
			"0", "1 month", "30 days", "720 hours", "1 mon -30 days", "24 hours", "1 day", "-1 day 24:00", "178000000 years", "-178000000 years",
			"2147483647 days", "-2147483648 days", "2562047788:00:54.775807", "-2562047788:00:54.775807", "178000000 years 2147483647 days 2562047788:00:54.775807",
		},
		intervalText,
	},
	{oidUUID, "uuid", []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"}, hexText("", 16)},
	{oidBytea, "bytea", []string{`\x`, `\x00`, `\x0000`, `\xff`, `\x7f`, `\x80`}, hexText(`\x`, 5)},
	{oidChar, `"char"`, []string{"", "a", " ", "~", `\200`, `\377`}, func(r *rand.Rand) string { return string(rune('A' + r.IntN(50))) }},
	{oidName, `name COLLATE "C"`, []string{"", "a", "B", "ä", "z"}, words("a", "b", "B", "-", "ä", " ")},
	{oidText, `text COLLATE "C"`, []string{"", "a", "B", "ä", "z", "\U0001F600", "\uffff"}, words("a", "b", "B", "-", "ä", " ", "\U0001F600", "ﬀ")},
	{oidVarchar, `varchar COLLATE "C"`, []string{"", "a", "B", "ä", "z"}, words("a", "b", "B", "-", "ä", " ")},
	{oidBpchar, `bpchar COLLATE "C"`, []string{"", " ", "a", "a ", "a\t", "a \t"}, words("a", "b", "\t", " ", " ", "ä")},
	{oidBpchar, `char(4) COLLATE "C"`, []string{"", " ", "a", "a ", "a\t", "a \t"}, words("a", "\t", " ")},
	{
		oidInet, "inet",
		[]string{"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.0.0.1/8", "10.0.0.0", "255.255.255.255", "::/0", "::", "::1", "::ffff:1.2.3.4"},
		inetText,
	},
	{oidCidr, "cidr", []string{"0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/9", "10.128.0.0/9", "10.0.0.0/32", "::/0", "::/128", "::1/128"}, func(r *rand.Rand) string {
		return fmt.Sprintf("%d.0.0.0/%d", []int{0, 1, 127, 128, 255, r.IntN(256)}[r.IntN(6)], 8+r.IntN(25))
	}},
	{oidMacaddr, "macaddr", []string{"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "80:00:00:00:00:00", "00:00:00:80:00:00"}, hexText("", 6)},
	{oidMacaddr8, "macaddr8", []string{"00:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff", "80:00:00:00:00:00:00:00"}, hexText("", 8)},
	{oidMoney, "money", []string{"0", "-0.01", "92233720368547758.07", "-92233720368547758.08"}, func(r *rand.Rand) string { return fmt.Sprintf("%d.%02d", r.IntN(20001)-10000, r.IntN(100)) }},
	{oidBit, "bit(11)", []string{"", "1", "01"}, words("0", "1", "00000")},
	{oidVarbit, "varbit", []string{"", "0", "1", "00", "01", "000000000", "0000000000", "00000000", "0000000001"}, words("0", "1", "00", "01", "1111111")},
	{oidLSN, "pg_lsn", []string{"0/0", "FFFFFFFF/FFFFFFFF", "80000000/0", "0/80000000"}, func(r *rand.Rand) string { return fmt.Sprintf("%X/%X", r.Uint32()>>r.IntN(32), r.Uint32()) }},
	{oidXid8, "xid8", []string{"0", "18446744073709551615", "9223372036854775808"}, func(r *rand.Rand) string { return fmt.Sprint(r.Uint64() >> r.IntN(64)) }},
}

// mod is the type's modifier.
func (s *sample) mod() int32 {
	if s.oid == oidBpchar && strings.Contains(s.sql, "(4)") {
		return 8
	}
	return -1
}

// values makes up n values of the type.
func (s *sample) values(r *rand.Rand, n int) []string {
	out := append([]string{}, s.edges...)
	for len(out) < n {
		out = append(out, s.random(r))
	}
	return out
}

// cast is the expression that makes a value of the type from the text v.
func (s *sample) cast(v string) string {
	name, collation, _ := strings.Cut(s.sql, " COLLATE ")
	e := v + "::" + name
	if collation != "" {
		e += " COLLATE " + collation
	}
	return "(" + e + ")"
}

// sessions are settings under which values look different.
var sessions = []struct {
	name, sql     string
	iso, shortest bool
	values        int
}{
	{"iso", "SET DateStyle = 'ISO, MDY'; SET TimeZone = 'Europe/Amsterdam'; SET bytea_output = hex; SET extra_float_digits = 1", true, true, 400},
	{"sql", "SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Australia/Sydney'; SET bytea_output = escape; SET extra_float_digits = 0", false, false, 150},
	{"german", "SET DateStyle = 'German'; SET TimeZone = 'America/New_York'; SET bytea_output = escape; SET extra_float_digits = -5", false, false, 150},
	{"postgres", "SET DateStyle = 'Postgres, MDY'; SET TimeZone = 'UTC'; SET bytea_output = hex; SET extra_float_digits = 3", false, true, 150},
}

func exec(tb testing.TB, conn *pgx.Conn, sql string) {
	tb.Helper()
	if err := conn.PgConn().Exec(context.Background(), sql).Close(); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// TestOrder holds the order of every type, in both formats, against the
// server's: each pair of thousands of values by rank, and some by the operators
// too. Where equality is said to be that of bytes, it is held against the same.
func TestOrder(t *testing.T) {
	conn := connect(t)
	exec(t, conn, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'Sad', ' ')")
	type form struct {
		oid    uint32
		format int16
	}
	ordered := map[form]bool{}
	for _, session := range sessions {
		exec(t, conn, session.sql)
		for _, s := range samples {
			for _, format := range []int16{textFormat, binaryFormat} {
				typ := Type{OID: s.oid, Mod: s.mod(), Format: format, Bytes: true, Deterministic: true, ISO: session.iso, Shortest: session.shortest, Enum: s.sql == "mood"}
				compare, ok := typ.comparer()
				if !ok && !typ.equalBytes() || format == binaryFormat && !session.iso {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", session.name, s.sql, format), func(t *testing.T) {
					values := s.values(rand.New(rand.NewPCG(3, uint64(s.oid))), session.values)
					ours, ranks := askRanks(t, conn, format, s, values)
					wrong := 0
					for n := range len(ours) * len(ours) {
						i, j := n/len(ours), n%len(ours)
						want := compareSigned(ranks[i], ranks[j])
						if ok {
							ordered[form{s.oid, format}] = true
							if got := compare(ours[i], ours[j]); cmp.Compare(got, 0) != want {
								t.Errorf("%s and %s (%q and %q): %d, the server says %d", values[i], values[j], ours[i], ours[j], got, want)
								wrong++
							}
						}
						if typ.equalBytes() && bytes.Equal(ours[i], ours[j]) != (want == 0) {
							t.Errorf("%s and %s (%q and %q): %d", values[i], values[j], ours[i], ours[j], want)
							wrong++
						}
						if wrong > 10 {
							return
						}
					}
					if ok && session.iso {
						checkOperators(t, conn, s, compare, values, ours)
					}
				})
			}
		}
	}
	for oid := range uint32(20000) {
		for _, format := range []int16{textFormat, binaryFormat} {
			if _, ok := (Type{OID: oid, Format: format, Bytes: true, ISO: true, Shortest: true}).comparer(); ok && !ordered[form{oid, format}] {
				t.Errorf("nobody has tested the order of %d", oid)
			}
		}
	}
}

// askRanks returns the values in a format, and their places in the server's
// order, equal for equal ones.
func askRanks(t *testing.T, conn *pgx.Conn, format int16, s sample, values []string) (forms, ranks [][]byte) {
	sql := `SELECT ` + s.cast("v") + `, dense_rank() OVER (ORDER BY ` + s.cast("v") + `)
		FROM unnest($1::text[]) WITH ORDINALITY AS u(v, i) ORDER BY i`
	return column(t, ask(t, conn, format, sql, values), 0), column(t, ask(t, conn, binaryFormat, sql, values), 1)
}

// checkOperators compares the order with what <, = and > say.
func checkOperators(t *testing.T, conn *pgx.Conn, s sample, compare Comparer, values []string, ours [][]byte) {
	const few = 60
	pairs := ask(t, conn, textFormat, `SELECT CASE WHEN a < b THEN -1 WHEN a = b THEN 0 WHEN a > b THEN 1 END
		FROM unnest($1::text[]) WITH ORDINALITY AS u(v, i), LATERAL (SELECT `+s.cast("u.v")+` AS a) AS x,
		unnest($1::text[]) WITH ORDINALITY AS w(v, j), LATERAL (SELECT `+s.cast("w.v")+` AS b) AS y ORDER BY i, j`, values[:few])
	for n, v := range column(t, pairs, 0) {
		got := compare(ours[n/few], ours[n%few])
		if strconv.Itoa(cmp.Compare(got, 0)) != string(v) {
			t.Errorf("%s and %s: %d, the operators say %s", values[n/few], values[n%few], got, v)
		}
	}
}

// Text in another encoding than the server's has another order, which is why
// Bytes speaks of the encoding too.
func TestEncoding(t *testing.T) {
	conn := connect(t)
	compare, _ := CompareBinary(oidText, true)
	for encoding, want := range map[string]int{"UTF8": -1, "WIN1252": 1} {
		exec(t, conn, "RESET client_encoding")
		exec(t, conn, "CREATE TEMPORARY TABLE e_"+encoding+" AS SELECT unnest(ARRAY['é', '€']) AS v")
		exec(t, conn, "SET client_encoding = "+encoding)
		v := column(t, ask(t, conn, binaryFormat, `SELECT v FROM e_`+encoding+` ORDER BY v COLLATE "C"`), 0)
		if got := compare(v[0], v[1]); got != want {
			t.Errorf("%s: %q and %q: %d", encoding, v[0], v[1], got)
		}
	}
}

// Types whose equality is not that of bytes, and text as its collation says.
func TestCanDistinct(t *testing.T) {
	for _, c := range []struct {
		t    Type
		want bool
	}{
		{Type{OID: oidNumeric, Format: 1}, false},
		{Type{OID: oidFloat8, Format: 1}, false},
		{Type{OID: oidFloat4}, false},
		{Type{OID: oidInterval, Format: 1}, false},
		{Type{OID: 3802}, false},  // jsonb
		{Type{OID: 1007}, false},  // int4[]
		{Type{OID: 16999}, false}, // perhaps citext
		{Type{OID: 16999, Deterministic: true, Bytes: true}, false},
		{Type{OID: 16999, Enum: true}, true},
		{Type{OID: oidText}, false},
		{Type{OID: oidText, Deterministic: true}, true},
		{Type{OID: oidBpchar, Deterministic: true, Mod: -1}, false},
		{Type{OID: oidBpchar, Deterministic: true, Mod: 8}, true},
		{Type{OID: oidTimestamptz}, false},
		{Type{OID: oidTimestamptz, ISO: true}, true},
		{Type{OID: oidTimestamptz, Format: 1}, true},
		{Type{OID: oidInt4}, true},
	} {
		if got := CanDistinct([]Type{{OID: oidInt4}, c.t}); got != c.want {
			t.Errorf("%+v: %v", c.t, got)
		}
	}
}
