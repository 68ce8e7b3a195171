package gather

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weft/config"
	"weft/integration/harness"
)

// TestSnapshot: all parts of a statement see the same of a shard, while somebody
// moves amounts between its tables and rows.
func TestSnapshot(t *testing.T) {
	w := newWorld(t, "g_snap", nil)
	c := w.conn()
	must(t, c, "create table left_one (k bigint primary key, v int); create table right_one (k bigint primary key, v int)")
	must(t, c, "insert into left_one select i, 100 from generate_series(1, 30) i; insert into right_one select i, 100 from generate_series(1, 30) i")
	must(t, c, "select weft.shard_table('left_one', 'k')")
	must(t, c, "select weft.shard_table('right_one', 'k')")
	var stop atomic.Bool
	var wg sync.WaitGroup
	for shard := range shards {
		d := w.direct(shard)
		keys := value[[]int64](t, d, "select array_agg(k order by k) from left_one")
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, b := keys[i%len(keys)], keys[(i*7+1)%len(keys)]
				must(t, d, fmt.Sprintf(`begin; update left_one set v = v - 1 where k = %d; update right_one set v = v + 1 where k = %d;
					update left_one set v = v - 2 where k = %[2]d; update left_one set v = v + 2 where k = %[1]d; commit`, a, b))
			}
		})
	}
	defer func() {
		stop.Store(true)
		wg.Wait()
	}()
	// Each row of one side meets all rows of the other: nothing is colocated.
	const sum = `select (select sum(v) from left_one) + (select sum(v) from right_one)`
	const joined = `select (select sum(v) from (select l.v from left_one l left join ref r on l.v = r.k + 1000) x) +
		(select sum(x.v) from (select r.v, row_number() over (order by r.v, r.k) from right_one r) x)`
	for _, set := range []string{"", stageAll, "set weft.native = off", "set weft.max_parallel_shards = 1"} {
		c := w.conn()
		must(t, c, set)
		for i := range 10 {
			for _, sql := range []string{sum, joined} {
				if got := value[int64](t, c, sql); got != 6000 {
					t.Fatalf("%s: %s is %d", set, sql, got)
				}
			}
			if i%5 > 0 {
				continue
			}
			// A statement that runs in two rounds.
			var left, both int64
			if err := c.QueryRow(context.Background(), "select sum(v), (select sum(v) from left_one) from left_one").Scan(&left, &both); err != nil || left != both {
				t.Fatalf("%s: the same table is %d and %d, %v", set, left, both, err)
			}
			must(t, c, "begin isolation level repeatable read")
			for range 3 {
				if got := value[int64](t, c, sum); got != 6000 {
					t.Fatalf("%s: %s is %d", set, sum, got)
				}
				var l1, l2 int64
				for _, v := range []*int64{&l1, &l2} {
					*v = value[int64](t, c, "select sum(v) from left_one")
				}
				if l1 != l2 {
					t.Fatalf("REPEATABLE READ gave %d and then %d", l1, l2)
				}
			}
			must(t, c, "commit")
		}
	}
}

// TestRepeatable: a block with a snapshot takes those of all shards with its first
// statement, however it got its level.
func TestRepeatable(t *testing.T) {
	w := newWorld(t, "g_level", nil)
	must(t, w.conn(), "grant select on oth to alice, bob; alter role bob set default_transaction_isolation = 'repeatable read'")
	t.Cleanup(func() { must(t, w.conn(), "alter role bob reset default_transaction_isolation") })
	other := w.conn()
	k1, k2 := w.keyOn(1, 0), w.keyOn(2, 0)
	for _, tc := range []struct {
		name string
		user string
		open []string
	}{
		{"begin", "postgres", []string{"begin isolation level repeatable read"}},
		{"start", "postgres", []string{"start transaction read only, isolation level repeatable read"}},
		{"set transaction", "postgres", []string{"begin", "set transaction isolation level repeatable read"}},
		{"set local", "postgres", []string{"begin", "set local transaction_isolation = 'repeatable read'"}},
		{"set", "postgres", []string{"begin", "set transaction_isolation to 'repeatable read'"}},
		{"default", "postgres", []string{"set default_transaction_isolation = 'repeatable read'", "begin"}},
		{"characteristics", "postgres", []string{"set session characteristics as transaction isolation level repeatable read", "begin"}},
		{"role", "bob", []string{"begin"}},
	} {
		for _, first := range []string{fmt.Sprintf("select v from oth where k = %d", k1), "select count(*) from oth"} {
			c := w.weft.Connect(t, tc.user, "dbname="+w.db, "default_query_exec_mode=simple_protocol")
			for _, sql := range tc.open {
				must(t, c, sql)
			}
			must(t, c, first)
			before := value[int64](t, other, "select sum(v) from oth")
			must(t, other, "update oth set v = v + 1 where k = $1", k2)
			for _, sql := range []string{"select sum(v) from oth", "select sum(a.v) from oth a join oth b on b.v < 0 or a.k = b.k"} {
				if got := value[int64](t, c, sql); got != before {
					t.Errorf("%s, first %s: %s is %d, want %d", tc.name, first, sql, got, before)
				}
			}
			must(t, c, "commit")
			if got := value[int64](t, c, "select sum(v) from oth"); got != before+1 {
				t.Errorf("%s: after it %d, want %d", tc.name, got, before+1)
			}
			_ = c.Close(context.Background())
		}
	}
}

// TestSerializable: what one PostgreSQL would promise cannot be.
func TestSerializable(t *testing.T) {
	w := newWorld(t, "g_serial", nil)
	must(t, w.conn(), "grant select on oth to bob; alter role bob set default_transaction_isolation = 'serializable'")
	t.Cleanup(func() { must(t, w.conn(), "alter role bob reset default_transaction_isolation") })
	for _, open := range [][]string{
		{"begin isolation level serializable"},
		{"begin", "set transaction isolation level serializable"},
		{"begin", "set local transaction_isolation = 'serializable'"},
		{"set default_transaction_isolation = serializable", "begin"},
		{"set default_transaction_isolation = serializable"},
		{""},
	} {
		user := "postgres"
		if open[0] == "" {
			user = "bob"
		}
		c := w.weft.Connect(t, user, "dbname="+w.db, "default_query_exec_mode=simple_protocol")
		for _, sql := range open {
			must(t, c, sql)
		}
		must(t, c, fmt.Sprintf("select v from oth where k = %d", w.keyOn(1, 0)))
		if got := fails(c, "select count(*) from oth"); got != "0A000" {
			t.Errorf("%q: got %q", open, got)
		}
	}
}

// TestOwnWrites: a block sees what it has written, in every way of gathering.
func TestOwnWrites(t *testing.T) {
	w := newWorld(t, "g_own", nil)
	k := w.keyOn(2, 3)
	for _, level := range []string{"read committed", "repeatable read"} {
		for _, set := range []string{"", stageAll, "set weft.native = off"} {
			c := w.conn()
			must(t, c, set)
			must(t, c, "begin isolation level "+level)
			total := value[int64](t, c, "select sum(v) from oth")
			must(t, c, "update oth set v = v + 1000 where k = $1", k)
			check := func(what string, want int64) {
				t.Helper()
				for _, sql := range []string{"select sum(v) from oth", "select sum(a.v) from oth a left join oth b on a.v = b.k + 5000", "select sum(v) from (select distinct k, v from oth) x"} {
					if got := value[int64](t, c, sql); got != want {
						t.Errorf("%s, %s, %s: %s is %d, want %d", level, set, what, sql, got, want)
					}
				}
			}
			check("after the write", total+1000)
			must(t, c, "savepoint s")
			must(t, c, "delete from oth where k = $1", k)
			check("after the delete", total-k)
			must(t, c, "rollback to s")
			check("after ROLLBACK TO", total+1000)
			if got := fails(c, "select sum(a.v / (b.v - b.v)) from oth a join oth b on a.v = b.k"); got != "22012" {
				t.Errorf("division by zero: %q", got)
			}
			if got := fails(c, "select 1"); got != "25P02" {
				t.Errorf("in the failed transaction: %q", got)
			}
			must(t, c, "rollback to s")
			check("after an error", total+1000)
			must(t, c, "rollback")
			check("after ROLLBACK", total)
		}
	}
}

// TestReadOnly: a block that may not write gathers in every way.
func TestReadOnly(t *testing.T) {
	w := newWorld(t, "g_ro", nil)
	for _, open := range []string{"begin read only", "begin; set transaction read only", "set default_transaction_read_only = on; begin", "begin; set local transaction_read_only = on", "begin; set local work_mem = '2MB'; set transaction read only"} {
		for _, set := range []string{"", stageAll} {
			c := w.weft.Connect(t, "postgres", "dbname="+w.db, "default_query_exec_mode=simple_protocol")
			must(t, c, set)
			for sql := range strings.SplitSeq(open, "; ") {
				must(t, c, sql)
			}
			if n := value[int](t, c, "select count(*) from oth a join oth b on a.v = b.k"); n != othRows {
				t.Errorf("%s, %s: %d", open, set, n)
			}
			if got := fails(c, "create temp table x as select 1"); got != "" && got != "25006" {
				t.Errorf("%s: %q", open, got)
			}
			must(t, c, "rollback")
		}
	}
}

// TestTemporary: tables of the session take part.
func TestTemporary(t *testing.T) {
	w := newWorld(t, "g_temp", nil)
	for _, set := range []string{"", stageAll} {
		c := w.conn()
		must(t, c, set)
		must(t, c, "create temp table mine (v int, w text)")
		must(t, c, "insert into mine select i, 'w' || i from generate_series(1, 20) i")
		for range 2 {
			if got := value[string](t, c, "select string_agg(m.w, ',' order by m.v desc) from mine m join oth o on o.v = m.v where o.v > 17"); got != "w20,w19,w18" {
				t.Errorf("%s: %q", set, got)
			}
			must(t, c, "begin")
			must(t, c, "update mine set w = 'x' where v = 20")
			if got := value[string](t, c, "select string_agg(m.w, ',' order by m.v desc) from mine m join oth o on o.v = m.v where o.v > 17"); got != "x,w19,w18" {
				t.Errorf("%s: in a block %q", set, got)
			}
			must(t, c, "rollback")
		}
	}
}

// TestNow: one time for all rows of a statement and all statements of a block.
func TestNow(t *testing.T) {
	w := newWorld(t, "g_now", nil)
	c := w.weft.Connect(t, "postgres", "dbname="+w.db, "default_query_exec_mode=simple_protocol")
	count := func(sql string) int {
		t.Helper()
		return value[int](t, c, sql)
	}
	for _, set := range []string{"reset all", stageAll, "set weft.native = off"} {
		must(t, c, set)
		if n := count("select count(distinct x) from (select now() as x from oth union all select now() from big union all select current_timestamp from home) y"); n != 1 {
			t.Errorf("%s: %d times", set, n)
		}
		if n := count("select count(distinct now()) from oth"); n != 1 {
			t.Errorf("%s: now() is %d times", set, n)
		}
		if n := count("select count(distinct x) from (select random() as x from oth) y"); n != othRows {
			t.Errorf("%s: random() has %d values", set, n)
		}
		must(t, c, "begin")
		a := value[string](t, c, "select max(now()::text) from oth")
		must(t, c, "select pg_sleep(0.01)")
		b := value[string](t, c, "select min(x) from (select now()::text as x from oth a join home b on a.v = b.v) y")
		d := value[string](t, c, "select now()::text")
		if a != b || a != d {
			t.Errorf("%s: in a block %s, %s and %s", set, a, b, d)
		}
		must(t, c, "commit")
		must(t, c, "create sequence if not exists s")
		must(t, c, "select setval('s', 100)")
		if n := count("select count(distinct x) from (select nextval('s') as x from oth) y"); n != othRows {
			t.Errorf("%s: nextval gave %d values", set, n)
		}
		if n := count("select nextval('s')"); n != 101+othRows {
			t.Errorf("%s: the sequence is at %d", set, n)
		}
	}
}

// TestShared: a snapshot that one session exports and others import is one of all
// shards, through whichever proxy.
func TestShared(t *testing.T) {
	w := newWorld(t, "g_share", nil)
	second := harness.StartWeft(t, func(*config.Config) {})
	const simple = "default_query_exec_mode=simple_protocol"
	other := w.conn()
	for _, read := range []string{"shard", "atomic"} {
		leader := w.conn(simple)
		must(t, leader, "set weft.read = "+read)
		must(t, leader, "begin isolation level repeatable read, read only")
		id := value[string](t, leader, "select pg_catalog.pg_export_snapshot()")
		before := value[int64](t, leader, "select sum(v) from oth")
		must(t, other, "update oth set v = v + 1")
		must(t, other, "update home set v = v + 1")
		for _, target := range []*harness.Target{w.weft, second} {
			c := target.Connect(t, "postgres", "dbname="+w.db, simple)
			must(t, c, "set weft.read = "+read)
			must(t, c, "begin")
			must(t, c, "set transaction isolation level repeatable read, read only")
			must(t, c, "set transaction snapshot '"+id+"'")
			if got := value[int64](t, c, "select sum(v) from oth"); got != before {
				t.Errorf("%s: sees %d, want %d", read, got, before)
			}
			if got := value[int64](t, c, "select (select sum(v) from home) + (select sum(v) from oth)"); got != value[int64](t, leader, "select (select sum(v) from home) + (select sum(v) from oth)") {
				t.Errorf("%s: sees %d of both", read, got)
			}
			must(t, c, "commit")
			if got := value[int64](t, c, "select sum(v) from oth"); got != before+othRows {
				t.Errorf("%s: afterwards sees %d, want %d", read, got, before+othRows)
			}
		}
		must(t, leader, "commit")
		for _, bad := range []struct {
			code string
			run  []string
		}{
			{"22023 42704", []string{"begin isolation level repeatable read", "set transaction snapshot '" + id + "'"}}, // it is gone; the latter since 16
			{"22023", []string{"begin isolation level repeatable read", "set transaction snapshot '00000003-0000001B-1'"}},
			{"22023", []string{"begin isolation level repeatable read", "set transaction snapshot 'weft/a=1,b=2,c=3'"}},
			{"25001", []string{"begin isolation level repeatable read", "select count(*) from oth", "set transaction snapshot '" + id + "'"}},
			{"0A000", []string{"begin", "set transaction snapshot '" + id + "'"}},
			{"0A000", []string{"begin isolation level serializable", "set transaction snapshot '" + id + "'"}},
			{"25001", []string{"begin", "savepoint a", "select pg_export_snapshot()"}},
		} {
			c := w.conn(simple)
			last := len(bad.run) - 1
			for _, sql := range bad.run[:last] {
				must(t, c, sql)
			}
			if got := fails(c, bad.run[last]); got == "" || !strings.Contains(bad.code, got) {
				t.Errorf("%s: %s, want %s", bad.run, got, bad.code)
			}
			if got := fails(c, "select 1"); got != "25P02" {
				t.Errorf("after %s: %s", bad.run, got)
			}
			must(t, c, "rollback")
			if got := value[int64](t, c, "select count(*) from oth"); got != othRows {
				t.Errorf("after %s: %d rows", bad.run[last], got)
			}
		}
	}
	w.quiet()
}
