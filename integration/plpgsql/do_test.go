package plpgsql

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestDo: what DO says and leaves behind is what PostgreSQL says and leaves behind.
func TestDo(t *testing.T) {
	w := newWorld(t, "plpgsql_do")
	for name, texts := range map[string][]string{
		"writes on several shards": {`DO $$ BEGIN FOR i IN 20..30 LOOP INSERT INTO t VALUES (i, 'n' || i, i); END LOOP; RAISE NOTICE 'done %', 11; END $$`},
		"a loop over a scattered query writes": {`DO $$ DECLARE x record; n int := 0; BEGIN
  FOR x IN SELECT a, b FROM t ORDER BY a LOOP
    UPDATE u SET n = n + 50 WHERE id = x.a; n := n + 1; RAISE NOTICE '% %', x.a, x.b;
  END LOOP; DELETE FROM t WHERE a > n - 3; END $$`},
		"an error in the middle": {`DO $$ BEGIN
  INSERT INTO t VALUES (40, 'x', 1); INSERT INTO t VALUES (41, 'x', 1); INSERT INTO t VALUES (1, 'twice', 1);
END $$`},
		"exception over two shards": {`DO $$ BEGIN
  INSERT INTO t VALUES (50, 'kept', 1);
  BEGIN INSERT INTO t VALUES (51, 'x', 1); INSERT INTO t VALUES (52, 'x', 1); INSERT INTO t VALUES (53, 'y', 1); INSERT INTO u VALUES (60, 'v', 1000);
  EXCEPTION WHEN check_violation THEN RAISE NOTICE 'caught % %', SQLSTATE, SQLERRM; INSERT INTO t VALUES (54, 'after', 2); END;
  INSERT INTO t VALUES (55, 'last', 3);
END $$`},
		"raise":  {`DO $$ BEGIN RAISE EXCEPTION 'no % %', 'such', (SELECT count(*) FROM t) USING ERRCODE = 'P1234', DETAIL = 'd', HINT = 'h'; END $$`},
		"levels": {`DO $$ BEGIN PERFORM 1 FROM t; RAISE DEBUG 'd'; RAISE LOG 'l'; RAISE INFO 'i'; RAISE WARNING 'w'; END $$`},
		"diagnostics": {`DO $$ DECLARE n int; c text; BEGIN
  UPDATE t SET b = b || '!' WHERE a % 2 = 0; GET DIAGNOSTICS n = ROW_COUNT; RAISE NOTICE '% %', n, FOUND;
  BEGIN INSERT INTO u VALUES (1, 'toolong', 1); EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS c = MESSAGE_TEXT; RAISE NOTICE '%', c; END;
END $$`},
		"dynamic": {`DO $$ DECLARE n int; name text := 't'; BEGIN
  EXECUTE format('SELECT count(*) FROM %I WHERE a > $1', name) INTO n USING 5; RAISE NOTICE '%', n;
  EXECUTE 'INSERT INTO ' || quote_ident(name) || ' VALUES ($1, $2)' USING 70, 'dyn';
END $$`},
		"cursor": {`DO $$ DECLARE c CURSOR (lo int) FOR SELECT a, b FROM t WHERE a > lo ORDER BY a; x record; BEGIN
  OPEN c(8); LOOP FETCH c INTO x; EXIT WHEN NOT FOUND; RAISE NOTICE '% %', x.a, x.b; END LOOP; CLOSE c;
END $$`},
		"reference and home tables": {`DO $$ DECLARE k text; BEGIN
  INSERT INTO r VALUES (3, 'three'); SELECT name INTO k FROM r WHERE id = 3; INSERT INTO h VALUES (9, k); UPDATE t SET b = k WHERE a = 3;
END $$`},
		"in a block":            {"BEGIN", "DO $$ BEGIN INSERT INTO t VALUES (80, 'x', 1), (81, 'y', 2); END $$", "INSERT INTO t VALUES (82, 'z', 3)", "COMMIT"},
		"in a block that fails": {"BEGIN", "INSERT INTO t VALUES (83, 'z', 3)", "DO $$ BEGIN INSERT INTO t VALUES (84, 'x', 1); RAISE 'no'; END $$", "SELECT 1", "COMMIT"},
		"savepoint around":      {"BEGIN", "SAVEPOINT a", "DO $$ BEGIN INSERT INTO t VALUES (85, 'x', 1); RAISE 'no'; END $$", "ROLLBACK TO a", "DO $$ BEGIN INSERT INTO t VALUES (86, 'x', 1); END $$", "COMMIT"},
		"among several":         {`INSERT INTO t VALUES (87, 'x', 1); DO $$ BEGIN UPDATE t SET b = 'u' WHERE a IN (1, 87); END $$; SELECT count(*) FROM t WHERE b = 'u'`},
		"commit inside":         {`DO $$ BEGIN FOR i IN 90..95 LOOP INSERT INTO t VALUES (i, 'c', 1); IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF; END LOOP; INSERT INTO u VALUES (99, 'toolong', 1); END $$`},
		"no commit in a block":  {"BEGIN", `DO $$ BEGIN INSERT INTO t VALUES (96, 'c', 1); COMMIT; END $$`, "COMMIT"},
		"temporary table":       {`DO $$ DECLARE n int; BEGIN CREATE TEMP TABLE tt AS SELECT a FROM t; SELECT sum(a) INTO n FROM tt; RAISE NOTICE '%', n; DROP TABLE tt; END $$`},
		"syntax":                {`DO $$ BEGIN SELEC 1 FROM t; END $$`},
		"a value that never fits": {`DO $$ DECLARE n int; w text := 'w'; BEGIN UPDATE t SET b = 'x' WHERE a < 4;
  FOR i IN 1..3 LOOP BEGIN n := w; EXCEPTION WHEN OTHERS THEN RAISE NOTICE '% %', SQLSTATE, SQLERRM; END; END LOOP; END $$`},
		"a function fails in an assignment": {
			`CREATE FUNCTION bad(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE t SET b = 'bad' WHERE a = n; RETURN 1 / (n - 3); END $$`,
			`DO $$ DECLARE i int; BEGIN i := bad(3); END $$`, `DO $$ DECLARE i int := 3; BEGIN i := bad(i); END $$`, `DO $$ BEGIN IF bad(3) THEN END IF; END $$`,
			`DO $$ DECLARE i int; BEGIN UPDATE t SET b = 'x'; i := 1 / 0; END $$`,
		},
		"a cast in a query":        {`DO $$ DECLARE n int; BEGIN n := (SELECT b FROM t WHERE a = 1); END $$`, `DO $$ DECLARE v varchar(2); i int := 12; BEGIN v := (SELECT b FROM t WHERE a = i); END $$`},
		"a record keeps its type":  {`DO $$ DECLARE x record; p pair; BEGIN SELECT a, b INTO p FROM t WHERE a = 5; x := p; x := '(3,w)'; RAISE NOTICE '%', x.y; x := ARRAY[1]; END $$`},
		"a literal for no element": {`DO $$ DECLARE l int[]; BEGIN UPDATE t SET b = 'x'; l[NULL] := '{5}'; END $$`, `DO $$ DECLARE l int[]; b int; BEGIN l[NULL] := (SELECT count(*) FROM t WHERE b = 'x'); END $$`},
		"a loop that moves its cursor": {`DO $$ DECLARE c SCROLL CURSOR FOR SELECT * FROM t ORDER BY a; x int; BEGIN
  FOR q IN c LOOP FETCH c INTO x; RAISE NOTICE '% %', q.a, x; MOVE NEXT FROM c; END LOOP; END $$`},
		"deallocate all": {`DO $$ DECLARE n int; BEGIN FOR i IN 1..3 LOOP SELECT count(*) INTO n FROM t WHERE a > i; RAISE NOTICE '%', n; EXECUTE 'DEALLOCATE ALL'; END LOOP; END $$`},
		"conflict":       {`DO $$ DECLARE a int := 3; BEGIN PERFORM * FROM t WHERE a = 3; END $$`},
		"caught deadline": {"SET statement_timeout = '2s'", `DO $$ BEGIN BEGIN PERFORM pg_sleep(60), count(*) FROM t; EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught'; END;
  UPDATE t SET b = 'late' WHERE a IN (1, 2, 3); END $$`, "RESET statement_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			w.fill(t)
			w.same(t, texts...)
		})
	}
}

// TestDoEnds: statement_timeout and cancel requests end a program, wherever it is, and nothing of it stays.
func TestDoEnds(t *testing.T) {
	w := newWorld(t, "plpgsql_ends")
	w.fill(t)
	for _, endless := range []string{
		`DO $$ BEGIN UPDATE t SET b = 'x'; LOOP PERFORM count(*) FROM t; PERFORM 1; END LOOP; END $$`,
		`DO $$ BEGIN UPDATE t SET b = 'x'; LOOP END LOOP; END $$`, // asks no server
		`DO $$ BEGIN UPDATE t SET b = 'x'; LOOP FOR i IN 1..1000000 LOOP NULL; END LOOP; END LOOP; END $$`,
	} {
		w.weft.simple("SET statement_timeout = '300ms'")
		if got := w.weft.simple(endless); !strings.HasPrefix(got, "ERROR|57014|canceling statement due to statement timeout|") || !strings.HasSuffix(got, "[I]") {
			t.Errorf("%s: timeout: %s", endless, got)
		}
		w.weft.simple("RESET statement_timeout")
		done := make(chan string)
		go func() { done <- w.weft.simple(endless) }()
		for over := false; !over; {
			ctx, stop := patience()
			if err := w.weft.conn.CancelRequest(ctx); err != nil {
				t.Error(err)
			}
			stop()
			select {
			case got := <-done:
				if over = true; !strings.HasPrefix(got, "ERROR|57014|canceling statement due to user request|") || !strings.HasSuffix(got, "[I]") {
					t.Errorf("%s: cancel: %s", endless, got)
				}
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	w.sameTables(t)
}

// TestDoExtended: DO by the extended protocol, alone, executed again, and among other messages before one Sync.
func TestDoExtended(t *testing.T) {
	w := newWorld(t, "plpgsql_extended")
	w.fill(t)
	const insert = `DO $$ BEGIN INSERT INTO t VALUES (20, 'x', 1), (21, 'y', 2), (22, 'z', 3); RAISE NOTICE 'in'; END $$`
	const failing = `DO $$ BEGIN INSERT INTO t VALUES (30, 'x', 1), (31, 'y', 2); RAISE 'no'; END $$`
	alone := func(sql string) func(p *peer) string {
		return func(p *peer) string {
			ctx, stop := patience()
			defer stop()
			if _, err := p.conn.Prepare(ctx, "", sql, nil); err != nil {
				return failure(err)
			}
			r := p.conn.ExecPrepared(ctx, "", nil, nil, nil).Read()
			return r.CommandTag.String() + failure(r.Err) + string(p.conn.TxStatus())
		}
	}
	batch := func(texts ...string) func(p *peer) string {
		return func(p *peer) string {
			ctx, stop := patience()
			defer stop()
			var b pgconn.Batch
			for _, sql := range texts {
				b.ExecParams(sql, nil, nil, nil, nil)
			}
			return p.told(p.conn.ExecBatch(ctx, &b))
		}
	}
	for _, tc := range []struct {
		name string
		ask  func(p *peer) string
	}{
		{"alone", alone(insert)},
		{"fails", alone(failing)},
		{"first of several", batch(`DO $$ BEGIN UPDATE t SET b = 'p'; END $$`, "UPDATE u SET v = 'q' WHERE id IN (1, 2, 3)", "SELECT count(*) FROM t WHERE b = 'p'")},
		{"undone by a later one", batch(`DO $$ BEGIN UPDATE t SET b = 'gone'; END $$`, "INSERT INTO u VALUES (1, 'twice', 1)")},
		{"undoes an earlier one", batch("UPDATE u SET v = 'gone' WHERE id IN (1, 2, 3)", failing, "SELECT 1")},
		{"commits inside", batch(`DO $$ BEGIN INSERT INTO t VALUES (40, 'x', 1); COMMIT; INSERT INTO t VALUES (41, 'x', 1); END $$`)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if want, got := tc.ask(w.plain), tc.ask(w.weft); want != got {
				t.Errorf("PostgreSQL: %s\nweft:       %s", want, got)
			}
			w.sameTables(t)
		})
	}
}
