package tx

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestShortTimeout: a statement_timeout that nothing can be done in ends what the
// client asks for, and not what weft has to do about it. The client hears of nothing
// but that, and what is acknowledged is there.
func TestShortTimeout(t *testing.T) {
	w := newWorld(t, "short", 1)
	c := w.conn(0, "default_query_exec_mode=simple_protocol")
	var d [shards]*pgx.Conn
	for i := range d {
		d[i] = w.direct(i)
	}
	try := func(sql string, args ...any) bool {
		t.Helper()
		err := exec(c, sql, args...)
		if got := code(err); got != "" && got != "57014" && got != "25P02" {
			t.Fatalf("%s: %v", sql, err)
		}
		return err == nil
	}
	committed := 0
	for range 15 {
		for !try("set statement_timeout = 0") {
		}
		w.begin(c)
		if !try("set statement_timeout = 1") || !try("commit") {
			try("rollback")
			continue
		}
		committed++
		for i := range d {
			if n := value[int](t, d[i], "select count(*) from pg_prepared_xacts where database = current_database()"); n > 0 {
				t.Fatalf("shard %d has not followed", i)
			}
		}
	}
	for !try("set statement_timeout = 0") {
	}
	if got := w.total(); got != accounts*1000-2*int64(committed) {
		t.Errorf("%d in all after %d transactions", got, committed)
	}
	t.Logf("%d committed", committed)
	w.quiet()
}

// TestIdleTimeoutOfCopy: who wants no idle transactions can load rows into several
// shards all the same, by itself and in a block.
func TestIdleTimeoutOfCopy(t *testing.T) {
	w := newWorld(t, "idlecopy", 1)
	c := w.conn(0)
	must(t, c, "set idle_in_transaction_session_timeout = '1min'")
	load := func(from int) {
		t.Helper()
		n, err := c.CopyFrom(context.Background(), pgx.Identifier{"acct"}, []string{"id"}, pgx.CopyFromSlice(500, func(i int) ([]any, error) {
			return []any{int64(from + i)}, nil
		}))
		if err != nil || n != 500 {
			t.Fatalf("%d rows, %v", n, err)
		}
	}
	load(1000)
	must(t, c, "begin")
	load(2000)
	must(t, c, take, w.keys[1][0])
	must(t, c, "commit")
	must(t, c, "begin")
	must(t, c, take, w.keys[2][0])
	load(3000)
	must(t, c, "commit")
	if got := w.total(); got != (accounts+1500)*1000-2 {
		t.Errorf("%d in all", got)
	}
	w.quiet()
}
