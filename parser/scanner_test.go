package parser

import (
	"bytes"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// TestScan shows Norm and literals. Escapes in the input are those of a Go string, so that a test can have any byte.
func TestScan(t *testing.T) {
	datadriven.RunTest(t, "testdata/scan", func(t *testing.T, d *datadriven.TestData) string {
		var s Scanner
		opt := Options{NonStandardStrings: d.HasArg("nonstandard")}
		var out strings.Builder
		for _, line := range strings.Split(d.Input, "\n") {
			text := []byte(strings.NewReplacer(`␤`, "\n", `␍`, "\r", `␋`, "\v", `␁`, "\x01", `␀`, "\x00").Replace(line))
			if !s.Scan(text, opt) {
				fmt.Fprintf(&out, "%s\n  refused\n", line)
				continue
			}
			fmt.Fprintf(&out, "%s\n  %s\n", line, visible(s.Norm))
			for _, l := range s.Literals {
				fmt.Fprintf(&out, "  %s: %s\n", l.Kind, visible(text[l.Start:l.End]))
			}
		}
		return out.String()
	})
}

var markers = func() *strings.Replacer {
	var pairs []string
	for k := LiteralKind(1); k < 0x10; k++ {
		if name := k.String(); name != "unknown" {
			pairs = append(pairs, string(rune(k)), "‹"+name+"›")
		}
	}
	return strings.NewReplacer(append(pairs, "\n", "␤", "\r", "␍", "\v", "␋")...)
}()

func visible(b []byte) string { return markers.Replace(string(b)) }

func TestScanReusesItsBuffers(t *testing.T) {
	var s Scanner
	text := []byte("SELECT a, b FROM t WHERE id = 12345 AND name = 'x' /* trace */")
	s.Scan(text, Options{})
	if n := testing.AllocsPerRun(100, func() { s.Scan(text, Options{}) }); n != 0 {
		t.Errorf("Scan allocates %v times", n)
	}
	s.Scan(bytes.Repeat([]byte("1,"), 1<<20), Options{})
	s.Scan(text, Options{})
	if cap(s.Norm) > maxKeep || cap(s.Literals) > maxKeep/8 {
		t.Errorf("after a large text the scanner keeps %d and %d", cap(s.Norm), cap(s.Literals))
	}
	if got, want := visible(s.Norm), "SELECT a, b FROM t WHERE id = ‹int› AND name = ‹string›  "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// checkAgainstLexer compares a scan with PostgreSQL's own lexer.
func checkAgainstLexer(t *testing.T, text string) {
	t.Helper()
	if strings.IndexByte(text, 0) >= 0 || len(text) > 1<<16 {
		return
	}
	var s Scanner
	ok := s.Scan([]byte(text), Options{})
	// pg_query's lexer, unlike PostgreSQL's, does not join strings over a comment: take such comments away.
	if ok {
		text = string(blankContinuations([]byte(text), s.Literals, Options{}))
	}
	theirs, err := pg_query.Scan(text)
	if err != nil {
		// Values of escapes are the server's business: they do not move the end of a token.
		if ok && !strings.Contains(err.Error(), "Unicode") && !strings.Contains(err.Error(), "byte sequence") &&
			!strings.Contains(err.Error(), "operator too long") {
			t.Fatalf("%q: accepted, PostgreSQL says %v", text, err)
		}
		return
	}
	if !ok {
		if strings.ContainsFunc(text, func(r rune) bool { return r < 0x20 && class[byte(r)] == clBad }) {
			return
		}
		t.Fatalf("%q: refused, PostgreSQL accepts", text)
	}

	// Same literals in the same places.
	var want []Literal
	tokens := significant(theirs.Tokens)
	for i, tok := range tokens {
		kind := kindOf(text, tok)
		if kind == 0 {
			continue
		}
		l := Literal{Kind: kind, Start: tok.Start, End: tok.End}
		if kind == String && i > 0 && tokens[i-1].Token == pg_query.Token_NCHAR && tokens[i-1].End-tokens[i-1].Start == 1 {
			l.Kind, l.Start = NationalString, l.Start-1
		}
		want = append(want, l)
	}
	if fmt.Sprint(s.Literals) != fmt.Sprint(want) {
		t.Fatalf("%q:\n got %v\nwant %v", text, s.Literals, want)
	}

	// Norm has the same tokens: put a parameter where each marker stands, and ask PostgreSQL again.
	const param = "$77"
	var b strings.Builder
	for i := 0; i < len(s.Norm); i++ {
		switch c := s.Norm[i]; {
		case c == '"':
			end := endIdent(s.Norm, i+1)
			b.Write(s.Norm[i:end])
			i = end - 1
		case LiteralKind(c).String() != "unknown":
			b.WriteString(" " + param + " ")
		default:
			b.WriteByte(c)
		}
	}
	normed, err := pg_query.Scan(b.String())
	if err != nil {
		t.Fatalf("%q: norm %q does not scan: %v", text, s.Norm, err)
	}
	if got, want := words(b.String(), normed.Tokens), words(text, tokens); got != want {
		t.Fatalf("%q: norm has tokens\n%s\nwant\n%s", text, got, want)
	}
}

func significant(tokens []*pg_query.ScanToken) []*pg_query.ScanToken {
	var out []*pg_query.ScanToken
	for _, tok := range tokens {
		if tok.Token != pg_query.Token_C_COMMENT && tok.Token != pg_query.Token_SQL_COMMENT {
			out = append(out, tok)
		}
	}
	return out
}

func kindOf(text string, tok *pg_query.ScanToken) LiteralKind {
	switch tok.Token {
	case pg_query.Token_SCONST:
		return String
	case pg_query.Token_USCONST:
		return UnicodeString
	case pg_query.Token_BCONST:
		return Bit
	case pg_query.Token_XCONST:
		return Hex
	case pg_query.Token_ICONST:
		return Int
	case pg_query.Token_FCONST:
		word := text[tok.Start:tok.End]
		if strings.ContainsAny(word, ".") || (strings.ContainsAny(word, "eE") && !strings.ContainsAny(word, "xX")) {
			return Numeric
		}
		return bigKind(word)
	}
	return 0
}

// bigKind is the kind of an integer that is no int4, by arithmetic that shares nothing with the scanner.
func bigKind(word string) LiteralKind {
	// To math/big a leading zero says octal, to SQL it says nothing.
	base := 0
	if !strings.ContainsAny(word, "xXoObB") {
		base = 10
	}
	v, ok := new(big.Int).SetString(strings.ReplaceAll(word, "_", ""), base)
	switch {
	case !ok:
		return 0
	case v.Cmp(big.NewInt(1<<31)) == 0:
		return IntMin
	case v.IsInt64():
		return Int8
	case v.Cmp(new(big.Int).Lsh(big.NewInt(1), 63)) == 0:
		return Int8Min
	}
	return Numeric
}

// words lists the tokens with their text, literals as the parameter that stands for them.
func words(text string, tokens []*pg_query.ScanToken) string {
	var b strings.Builder
	for i, tok := range tokens {
		if tok.Token == pg_query.Token_NCHAR && tok.End-tok.Start == 1 && i+1 < len(tokens) {
			continue // N'…' is one literal
		}
		word := text[tok.Start:tok.End]
		if kindOf(text, tok) != 0 {
			word = "$77"
		}
		b.WriteString(word + "\n")
	}
	return b.String()
}

func TestScanAgreesWithPostgreSQL(t *testing.T) {
	for _, text := range corpus(t) {
		checkAgainstLexer(t, text)
		checkNonStandard(t, text)
	}
}

func FuzzScan(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkAgainstLexer(t, text)
		checkNonStandard(t, text)
	})
}

// checkNonStandard asks the lexer, which knows only standard strings, about the text as it would be written for it: each
// string with a backslash is marked as one with escapes. A string cut in the wrong place leaves other tokens.
func checkNonStandard(t *testing.T, text string) {
	t.Helper()
	var s Scanner
	if len(text) > 1<<16 || !s.Scan([]byte(text), Options{NonStandardStrings: true}) {
		return
	}
	last := int32(0)
	for _, l := range s.Literals {
		if l.Start < last || l.End <= l.Start || int(l.End) > len(text) {
			t.Fatalf("%q: literals out of order: %v", text, s.Literals)
		}
		last = l.End
	}
	blank := string(blankContinuations([]byte(text), s.Literals, Options{NonStandardStrings: true}))
	theirs, err := pg_query.Scan(standardStrings(blank, s.Literals).Apply(blank))
	if err != nil {
		return // values of escapes, which this scan does not look at
	}
	var kinds []LiteralKind
	for _, tok := range significant(theirs.Tokens) {
		if k := kindOf(standardStrings(blank, s.Literals).Apply(blank), tok); k != 0 {
			kinds = append(kinds, k)
		}
	}
	var ours []LiteralKind
	for _, l := range s.Literals {
		if l.Kind == NationalString {
			l.Kind = String // to the lexer a word and a string
		}
		ours = append(ours, l.Kind)
	}
	if !slices.Equal(kinds, ours) {
		t.Fatalf("%q: %v, the lexer has %v", text, ours, kinds)
	}
}

// corpus is every line of the golden file, and a few texts more.
func corpus(t testing.TB) []string {
	data, err := os.ReadFile("testdata/scan")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, line := range strings.Split(string(data), "\n") {
		if line == "" || line[0] == ' ' || line[0] == '#' || line == "scan" || line == "scan nonstandard" || line == "----" {
			continue
		}
		out = append(out, strings.NewReplacer(`␤`, "\n", `␍`, "\r", `␋`, "\v", `␁`, "\x01").Replace(line))
	}
	return out
}

func BenchmarkScan(b *testing.B) {
	for _, text := range []string{
		"SELECT abalance FROM pgbench_accounts WHERE aid = 4711",
		"SELECT id, name, email FROM users WHERE id = 12345 AND state = 'open';",
		"UPDATE pgbench_accounts SET abalance = abalance + -4711 WHERE aid = 81234;",
		"BEGIN",
	} {
		b.Run(strings.Fields(text)[0]+fmt.Sprint(len(text)), func(b *testing.B) {
			var s Scanner
			in := []byte(text)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				s.Scan(in, Options{})
			}
		})
	}
}
