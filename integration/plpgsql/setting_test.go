package plpgsql

import (
	"fmt"
	"strings"
	"testing"

	"weft/integration/harness"

	"weft/config"
)

// settings are routines with SET clauses.
const settings = `
CREATE SCHEMA s1;
CREATE SCHEMA s2;
CREATE TYPE s1.y AS (p int, q text);
CREATE TYPE s2.y AS (q text, p int);
CREATE FUNCTION s1.two() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 21 $$;
CREATE FUNCTION s2.two() RETURNS int LANGUAGE sql IMMUTABLE AS $$ SELECT 22 $$;
CREATE FUNCTION nowhere(k int) RETURNS text LANGUAGE plpgsql SET search_path = '' AS $$ BEGIN RETURN current_setting('search_path') || (SELECT count(*) FROM public.t WHERE a > k); END $$;
CREATE FUNCTION unfound(k int) RETURNS bigint LANGUAGE plpgsql SET search_path = '' AS $$ BEGIN RETURN (SELECT count(*) FROM t WHERE a > k); END $$;
CREATE FUNCTION tuned() RETURNS text LANGUAGE plpgsql SET work_mem = '1234kB' SET app.tenant = 'it''s' AS $$ BEGIN RETURN current_setting('work_mem') || current_setting('app.tenant') || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION inner1(k int) RETURNS text LANGUAGE plpgsql SET search_path = s1, public AS $$ DECLARE v y; BEGIN SELECT k, b INTO v FROM t WHERE a = k; RETURN v::text || two(); END $$;
CREATE FUNCTION inner2(k int) RETURNS text LANGUAGE plpgsql SET search_path = s2, public AS $$ DECLARE v y; x text; BEGIN SELECT b, k INTO v FROM t WHERE a = k; x := inner1(k); RETURN v::text || x || two() || current_setting('search_path'); END $$;
CREATE FUNCTION takes(v s1.y, w int DEFAULT s1.two()) RETURNS text LANGUAGE plpgsql SET search_path = s2, public AS $$ BEGIN RETURN (v).q || w || two() || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION fails(k int) RETURNS int LANGUAGE plpgsql SET search_path = s1, public SET app.tenant = 'x' AS $$ BEGIN UPDATE t SET b = 'fails' || two() WHERE a > k; IF k = 0 THEN RAISE division_by_zero; END IF; RETURN two(); END $$;
CREATE FUNCTION catches(k int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN SET LOCAL search_path = s2, public; BEGIN r := fails(k); EXCEPTION WHEN division_by_zero THEN r := 'caught'; END; RETURN r || two() || current_setting('search_path') || coalesce(current_setting('app.tenant', true), ''); END $$;
CREATE FUNCTION local() RETURNS text LANGUAGE plpgsql SET app.tenant = 'x' AS $$ BEGIN SET LOCAL app.tenant = 'y'; PERFORM set_config('app.other', 'z', true); RETURN current_setting('app.tenant') || (SELECT count(*) FROM t); END $$;
CREATE FUNCTION keeps() RETURNS int LANGUAGE plpgsql SET app.tenant = 'x' AS $$ BEGIN SET app.tenant = 'y'; RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION helper() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET app.tenant = 'h'; END $$;
CREATE FUNCTION keeps_below() RETURNS int LANGUAGE plpgsql SET app.tenant = 'x' AS $$ BEGIN PERFORM helper(); RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION zoned() RETURNS int LANGUAGE plpgsql SET timezone = 'Asia/Tokyo' AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION sets_role() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ DECLARE n int; BEGIN n := (SELECT count(*) FROM t); BEGIN SET LOCAL ROLE pg_monitor; EXCEPTION WHEN insufficient_privilege THEN RAISE NOTICE '%', SQLERRM; END; EXECUTE 'RESET ROLE'; RETURN n; END $$;
CREATE FUNCTION sql_path(k int) RETURNS TABLE (n int, w text) LANGUAGE sql SET search_path = s2, public AS $$ UPDATE t SET b = b || two() WHERE a > k; SELECT a, b FROM t WHERE a > k ORDER BY a $$;
CREATE PROCEDURE commits() LANGUAGE plpgsql SET app.tenant = 'x' AS $$ BEGIN INSERT INTO t VALUES (400, 'c', 1); COMMIT; END $$;
CREATE PROCEDURE commits_below() LANGUAGE plpgsql SET app.tenant = 'x' AS $$ BEGIN INSERT INTO t VALUES (401, 'c', 1); CALL halves(); END $$;
CREATE PROCEDURE definer_commits() LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO t VALUES (402, 'c', 1); ROLLBACK; END $$;
CREATE PROCEDURE halves() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 200..203 LOOP INSERT INTO t VALUES (i, 'h', 1); COMMIT; END LOOP; END $$;
CREATE PROCEDURE stays(INOUT n int) LANGUAGE plpgsql SET search_path = s1, public AS $$ BEGIN UPDATE t SET b = two(); GET DIAGNOSTICS n = ROW_COUNT; END $$;
`

// TestSettings: a routine with SET clauses has these settings, and nothing else has them: not its arguments, not what follows, not what follows an error.
func TestSettings(t *testing.T) {
	w := newWorld(t, "plpgsql_settings")
	for _, sql := range strings.Split(strings.TrimSpace(settings), "\n") {
		w.both(t, sql)
	}
	w.fill(t)
	// seen is what the routines change: after each of them it must be what it was.
	const seen = "SELECT current_setting('search_path'), current_setting('work_mem'), coalesce(current_setting('app.tenant', true), ''), current_user, to_regproc('two')"
	for _, sql := range []string{
		"SELECT nowhere(3)", "SELECT unfound(3)", "SELECT * FROM tuned()", "SELECT inner1(3)", "SELECT inner2(3)", "SELECT takes((1, 'arg'))", "SELECT takes((1, 'arg'), two())",
		"SELECT fails(0)", "SELECT fails(7)", "SELECT catches(0)", "SELECT catches(7)", "SELECT local()", "SELECT sets_role()", "SELECT * FROM sql_path(9)", "CALL commits()", "CALL commits_below()",
		"CALL definer_commits()", "CALL stays(0)", "DO $$ DECLARE n int; x text; BEGIN DELETE FROM t WHERE a >= 200; CALL stays(n); x := inner2(4); RAISE NOTICE '% %', n, x; CALL halves(); END $$",
	} {
		for _, texts := range [][]string{
			{sql, seen},
			{"BEGIN", "SET LOCAL search_path = s1, public", "SET LOCAL app.tenant = 'mine'", "SET work_mem = '777kB'", sql, seen, "COMMIT", seen},
			{"SET search_path = s1, public", "BEGIN", "SELECT count(*) FROM t WHERE a = 1", "SAVEPOINT p", sql, "ROLLBACK TO p", seen, sql, "ROLLBACK", "RESET search_path", seen},
		} {
			w.answers(t, texts...)
		}
		if want, got := w.plain.ask(sql, 0, nil), w.weft.ask(sql, 0, nil); want != got {
			t.Errorf("%s\nPostgreSQL: %s\nweft:       %s", sql, want, got)
		}
		w.same(t, seen)
	}
	for sql, hint := range map[string]string{
		"SELECT keeps()": "Use SET LOCAL", "SELECT keeps_below()": "SET LOCAL", "SELECT zoned()": "SET it before",
	} {
		if got := w.weft.simple(sql); !strings.HasPrefix(got, "ERROR|0A000|") || !strings.Contains(got, hint) {
			t.Errorf("%s: %s", sql, got)
		}
		w.same(t, seen)
	}
}

// TestDefiner: no routine of weft runs with other rights than those of the user who calls it.
func TestDefiner(t *testing.T) {
	w := newWorld(t, "plpgsql_definer")
	w.fill(t)
	w.both(t, "CREATE FUNCTION counted() RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$")
	role := "plpgsql_caller"
	w.both(t, "DROP ROLE IF EXISTS "+role)
	w.both(t, "CREATE ROLE "+role)
	defer w.both(t, "DROP ROLE "+role)
	other := connect(t, harness.StartWeft(t, func(*config.Config) {}), w.database)
	for _, p := range []*peer{w.weft, other} {
		if got := p.simple("BEGIN; SET LOCAL ROLE " + role + "; SELECT counted(); COMMIT"); !strings.Contains(got, "ERROR|0A000|") || !strings.Contains(got, "rights of its owner") {
			t.Error(got)
		}
		p.simple("ROLLBACK")
		if got := p.simple("SELECT counted()"); !strings.Contains(got, fmt.Sprintf("%q", "12")) {
			t.Error(got)
		}
	}
}
