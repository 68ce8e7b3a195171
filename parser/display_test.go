package parser

import "testing"

func TestStatement(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"SELECT 1", "SELECT $1"},
		{"SELECT * FROM t\n  WHERE a = 'x' -- why\n AND b IN (1, 2)", "SELECT * FROM t WHERE a = $1 AND b IN ($2, $3)"},
		{"SELECT $2, 5, $1", "SELECT $2, $3, $1"},
		{`SELECT "a  $9", a$3 FROM "b""c" WHERE x=E'\''`, `SELECT "a  $9", a$3 FROM "b""c" WHERE x=$1`},
		{"ALTER ROLE a PASSWORD 'secret';", "ALTER ROLE a PASSWORD $1;"},
		{"DO $x$ secret $x$", "DO $1"},
		{"SELECT 'a'from t", "SELECT $1 from t"},
		{"", ""},
	} {
		var s Scanner
		if !s.Scan([]byte(c.text), Options{}) {
			t.Fatalf("%q cannot be scanned", c.text)
		}
		if got := Statement(string(s.Norm)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestFactsNorm(t *testing.T) {
	c := NewCache(1 << 20)
	var s Scanner
	a := c.Facts(&s, []byte("SELECT 1"), Options{})
	b := c.Facts(&s, []byte("SELECT 2"), Options{})
	if a != b || Statement(a.Norm) != "SELECT $1" || c.Misses() != 1 {
		t.Errorf("%q, %d misses", a.Norm, c.Misses())
	}
	if f := c.Facts(&s, []byte("ALTER ROLE x PASSWORD secret"), Options{}); f.Norm != "" {
		t.Errorf("a text that cannot be parsed has the Norm %q", f.Norm)
	}
}
