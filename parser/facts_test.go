package parser

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestFacts shows the facts of texts, one a line, or one in all with the argument "whole".
func TestFacts(t *testing.T) {
	datadriven.Walk(t, "testdata/facts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			texts := strings.Split(d.Input, "\n")
			if d.HasArg("whole") {
				texts = []string{d.Input}
			}
			var out strings.Builder
			for _, text := range texts {
				facts := parseFacts(text, Options{NonStandardStrings: d.HasArg("nonstandard")})
				fmt.Fprintf(&out, "%s\n%s", text, show(text, facts, "  "))
			}
			return out.String()
		})
	})
}

func show(text string, f *Facts, indent string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	if f.Err != nil {
		line("error: %v", f.Err)
	}
	if f.Effects != 0 {
		line("effects: %v", f.Effects)
	}
	if f.Statements != 1 {
		line("statements: %d", f.Statements)
	}
	for _, s := range f.Settings {
		value := ""
		if s.Value != "" {
			value = " = " + s.Value
		}
		line("setting: %s%s%s%s", s.Name, value, map[bool]string{true: " local"}[s.Local], map[bool]string{true: " reset"}[s.Reset])
	}
	for _, o := range f.Options {
		line("option: %s = %q", o.Name, o.Value)
	}
	if len(f.Funcs) > 0 {
		line("funcs: %s", strings.Join(f.Funcs, " "))
	}
	if len(f.Relations) > 0 {
		line("relations: %s", strings.Join(f.Relations, " "))
	}
	for _, c := range f.Channels {
		line("channel: %s %q", [...]string{Listen: "listen", Unlisten: "unlisten", Notify: "notify"}[c.Kind], c.Name)
	}
	for _, p := range f.Prepared {
		kind := [...]string{Prepare: "prepare", Execute: "execute", Deallocate: "deallocate", DeallocateAll: "deallocate all"}[p.Kind]
		line("%s: %q at %q", kind, p.Name, text[p.NameStart:p.NameEnd])
		if p.Body != nil {
			line("body: %q", text[p.BodyStart:p.BodyEnd])
			b.WriteString(show(text, p.Body, indent+"  "))
		}
	}
	if f.Exact {
		line("exact")
	}
	if f.Snapless {
		line("snapless")
	}
	return b.String()
}

func TestEveryEffectHasAName(t *testing.T) {
	if last := Roles; last != 1<<(len(effectNames)-1) {
		t.Fatalf("%d names, the last effect is %b", len(effectNames), last)
	}
}

// TestDeepTexts: what would overflow the C stack is refused, what is only long is not.
func TestDeepTexts(t *testing.T) {
	rep := strings.Repeat
	for _, test := range []struct {
		name, text string
		refused    bool
	}{
		{"sum", "SELECT 1" + rep("+1", 200000), true},
		{"sum of columns named and", "SELECT t.and" + rep("+t.and", 200000), true},
		{"casts", "SELECT 1" + rep("::int", 200000), true},
		{"joins", "SELECT * FROM a" + rep(" JOIN a ON true AND true", 200000), true},
		{"unions", "SELECT 1, 2" + rep(" UNION SELECT 1, 2", 200000), true},
		{"cases", "SELECT 1" + rep("+CASE WHEN a AND b OR t.end THEN 1 END", 100000), true},
		{"betweens", "SELECT 1" + rep(" BETWEEN 1 AND 2 IS NULL", 100000), true},
		{"parentheses", "SELECT " + rep("(", 100000) + "1" + rep(")", 100000), true},
		{"nested sums", "SELECT " + rep("(1+1+1+1+", 3000) + "1" + rep(")", 3000), true},
		{"unterminated", "SELECT 1" + rep("+1", 200000) + "'", true},
		{"list", "SELECT * FROM t WHERE a IN (1" + rep(",1", 20000) + ")", false},
		{"disjunction", "SELECT * FROM t WHERE a = 1" + rep(" OR a = 1", 10000), false},
		{"conjunction", "SELECT * FROM t WHERE a > 1" + rep(" AND (a = 1 OR b = 1)", 10000), false},
		{"rows", "INSERT INTO t VALUES (1,'a')" + rep(",(1,'a')", 10000), false},
		{"whens", "SELECT CASE" + rep(" WHEN (t.a = 1) THEN 'x'", 10000) + " ELSE 'y' END", false},
		{"whens with sums", "SELECT CASE WHEN a THEN 1" + rep("+1", 200000) + " WHEN b THEN 1 END", true},
		{"columns named when", "SELECT CASE WHEN t.when" + rep("+t.when", 200000) + " THEN 1 END", true},
		{"statements", rep("SELECT 1;", 10000), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := ParseFacts(test.text)
			if refused := f.Err != nil; refused != test.refused {
				t.Fatalf("err = %v", f.Err)
			}
			if test.refused && f.Effects != Opaque {
				t.Fatalf("effects = %v", f.Effects)
			}
		})
	}
}

// FuzzFacts: no text may bring the process down, and texts of one Norm have the same facts unless they say otherwise.
func FuzzFacts(f *testing.F) {
	for _, text := range statements(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		facts := ParseFacts(text)
		for _, p := range facts.Prepared {
			if p.NameStart < 0 || p.NameEnd < p.NameStart || p.NameEnd > len(text) || p.BodyEnd > len(text) || p.BodyEnd < p.BodyStart {
				t.Fatalf("%q: offsets %+v", text, p)
			}
		}
		if facts.Err != nil || facts.Exact {
			return
		}
		var s Scanner
		if !s.Scan([]byte(text), Options{}) {
			t.Fatalf("%q parses but does not scan", text)
		}
		// A bulk statement has the facts of its short form.
		pad := strings.Repeat(" ", shortenAbove)
		long := append([]byte(pad), s.Norm...)
		if short := ParseFacts(dummyText(shorten(nil, long))); short.Err == nil && show("", short, "") != show("", facts, "") {
			t.Fatalf("%q\n%s\nshort: %q\n%s", text, show("", facts, ""), shorten(nil, long)[len(pad):], show("", short, ""))
		}
		other := otherLiterals(text, s.Literals)
		if facts2 := ParseFacts(other); facts2.Err == nil && show("", facts, "") != show("", facts2, "") {
			t.Fatalf("%q\n%s\n%q\n%s", text, show("", facts, ""), other, show("", facts2, ""))
		}
	})
}

// otherLiterals changes the values of all literals and keeps their kinds.
func otherLiterals(text string, lits []Literal) string {
	var e Edits
	for _, l := range lits {
		v := ""
		switch l.Kind {
		case String:
			v = " 'pg_temp'"
		case Int:
			v = " 3 "
		case Int8:
			v = " 5000000000 "
		case Numeric:
			v = " 0.25 "
		default:
			continue
		}
		e = append(e, Edit{int(l.Start), int(l.End), v})
	}
	return e.Apply(text)
}

// statements is every input line of the golden files of facts.
func statements(t testing.TB) []string {
	files, err := filepath.Glob("testdata/facts/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files: ", err)
	}
	var out []string
	for _, file := range files {
		out = append(out, inputs(t, file)...)
	}
	return out
}

// inputs is every line of a golden file that is not indented, once.
func inputs(t testing.TB, file string) []string {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range strings.Split(string(data), "\n") {
		if line != "" && !strings.ContainsAny(line[:1], " #-") && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

func BenchmarkParseFacts(b *testing.B) {
	for b.Loop() {
		ParseFacts("SELECT id, name, email FROM users WHERE id = 12345 AND state = 'open';")
	}
}
