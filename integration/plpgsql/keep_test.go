package plpgsql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// keepers are routines all of whose statements keep to the key that an argument gives.
const keepers = `
CREATE FUNCTION of_key(k int) RETURNS bigint STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t WHERE a = k) + (SELECT count(*) FROM u WHERE id = k); END $$;
CREATE FUNCTION change(k int, w text DEFAULT 'def', OUT n int, OUT was text) LANGUAGE plpgsql AS $$ DECLARE key int := k; BEGIN
  SELECT b INTO was FROM t WHERE a = key; UPDATE t SET b = w WHERE a = key; GET DIAGNOSTICS n = ROW_COUNT;
  IF NOT FOUND THEN INSERT INTO t VALUES (k, w, 1); RAISE NOTICE 'made %', k; END IF; UPDATE u SET v = left(w, 5) WHERE id = k; END $$;
CREATE FUNCTION rows_of(k int) RETURNS TABLE (x int, y text) LANGUAGE plpgsql AS $$ DECLARE rw record; BEGIN
  FOR rw IN SELECT t.b, r.name FROM t LEFT JOIN r ON r.id = t.a WHERE t.a = k LOOP x := k; y := concat(rw.b, '/', rw.name); RETURN NEXT; END LOOP;
  RETURN QUERY SELECT id, v::text FROM u WHERE id = k; END $$;
CREATE FUNCTION again(k int) RETURNS text LANGUAGE plpgsql AS $$ DECLARE s text; BEGIN
  BEGIN INSERT INTO t VALUES (k, 'again', 2); EXCEPTION WHEN unique_violation THEN UPDATE t SET c = c + 1 WHERE a = k; GET STACKED DIAGNOSTICS s = MESSAGE_TEXT; RETURN s; END;
  RETURN 'new'; END $$;
CREATE FUNCTION through(k int) RETURNS numeric LANGUAGE plpgsql AS $$ DECLARE n numeric; BEGIN PERFORM change(k, 'through'); n := of_key(k) + 0.5; RETURN n; END $$;
CREATE FUNCTION fails(k int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'failing' WHERE a = k; UPDATE u SET n = 1000 WHERE id = k; RETURN 1 / (k - k); END $$;
CREATE FUNCTION strict_key(k int) RETURNS int STRICT LANGUAGE plpgsql AS $$ BEGIN DELETE FROM u WHERE id = k; RETURN k; END $$;
CREATE FUNCTION timed(k int) RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = b || '.' WHERE a = k; RETURN now(); END $$;
CREATE FUNCTION still_key(k int) RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'no' WHERE a = k; RETURN 1; END $$;
CREATE FUNCTION owned_key(k int) RETURNS name SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = current_user WHERE a = k; RETURN current_user; END $$;
CREATE FUNCTION locked_key(k int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 FROM t WHERE a = k FOR UPDATE; RETURN k; END $$;
CREATE PROCEDURE set_key(k int, INOUT w text, OUT n int) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = w WHERE a = k; GET DIAGNOSTICS n = ROW_COUNT; w := w || k; END $$
`

// keep makes a world with the keepers.
func keep(t *testing.T, database string) *world {
	w := newWorld(t, database)
	for _, sql := range strings.Split(strings.TrimSpace(keepers), ";\nCREATE ") {
		w.both(t, "CREATE "+strings.TrimPrefix(sql, "CREATE "))
	}
	return w
}

// goesWhole reports whether weft says that a call goes to one shard as a whole.
func (w *world) goesWhole(t *testing.T, call string) bool {
	t.Helper()
	return strings.Contains(w.weft.simple("EXPLAIN "+call), "runs as a whole on shard")
}

// TestKeepers: routines that keep to a key do what they do on one PostgreSQL, whatever key they are given and however they are called.
func TestKeepers(t *testing.T) {
	w := keep(t, "plpgsql_keep")
	w.fill(t)
	for _, call := range []string{
		"SELECT of_key(3)", "SELECT * FROM change(3)", "SELECT * FROM rows_of(3)", "SELECT again(3)", "SELECT through(3)", "SELECT fails(3)", "SELECT strict_key(3)",
		"SELECT timed(3)", "SELECT still_key(3)", "SELECT owned_key(3)", "SELECT locked_key(3)",
	} {
		if !w.goesWhole(t, call) {
			t.Errorf("%s does not go to one shard", call)
		}
	}
	if w.goesWhole(t, "SELECT 1") {
		t.Error("SELECT 1 goes whole")
	}
	for _, texts := range [][]string{
		{"SELECT of_key(3)", "SELECT of_key(k => 4)", "SELECT of_key('5')", "SELECT of_key('x')", "SELECT of_key(6::smallint)", "SELECT of_key(7::bigint)", "SELECT of_key(1.5)", "SELECT of_key(99999999999)"},
		{"SELECT of_key(NULL)", "SELECT of_key()", "SELECT of_key(1, 2)", "SELECT of_key(n => 1)", "SELECT of_key('{1}'::int[])", "SELECT of_key(-3)", "SELECT of_key(2 + 1)", "SELECT of_key(abs(-3))", "SELECT of_key((SELECT 3))"},
		{"SELECT of_key(3); SELECT of_key(4)", "SELECT of_key(3) AS x", "SELECT * FROM of_key(3) AS y"},
		{"SELECT change(3)", "SELECT change(3, 'given')", "SELECT * FROM change(4, w => 'named')", "SELECT change(w => 'both', k => 5)", "SELECT * FROM change(20)", "SELECT change(NULL)", "SELECT change(NULL, 'x')"},
		{"SELECT * FROM rows_of(1)", "SELECT rows_of(2)", "SELECT * FROM rows_of(3)", "SELECT * FROM rows_of(77)", "SELECT * FROM rows_of(NULL)"},
		{"SELECT again(3)", "SELECT again(30)", "SELECT again(30)", "SELECT again(NULL)"},
		{"SELECT through(3)", "SELECT through(31)", "SELECT through(NULL)"},
		{"SELECT fails(3)", "SELECT fails(4)"},
		{"SELECT strict_key(3)", "SELECT strict_key(NULL)"},
		{"SELECT still_key(3)"},
		{"SELECT owned_key(3)"},
		{"SELECT locked_key(3)"},
		{"CALL set_key(3, 'w', NULL)", "CALL set_key(33, 'w', NULL)", "CALL set_key(NULL, 'w', NULL)", "CALL set_key(w => 'n', k => 4, n => NULL)", "CALL set_key(3)"},
		{"BEGIN", "SELECT change(3, 'in')", "SELECT change(4, 'in')", "SELECT * FROM t ORDER BY a", "COMMIT"},
		{"BEGIN", "SELECT change(3, 'in')", "SELECT change(4, 'in')", "ROLLBACK"},
		{"BEGIN", "SELECT change(3, 'in')", "SAVEPOINT s", "SELECT fails(4)", "SELECT of_key(3)", "ROLLBACK TO s", "SELECT change(5, 'after')", "COMMIT"},
		{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT of_key(3)", "SELECT of_key(4)", "SELECT change(4, 'rr')", "COMMIT"},
		{"BEGIN READ ONLY", "SELECT of_key(3)", "SELECT change(3)", "ROLLBACK"},
		{"BEGIN", "CALL set_key(3, 'w', NULL)", "CALL set_key(4, 'w', NULL)", "COMMIT"},
		{"PREPARE p (int) AS SELECT * FROM change($1, 'prepared')", "EXECUTE p (3)", "EXECUTE p (4)", "EXECUTE p (NULL)", "DEALLOCATE p"},
		{"BEGIN", "DECLARE c CURSOR FOR SELECT * FROM t ORDER BY a", "SELECT change(3, 'c')", "FETCH 1 FROM c", "COMMIT"},
	} {
		w.refill(t)
		w.same(t, texts...)
	}
}

// refill gives both the rows that fill gives, by few statements.
func (w *world) refill(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		"DELETE FROM t", "INSERT INTO t SELECT i, 'b' || i, i / 2.0 FROM generate_series(1, 12) i", "DELETE FROM u", "INSERT INTO u SELECT i, 'v' || i, i FROM generate_series(1, 12) i",
	} {
		w.both(t, sql)
	}
}

// TestKeepersInBlocks: the time of a block is one, on whatever shard a routine runs.
func TestKeepersInBlocks(t *testing.T) {
	w := keep(t, "plpgsql_keep_time")
	w.fill(t)
	w.weft.simple("BEGIN")
	first := ""
	for k := range 12 {
		got := w.weft.simple(fmt.Sprintf("SELECT timed(%d)", k+1))
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("timed(%d): %s, not %s", k+1, got, first)
		}
	}
	w.weft.simple("ROLLBACK")
}

// TestKeepersDefaults: the default of an argument is evaluated where the routine runs.
func TestKeepersDefaults(t *testing.T) {
	w := keep(t, "plpgsql_keep_default")
	w.fill(t)
	for _, sql := range []string{
		"CREATE FUNCTION count_all() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t'",
		"CREATE FUNCTION counted(k int, x bigint DEFAULT count_all()) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT b FROM t WHERE a = k) || x; END $$",
		"CREATE FUNCTION of_other(k int, x bigint DEFAULT of_key(4)) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT b FROM t WHERE a = k) || x; END $$",
		"CREATE FUNCTION dated(k int, x timestamptz DEFAULT now()) RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'dated' WHERE a = k; RETURN x; END $$",
		"CREATE FUNCTION around(k int) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN counted(k); END $$",
		"CREATE PROCEDURE put(k int, x text DEFAULT count_all()::text) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = x WHERE a = k; END $$",
	} {
		w.both(t, sql)
	}
	for call, whole := range map[string]bool{"SELECT counted(3)": false, "SELECT of_other(3)": false, "SELECT around(3)": false, "SELECT dated(3)": true} {
		if w.goesWhole(t, call) != whole {
			t.Errorf("%s goes whole: %v", call, !whole)
		}
	}
	for k := range 6 {
		w.same(t, fmt.Sprintf("SELECT counted(%d)", k+1), fmt.Sprintf("SELECT counted(%d, 9)", k+1), fmt.Sprintf("SELECT around(%d)", k+1), fmt.Sprintf("CALL put(%d)", k+1))
		if got := w.weft.simple(fmt.Sprintf("SELECT of_other(%d)", k+1)); !strings.Contains(got, "|0A000|") {
			t.Errorf("of_other(%d): %s", k+1, got)
		}
	}
	w.weft.simple("BEGIN")
	first := w.weft.simple("SELECT dated(1)")
	for k := range 8 {
		if got := w.weft.simple(fmt.Sprintf("SELECT dated(%d)", k+1)); got != first {
			t.Errorf("dated(%d): %s, not %s", k+1, got, first)
		}
	}
	w.weft.simple("ROLLBACK")
}

// TestKeepersBound: the same with parameters, in both formats, and through prepared statements.
func TestKeepersBound(t *testing.T) {
	w := keep(t, "plpgsql_keep_bound")
	w.fill(t)
	for _, text := range []string{"SELECT of_key($1)", "SELECT * FROM change($1, 'bound')", "SELECT * FROM rows_of($1)", "SELECT again($1)", "SELECT through($1)", "CALL set_key($1, 'w', NULL)", "SELECT fails($1)"} {
		for _, types := range [][]uint32{nil, {23}, {21}, {20}, {25}} {
			for _, key := range [][]byte{[]byte("3"), []byte("4"), []byte("41"), nil, []byte("x")} {
				for _, named := range []string{"", "s"} {
					var got [2]string
					for i, p := range []*peer{w.plain, w.weft} {
						got[i] = p.bound(named, text, types, key)
					}
					if got[0] != got[1] {
						t.Errorf("%s %v %s %q\nPostgreSQL: %s\nweft:       %s", text, types, key, named, got[0], got[1])
					}
				}
			}
		}
	}
	w.sameTables(t)
}

// bound runs a text with one parameter: by an unnamed statement, or by a prepared one twice, the second time in binary.
func (p *peer) bound(name, text string, types []uint32, key []byte) string {
	ctx, stop := patience()
	defer stop()
	show := func(r *pgconn.Result) string {
		out := failure(r.Err)
		for _, row := range r.Rows {
			out += " (" + shown(row) + ")"
		}
		for _, n := range p.notices {
			out += "\n" + n
		}
		p.notices = nil
		return out + " " + r.CommandTag.String() + "\n"
	}
	if name == "" {
		return show(p.conn.ExecParams(ctx, text, [][]byte{key}, types, nil, nil).Read())
	}
	if _, err := p.conn.Prepare(ctx, name, text, types); err != nil {
		return failure(err)
	}
	out := show(p.conn.ExecPrepared(ctx, name, [][]byte{key}, nil, nil).Read())
	out += show(p.conn.ExecPrepared(ctx, name, [][]byte{key}, nil, []int16{1}).Read())
	p.simple("DEALLOCATE " + name)
	return out
}

// TestKeepersReplaced: a plan does not outlive what has been proved of a routine, its tables, or the names in it.
func TestKeepersReplaced(t *testing.T) {
	w := keep(t, "plpgsql_keep_replaced")
	w.fill(t)
	other := connect(t, harness.Weft(t), w.database)
	create := func(body string) string {
		return "CREATE OR REPLACE FUNCTION turns(k int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN " + body + " END $$"
	}
	own, all := create("RETURN (SELECT count(*) FROM t WHERE a = k);"), create("RETURN (SELECT count(*) FROM t WHERE a <> k);")
	for i, change := range []struct {
		sql   string
		whole bool
	}{
		{own, true},
		{all, false},
		{own, true},
		{"CREATE TRIGGER tr AFTER UPDATE ON t FOR EACH STATEMENT EXECUTE FUNCTION suppress_redundant_updates_trigger()", true},
		{"DROP TRIGGER tr ON t", true},
		{"ALTER FUNCTION turns SET search_path = public", false},
		{"ALTER FUNCTION turns RESET ALL", true},
		{"ALTER FUNCTION turns SECURITY DEFINER", true},
		{"ALTER FUNCTION turns SECURITY INVOKER", true},
		{"CREATE FUNCTION turns(k text) RETURNS text LANGUAGE sql AS 'SELECT 1::text'", false},
		{"DROP FUNCTION turns(text)", true},
		{"ALTER TABLE t RENAME TO tt", false},
		{"ALTER TABLE tt RENAME TO t", true},
		{"ALTER TABLE t RENAME COLUMN a TO aa", false},
		{"ALTER TABLE t RENAME COLUMN aa TO a", true},
		{"CREATE SCHEMA s; CREATE TABLE s.t (a int PRIMARY KEY); SET search_path = s, public", false},
		{"SET search_path = public", false},
		{"DROP SCHEMA s CASCADE", true},
		{"CREATE TEMP TABLE t (a int)", false},
		{"DROP TABLE pg_temp.t", true},
		{"BEGIN; " + all, false},
		{"ROLLBACK", true},
		{"DROP FUNCTION turns", false},
		{own, true},
	} {
		if want, got := w.plain.simple(change.sql), ""; i%3 == 1 && !strings.Contains(change.sql, "search_path") && !strings.Contains(change.sql, "TEMP") && !strings.Contains(change.sql, "BEGIN") && !strings.Contains(change.sql, "ROLLBACK") && !strings.Contains(change.sql, "pg_temp") {
			if got = other.simple(change.sql); got != want {
				t.Errorf("%s: %s, not %s", change.sql, got, want)
			}
		} else if got = w.weft.simple(change.sql); got != want {
			t.Errorf("%s: %s, not %s", change.sql, got, want)
		}
		for _, k := range []int{3, 4, 5} {
			call := fmt.Sprintf("SELECT turns(%d)", k)
			if want, got := w.plain.simple(call), w.weft.simple(call); want != got && !strings.Contains(got, "0A000") {
				t.Errorf("after %s: %s: %s, not %s", change.sql, call, got, want)
			}
		}
		if w.weft.conn.TxStatus() == 'I' {
			if got := w.goesWhole(t, "SELECT turns(3)"); got != change.whole {
				t.Errorf("after %s it goes whole: %v", change.sql, got)
			}
		} else if w.weft.conn.TxStatus() == 'E' {
			t.Fatalf("after %s", change.sql)
		}
	}
}
