package datum

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

var verdicts = map[string]Verdict{"undecided": Undecided, "invalid": Invalid, "never": Never}

// check compares a key's text, or the verdict on it, with want.
func check(t *testing.T, what string, k Key, err error, want string) {
	t.Helper()
	got := string(k.AppendText(nil))
	if err != nil {
		got = err.Error()
		for name, v := range verdicts {
			if errors.Is(err, v) {
				got = name
			}
		}
	} else if k.IsNull() {
		got = "null"
	}
	if got != want {
		t.Errorf("%s: got %q (%v), want %q", what, got, err, want)
	}
}

func TestMatchLiteral(t *testing.T) {
	for _, test := range []struct {
		column Type
		// literal → key or verdict
		cases map[string]string
	}{
		{Int8, map[string]string{
			"42": "42", " \t\n\v\f\r+42 ": "42", "-0": "0", "-42": "-42", "007": "7",
			"9223372036854775807": "9223372036854775807", "9223372036854775808": "invalid",
			"-9223372036854775808": "-9223372036854775808", "-9223372036854775809": "invalid",
			"99999999999999999999999": "invalid",
			"":                        "invalid", " ": "invalid", "+": "invalid", "4 2": "invalid", "42.0": "invalid", "1e3": "invalid",
			"- 1": "invalid", "--1": "invalid", "4x": "invalid", "_1": "invalid", "x1": "invalid",
			"0x1F": "undecided", "0o7": "undecided", "0b1": "undecided", "1_000": "undecided",
			"\u00a042": "undecided", "42\u3000": "undecided", "99999999999999999999_9": "undecided",
		}},
		{Int4, map[string]string{"2147483647": "2147483647", "2147483648": "invalid", "-2147483648": "-2147483648", "-2147483649": "invalid"}},
		{Int2, map[string]string{"32767": "32767", "32768": "invalid", "-32768": "-32768", "-32769": "invalid"}},
		{Text, map[string]string{"": "", "a ": "a ", "ä€𝄞": "ä€𝄞", "42": "42"}},
		{Varchar, map[string]string{"a ": "a "}},
		{Bpchar, map[string]string{"a  ": "a", "  ": "", " a": " a", "a\t": "a\t", "a\u00a0": "a\u00a0"}},
		{UUID, map[string]string{
			"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11":    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
			"{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}":   "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
			"a0eebc999c0b4ef8bb6d6bb9bd380a11":        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
			"a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1":     "invalid",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111":   "invalid",
			"a0eebc99--9c0b-4ef8-bb6d-6bb9bd380a11":   "invalid",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11-":   "invalid",
			"-a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11":   "invalid",
			"a0e-ebc99-9c0b-4ef8-bb6d-6bb9bd380a11":   "invalid",
			" a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11":   "invalid",
			"{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11":   "invalid",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}":   "invalid",
			"g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11":    "invalid",
			"":                                        "invalid", "{}": "invalid", "{": "invalid",
		}},
		{Date, map[string]string{
			"2000-01-01": "0", "1999-12-31": "-1", "2024-02-29": "8825", "0001-01-01": "-730119", "9999-12-31": "2921939",
			"infinity": "2147483647", "-Infinity": "-2147483648",
			"2023-02-29": "invalid", "2024-13-01": "invalid", "2024-00-10": "invalid", "2024-01-32": "invalid",
			"2024-1-2": "undecided", "01/02/2024": "undecided", "20240102": "undecided", "today": "undecided", "epoch": "undecided",
			"2024-01-02 BC": "undecided", "2024-01-02 03:04:05": "undecided", "10000-01-01": "undecided", "2024-01-023": "undecided",
			"0000-01-01": "undecided", " 2024-01-02": "undecided", "J2451187": "undecided", "": "undecided", "2024-Jan-02": "undecided",
		}},
		{Timestamp, map[string]string{
			"2000-01-01 00:00:00": "0", "2000-01-01": "0", "2000-01-01T00:00:01.5": "1500000", "2000-01-01 00:01": "60000000",
			"1999-12-31 23:59:59.999999": "-1", "2000-01-01 00:00:00.000001": "1", "infinity": "9223372036854775807",
			"-infinity": "-9223372036854775808", "2023-02-29 00:00:00": "invalid",
			"2000-01-01 00:00:00.0000001": "undecided", "2000-01-01 24:00:00": "undecided", "2000-01-01 00:00:60": "undecided",
			"2000-01-01 00:00:00+02": "undecided", "2000-01-01 00:00:00Z": "undecided", "now": "undecided", "2000-01-01 1:00": "undecided",
			"2000-01-01 00:00:00 PM": "undecided", "2000-01-01t00:00": "undecided", "2000-01-01 00:00:00.": "undecided", "2000-01-01 00:00:001": "undecided",
			"2000-01-01 ": "undecided", "2000-01-01 00:000": "undecided", "2000-01-01 00:00.5": "undecided", "2000-01-01 00:00:0": "undecided",
		}},
		{Timestamptz, map[string]string{
			"2000-01-01 00:00:00+00": "0", "2000-01-01T00:00:00Z": "0", "2000-01-01 02:00:00+02": "0", "2000-01-01 05:30:00+0530": "0",
			"1999-12-31 23:00:00.5-01:00": "500000", "2000-01-01 00:00+00": "0", "infinity": "9223372036854775807",
			"2000-01-01 00:00:00": "undecided", "2000-01-01": "undecided", "2000-01-01+02": "undecided", "2000-01-01 00:00:00 CET": "undecided",
			"2000-01-01 00:00:00+16": "undecided", "2000-01-01 00:00:00+02:60": "undecided", "2000-01-01 00:00:00+2": "undecided",
			"2000-01-01 00:00:00+02:00:00": "undecided", "2000-01-01 00:00:00z": "undecided", "2000-01-01 00:00:00+": "undecided",
			"tomorrow": "undecided",
		}},
		{Numeric, map[string]string{
			"1": "1", "1.0": "1", "1.000000": "1", "0001": "1", " +1e0 ": "1", "10e-1": "1", ".5": "0.5", "5.": "5", "-.05": "-0.05",
			"0": "0", "-0.00": "0", "0e5": "0", "1e20": "100000000000000000000", "1e21": "1e21", "120e-23": "0.0000000000000000000012",
			"120e-24": "12e-23", "12345678.90123": "12345678.90123", "100000": "100000", "0.0001": "0.0001", "0.00012": "0.00012",
			"nan": "NaN", "Infinity": "Infinity", "-inf": "-Infinity", "+inf": "Infinity",
			"": "invalid", ".": "invalid", "1.2.3": "invalid", "1x": "invalid", "-nan": "invalid", "1 2": "invalid", "+-1": "invalid",
			"1e": "undecided", "1e5x": "undecided", "1e 5": "undecided", "1e1001": "undecided", "1e-99999999999999999999": "undecided",
			"0x10": "undecided", "1_0": "undecided", strings.Repeat("9", 1001): "undecided",
		}},
		{Float8, map[string]string{"1": "undecided"}},
		{16999, map[string]string{"1": "undecided"}},
	} {
		for literal, want := range test.cases {
			k, err := Column{test.column, -1}.Match(Literal([]byte(literal)))
			check(t, test.column.String()+" = '"+literal+"'", k, err, want)
		}
	}
}

func TestMatchTyped(t *testing.T) {
	for _, test := range []struct {
		column, value Type
		bytes         string // a leading \x means binary
		want          string
	}{
		{Int8, Int2, `\xfffe`, "-2"},
		{Int8, Int4, `\xfffffffe`, "-2"},
		{Int2, Int8, `\x00000001000000ff`, "4294967551"},
		{Int4, Int4, `\x0001`, "invalid"},
		{Int4, Int8, `\x00000001`, "invalid"},
		{Int4, Int8, "3000000000", "3000000000"},
		{Int4, Int4, "3000000000", "invalid"},
		{Int4, Unknown, `\x00000001`, "undecided"},
		{Int4, 0, `\x00000001`, "undecided"},
		{Int8, Text, "1", "undecided"},
		{Int8, Float8, "1", "undecided"},
		{Int8, Numeric, "42.0", "42"},
		{Int8, Numeric, "42.5", "never"},
		{Int8, Numeric, "NaN", "never"},
		{Int8, Numeric, "9223372036854775807", "9223372036854775807"},
		{Int8, Numeric, "9223372036854775808", "never"},
		{Int8, Numeric, "-9223372036854775808.0", "-9223372036854775808"},
		{Int8, Numeric, "-99999999999999999999", "never"},
		{Int8, Numeric, "1e40", "never"},
		{Int8, Numeric, `\x0001 0001 0000 0000 0002`, "20000"},
		{Numeric, Int4, `\xffffd8f0`, "-10000"},
		{Numeric, Int8, "-9223372036854775808", "-9223372036854775808"},
		{Numeric, Float8, "1", "undecided"},
		{Numeric, Numeric, `\x0002 0000 4000 0002 0001 1388`, "-1.5"},
		{Numeric, Numeric, `\x0004 0001 0000 0004 0000 0001 0000 0000`, "1"},
		{Numeric, Numeric, `\x0000 0000 0000 0005`, "0"},
		{Numeric, Numeric, `\x0000 0000 c000 0000`, "NaN"},
		{Numeric, Numeric, `\x0000 0000 d000 0000`, "Infinity"},
		{Numeric, Numeric, `\x0000 0000 f000 0000`, "-Infinity"},
		{Numeric, Numeric, `\x0002 0000 0000 0000 0001 1388`, "undecided"}, // the server cuts it to its scale
		{Numeric, Numeric, `\x0001 0000 0000 0000 2710`, "invalid"},
		{Numeric, Numeric, `\x0001 0000 1000 0000 0001`, "invalid"},
		{Numeric, Numeric, `\x0001 0000 0000 4000 0001`, "invalid"},
		{Numeric, Numeric, `\x0002 0000 0000 0000 0001`, "invalid"},
		{Numeric, Numeric, `\x0001`, "invalid"},
		{Numeric, Numeric, `\x0001 7fff 0000 0000 0001`, "1e131068"},
		{Text, Bpchar, "a  ", "a"},
		{Varchar, Bpchar, "a  ", "undecided"},
		{Varchar, Text, "a  ", "a  "},
		{Bpchar, Text, "a  ", "a"},
		{Text, Int4, "1", "undecided"},
		{Text, 19, "a", "undecided"},
		{UUID, UUID, `\xa0eebc999c0b4ef8bb6d6bb9bd380a11`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{UUID, UUID, `\xa0`, "invalid"},
		{UUID, Text, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "undecided"},
		{Date, Date, `\x00000001`, "1"},
		{Date, Date, `\x7fffffff`, "2147483647"},
		{Date, Date, `\x7ffffffe`, "invalid"},
		{Date, Date, `\x01`, "invalid"},
		{Date, Timestamp, "2000-01-02 00:00:00", "1"},
		{Date, Timestamp, "2000-01-02 00:00:01", "never"},
		{Date, Timestamp, "infinity", "2147483647"},
		{Date, Timestamp, "-infinity", "-2147483648"},
		{Date, Timestamptz, "2000-01-02 00:00:00+00", "undecided"},
		{Timestamp, Date, "2000-01-02", "86400000000"},
		{Timestamp, Date, "infinity", "9223372036854775807"},
		{Timestamp, Date, "-infinity", "-9223372036854775808"},
		{Timestamp, Date, `\x7f000000`, "undecided"},
		{Timestamp, Timestamptz, "2000-01-02 00:00:00+00", "undecided"},
		{Timestamptz, Timestamp, "2000-01-02 00:00:00", "undecided"},
		{Timestamptz, Date, "2000-01-02", "undecided"},
		{Timestamptz, Timestamptz, `\xffffffffffffffff`, "-1"},
		{Timestamptz, Timestamptz, `\x7ffffffffffffffe`, "invalid"},
		{Timestamptz, Timestamptz, `\x00`, "invalid"},
	} {
		v := Value{Type: test.value, Bytes: []byte(test.bytes)}
		if raw, ok := strings.CutPrefix(test.bytes, `\x`); ok {
			v.Format = BinaryFormat
			var err error
			if v.Bytes, err = hex.DecodeString(strings.ReplaceAll(raw, " ", "")); err != nil {
				t.Fatal(err)
			}
		}
		k, err := Column{test.column, -1}.Match(v)
		check(t, test.column.String()+" = "+test.value.String()+" "+test.bytes, k, err, test.want)
	}
	_, err := Column{Int4, -1}.Match(Value{Type: Int4, Format: 7, Bytes: []byte("1")})
	check(t, "a third format", Key{}, err, "invalid")
}

func TestStore(t *testing.T) {
	for _, test := range []struct {
		column Column
		value  Type
		text   string
		want   string
	}{
		{Column{Int4, -1}, Int8, "3000000000", "invalid"},
		{Column{Int8, -1}, Int8, "3000000000", "3000000000"},
		{Column{Int2, -1}, Numeric, "32767.5", "invalid"},
		{Column{Int4, -1}, Numeric, "2.5", "3"},
		{Column{Int4, -1}, Numeric, "-2.5", "-3"},
		{Column{Int4, -1}, Numeric, "2.4999", "2"},
		{Column{Int4, -1}, Numeric, "0.00009", "0"},
		{Column{Int4, -1}, Numeric, "9999.5", "10000"},
		{Column{Int8, -1}, Numeric, "9223372036854775807.5", "invalid"},
		{Column{Int8, -1}, Numeric, "NaN", "invalid"},
		{Column{Varchar, 7}, Unknown, "abc  ", "abc"},
		{Column{Varchar, 7}, Unknown, "äöü", "äöü"},
		{Column{Varchar, 7}, Unknown, "äöü ", "äöü"},
		{Column{Varchar, 7}, Unknown, "ab   ", "ab "},
		{Column{Varchar, 7}, Unknown, "abcd", "invalid"},
		{Column{Varchar, -1}, Bpchar, "abc  ", "abc"},
		{Column{Bpchar, 7}, Unknown, "ab    ", "ab"},
		{Column{Bpchar, 7}, Unknown, "abcd ", "invalid"},
		{Column{Numeric, 4<<16 | 2 + 4}, Unknown, "1.10", "1.1"},
		{Column{Numeric, 4<<16 | 2 + 4}, Unknown, "1.115", "1.12"},
		{Column{Numeric, 4<<16 | 2 + 4}, Unknown, "-9.9951", "-10"},
		{Column{Numeric, 4<<16 | 2 + 4}, Unknown, "0.0049", "0"},
		{Column{Numeric, 4<<16 | 2 + 4}, Unknown, "0.00500", "0.01"},
		{Column{Numeric, 4<<16 + 4}, Unknown, "99999999.5", "100000000"},
		{Column{Numeric, 4<<16 | 2 + 4}, Unknown, "0.00000000049", "0"},
		{Column{Numeric, 4<<16 | 0x7fe + 4}, Unknown, "1200", "1200"}, // scale -2
		{Column{Numeric, 4<<16 | 0x7fe + 4}, Unknown, "1250", "1300"},
		{Column{Numeric, 4<<16 | 2 + 4}, Int4, "12", "12"},
		{Column{Date, -1}, Timestamp, "1999-12-31 23:00:00", "-1"},
		{Column{Timestamp, 0}, Unknown, "2000-01-01 00:00:00.5", "1000000"},
		{Column{Timestamp, 0}, Unknown, "1999-12-31 23:59:59.5", "-1000000"},
		{Column{Timestamp, 3}, Unknown, "2000-01-01 00:00:00.0004", "0"},
		{Column{Timestamp, 0}, Unknown, "infinity", "9223372036854775807"},
		{Column{Timestamptz, 0}, Unknown, "2000-01-01 00:00:00.4Z", "0"},
	} {
		k, err := test.column.Store(Value{Type: test.value, Bytes: []byte(test.text)})
		check(t, test.column.Type.String()+" ← "+test.text, k, err, test.want)
	}
}

func TestNull(t *testing.T) {
	for _, c := range []Type{Int8, Text, UUID, Numeric, Date, Float8} {
		k, err := Column{c, -1}.Store(Value{Type: c})
		check(t, "store NULL", k, err, "null")
		k, err = Column{c, -1}.Match(Value{Type: c})
		check(t, "match NULL", k, err, "never")
	}
	if k, err := (Column{Text, -1}).Match(Literal(nil)); err != nil || k.IsNull() {
		t.Errorf("the empty literal became NULL: %v %v", k, err)
	}
}

// A key of the common kinds costs no memory.
func TestKeyAllocates(t *testing.T) {
	for _, v := range []struct {
		column Type
		value  Value
	}{
		{Int8, Literal([]byte("1234567890"))},
		{Int8, Value{Int8, BinaryFormat, []byte{0, 0, 0, 0, 0, 0, 0, 1}}},
		{Text, Literal([]byte("customer-1"))},
		{UUID, Literal([]byte("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))},
		{Date, Literal([]byte("2024-01-02"))},
		{Timestamptz, Literal([]byte("2024-01-02 03:04:05.678+01"))},
		{Timestamptz, Literal([]byte("now"))}, // a refusal, too
	} {
		if n := testing.AllocsPerRun(100, func() { _, _ = Column{v.column, -1}.Match(v.value) }); n != 0 {
			t.Errorf("%s %q: %v allocations", v.column, v.value.Bytes, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, v := range []struct {
		name   string
		column Type
		value  Value
	}{
		{"int8text", Int8, Literal([]byte("1234567890"))},
		{"int8binary", Int8, Value{Int8, BinaryFormat, []byte{0, 0, 0, 0, 0, 0, 0, 1}}},
		{"text", Text, Literal([]byte("customer-1"))},
		{"uuidtext", UUID, Literal([]byte("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"))},
		{"timestamptz", Timestamptz, Literal([]byte("2024-01-02 03:04:05.678+01"))},
		{"numeric", Numeric, Literal([]byte("1234567.89"))},
	} {
		b.Run(v.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Column{v.column, -1}.Match(v.value)
			}
		})
	}
}
