package heat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// flood keeps clients busy with one key until the function that it returns is called: more of them than
// a shard has connections, so that they wait for each other.
func (w *world) flood(clients int, sql string) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range clients {
		c := w.conn(i%len(w.proxies), "postgres")
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Exec(context.Background(), sql); err != nil {
					w.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.Cleanup(stop)
	return stop
}

// narrow lets few statements run on a shard at a time.
func narrow(c *config.Config) { c.Pool.MaxPerShard = 3 }

// A key that keeps a shard's connections busy is warned of, through either proxy and in the same words,
// with its value for those who may see it. The warning ends by itself, and can be dismissed.
func TestWarning(t *testing.T) {
	w := newWorld(t, "warnings", narrow, narrow)
	stop := w.flood(16, "select pg_sleep(0.05) from acct where id = 42")
	w.start(func(ctx context.Context, c *pgx.Conn, r *rand.Rand, _ *crew) error {
		time.Sleep(20 * time.Millisecond)
		var n int64
		return c.QueryRow(ctx, "select n from acct where id = $1", 1+r.Int64N(keys)).Scan(&n)
	})
	const about = "select * from weft.warnings where object like 'key 42 of public.acct %'"
	var id string
	var conns []*pgx.Conn
	for p := range w.proxies {
		conns = append(conns, w.conn(p, "postgres"))
		w.await(fmt.Sprintf("the warning through proxy %d", p), func() (any, bool) {
			rows := w.rows(conns[p], about)
			if len(rows) != 1 || id != "" && rows[0]["id"] != id {
				return w.rows(conns[p], "select * from weft.warnings"), false
			}
			id = rows[0]["id"].(string)
			message := rows[0]["message"].(string)
			return rows, rows[0]["severity"] == "warning" && strings.Contains(message, " is hot: ") && rows[0]["advice"] != nil && rows[0]["since"].(time.Time).Before(time.Now().Add(time.Minute))
		})
		w.await("the verdicts", func() (any, bool) {
			key := w.rows(conns[p], "select verdict, reason, shard from weft.hot_keys where key = '42'")
			shard := w.rows(conns[p], "select shard, verdict, on_cpu, wal_bytes_s, cpu_share from weft.load where verdict in ('hot', 'saturated')")
			return append(key, shard...), len(key) == 1 && key[0]["verdict"] == "hot" && key[0]["reason"] != nil && len(shard) > 0 && shard[0]["on_cpu"] != nil && shard[0]["wal_bytes_s"] != nil && (runtime.GOOS != "linux" || shard[0]["cpu_share"] != nil)
		})
	}
	admin := w.proxies[1].Connect(t, "postgres", "dbname=weft")
	w.await("SHOW WARNINGS", func() (any, bool) {
		rows := w.rows(admin, "SHOW WARNINGS")
		return rows, strings.Contains(fmt.Sprint(rows), id)
	})
	// Others see that there is something, not the key.
	w.await("the warning for others", func() (any, bool) {
		rows := w.rows(w.conn(0, "alice"), "select * from weft.warnings where object = '<insufficient privilege>'")
		if shown := fmt.Sprint(rows); strings.Contains(shown, "42 of") || strings.Contains(shown, id) {
			t.Fatalf("alice sees %v", rows)
		}
		return rows, len(rows) > 0
	})
	if _, err := w.conn(0, "alice").Exec(t.Context(), "select weft.dismiss($1, '1d')", id); err == nil {
		t.Error("alice has dismissed a warning")
	}
	for _, bad := range []string{"select weft.dismiss('nothing')", "select weft.dismiss('" + id + "', '-1d')", "select weft.dismiss('" + id + "', 'soon')"} {
		if _, err := conns[0].Exec(t.Context(), bad); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	w.must(conns[0], "select weft.dismiss($1, '7d')", id)
	for p, c := range conns {
		w.await(fmt.Sprintf("no warning through proxy %d", p), func() (any, bool) {
			rows := w.rows(c, about)
			return rows, len(rows) == 0
		})
	}
	w.must(conns[1], "select weft.dismiss($1, duration => '0')", id)
	for p, c := range conns {
		w.await(fmt.Sprintf("the warning again through proxy %d", p), func() (any, bool) {
			rows := w.rows(c, about)
			return rows, len(rows) == 1
		})
	}
	stop()
	for p, c := range conns {
		w.await(fmt.Sprintf("the end of the warning through proxy %d", p), func() (any, bool) {
			rows := w.rows(c, about)
			return rows, len(rows) == 0
		})
	}
}
