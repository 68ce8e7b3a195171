package parser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestScanAgreesWithServer: where pg_query's lexer cannot be asked, a server can. Each text selects nothing but literals, so
// the columns of the result are the literals.
func TestScanAgreesWithServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv := pgtest.Start(t, pgserver.Config{})
	conn, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())

	for _, test := range []struct {
		text        string
		nonstandard bool
		want        []string // nil: the server refuses it, and so must the scan
	}{
		{"SELECT 'a' -- c\n 'b'", false, []string{"ab"}},
		{"SELECT 'a' -- c\n-- d\r 'b', E'\\''\n'\\''", false, []string{"ab", "''"}},
		{"SELECT 'a' /* c */\n 'b'", false, nil},
		{"SELECT 'a\\', 'b'", false, []string{`a\`, "b"}},
		{"SELECT 'a\\', 'b'", true, nil},
		{"SELECT 'a\\', 'b', 'c'", true, nil},
		{`SELECT 'a\'b', N'c\'d', 'e\\', 'f'`, true, []string{"a'b", "c'd", `e\`, "f"}},
		{"SELECT 'a\\'' -- it's\n'\\'b', $$\\$$, E'\\\\'", true, []string{"a''b", `\`, `\`}},
		{"SELECT 'a''\\'b'", true, []string{"a''b"}},
		{"SELECT U&'a'", true, nil},
		{"SELECT U&'a', u&'\\0062'", false, []string{"a", "b"}},
		{"SELECT B'1', X'F', 1.5, .5, 1e3, 2147483648, $a$b$$c$a$", false, []string{"1", "1111", "1.5", "0.5", "1000", "2147483648", "b$$c"}},
		{"SELECT 1a", false, nil},
		{"SELECT 'a", false, nil},
	} {
		setting := map[bool]string{false: "on", true: "off"}[test.nonstandard]
		opt := Options{NonStandardStrings: test.nonstandard}
		mustExec(t, ctx, conn, "SET escape_string_warning = off; SET standard_conforming_strings = "+setting)
		var s Scanner
		ok := s.Scan([]byte(test.text), opt)
		results, err := conn.PgConn().Exec(ctx, test.text).ReadAll()
		if test.want == nil {
			if err == nil {
				t.Errorf("%q (%s): the server accepts it", test.text, setting)
			}
			if f := parseFacts(test.text, opt); f.Err == nil && ok {
				t.Errorf("%q (%s): scanned and parsed, the server says %v", test.text, setting, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q (%s): %v", test.text, setting, err)
			continue
		}
		var got []string
		for _, v := range results[0].Rows[0] {
			got = append(got, string(v))
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) || !ok || len(s.Literals) != len(got) {
			t.Errorf("%q (%s): the server has %q, the scan %v, want %q", test.text, setting, got, s.Literals, test.want)
		}
		if f := parseFacts(test.text, opt); f.Err != nil || f.Effects != 0 {
			t.Errorf("%q (%s): %v, %v", test.text, setting, f.Err, f.Effects)
		}
	}
}
