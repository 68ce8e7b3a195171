package plpgsql

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
)

// inlined are functions in SQL that stand inside statements.
const inlined = `
CREATE FUNCTION i_name(k int) RETURNS text LANGUAGE sql STABLE AS $$ SELECT b FROM t WHERE a = k $$;
CREATE FUNCTION i_vol(k int) RETURNS text LANGUAGE sql AS $$ SELECT b FROM t WHERE a = k $$;
CREATE FUNCTION i_over(k int) RETURNS SETOF t LANGUAGE sql STABLE AS $$ SELECT * FROM t WHERE a > k $$;
CREATE FUNCTION i_n(k int) RETURNS int LANGUAGE sql STABLE AS $$ SELECT n FROM u WHERE id = k $$;
CREATE FUNCTION i_private(k int) RETURNS text LANGUAGE sql STABLE AS $$ SELECT b FROM t WHERE a = k $$;
CREATE FUNCTION i_owned(k int) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public AS $$ SELECT b FROM t WHERE a = k $$;
CREATE VIEW i_view AS SELECT id, i_name(id) AS name FROM u;
REVOKE ALL ON FUNCTION i_private(int) FROM PUBLIC
`

// TestInlined: functions in SQL inside statements that write, in blocks, for other roles, and after they have changed.
func TestInlined(t *testing.T) {
	w := newWorld(t, "plpgsql_inlined")
	for _, sql := range strings.Split(strings.TrimSpace(inlined), ";\n") {
		w.both(t, sql)
	}
	for _, p := range []*peer{w.plain, w.weft} {
		p.simple("CREATE ROLE inline_reader")
	}
	w.both(t, "GRANT SELECT ON t, u, i_view TO inline_reader")
	for _, texts := range [][]string{
		{"UPDATE u SET v = i_name(id) WHERE id < 5"},
		{"UPDATE u SET v = i_name(3) WHERE id = 3", "UPDATE u SET v = i_vol(4) WHERE id = 4", "UPDATE t SET b = 'x' || i_vol(a) WHERE a = 5"},
		{"UPDATE t SET b = b || '!' WHERE i_n(a) > 5"},
		{"UPDATE u SET n = n + 1 WHERE id IN (SELECT a FROM i_over(7))"},
		{"DELETE FROM u USING i_over(9) x WHERE x.a = u.id"},
		{"INSERT INTO u SELECT a + 100, 'i', i_n(a) FROM t WHERE a < 4"},
		{"INSERT INTO u SELECT a + 200, left(b, 5), 1 FROM i_over(10)"},
		{"INSERT INTO u VALUES (300, i_name(2), i_n(3))"},
		{"INSERT INTO h SELECT id + 10, name FROM i_view WHERE id > 8"},
		{"BEGIN", "UPDATE t SET b = 'new' WHERE a = 3", "SELECT id, i_name(id) FROM u WHERE id < 6 ORDER BY id", "SELECT i_vol(3)", "ROLLBACK"},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM i_over(3)", "SELECT max(name) FROM i_view", "COMMIT"},
		{"BEGIN", "DECLARE c CURSOR FOR SELECT id, i_name(id) FROM u ORDER BY id", "FETCH 3 FROM c", "COMMIT"},
		{"CREATE TEMP TABLE kept AS SELECT id, i_name(id) AS name FROM u", "SELECT * FROM kept ORDER BY 1", "DROP TABLE kept"},
		{"COPY (SELECT id, i_name(id) FROM u WHERE id = 3) TO STDOUT"},
		{"SET ROLE inline_reader", "SELECT id, i_name(id) FROM u ORDER BY id", "SELECT id, i_private(id) FROM u", "SELECT i_private(3)", "SELECT * FROM i_view ORDER BY 1", "RESET ROLE"},
		{"SELECT i_owned(3)", "SELECT id, i_owned(id) FROM u WHERE id = 3"},
		{"PREPARE p (int) AS SELECT id, i_name(id) FROM u WHERE n > $1 ORDER BY id", "EXECUTE p (9)", "EXECUTE p (11)", "DEALLOCATE p"},
		{"DO $$ DECLARE x text; BEGIN SELECT string_agg(i_name(id), ',' ORDER BY id) INTO x FROM u; RAISE NOTICE '%', x; END $$"},
		{"SELECT id, i_name(id) FROM u WHERE id = 3; SELECT i_name(4)"},
	} {
		t.Run(texts[len(texts)-1], func(t *testing.T) {
			w.fill(t)
			w.same(t, texts...)
		})
	}
	w.fill(t)
	for sql, hint := range map[string]string{
		"UPDATE u SET v = i_vol(id)":                             "STABLE",
		"SELECT i_vol(id) FROM u FOR UPDATE":                     "STABLE",
		"SELECT i_vol(id), pg_sleep(0) FROM u":                   "STABLE",
		"SELECT i_owned(id) FROM u":                              "SECURITY INVOKER",
		"SELECT i_over(id) FROM u":                               "call it in FROM",
		"SELECT id, x FROM u, i_over(id) WITH ORDINALITY x":      "WITH ORDINALITY",
		"CREATE MATERIALIZED VIEW m AS SELECT i_name(id) FROM u": "",
	} {
		if got := w.weft.simple(sql); !strings.HasPrefix(got, "ERROR|0A000|") || !strings.Contains(got, hint) {
			t.Errorf("%s: %s", sql, got)
		}
	}
}

// TestInlinedChanged: a statement that is prepared sees the new body of a function that another proxy has replaced.
func TestInlinedChanged(t *testing.T) {
	w := newWorld(t, "plpgsql_inlined_changed")
	for _, sql := range strings.Split(strings.TrimSpace(inlined), ";\n") {
		w.both(t, sql)
	}
	w.fill(t)
	other := connect(t, harness.StartWeft(t, func(*config.Config) {}), w.database)
	const sql = "SELECT id, i_name(id) FROM u WHERE id <= $1 ORDER BY id"
	ctx, stop := patience()
	defer stop()
	ask := func(p *peer) string {
		return p.answer(p.conn.ExecPrepared(ctx, "s", [][]byte{[]byte("3")}, nil, nil))
	}
	for _, p := range []*peer{w.plain, w.weft} {
		if _, err := p.conn.Prepare(ctx, "s", sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, body := range []string{"SELECT upper(b) FROM t WHERE a = k", "SELECT 'k' || k", "SELECT b FROM t WHERE a = k + 1", "SELECT v FROM u WHERE id = k"} {
		if want, got := ask(w.plain), ask(w.weft); want != got {
			t.Errorf("before %s\nPostgreSQL: %s\nweft:       %s", body, want, got)
		}
		replace := "CREATE OR REPLACE FUNCTION i_name(k int) RETURNS text LANGUAGE sql STABLE AS $$ " + body + " $$"
		if got := other.simple(replace); !strings.Contains(got, "<nil>") {
			t.Fatal(got)
		}
		if got := w.plain.simple(replace); !strings.Contains(got, "<nil>") {
			t.Fatal(got)
		}
		w.same(t, "SELECT id, i_name(id) FROM u ORDER BY id", "SELECT * FROM i_view ORDER BY id", "SELECT i_name(5)")
	}
	if want, got := ask(w.plain), ask(w.weft); want != got {
		t.Errorf("PostgreSQL: %s\nweft:       %s", want, got)
	}
}

// answer collects what is said to one statement of the extended protocol.
func (p *peer) answer(r *pgconn.ResultReader) string {
	res := r.Read()
	var b strings.Builder
	for _, row := range res.Rows {
		b.WriteString("(" + shown(row) + ") ")
	}
	return b.String() + res.CommandTag.String() + failure(res.Err)
}
