package tx

import (
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
