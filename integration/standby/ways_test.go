package standby

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestTargets: what each target reads, and what it refuses.
func TestTargets(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	if got := w.value(c, "show weft.target") + w.value(c, where(w.key[1])); got != "primaryfalse" {
		t.Errorf("a session begins with %s", got)
	}
	for _, target := range []string{"standby", "any", "prefer-standby"} {
		w.must(c, "set weft.target = '"+target+"'")
		w.follows(c)
		for _, sql := range []string{
			"insert into t values (100, 1)", "update t set v = 0", fmt.Sprintf("delete from t where k = %d", w.key[0]), "create table x ()", "select * from t for update",
			"create temp table y ()", "truncate t", "insert into home values (1, 1)", "with d as (delete from home returning 1) select * from d", "select k from t where k = 1 for share",
			"create sequence s",
		} {
			w.refused(c, sql, "25006")
		}
		if got := w.value(c, "select pg_is_in_recovery()"); got != "true" {
			t.Errorf("%s: a query without tables runs on a standby: %s", target, got)
		}
	}
	w.must(c, "set weft.target = 'auto'")
	w.follows(c)
	w.must(c, fmt.Sprintf("update t set v = -1 where k = %d", w.key[1]))
	if got := w.value(c, fmt.Sprintf("select v from t where k = %d", w.key[1])); got != "-1" {
		t.Errorf("a session does not read what it has written: %s", got)
	}
	w.must(c, "reset weft.target")
	if got := w.value(c, "show weft.target") + w.value(c, where(w.key[1])); got != "primaryfalse" {
		t.Errorf("a session ends with %s", got)
	}
	w.refused(c, "set weft.target = 'nowhere'", "22023")
	w.refused(c, "set weft.max_lag = 'long'", "22023")
	w.refused(c, "set weft.token = 'x'", "22023")
	w.must(c, "set weft.target = 'standby'; set weft.read = 'atomic'")
	w.refused(c, "select count(*) from t", "0A000")
}

// TestWays: the answers of standbys are those of primaries, in every way to send a statement.
func TestWays(t *testing.T) {
	w := newWorld(t)
	near, far := w.connect(), w.connect("options='-c weft.target=standby'")
	w.follows(far)
	queries := []string{
		fmt.Sprintf("select * from t where k = %d", w.key[0]), fmt.Sprintf("select * from t where k = %d", w.key[1]),
		"select * from t order by k", "select count(*), sum(v) from t", "select v % 3, count(*) from t group by 1 order by 1", "select * from home order by 1",
		"select * from ref order by 1", "select t.k, home.v from t join home using (k) order by 1", "select k, row_number() over (order by k desc) from t order by 1",
		"select t.k, ref.v from t join ref on ref.k = t.v order by 1", "select 1", "select k from t where k = -1", "show server_version",
		"select relname from pg_class where relname = 't'", "select * from t order by v desc limit 3", "select distinct v % 2 from t order by 1",
		"select max(v) from t where v in (select v from home)", "explain select * from home",
	}
	for _, q := range queries {
		want := w.lines(near, q)
		if got := w.lines(far, q); got != want {
			t.Errorf("%s: %s instead of %s", q, got, want)
		}
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec} {
			if got := w.lines(far, q, mode); got != want {
				t.Errorf("%s: %s: %s instead of %s", mode, q, got, want)
			}
		}
		w.must(far, "begin read only")
		if got := w.lines(far, q); got != want {
			t.Errorf("in a block: %s: %s instead of %s", q, got, want)
		}
		w.must(far, "commit")
		w.must(far, "begin isolation level repeatable read")
		if got := w.lines(far, q) + w.lines(far, q); got != want+want {
			t.Errorf("in REPEATABLE READ: %s: %s instead of %s", q, got, want)
		}
		w.must(far, "commit")
		if strings.HasPrefix(q, "select") {
			var a, b bytes.Buffer
			if _, err := near.PgConn().CopyTo(w.within(), &a, "copy ("+q+") to stdout"); err != nil {
				t.Fatal(err)
			}
			if _, err := far.PgConn().CopyTo(w.within(), &b, "copy ("+q+") to stdout"); err != nil {
				t.Errorf("copy %s: %v", q, err)
			}
			if a.String() != b.String() {
				t.Errorf("copy %s: %s instead of %s", q, b.String(), a.String())
			}
			w.must(far, "begin")
			w.must(far, "declare c cursor for "+q)
			if got := w.lines(far, "fetch all from c"); got != want {
				t.Errorf("cursor, %s: %s instead of %s", q, got, want)
			}
			w.must(far, "commit")
		}
	}
	for _, p := range w.primary {
		if n := w.ask(p.Server, "select count(*) from pg_stat_activity where state = 'idle in transaction'"); n > 0 {
			t.Errorf("%d transactions are left open", n)
		}
	}
	// Several statements in one text.
	res, err := far.PgConn().Exec(w.within(), fmt.Sprintf("%s; %s; select sum(v) from t", where(w.key[0]), where(w.key[1]))).ReadAll()
	if err != nil || len(res) != 3 || string(res[0].Rows[0][0])+string(res[1].Rows[0][0])+string(res[2].Rows[0][0]) != "tt820" {
		t.Errorf("several statements: %v, %v", res, err)
	}
}
