package parser

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestValuesAgreeWithServer asks a server what random strings stand for, under both settings.
func TestValuesAgreeWithServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv := pgtest.Start(t, pgserver.Config{})
	conn, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	r := rand.New(rand.NewPCG(3, 9))
	pieces := []string{
		"a", "é", " ", "--", "/*", "''", `\\`, `\'`, `\n`, `\t`, `\b`, `\f`, `\r`, `\q`, `\"`, `\x41`, `\x4`, `\x4g`, `\x`, `\7`, `\101`,
		`\1011`, `\u0041`, `\v`, `\xc3\xa9`, "$$", "\"", "'\n'", "' -- it's\n  '", "' \n\n '",
	}
	for _, nonstandard := range []bool{false, true} {
		opt := Options{NonStandardStrings: nonstandard}
		mustExec(t, ctx, conn, fmt.Sprintf("SET escape_string_warning = off; SET standard_conforming_strings = %v", !nonstandard))
		decided, refused := 0, 0
		for range 3000 {
			var b strings.Builder
			for range r.IntN(6) {
				b.WriteString(pieces[r.IntN(len(pieces))])
			}
			literal := []string{"'%s'", "E'%s'", "e'%s'", "$$%s$$", "$a$%s$a$"}[r.IntN(5)]
			text := "SELECT " + fmt.Sprintf(literal, b.String()) + "::text"
			var s Scanner
			if !s.Scan([]byte(text), opt) || len(s.Literals) != 1 {
				continue
			}
			got, ok := s.Literals[0].AppendValue([]byte("before"), []byte(text), opt)
			results, err := conn.PgConn().Exec(ctx, text).ReadAll()
			switch {
			case err != nil:
				refused++
			case ok:
				decided++
				if want := "before" + string(results[0].Rows[0][0]); string(got) != want {
					t.Errorf("%q (%v): %q, the server says %q", text, nonstandard, got, want)
				}
			}
		}
		if decided < 1000 || refused > 1000 {
			t.Errorf("only %d were decided, %d refused by the server", decided, refused)
		}
	}
}

func TestValueOfNoString(t *testing.T) {
	for _, text := range []string{"1", "1.5", "B'1'", "X'1'", "U&'a'"} {
		var s Scanner
		s.Scan([]byte(text), Options{})
		if _, ok := s.Literals[0].AppendValue(nil, []byte(text), Options{}); ok {
			t.Errorf("%s has a value", text)
		}
	}
}

// TestPlace: a place in the Norm is found again in every text of that Norm.
func TestPlace(t *testing.T) {
	texts := []string{
		`INSERT INTO "a--b" ("c/*""d") VALUES (1, 'x' , DEFAULT) -- end`,
		`INSERT INTO "a--b" ("c/*""d") VALUES (1234, 'it''s' , DEFAULT) -- another "end'`,
		`INSERT/* 1 /* 2 */ */INTO "a--b" ("c/*""d") VALUES (7, $$--$$ , DEFAULT)/* " */--`,
	}
	norm := ""
	for _, text := range texts {
		var s Scanner
		if !s.Scan([]byte(text), Options{}) {
			t.Fatal(text)
		}
		if norm != "" && norm != string(s.Norm) {
			t.Fatalf("%q has the norm %q, want %q", text, s.Norm, norm)
		}
		norm = string(s.Norm)
		literal, offset := -1, 0
		for i := 0; i <= len(norm); i++ {
			at, ok := Place([]byte(text), s.Literals, literal, offset)
			if !ok {
				t.Fatalf("%s: nothing at %d after literal %d", text, offset, literal)
			}
			// What follows the place has the rest of the norm.
			if inIdent := strings.Count(norm[:i], `"`)%2 == 1; !inIdent {
				var rest Scanner
				if !rest.Scan([]byte(text[at:]), Options{}) || string(rest.Norm) != norm[i:] {
					t.Fatalf("%s: %d after literal %d is at %q, want %q", text, offset, literal, text[at:], norm[i:])
				}
			}
			offset++
			if i < len(norm) && isMarker(norm[i]) {
				literal, offset = literal+1, 0
			}
		}
		if _, ok := Place([]byte(text), s.Literals, len(s.Literals)-1, 1000); ok {
			t.Error("a place beyond the end")
		}
		if _, ok := Place([]byte(text), s.Literals, 99, 0); ok {
			t.Error("a place after a literal that is not there")
		}
	}
}
