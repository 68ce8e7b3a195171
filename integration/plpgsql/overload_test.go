package plpgsql

import (
	"strings"
	"testing"

	"weft/integration/harness"

	"weft/config"
)

// overloads are routines that only their arguments tell apart.
const overloads = `
CREATE FUNCTION f(k int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'int ' || (SELECT count(*) FROM t WHERE a > k); END $$;
CREATE FUNCTION f(k text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'text ' || (SELECT count(*) FROM t WHERE b > k); END $$;
CREATE FUNCTION f(k int, w text DEFAULT 'none') RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'int, text ' || (SELECT count(*) FROM t WHERE a > k) || w; END $$;
CREATE FUNCTION f(k numeric, w numeric) RETURNS text LANGUAGE sql AS $$ SELECT 'numerics ' || count(*) FROM t WHERE a > k $$;
CREATE FUNCTION g(k bigint) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'bigint ' || (SELECT count(*) FROM t WHERE a > k); END $$;
CREATE FUNCTION g(k text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'text ' || (SELECT count(*) FROM t WHERE b > k); END $$;
CREATE FUNCTION g(k date, n int DEFAULT 1 + 1) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'date ' || k || n || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION g(k anyelement, z boolean) RETURNS text LANGUAGE sql AS $$ SELECT 'any' $$;
CREATE FUNCTION n(k float8) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'float8 ' || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION n(k numeric) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'numeric ' || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION many(lo int, VARIADIC list int[] DEFAULT '{7}') RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN lo || list::text || (SELECT count(*) FROM t WHERE a = ANY (list)); END $$;
CREATE FUNCTION named(one int, two text DEFAULT 'second', three numeric DEFAULT 1.50) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN one || two || three || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION padded(c char, v varchar(3), z "char", y bit) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN c || v || z::text || y::text || (SELECT count(*) FROM t); END $$;
CREATE PROCEDURE p(k int, INOUT n int) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'p int' WHERE a > k; GET DIAGNOSTICS n = ROW_COUNT; END $$;
CREATE PROCEDURE p(k text, INOUT n int) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'p text' WHERE b > k; GET DIAGNOSTICS n = ROW_COUNT; END $$;
CREATE PROCEDURE q(a int, OUT x int, OUT y text, b int DEFAULT 5) LANGUAGE plpgsql AS $$ BEGIN SELECT count(*) INTO x FROM t WHERE t.a > q.a; y := 'y' || b; END $$;
CREATE SCHEMA other;
CREATE FUNCTION other.f(k int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'other ' || (SELECT count(*) FROM public.t); END $$;
CREATE DOMAIN small AS int CHECK (VALUE < 100);
CREATE FUNCTION d(k small) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'small ' || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION d(k int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN 'int ' || (SELECT count(*) FROM t); END $$;
`

// TestOverloads: the routine that is run is the one that PostgreSQL finds for the arguments, with the values that it gives them.
func TestOverloads(t *testing.T) {
	w := newWorld(t, "plpgsql_overloads")
	for _, sql := range strings.Split(strings.TrimSpace(overloads), "\n") {
		w.both(t, sql)
	}
	w.fill(t)
	second := connect(t, harness.StartWeft(t, func(*config.Config) {}), w.database)
	for i, texts := range [][]string{
		{"SELECT f('b3')"},
		{"SELECT f('b3'::text)"},
		{"SELECT f(3, 'x')"},
		{"SELECT f(3, 'x'::varchar)"},
		{"SELECT f(3, 4)"},
		{"SELECT f(3.5, 4)"},
		{"SELECT f(w => 4, k => 3.5)"},
		{"SELECT f(3, w => 'named')"},
		{"SELECT f(k => 3)"},
		{"SELECT f(3)"},
		{"SELECT f(3, 4, 5)"},
		{"SELECT f(NULL)"},
		{"SELECT f(NULL, NULL)"},
		{"SELECT * FROM f(3, 'x') AS z"},
		{"SELECT other.f(3)"},
		{"BEGIN", "SET LOCAL search_path = other, public", "SELECT f('b3')", "SELECT f(3, 'x')", "COMMIT"},
		{"SELECT g(3)"},
		{"SELECT g(3::smallint)"},
		{"SELECT g(3::numeric)"},
		{"SELECT g('b3')"},
		{"SELECT g('b3'::varchar)"},
		{"SELECT g(date '2020-02-02')"},
		{"SELECT g('2020-02-02', 4)"},
		{"SELECT g(n => 3, k => '2020-02-02')"},
		{"SELECT n(3.5)"},
		{"SELECT n(3.5::float8)"},
		{"SELECT many(1)"},
		{"SELECT many(1, 2, 3, 4)"},
		{"SELECT many(1, 2 + 1)"},
		{"SELECT many(1, '2')"},
		{"SELECT many(1, NULL, 3)"},
		{"SELECT many(1, VARIADIC ARRAY[2, 3])"},
		{"SELECT many(1, VARIADIC '{2,3}')"},
		{"SELECT many(1, VARIADIC list => ARRAY[5])"},
		{"SELECT many(lo => 1)"},
		{"SELECT many(1, ARRAY[2, 3])"},
		{"SELECT named(1)"},
		{"SELECT named(three => 2, one => 1)"},
		{"SELECT named(1, three => 2)"},
		{"SELECT named(1, one => 2)"},
		{"SELECT named(two => 'only')"},
		{"SELECT named(one => 1, four => 2)"},
		{"SELECT padded('abc', 'defgh', 'ijk', B'101')"},
		{"CALL p(3, 0)"},
		{"CALL p('b3', 0)"},
		{"CALL p(n => 0, k => 'b3')"},
		{"CALL p('b3'::text, n => 0)"},
		{"CALL q(3, NULL, NULL, 4)"},
		{"CALL q(3, x => NULL, y => NULL)"},
		{"DO $$ DECLARE m int; BEGIN CALL p(3, m); RAISE NOTICE '%', m; CALL p('b3', m); RAISE NOTICE '%', m; CALL p(n => m, k => 5); RAISE NOTICE '%', m; END $$"},
		{"DO $$ DECLARE m int; w text; BEGIN CALL q(y => w, x => m, a => 2); RAISE NOTICE '% %', m, w; CALL q(3, m, w, 9); RAISE NOTICE '% %', m, w; END $$"},
		{"DO $$ DECLARE v text; BEGIN v := f(3, 'in'); RAISE NOTICE '%', v; v := many(1, 2, 3); RAISE NOTICE '%', v; v := named(three => 3, one => 1); RAISE NOTICE '%', v; END $$"},
		{"PREPARE s (text) AS SELECT g($1)", "EXECUTE s ('b3')", "DEALLOCATE s"},
		{"PREPARE s AS SELECT g($1, $2)", "EXECUTE s ('2020-02-02', 4)", "DEALLOCATE s"},
	} {
		for _, sql := range texts {
			peers := []*peer{w.weft}
			if len(texts) == 1 && i%4 == 0 && !strings.HasPrefix(sql, "CALL") && !strings.HasPrefix(sql, "DO") {
				peers = append(peers, second)
			}
			want := w.plain.simple(sql)
			for _, p := range peers {
				if got := p.simple(sql); got != want {
					t.Errorf("%s\nPostgreSQL: %s\nweft:       %s", sql, want, got)
				}
			}
		}
	}
	for _, tc := range []struct {
		sql  string
		oids []uint32
		args []string
	}{
		{"SELECT f($1)", nil, []string{"b3"}},
		{"SELECT f($1)", []uint32{25}, []string{"b3"}},
		{"SELECT f($1, $2)", []uint32{23, 0}, []string{"3", "x"}},
		{"SELECT f($1, $2)", []uint32{1700, 0}, []string{"3", "4"}},
		{"SELECT f($1, 'x')", nil, []string{"3"}},
		{"SELECT f(w => $2, k => $1)", []uint32{23, 25}, []string{"3", "x"}},
		{"SELECT g($1)", nil, []string{"b3"}},
		{"SELECT g($1)", []uint32{21}, []string{"3"}},
		{"SELECT g($1::int)", nil, []string{"3"}},
		{"SELECT many($1, $2, $3)", nil, []string{"1", "2", "3"}},
		{"SELECT many($1, VARIADIC $2)", nil, []string{"1", "{2,3}"}},
		{"SELECT * FROM named(three => $1, one => $2)", nil, []string{"1.20", "2"}},
		{"CALL p($1, $2)", []uint32{23, 23}, []string{"3", "0"}},
		{"CALL p($1, $2)", []uint32{25}, []string{"b3", "0"}},
	} {
		for format := range int16(2) {
			if want, got := w.plain.ask(tc.sql, format, tc.oids, tc.args...), w.weft.ask(tc.sql, format, tc.oids, tc.args...); want != got {
				t.Errorf("%s %d\nPostgreSQL: %s\nweft:       %s", tc.sql, format, want, got)
			}
		}
	}
	w.sameTables(t)
	for sql, hint := range map[string]string{
		"SELECT n(3)": "Cast the arguments", "SELECT d(3)": "Cast the arguments", "SELECT d(3::small)": "Cast the arguments", "SELECT g(3, true)": "with the types",
	} {
		if got := w.weft.simple(sql); !strings.HasPrefix(got, "ERROR|0A000|") || !strings.Contains(got, hint) {
			t.Errorf("%s: %s", sql, got)
		}
	}
}
