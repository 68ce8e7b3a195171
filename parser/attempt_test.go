package parser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// attemptText is what Sequelize's findOrCreate sends.
const attemptText = `CREATE OR REPLACE FUNCTION pg_temp.testfunc(OUT response "users", OUT sequelize_caught_exception text) RETURNS RECORD AS $func_1$ ` +
	`BEGIN INSERT INTO "users" ("id","email") VALUES (5001,'it''s; (5001') RETURNING * INTO response; ` +
	`EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS sequelize_caught_exception = PG_EXCEPTION_DETAIL; END $func_1$ LANGUAGE plpgsql; ` +
	`SELECT (testfunc.response)."id", (testfunc.response)."email", testfunc.sequelize_caught_exception FROM pg_temp.testfunc(); DROP FUNCTION IF EXISTS pg_temp.testfunc();`

func TestAttempt(t *testing.T) {
	a, ok := ReadAttempt(attemptText, Options{})
	if !ok {
		t.Fatal("not read")
	}
	if want := `INSERT INTO "users" ("id","email") VALUES (5001,'it''s; (5001') RETURNING * `; a.Insert != want {
		t.Errorf("the INSERT is %s", a.Insert)
	}
	if a.Whole != "response" || a.Into != nil || a.Told["sequelize_caught_exception"] != 'D' || !a.Catches("23505") || a.Catches("23503") {
		t.Errorf("%+v", a)
	}
	want := ` SELECT (testfunc.response)."id", (testfunc.response)."email", testfunc.sequelize_caught_exception ` +
		`FROM (SELECT '(1)'::users AS "response", NULL::text AS "sequelize_caught_exception") AS "testfunc"`
	if got := a.Answer(map[string]string{"response": "'(1)'"}); got != want {
		t.Errorf("the answer is %s", got)
	}
}

// attempt writes such a text.
func attempt(parameters, body, query string) string {
	return fmt.Sprintf("CREATE FUNCTION pg_temp.f(%s) AS $$%s$$ LANGUAGE plpgsql; %s; DROP FUNCTION pg_temp.f()", parameters, body, query)
}

func TestAttempts(t *testing.T) {
	const out, query = `OUT a "T Y"[], OUT B numeric(10,2)`, "SELECT x.* FROM pg_temp.f() AS x WHERE true"
	for _, test := range []struct{ text, into, caught, told string }{
		{attempt(out, "BEGIN INSERT INTO t VALUES (1) RETURNING i, upper(j) INTO b, a; END;", query), "b a", "", ""},
		{attempt(out, "begin insert into t select 1; exception when check_violation or Foreign_Key_Violation then null; end", query), "", "23514 23503", ""},
		{attempt(out, `BEGIN INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING; -- why
			EXCEPTION WHEN integrity_constraint_violation THEN GET STACKED DIAGNOSTICS "a" := RETURNED_SQLSTATE, b = MESSAGE_TEXT; END`, query), "", "23", "a=C b=M"},
	} {
		a, ok := ReadAttempt(test.text, Options{})
		if !ok {
			t.Errorf("not read: %s", test.text)
			continue
		}
		var told []string
		for name, field := range a.Told {
			told = append(told, name+"="+string(field))
		}
		slices.Sort(told)
		if strings.Join(a.Into, " ") != test.into || strings.Join(a.Caught, " ") != test.caught || strings.Join(told, " ") != test.told || a.Whole != "" {
			t.Errorf("%s\n%+v", test.text, a)
		}
		if got := a.Answer(map[string]string{"b": "'1'"}); !strings.HasSuffix(got, ` FROM (SELECT NULL::"T Y"[] AS "a", '1'::numeric(10, 2) AS "b") AS x WHERE true`) {
			t.Errorf("the answer is %s", got)
		}
	}
	const good = "BEGIN INSERT INTO t VALUES (1); END"
	for _, text := range []string{
		"SELECT 1; SELECT 2; SELECT 3",
		attempt("OUT a int", good, query),
		attempt("IN a int, OUT b int", good, query),
		attempt("OUT a t.x%TYPE, OUT b int", good, query),
		attempt(out, good, "SELECT 1"),
		attempt(out, good, "SELECT * FROM pg_temp.g()"),
		attempt(out, good, "SELECT * FROM pg_temp.f(), t"),
		attempt(out, good, "SELECT pg_temp.f(), * FROM pg_temp.f()"),
		attempt(out, good, "SELECT * FROM pg_temp.f() WITH ORDINALITY"),
		attempt(out, good, "INSERT INTO t SELECT * FROM pg_temp.f()"),
		strings.ReplaceAll(attempt(out, good, query), "DROP FUNCTION pg_temp.f()", "SELECT 1"),
		strings.ReplaceAll(attempt(out, good, query), "LANGUAGE plpgsql", "LANGUAGE plpgsql SECURITY DEFINER"),
		strings.ReplaceAll(attempt(out, good, query), "pg_temp.", "public."),
		attempt(out, "BEGIN UPDATE t SET i = 1; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (b); END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES ($1); END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1) RETURNING *; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1) RETURNING * INTO a, b; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1) RETURNING * INTO STRICT a; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1) RETURNING i INTO c; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN others THEN NULL; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN unique_violation THEN RAISE; END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1); EXCEPTION WHEN unique_violation THEN DELETE FROM t; END", query),
		attempt(out, "DECLARE c int; BEGIN INSERT INTO t VALUES (1); END", query),
		attempt(out, "BEGIN INSERT INTO t VALUES (1)", query),
	} {
		if a, ok := ReadAttempt(text, Options{}); ok {
			t.Errorf("read: %s\n%+v", text, a)
		}
	}
}
