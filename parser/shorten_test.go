package parser

import (
	"fmt"
	"strings"
	"testing"
)

func TestShorten(t *testing.T) {
	pad := strings.Repeat(" ", shortenAbove)
	for _, test := range []struct{ text, want string }{
		{"INSERT INTO t VALUES (1,'a'), (-2, NULL) ,(3, DEFAULT), ($1, 'x'::text::bytea) ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (‹int›,‹string›) ON CONFLICT DO NOTHING"},
		{"INSERT INTO t VALUES (1,f(1)), (2,f(2)), (3, 4), (5, 6), (7, g(8))", "INSERT INTO t VALUES (‹int›,f(‹int›)), (‹int›,f(‹int›)), (‹int›, ‹int›), (‹int›, g(‹int›))"},
		{"SELECT * FROM t WHERE a IN (1" + strings.Repeat(", 2", 30) + ") AND b IN (1, 2, 3)", "SELECT * FROM t WHERE a IN (‹int›) AND b IN (‹int›, ‹int›, ‹int›)"},
		{"SELECT ARRAY[1" + strings.Repeat(", 2", 30) + "]", "SELECT ARRAY[‹int›]"},
		{"SELECT 1" + strings.Repeat(", 2", 30) + ", a", ""},
		{"SELECT set_config('a', 'b', false), set_config('c', 'd', false)", ""},
		{`SELECT "(1),(2)", "a""(1),(2)" FROM null, "b"`, ""},
		{"SELECT (), (1, 2), (a), (", "SELECT (), (‹int›, ‹int›), (a), ("},
	} {
		var s Scanner
		if !s.Scan([]byte(pad+test.text), Options{}) {
			t.Fatal(test.text)
		}
		got := shorten(nil, s.Norm)
		want := test.want
		if want == "" {
			want = visible(s.Norm)[len(pad):]
		}
		if visible(got)[len(pad):] != want {
			t.Errorf("%s\ngot  %s\nwant %s", test.text, visible(got)[len(pad):], want)
		}
	}
}

// A bulk insert is looked up whatever its number of rows, and the first one is not parsed row by row.
func TestCacheKnowsBulkStatementsByTheirShape(t *testing.T) {
	c := NewCache(1 << 20)
	var s Scanner
	insert := func(rows int) []byte {
		return []byte("INSERT INTO t (a, b) VALUES (1, 'a')" + strings.Repeat(", (22, 'some text that is longer')", rows) + " RETURNING lower(b)")
	}
	first := c.Facts(&s, insert(20000), Options{})
	if first.Err != nil || first.Effects != Writes || fmt.Sprint(first.Funcs, first.Relations) != "[lower] [t]" {
		t.Fatalf("%+v", first)
	}
	if n := len(s.short); n == 0 || n > 100 {
		t.Errorf("%d bytes were parsed", n)
	}
	for _, rows := range []int{200, 5000} {
		if c.Facts(&s, insert(rows), Options{}) != first {
			t.Errorf("%d rows were parsed again", rows)
		}
	}
	text := insert(1000)
	c.Facts(&s, text, Options{})
	if n := testing.AllocsPerRun(10, func() { c.Facts(&s, text, Options{}) }); n != 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}

// Facts that depend on a literal are those of the text as it is, also where most of it was left out.
func TestCacheReadsLiteralsOfBulkStatements(t *testing.T) {
	c := NewCache(1 << 20)
	var s Scanner
	for range 3 {
		for _, name := range []string{"a.b", "c.d"} {
			text := "SELECT set_config('" + name + "', 'x', true) FROM t WHERE a IN (1" + strings.Repeat(", 2", 1000) + ")"
			f := c.Facts(&s, []byte(text), Options{})
			if len(f.Settings) != 1 || f.Settings[0] != (Setting{Name: name, Local: true}) {
				t.Fatalf("%s: %+v", name, f.Settings)
			}
		}
		text := "PREPARE p AS SELECT 1 FROM t WHERE a IN (1" + strings.Repeat(", 2", 1000) + ")"
		if p := c.Facts(&s, []byte(text), Options{}).Prepared[0]; p.BodyEnd != len(text) {
			t.Fatalf("%+v", p)
		}
	}
}
