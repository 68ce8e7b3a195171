package catalog

import "testing"

func TestCarried(t *testing.T) {
	plpgsql := func(body string) string {
		return "CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $f$ " + body + " $f$"
	}
	for _, c := range []struct{ text, want string }{
		{plpgsql("begin perform pg_notify('a', 'b'); end"), plpgsql("begin perform weft.pg_notify('a', 'b'); end")},
		{plpgsql(`begin perform pg_catalog.PG_Notify ('a', 'b'), "pg_catalog"."pg_notify"('c', 'd'); end`), plpgsql(`begin perform weft.pg_notify ('a', 'b'), weft.pg_notify('c', 'd'); end`)},
		{plpgsql("begin perform my.pg_notify('a', 'b'); -- pg_notify('x')\n raise 'pg_notify(no)'; end"), ""},
		{plpgsql("begin perform weft.pg_notify('a', 'b'); end"), ""},
		{plpgsql("begin notify News, 'it''s'; if true then NOTIFY \"a 'b\"; end if; end"), plpgsql("begin PERFORM weft.pg_notify('news', 'it''s'); if true then PERFORM weft.pg_notify('a ''b', ''); end if; end")},
		{plpgsql("declare notify int; begin notify := 3; end"), ""},
		{plpgsql("begin execute 'notify x'; end"), ""},
		{"CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'NOTIFY x, ''y'''", "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$SELECT weft.pg_notify('x', 'y')$$"},
		{"CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ select pg_notify('x', $1) $$", "CREATE FUNCTION f() RETURNS void LANGUAGE sql AS $$ select weft.pg_notify('x', $1) $$"},
		{"CREATE FUNCTION f() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT pg_notify('x'::text, 'y'::text); END", "CREATE FUNCTION f() RETURNS void LANGUAGE sql BEGIN ATOMIC SELECT weft.pg_notify('x'::text, 'y'::text); END"},
		{"CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$ select 'notify' $$", ""},
		{"CREATE FUNCTION pg_notify() RETURNS text LANGUAGE sql AS $$ select 'x' $$", ""},
		{"ALTER FUNCTION pg_notify() OWNER TO x", ""},
		{"CREATE TABLE notify (x int)", ""},
	} {
		want := c.want
		if want == "" {
			want = c.text
		}
		got := Carried(c.text)
		if got != want {
			t.Errorf("%s\n became %s\n wanted %s", c.text, got, want)
		}
		if again := Carried(got); again != got {
			t.Errorf("%s\n became %s the second time", got, again)
		}
	}
}
