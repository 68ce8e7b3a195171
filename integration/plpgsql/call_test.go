package plpgsql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
)

// routines are functions and procedures over sharded tables.
const routines = `
CREATE FUNCTION total(lo int) RETURNS numeric LANGUAGE plpgsql AS $$ DECLARE s numeric; BEGIN SELECT sum(c) INTO s FROM t WHERE a >= lo; RETURN s; END $$;
CREATE FUNCTION put(k int, w text DEFAULT 'def') RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (k, w, k); INSERT INTO u VALUES (k + 1, 'p', 1); RAISE NOTICE 'put %', k; END $$;
CREATE FUNCTION listed(lo int) RETURNS TABLE (k int, w text) LANGUAGE plpgsql AS $$ BEGIN
  RETURN QUERY SELECT a, b FROM t WHERE a > lo ORDER BY a; k := 0; w := 'end'; RETURN NEXT; END $$;
CREATE FUNCTION numbers() RETURNS SETOF int LANGUAGE plpgsql AS $$ DECLARE x int; BEGIN FOR x IN SELECT a FROM t ORDER BY a DESC LIMIT 4 LOOP RETURN NEXT x * 2; END LOOP; END $$;
CREATE FUNCTION both_of(k int, OUT x int, OUT y text) LANGUAGE plpgsql AS $$ BEGIN SELECT a, b INTO x, y FROM t WHERE a = k; END $$;
CREATE FUNCTION pair_of(k int) RETURNS pair LANGUAGE plpgsql AS $$ DECLARE p pair; BEGIN SELECT a, b INTO p.x, p.y FROM t WHERE a = k; RETURN p; END $$;
CREATE FUNCTION strictly(k int) RETURNS int STRICT LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t WHERE a > k); END $$;
CREATE FUNCTION still(k int) RETURNS int STABLE LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'no' WHERE a = k; RETURN 1; END $$;
CREATE FUNCTION twice_total(k int) RETURNS numeric LANGUAGE plpgsql AS $$ DECLARE n numeric; m numeric; BEGIN n := total(k); SELECT total(k) INTO m; RETURN n + m; END $$;
CREATE FUNCTION failing(k int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'f'; RETURN 1 / k; END $$;
CREATE FUNCTION owned() RETURNS int SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION setting() RETURNS int SET work_mem = '1MB' LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT count(*) FROM t); END $$;
CREATE FUNCTION sql_total(lo int) RETURNS numeric LANGUAGE sql AS $$ SELECT sum(c) FROM t WHERE a >= lo $$;
CREATE FUNCTION sql_put(k int, w text DEFAULT 'def') RETURNS void LANGUAGE sql AS $$ INSERT INTO t VALUES (k, w, k); INSERT INTO u VALUES (k + 1, 'p', 1) $$;
CREATE FUNCTION sql_listed(lo int) RETURNS TABLE (k int, w text) STABLE LANGUAGE sql AS $$ SELECT a, b FROM t WHERE a > lo ORDER BY a $$;
CREATE FUNCTION sql_row(k int) RETURNS t LANGUAGE sql AS $$ SELECT * FROM t WHERE a = k $$;
CREATE FUNCTION sql_rows(k int) RETURNS SETOF t LANGUAGE sql AS $$ UPDATE t SET b = b || '!' WHERE a > k RETURNING * $$;
CREATE FUNCTION sql_of(k int, OUT x int, OUT y text) LANGUAGE sql AS $$ SELECT a, b FROM t WHERE a = k $$;
CREATE FUNCTION sql_atomic(k int) RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM t WHERE a > k; END;
CREATE FUNCTION sql_return(k int) RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM t WHERE a > k);
CREATE FUNCTION sql_failing(k int) RETURNS int LANGUAGE sql AS $$ UPDATE t SET b = 'f'; SELECT 1 / (k - count(*))::int FROM t WHERE a < 0 $$;
CREATE PROCEDURE sql_move(k int) LANGUAGE sql AS $$ UPDATE t SET b = 'moved' WHERE a >= k; DELETE FROM u WHERE id > k $$;
CREATE PROCEDURE move(k int, INOUT n int, OUT w text) LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'moved' WHERE a >= k; GET DIAGNOSTICS n = ROW_COUNT; w := 'w' || n; END $$;
CREATE PROCEDURE halves() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 200..205 LOOP INSERT INTO t VALUES (i, 'h', 1); IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF; END LOOP; END $$;
CREATE PROCEDURE outer_halves() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (300, 'o', 1); CALL halves(); INSERT INTO t VALUES (301, 'o', 1); END $$
`

// TestCall: functions and procedures that are called at the top of a statement, in simple queries.
func TestCall(t *testing.T) {
	w := newWorld(t, "plpgsql_call")
	for _, sql := range strings.Split(strings.TrimSpace(routines), ";\nCREATE ") {
		w.both(t, "CREATE "+strings.TrimPrefix(sql, "CREATE "))
	}
	for _, texts := range [][]string{
		{"SELECT total(3)"},
		{"SELECT total(3) AS x"},
		{"SELECT * FROM total(2 + 1)"},
		{"SELECT * FROM total(3) AS x"},
		{"SELECT total('4')"},
		{"SELECT total('x')"},
		{"SELECT total(1, 2)"},
		{"SELECT put(20)"},
		{"SELECT put(21, 'given')"},
		{"SELECT * FROM put(22)"},
		{"SELECT put(1)"},
		{"SELECT * FROM listed(8)"},
		{"SELECT listed(10)"},
		{"SELECT * FROM listed(8) AS z (p, q)"},
		{"SELECT numbers()"},
		{"SELECT * FROM numbers()"},
		{"SELECT both_of(3)"},
		{"SELECT * FROM both_of(3)"},
		{"SELECT pair_of(3)"},
		{"SELECT * FROM pair_of(4)"},
		{"SELECT pair_of(400)"},
		{"SELECT strictly(3)"},
		{"SELECT strictly(NULL)"},
		{"SELECT still(3)"},
		{"SELECT twice_total(3)"},
		{"SELECT failing(0)"},
		{"SELECT failing(1)"},
		{"SELECT owned()"},
		{"SELECT setting()"},
		{"SELECT sql_total(3)"},
		{"SELECT * FROM sql_total(3)"},
		{"SELECT sql_put(20)"},
		{"SELECT sql_put(1)"},
		{"SELECT * FROM sql_put(22, 'given')"},
		{"SELECT * FROM sql_listed(8)"},
		{"SELECT sql_listed(8)"},
		{"SELECT sql_row(3)"},
		{"SELECT * FROM sql_row(3)"},
		{"SELECT * FROM sql_row(300)"},
		{"SELECT sql_row(300)"},
		{"SELECT sql_of(3)"},
		{"SELECT * FROM sql_of(3)"},
		{"SELECT sql_atomic(3)"},
		{"SELECT sql_return(3)"},
		{"SELECT sql_failing(0)"},
		{"SELECT sql_failing(1)"},
		{"CALL sql_move(5)"},
		{"BEGIN", "SELECT sql_put(30)", "SELECT sql_total(30)", "COMMIT"},
		{"DO $$ DECLARE n numeric; BEGIN n := sql_total(2); PERFORM sql_put(50); RAISE NOTICE '%', n; END $$"},
		{"CALL move(5, 0, NULL)"},
		{"CALL halves()"},
		{"CALL outer_halves()"},
		{"BEGIN", "CALL halves()", "ROLLBACK"},
		{"BEGIN", "SELECT put(30)", "SELECT total(30)", "COMMIT"},
		{"SELECT put(31); SELECT total(31)"},
		{"PREPARE p (int) AS SELECT total($1)", "EXECUTE p (3)", "DEALLOCATE p"},
		{`DO $$ DECLARE n int := 0; w text; BEGIN CALL move(9, n, w); RAISE NOTICE '% %', n, w; PERFORM put(40); END $$`},
	} {
		t.Run(texts[len(texts)-1], func(t *testing.T) {
			w.fill(t)
			w.same(t, texts...)
		})
	}
	for sql, hint := range map[string]string{
		"SELECT total(a) FROM t": "Call it alone", "SELECT total(1) + 1": "Call it alone",
	} {
		if got := w.weft.simple(sql); !strings.HasPrefix(got, "ERROR|0A000|") || !strings.Contains(got, hint) {
			t.Errorf("%s: %s", sql, got)
		}
	}
}

// TestCallExtended: the same by the extended protocol, in both formats, with parameters and limits of rows.
func TestCallExtended(t *testing.T) {
	w := newWorld(t, "plpgsql_call_extended")
	w.fill(t)
	for _, sql := range strings.Split(strings.TrimSpace(routines), ";\nCREATE ") {
		w.both(t, "CREATE "+strings.TrimPrefix(sql, "CREATE "))
	}
	for _, tc := range []struct {
		sql  string
		args []string
	}{
		{"SELECT total($1)", []string{"3"}},
		{"SELECT total($1::int + $2)", []string{"1", "2"}},
		{"SELECT * FROM listed($1)", []string{"7"}},
		{"SELECT numbers()", nil},
		{"SELECT * FROM both_of($1)", []string{"3"}},
		{"SELECT pair_of($1)", []string{"3"}},
		{"SELECT put($1, $2)", []string{"50", "x"}},
		{"SELECT put($1, $2)", []string{"50", "x"}},
		{"CALL move($1, $2, NULL)", []string{"9", "1"}},
		{"SELECT failing($1)", []string{"0"}},
		{"SELECT sql_total($1)", []string{"3"}},
		{"SELECT * FROM sql_listed($1)", []string{"7"}},
		{"SELECT sql_put($1, $2)", []string{"60", "x"}},
		{"SELECT * FROM sql_row($1)", []string{"3"}},
		{"SELECT sql_row($1)", []string{"3"}},
		{"CALL halves()", nil},
	} {
		for format := range int16(2) {
			if want, got := w.plain.ask(tc.sql, format, nil, tc.args...), w.weft.ask(tc.sql, format, nil, tc.args...); want != got {
				t.Errorf("%s %d\nPostgreSQL: %s\nweft:       %s", tc.sql, format, want, got)
			}
		}
	}
	batch := func(p *peer) string {
		ctx, stop := patience()
		defer stop()
		var b pgconn.Batch
		b.ExecParams("UPDATE t SET b = 'batch' WHERE a = 2", nil, nil, nil, nil)
		b.ExecParams("SELECT put($1)", [][]byte{[]byte("60")}, nil, nil, nil)
		b.ExecParams("SELECT * FROM both_of($1)", [][]byte{[]byte("60")}, nil, nil, nil)
		b.ExecParams("SELECT failing($1)", [][]byte{[]byte("0")}, nil, nil, nil)
		return p.told(p.conn.ExecBatch(ctx, &b))
	}
	if want, got := batch(w.plain), batch(w.weft); want != got {
		t.Errorf("batch\nPostgreSQL: %s\nweft:       %s", want, got)
	}
	w.sameTables(t)
}

// TestReplaced: a function that another proxy replaces is the new one in the next call.
func TestReplaced(t *testing.T) {
	w := newWorld(t, "plpgsql_replaced")
	w.fill(t)
	other := connect(t, harness.StartWeft(t, func(*config.Config) {}), w.database)
	for i := range 3 {
		sql := fmt.Sprintf("CREATE OR REPLACE FUNCTION version() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN '%d of ' || (SELECT count(*) FROM t); END $$", i)
		if got := w.weft.simple(strings.ReplaceAll(sql, "version()", "public.edition()")); !strings.Contains(got, "<nil>") {
			t.Fatal(got)
		}
		if got := other.simple("SELECT edition()"); !strings.Contains(got, fmt.Sprintf(`"%d of 12"`, i)) {
			t.Errorf("version %d: %s", i, got)
		}
	}
}

// ask sends a text by the extended protocol and returns everything that the server says.
func (p *peer) ask(sql string, format int16, types []uint32, args ...string) string {
	ctx, stop := patience()
	defer stop()
	var values [][]byte
	for _, a := range args {
		values = append(values, []byte(a))
	}
	d, err := p.conn.Prepare(ctx, "", sql, types)
	if err != nil {
		return failure(err)
	}
	out := fmt.Sprint(d.ParamOIDs)
	for _, f := range d.Fields {
		out += f.Name + " "
	}
	r := p.conn.ExecPrepared(ctx, "", values, nil, []int16{format}).Read()
	for _, row := range r.Rows {
		out += "(" + shown(row) + ")"
	}
	return out + r.CommandTag.String() + failure(r.Err) + string(p.conn.TxStatus())
}
