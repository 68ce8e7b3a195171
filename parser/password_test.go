package parser

import (
	"fmt"
	"strings"
	"testing"
)

func TestRolePasswords(t *testing.T) {
	for _, tc := range []struct {
		text string
		want string // role or <who>, password and the literal, of each
		odd  bool   // standard_conforming_strings is off
	}{
		{text: "ALTER ROLE a PASSWORD 'x'", want: `a x 'x'`},
		{text: "create user A with login encrypted password 'it''s' valid until 'infinity'", want: `a it's 'it''s'`},
		{text: "ALTER USER current_user PASSWORD $t$x$t$", want: "<CURRENT_USER> x $t$x$t$"},
		{text: "ALTER ROLE session_user VALID UNTIL '2030-01-01' PASSWORD E'a\\x62'", want: `<SESSION_USER> ab E'a\x62'`},
		{text: "ALTER ROLE current_role PASSWORD U&'d!0061t' UESCAPE '!' LOGIN", want: `<CURRENT_USER> dat U&'d!0061t' UESCAPE '!'`},
		{text: "ALTER ROLE \"password 'y'\" /* 'z' */ PASSWORD -- 'no'\n 'x'", want: `password 'y' x 'x'`},
		{text: "ALTER ROLE a PASSWORD 'x'\n  'y'", want: "a xy 'x'\n  'y'"},
		{text: "ALTER ROLE a PASSWORD 'x'; SELECT 'password'; CREATE ROLE b PASSWORD 'ü'", want: `a x 'x'; b ü 'ü'`},
		{text: "ALTER ROLE ünlü PASSWORD 'x'", want: `ünlü x 'x'`},
		{text: `ALTER ROLE a VALID UNTIL '\x61' PASSWORD '\x62'`, odd: true, want: `a b '\x62'`},
		{text: "ALTER ROLE a PASSWORD NULL"},
		{text: "ALTER ROLE a PASSWORD 'x' PASSWORD 'y'"},
		{text: "ALTER ROLE a SET work_mem = '1MB'"},
		{text: "ALTER ROLE a CONNECTION LIMIT 3"},
	} {
		found, err := RolePasswords(tc.text, Options{NonStandardStrings: tc.odd})
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		var got []string
		for _, p := range found {
			who := p.Role
			if p.Current != "" {
				who = "<" + p.Current + ">"
			}
			got = append(got, fmt.Sprintf("%s %s %s", who, p.Password, tc.text[p.Start:p.End]))
		}
		if s := strings.Join(got, "; "); s != tc.want {
			t.Errorf("%s: got %s, want %s", tc.text, s, tc.want)
		}
	}
}
