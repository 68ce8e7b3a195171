package primary

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
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

// metrics returns what a proxy tells Prometheus.
func (w *world) metrics(proxy int) string {
	w.t.Helper()
	resp, err := http.Get("http://" + w.proxies[proxy].Server.HTTPAddr().String() + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(body)
}

// measured waits until a proxy tells Prometheus all of these.
func (w *world) measured(proxy int, want ...string) {
	w.t.Helper()
	end := time.Now().Add(pgtest.Patience)
	for _, line := range want {
		pattern := regexp.MustCompile("(?m)^" + line + "$")
		for !pattern.MatchString(w.metrics(proxy)) {
			if time.Now().After(end) {
				w.t.Fatalf("%s is not in\n%s", line, w.metrics(proxy))
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// TestMeasured: Prometheus hears which servers are up, how far they are behind, and how long a failover took.
func TestMeasured(t *testing.T) {
	w := newWorld(t, func(c *config.Config) { c.Failover.InTransaction = 50 * time.Millisecond })
	up := func(addr, role string, n int) string {
		return fmt.Sprintf(`weft_shard_up{role="%s",server="%s",shard="shop-1"} %d`, role, addr, n)
	}
	a, b := w.a.Addr(), w.b.Addr()
	w.measured(0, up(a, "primary", 1), up(b, "standby", 1), fmt.Sprintf(`weft_replica_lag_seconds{server="%s",shard="shop-1"} [0-9.e-]+`, b),
		fmt.Sprintf(`weft_replica_lag_bytes{server="%s",shard="shop-1"} [0-9.e+]+`, b), `weft_shard_seeking_seconds_total{shard="shop-1"} 0`,
		`weft_gate_waiting{shard="shop-1"} 0`, `weft_in_doubt_transactions{older_than="60",shard="shop-1"} 0`)
	waiting, block := w.connect(0), w.connect(0)
	w.must(waiting, write(w.there))
	w.must(block, "begin")
	w.must(block, write(w.here))
	w.a.Kill()
	w.seeking(0, "shop-1")
	if _, err := block.Exec(w.within(), write(w.there)); code(err) != "57P03" {
		t.Errorf("in a block: %v", err)
	}
	done := w.later(waiting, write(w.there))
	w.measured(0, up(a, "primary", 0), `weft_gate_waiting{shard="shop-1"} 1`, `weft_failover_timeouts_total{shard="shop-1"} 1`, `weft_pool_timeouts_total{shard="shop-1"} 1`)
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.measured(0, up(b, "primary", 1), up(a, "standby", 0), `weft_gate_waiting{shard="shop-1"} 0`,
		`weft_failover_pause_seconds_count{outcome="promoted",shard="shop-1"} 1`, `weft_failover_pause_seconds_count{outcome="returned",shard="shop-1"} 0`,
		`weft_shard_seeking_seconds_total{shard="shop-1"} [0-9.e-]*[1-9][0-9.e-]*`)
	if err := w.a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.measured(0, up(a, "stale", 0))
}
