package progtest

import (
	"fmt"
	"strings"
)

func (g *generator) statements(n int) {
	g.depth++
	for range 1 + g.IntN(n) {
		g.statement()
	}
	g.depth--
}

func (g *generator) statement() {
	if g.b.Len() > 6000 {
		g.line("NULL;")
		return
	}
	if len(g.More) > 0 && g.IntN(5) == 0 {
		g.line("%s;", g.pick(g.More...))
		return
	}
	deep := g.depth > 5
	if g.Keeps && g.IntN(30) == 0 {
		g.line("%s;", g.pick("mine := given_i", "mine := given_i", "mine := coalesce(given_i, NULL)", "mine := given_i::bigint"))
		return
	}
	if g.Keeps && g.IntN(300) == 0 {
		g.line("%s;", g.pick("mine := NULL", "given_i := given_i", "mine := i", "DELETE FROM t WHERE a IS NOT DISTINCT FROM given_i"))
		return
	}
	switch k := g.IntN(34); {
	case g.Keeps && (k == 27 || k == 29 || k == 33):
		g.line("%s;", g.pick("GET DIAGNOSTICS j = ROW_COUNT", "s := SQLSTATE", "b := FOUND", "GET DIAGNOSTICS s = PG_CONTEXT"))
	case g.Keeps && k == 28:
		g.line("PERFORM %s;", g.pick(g.value(1), "* FROM t WHERE "+g.where(1), "helped(given_i, s)", "1 FROM t WHERE "+g.where(0)+" FOR UPDATE"))
	case g.Keeps && k == 30 && g.Set:
		g.line("%s", g.pick("RETURN NEXT i;", "RETURN NEXT "+g.value(1)+";", "RETURN QUERY SELECT a FROM t WHERE "+g.where(1)+" ORDER BY a;", "RETURN;"))
	case k < 8:
		g.assign()
	case k < 11:
		g.line("RAISE %s '%% %%', %s, %s;", g.pick("NOTICE", "INFO", "WARNING"), g.value(1), g.value(0))
	case k < 13:
		g.sql()
	case k < 15:
		g.into()
	case k == 15 && !deep:
		g.line("IF %s THEN", g.bool(2))
		g.statements(2)
		if g.IntN(2) == 0 {
			g.line("ELSIF %s THEN", g.bool(1))
			g.statements(2)
		}
		if g.IntN(2) == 0 {
			g.line("ELSE")
			g.statements(2)
		}
		g.line("END IF;")
	case k == 16 && !deep:
		g.caseStmt()
	case k < 21 && !deep:
		g.loop()
	case k < 24 && !deep:
		g.block()
	case k == 24:
		g.raise()
	case k == 25:
		if len(g.loops) > 0 {
			g.line("%s %s WHEN %s;", g.pick("EXIT", "CONTINUE"), g.pick(append(g.loops, "")...), g.bool(1))
		}
	case k == 26:
		g.line("GET DIAGNOSTICS i = ROW_COUNT;")
	case k == 27:
		g.execute()
	case k == 28:
		g.line("PERFORM %s;", g.pick("noisy("+g.int(0)+")", "* FROM t WHERE "+g.where(1), g.value(1), "a FROM t ORDER BY a LIMIT 1"))
	case k == 29:
		g.cursor()
	case k == 30 && g.Set:
		g.line("%s", g.pick("RETURN NEXT i;", "RETURN NEXT "+g.value(1)+";", "RETURN QUERY SELECT a FROM t WHERE "+g.where(1)+" ORDER BY a;",
			"RETURN QUERY EXECUTE 'SELECT id FROM u WHERE id <> $1 ORDER BY 1' USING i;", "RETURN;"))
	case k == 30 && g.Scalar:
		g.line("RETURN %s;", g.int(1))
	case k == 30 && g.Ends:
		g.line("%s;", g.pick("COMMIT", "ROLLBACK"))
	case k == 31 && g.inside:
		g.line("%s", g.pick("RAISE NOTICE '% %', SQLSTATE, SQLERRM;", "RAISE;", "GET STACKED DIAGNOSTICS s = MESSAGE_TEXT, ch = RETURNED_SQLSTATE;", "GET STACKED DIAGNOSTICS s = CONSTRAINT_NAME;"))
	case k == 32:
		g.line("ASSERT %s;", g.pick("i IS NULL OR true", g.bool(1)))
	case k == 33:
		g.line("CALL %s;", g.pick("bump(i, s)", "half(j, s)", "bump(k, ch)"))
	default:
		g.line("NULL;")
	}
}

func (g *generator) assign() {
	target := g.pick("i", "j", "n", "s", "v", "b", "sm", "ch", "md", "k", "r.x", "p.x", "p.y", "rw.a", "rw.c", "rw.b", "arr["+g.int(0)+"]", "arr[2]", "outer_block.j")
	var e string
	switch {
	case g.IntN(5) == 0:
		e = g.value(1)
	case strings.Contains("i j sm k r.x p.x rw.a", target) || strings.HasPrefix(target, "arr"):
		e = g.int(2)
	case target == "n" || target == "rw.c":
		e = g.num(2)
	case target == "b":
		e = g.bool(2)
	case target == "md":
		e = g.pick("'sad'", "'happy'", "NULL", g.str(0))
	default:
		e = g.str(2)
	}
	if g.IntN(8) == 0 {
		target, e = g.pick("arr", "p", "rw", "r"), g.pick("arr || 4", "ARRAY[i, j]", "'{1,2}'", "NULL", "p", "rw", "ROW(i, s)", "(j, 'q'::text)", "ROW(1, 'b', n)", "'{{1,2},{3,4}}'", "r")
	}
	g.line("%s %s %s;", target, g.pick(":=", ":=", "="), e)
}

func (g *generator) sql() {
	if g.Keeps {
		g.line("%s;", g.pick(g.changes("v")...))
		return
	}
	g.line("%s;", g.pick(append(g.changes("v"),
		"INSERT INTO t SELECT rw.*", "SELECT 1", "TRUNCATE u",
		"INSERT INTO t (a) SELECT x FROM generate_series(1, 2) x",
		"CREATE TEMP TABLE z ON COMMIT DROP AS SELECT i AS q, s",
	)...))
}

// changes are statements that change tables. v is how the variable of that name is called.
func (g *generator) changes(v string) []string {
	if g.Keeps {
		key := g.keyed("", "KEY")
		return []string{
			"INSERT INTO t VALUES (" + key + ", " + g.str(1) + ", " + g.num(0) + ")",
			"INSERT INTO t (c, a) SELECT n, " + key,
			"INSERT INTO u VALUES (" + key + ", " + g.str(0) + ")",
			"INSERT INTO u VALUES (" + key + ", s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
			"UPDATE t SET b = " + g.str(1) + ", c = " + g.num(1) + " WHERE " + g.where(1),
			"DELETE FROM t WHERE " + g.where(1),
			"UPDATE u SET v = s WHERE id = " + key,
			"WITH gone AS (DELETE FROM u WHERE id = " + key + " RETURNING *) INSERT INTO t SELECT " + key + ", gone.v, n FROM gone",
			"INSERT INTO t SELECT id, u.v, n FROM u WHERE id = " + key,
			"j := helped(" + key + ", s)",
		}
	}
	return []string{
		"INSERT INTO t VALUES (" + g.int(1) + ", " + g.str(1) + ", " + g.num(0) + ")",
		"INSERT INTO u VALUES (" + g.int(0) + ", " + g.str(0) + ")",
		"INSERT INTO u VALUES (i, s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
		"UPDATE t SET b = " + g.str(1) + ", c = " + g.num(1) + " WHERE " + g.where(1),
		"DELETE FROM t WHERE " + g.where(1),
		"UPDATE u SET v = s WHERE id = " + g.int(0),
		"INSERT INTO t SELECT id, " + v + ", n FROM u WHERE id < " + g.int(0),
	}
}

func (g *generator) into() {
	strict := g.pick("", "", "", "STRICT ")
	if g.Keeps {
		g.line("%s;", g.pick(
			"SELECT a, b INTO "+strict+"i, s FROM t WHERE "+g.where(1)+" ORDER BY a, t.b, c",
			"SELECT a AS x, t.b AS y INTO "+strict+"r FROM t WHERE "+g.where(1)+" ORDER BY a, t.b, c",
			"SELECT * INTO "+strict+"rw FROM t WHERE "+g.where(0)+" ORDER BY a, t.b, c",
			"SELECT max(a) INTO n FROM t WHERE "+g.where(1), "SELECT ref.name INTO s FROM ref WHERE ref.id = j",
			"SELECT t.b, ref.name INTO s, v FROM t JOIN ref ON ref.id = t.a WHERE "+g.where(0)+" ORDER BY t.b, c LIMIT 1",
			g.keyed("", "DELETE FROM u WHERE id = KEY RETURNING * INTO r"), g.keyed("", "SELECT sum(c), max(u.v) INTO n, s FROM t JOIN u ON u.id = a WHERE a = KEY")))
		return
	}
	g.line("%s;", g.pick(
		"SELECT a, b INTO "+strict+"i, s FROM t WHERE "+g.where(1)+" ORDER BY a, b, c",
		"SELECT a AS x, b AS y INTO "+strict+"r FROM t WHERE "+g.where(1)+" ORDER BY a, b, c",
		"SELECT "+g.int(1)+" AS x, "+g.str(1)+" AS y, i, s INTO r",
		"SELECT * INTO "+strict+"rw FROM t WHERE "+g.where(0)+" ORDER BY a, b, c",
		"SELECT a, b INTO p FROM t ORDER BY a, b, c",
		"SELECT max(a) INTO n FROM t WHERE "+g.where(1),
		"INSERT INTO t (a, b) VALUES ("+g.int(0)+", s) RETURNING a, c INTO j, n",
		"UPDATE t SET c = c + 1 WHERE a = "+g.int(0)+" RETURNING b INTO s",
		"DELETE FROM u WHERE id = "+g.int(0)+" RETURNING * INTO r",
		"SELECT i, count(*) INTO j, k FROM t GROUP BY i",
		"SELECT k AS x, 'k' AS y INTO r FROM t WHERE a = k ORDER BY b LIMIT 1",
	))
}

func (g *generator) caseStmt() {
	test := g.pick("", g.int(1), g.str(1))
	g.line("CASE %s", test)
	for range 1 + g.IntN(2) {
		when := g.bool(1)
		if test != "" {
			when = g.pick(g.int(0), g.int(0)+", "+g.int(0), g.str(0))
		}
		g.line("WHEN %s THEN", when)
		g.statements(2)
	}
	if g.IntN(3) > 0 {
		g.line("ELSE")
		g.statements(2)
	}
	g.line("END CASE;")
}

func (g *generator) loop() {
	g.fresh++
	label := fmt.Sprintf("l%d", g.fresh)
	g.line("<<%s>>", label)
	g.loops = append(g.loops, label)
	kind := g.IntN(8)
	if g.Keeps {
		kind = []int{0, 2, 2, 3, 5, 7}[g.IntN(6)]
	}
	switch kind {
	case 0, 1:
		g.line("FOR %s IN %s LOOP", g.pick("i", "q"), g.pick("1..3", "REVERSE 3..1", "1..6 BY 2", "0.."+"least("+g.int(0)+", 2)", "1..NULL", "(j)..j + 1"))
	case 2, 3:
		g.line("FOR %s IN SELECT a AS x, %s AS y FROM t WHERE %s ORDER BY a, %s, c LOOP", g.pick("r", "r", "i, s", "p"), g.keyed("b", "t.b"), g.where(1), g.keyed("b", "t.b"))
	case 4:
		g.line("FOR rw IN EXECUTE 'SELECT * FROM t WHERE a < $1 ORDER BY a, b, c' USING %s LOOP", g.int(0))
	case 5:
		g.line("FOREACH %s IN ARRAY %s LOOP", g.pick("i", "k"), g.pick("arr", "ARRAY[1, NULL, 3]", "'{}'::int[]", "'{{1,2},{3,4}}'::int[]"))
	case 6:
		g.line("FOR rr IN cur(%s) LOOP", g.int(0))
		g.depth++
		g.line("RAISE NOTICE '%%', rr.a;")
		g.depth--
	case 7:
		g.line("FOREACH arr SLICE 1 IN ARRAY '{{1,2},{3,4}}'::int[] LOOP")
	}
	g.statements(3)
	g.loops = g.loops[:len(g.loops)-1]
	g.line("END LOOP%s;", g.pick("", " "+label))
}

func (g *generator) block() {
	if g.IntN(2) == 0 {
		g.line("DECLARE")
		g.line(" %s := %s;", g.pick("i int", g.keyed("k bigint", "mine bigint"), "s varchar(4)", "n numeric(4,1)", "j CONSTANT int", "b bool NOT NULL", "ch char(3)", "md mood", "k t.a%TYPE", "sm i%TYPE"), g.value(1))
	}
	g.line("BEGIN")
	g.statements(3)
	if g.IntN(3) > 0 {
		was := g.inside
		g.inside = true
		g.line("EXCEPTION WHEN %s THEN", g.pick("OTHERS", "OTHERS", "division_by_zero OR data_exception", "SQLSTATE '22P02'", "unique_violation", "plpgsql_error", "integrity_constraint_violation"))
		g.statements(2)
		if g.IntN(2) == 0 {
			g.line("WHEN OTHERS THEN RAISE NOTICE '%% %%', SQLSTATE, SQLERRM;")
		}
		g.inside = was
	}
	g.line("END;")
}

func (g *generator) raise() {
	g.line("%s;", g.pick(
		"RAISE EXCEPTION 'e % %', "+g.value(1)+", i", "RAISE EXCEPTION USING ERRCODE = '22012', MESSAGE = 'm', HINT = "+g.str(0),
		"RAISE unique_violation USING DETAIL = 'd'", "RAISE SQLSTATE 'XX123'", "RAISE NOTICE 'n %%' USING HINT = 'h', ERRCODE = 'data_exception'", "RAISE WARNING '%', "+g.str(1)))
}

func (g *generator) execute() {
	g.line("EXECUTE %s;", g.pick(
		"'SELECT a, b FROM t WHERE a = $1' INTO i, s USING "+g.int(1),
		"'INSERT INTO u VALUES ($1, $2)' USING "+g.int(0)+", s", g.str(1), "'SELECT 1/' || "+g.int(0)+" INTO j",
		"format('UPDATE t SET b = %L WHERE a = %s', s, i)", "'SELECT * FROM t ORDER BY 1, 2, 3' INTO rw", "'SELECT 1 AS x' INTO STRICT r"))
}

func (g *generator) cursor() {
	g.line("%s;", g.pick("OPEN cur("+g.int(0)+")", "FETCH cur INTO i", "CLOSE cur", "MOVE NEXT FROM cur", "FETCH FIRST FROM cur INTO rw", "FETCH RELATIVE 0 FROM cur INTO r",
		"OPEN ref FOR SELECT a, b FROM t WHERE "+g.where(1)+" ORDER BY a, b, c", "FETCH ref INTO i, s", "CLOSE ref", "FETCH ABSOLUTE 1 FROM ref INTO p"))
}
