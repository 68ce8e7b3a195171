package primary

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
)

// rows returns the rows that a query gives, with | between columns.
func (w *world) rows(c *pgx.Conn, sql string) (out []string) {
	w.t.Helper()
	rows, err := c.Query(w.within(), sql)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	for rows.Next() {
		var line []string
		for _, v := range rows.RawValues() {
			line = append(line, string(v))
		}
		out = append(out, strings.Join(line, "|"))
	}
	if rows.Err() != nil {
		w.t.Fatalf("%s: %v", sql, rows.Err())
	}
	return out
}

// shown waits until a query of a proxy gives rows.
func (w *world) shown(c *pgx.Conn, sql string, want ...string) {
	w.t.Helper()
	end := time.Now().Add(pgtest.Patience)
	for {
		got := w.rows(c, sql)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: %q, not %q", sql, got, want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestShown: weft's tables say what the servers of a shard are, through a failover.
func TestShown(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	a, b := w.a.Addr(), w.b.Addr()
	const servers = "select address, role, state, timeline, last_error is not null, lag_bytes is not null from weft.replicas where shard = 'shop-1' order by state"
	const shard = "select primary_address, primary_state, split_part(split_part(generation, '/', 2), '@', 1), at_gate from weft.shards where name = 'shop-1'"
	w.shown(c, servers, a+"|primary|primary|1|f|f", b+"|standby|standby|1|f|t")
	w.shown(c, shard, a+"|steady|1|0")
	if got := w.rows(c, "select count(*), bool_and(lsn::pg_lsn > '0/0' and lag_seconds >= 0 is not false and since <= now()) from weft.replicas"); got[0] != "3|t" {
		t.Error(got)
	}
	waiting := w.connect(0)
	w.must(waiting, write(w.there))
	w.a.Kill()
	w.seeking(0, "shop-1")
	done := w.later(waiting, write(w.there))
	w.shown(c, servers, a+"||silent||t|f", b+"|standby|standby|1|f|t")
	w.shown(c, shard, a+"|seeking|1|1")
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.shown(c, shard, b+"|steady|2|0")
	if err := w.a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.shown(c, servers, b+"|primary|primary|2|f|f", a+"|primary|stale|1|f|f")
}
