package parser

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestEdits(t *testing.T) {
	text := "SELECT é, foo(1) FROM bär"
	at := func(s string) int { return strings.Index(text, s) }
	e := Edits{}.With(
		Edit{at("bär"), at("bär") + len("bär"), "(SELECT 1)"},
		Edit{at("foo"), at("foo") + 3, "ö"},
		Edit{at("1"), at("1"), "0 + "},
	)
	edited := e.Apply(text)
	if want := "SELECT é, ö(0 + 1) FROM (SELECT 1)"; edited != want {
		t.Fatalf("got %q, want %q", edited, want)
	}
	char := func(s, sub string) int { return utf8.RuneCountInString(s[:strings.Index(s, sub)]) + 1 }
	for _, test := range []struct{ edited, client string }{
		{"SELECT", "SELECT"},
		{"é", "é"},
		{"ö", "foo"},
		{"(0", "(1"},
		{"0 + ", "1"},
		{"+ 1", "1"},
		{"1)", "1)"},
		{" FROM", " FROM"},
		{"(SELECT 1)", "bär"},
	} {
		if got, want := e.ClientPosition(text, char(edited, test.edited)), char(text, test.client); got != want {
			t.Errorf("%q: position %d, want %d (%q)", test.edited, got, want, test.client)
		}
	}
	// The end of the text, where "at end of input" points.
	if got, want := e.ClientPosition(text, utf8.RuneCountInString(edited)+1), utf8.RuneCountInString(text)+1; got != want {
		t.Errorf("end: %d, want %d", got, want)
	}
	if e.ClientPosition(text, 0) != 0 || Edits(nil).ClientPosition(text, 7) != 7 {
		t.Error("no position and no edits are not left alone")
	}
	// Bytes are mapped alike.
	for _, sub := range []string{"SELECT", "ö", "(0", "1)", " FROM", "(SELECT"} {
		back := e.clientOffset(strings.Index(edited, sub))
		want := map[string]string{"ö": "foo", "(0": "(1", "(SELECT": "bär"}[sub]
		if want == "" {
			want = sub
		}
		if !strings.HasPrefix(text[back:], want) {
			t.Errorf("%q: offset %d is %q", sub, back, text[back:])
		}
	}
}
