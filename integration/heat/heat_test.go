package heat

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// A key with a fifth of the load is found by either proxy, with its value and about its share, and
// so are its bucket and its shard.
func TestHotKey(t *testing.T) {
	w := newWorld(t, "hot", plain, plain)
	const hot = 42
	l := w.start(account(hot))
	var key map[string]any
	for p := range w.proxies {
		c := w.conn(p, "postgres")
		took := w.await("the hot key", func() (any, bool) {
			rows := w.rows(c, "select * from weft.hot_keys order by reads_s + writes_s desc limit 2")
			if len(rows) == 2 {
				key = rows[0]
			}
			return rows, len(rows) == 2 && key["key"] == fmt.Sprint(hot) && key["share"].(float64) > 2*rows[1]["share"].(float64)
		})
		t.Logf("proxy %d: found after %v, %d statements", p, took, l.done.Load())
	}
	// A machine that stands still for a moment makes some other key look heavy, for as long as that
	// moment counts.
	c := w.conn(1, "postgres")
	w.eventually(func() error {
		if n := l.done.Load(); n < 2000 {
			return fmt.Errorf("%d statements", n)
		}
		key = w.rows(c, "select * from weft.hot_keys where key = $1", fmt.Sprint(hot))[0]
		return errors.Join(w.checkKey(key, w.rows(c, "select * from weft.load"), l), w.checkPlace(key, c))
	})
}

// checkKey compares what is said of the hot key with what the clients did.
func (w *world) checkKey(key map[string]any, shards []map[string]any, l *crew) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	all, work := 0.0, 0.0
	for _, s := range shards {
		all += s["reads_s"].(float64) + s["writes_s"].(float64)
		work += s["share"].(float64)
	}
	if len(shards) != 2 || math.Abs(work-1) > 1e-6 {
		fail("shards %v", shards)
	}
	reads, writes := key["reads_s"].(float64), key["writes_s"].(float64)
	// The statements of this test itself are counted too, on the home shard.
	if truth, got := float64(l.hot.Load())/float64(l.done.Load()), (reads+writes)/all; math.Abs(got/truth-1) > 0.25 {
		fail("%.3f of the statements are on the key, %.3f in truth", got, truth)
	}
	if truth, got := float64(l.writes.Load())/float64(l.hot.Load()), writes/(reads+writes); math.Abs(got-truth) > 0.1 {
		fail("%.3f of them write, %.3f in truth", got, truth)
	}
	if fmt.Sprint(key["tables"]) != "[public.acct]" || key["p99_ms"].(float64) <= 0 || key["busy_ms_s"].(float64) <= 0 || key["bytes_s"].(float64) <= 0 || key["database"] != w.db {
		fail("%v", key)
	}
	if share, of := key["share"].(float64), key["share_of_shard"].(float64); of < share || of > 1 || share < 0.1 || share > 0.4 {
		fail("%v", key)
	}
	return errors.Join(errs...)
}

// checkPlace compares what is said of buckets with the hot key.
func (w *world) checkPlace(key map[string]any, c *pgx.Conn) error {
	bucket := w.rows(c, "select * from weft.heat order by reads_s + writes_s desc limit 1")[0]
	if bucket["bucket"] != key["bucket"] || bucket["shard"] != key["shard"] || bucket["top_key_share"].(float64) < 0.5 || bucket["over_mean"].(float64) < 3 {
		return fmt.Errorf("bucket %v, key %v", bucket, key)
	}
	skew := w.rows(c, "select * from weft.skew where class = 'all' and database = current_database()")
	if len(skew) != 1 {
		return fmt.Errorf("skew %v", skew)
	}
	if e := skew[0]["evenness"].(float64); skew[0]["top_bucket"] != key["bucket"] || e <= 0.3 || e >= 0.99 || skew[0]["scatter"].(float64) > 0.2 {
		return fmt.Errorf("skew %v", skew)
	}
	return nil
}

// One statement in a second that takes long is among the heaviest, though hundreds are light.
func TestFewAndHeavy(t *testing.T) {
	w := newWorld(t, "heavy", plain, plain)
	w.start(account(7))
	heavy := w.conn(1, "alice")
	c := w.conn(0, "postgres")
	w.await("the heavy key", func() (any, bool) {
		w.must(heavy, "select pg_sleep(0.5) from acct where id = 1999")
		rows := w.rows(c, "select key, busy_ms_s, reads_s, p99_ms from weft.hot_keys order by busy_ms_s desc limit 3")
		for _, r := range rows {
			if r["key"] == "1999" && r["p99_ms"].(float64) > 300 && r["reads_s"].(float64) < 20 {
				return rows, true
			}
		}
		return rows, false
	})
	const sql = "select username, statement, id, p99_ms, share_of_shard from weft.hot_statements order by busy_ms_s desc limit 3"
	w.await("the heavy statement", func() (any, bool) {
		w.must(heavy, "select pg_sleep(0.5) from acct where id = 1999")
		rows := w.rows(c, sql)
		for _, r := range rows {
			if r["username"] == "alice" && r["statement"] == "select pg_sleep($1) from acct where id = $2" && r["p99_ms"].(float64) > 300 && r["share_of_shard"].(float64) > 0.1 {
				known := w.rows(c, "select from weft.statements where id = $1", r["id"])
				return rows, len(known) > 0
			}
		}
		return rows, false
	})
	for _, r := range w.rows(heavy, sql) {
		if own := r["username"] == "alice"; own != (r["statement"] != "<insufficient privilege>") {
			t.Errorf("alice sees %v", r)
		}
	}
}

// Values of keys are shown as text that does nothing to a terminal, wherever they are shown, and to
// those only who may see all.
func TestValues(t *testing.T) {
	w := newWorld(t, "secrets", plain, plain)
	nasty := "<img src=x onerror=alert(1)>\x1b]0;owned\x07'\"\\\u202e;drop"
	shown := `<img src=x onerror=alert(1)>\u001b]0;owned\u0007'"\` + `\u202e;drop`
	w.start(func(ctx context.Context, c *pgx.Conn, r *rand.Rand, _ *crew) error {
		_, err := c.Exec(ctx, "insert into page values ($1, 1) on conflict (path) do update set n = page.n + 1", nasty)
		return err
	})
	c := w.conn(0, "postgres")
	w.await("the value", func() (any, bool) {
		rows := w.rows(c, "select key from weft.hot_keys")
		return rows, len(rows) > 0 && rows[0]["key"] == shown
	})
	for _, r := range w.rows(c, "select to_json(h)::text as j from weft.hot_keys h limit 1") {
		var one map[string]any
		if err := json.Unmarshal([]byte(r["j"].(string)), &one); err != nil || one["key"] != shown {
			t.Errorf("%v: %v", err, r)
		}
	}
	admin := w.proxies[1].Connect(t, "postgres", "dbname=weft")
	if rows := w.rows(admin, "SHOW KEYS"); len(rows) == 0 || rows[0]["key"] != shown {
		t.Errorf("%v", rows)
	}
	// Others see that there is a hot key, and not which.
	for p := range w.proxies {
		other := w.conn(p, "alice")
		rows := w.rows(other, "select * from weft.hot_keys")
		if len(rows) == 0 || strings.Contains(fmt.Sprint(rows), "img") || rows[0]["key"] != "<insufficient privilege>" {
			t.Errorf("%v", rows)
		}
	}
	elsewhere := w.proxies[0].Connect(t, "alice", "dbname=app")
	if rows := w.rows(elsewhere, "select * from weft.hot_keys where database <> 'app'"); len(rows) != 0 {
		t.Errorf("keys of another database: %v", rows)
	}
}

// heat.keys: hashed keeps values to nobody, heat.samples: 0 counts nothing.
func TestSettings(t *testing.T) {
	w := newWorld(t, "settings", func(c *config.Config) { c.Heat.Keys = config.KeysHashed }, func(c *config.Config) { c.Heat.Samples = 0 })
	l := w.start(account(42))
	c := w.conn(0, "postgres")
	var name string
	w.await("the hot key", func() (any, bool) {
		rows := w.rows(c, "select key, share from weft.hot_keys order by reads_s + writes_s desc limit 2")
		if len(rows) != 2 || rows[0]["share"].(float64) < 0.1 {
			return rows, false
		}
		name = rows[0]["key"].(string)
		return rows, true
	})
	if !strings.HasPrefix(name, "#") || len(name) != 17 {
		t.Errorf("the key is called %q", name)
	}
	rows := w.rows(c, "select sum(reads_s + writes_s) as n from weft.load")
	if n := rows[0]["n"].(float64); n <= 0 || l.done.Load() == 0 {
		t.Errorf("%v statements a second", n)
	}
	// The other proxy has counted nothing: it knows what the first one tells it, which is no value.
	other := w.rows(w.conn(1, "postgres"), "select key from weft.hot_keys order by reads_s + writes_s desc limit 1")
	if len(other) != 1 || other[0]["key"] != nil {
		t.Errorf("%v", other)
	}
}

// A key that half of the rows of COPYs are of is found while they come, with its value, and the shards have work.
func TestCopied(t *testing.T) {
	w := newWorld(t, "copied", plain, plain)
	w.must(w.conn(0, "postgres"), "create table items (acct int, n int)")
	w.must(w.conn(0, "postgres"), "select weft.shard_table('items', 'acct')")
	c := w.conn(1, "postgres")
	for i, format := range []string{"", "with (format binary)"} {
		t.Run(format, func(t *testing.T) {
			hot := 77 + i
			r, in := io.Pipe()
			over := make(chan error, 1)
			load := w.conn(0, "postgres")
			go func() {
				_, err := load.PgConn().CopyFrom(context.Background(), r, "copy items from stdin "+format)
				over <- err
			}()
			b := binaryHead(format)
			w.await("the hot key of a COPY that goes on", func() (any, bool) {
				for range 20 {
					for i := range 200 {
						k := hot
						if i%2 == 0 {
							k = 1000 + rand.IntN(1e6)
						}
						if format == "" {
							b = fmt.Appendf(b, "%d\t1\n", k)
						} else {
							b = binary.BigEndian.AppendUint32(append(b, 0, 2, 0, 0, 0, 4), uint32(k))
							b = append(b, 0, 0, 0, 4, 0, 0, 0, 1)
						}
					}
					if _, err := in.Write(b); err != nil {
						t.Fatal(err)
					}
					b = b[:0]
				}
				keys := w.rows(c, "select key, share, writes_s from weft.hot_keys order by busy_ms_s desc limit 2")
				busy := 0.0
				for _, s := range w.rows(c, "select busy_ms_s from weft.load") {
					busy += s["busy_ms_s"].(float64)
				}
				return keys, len(keys) == 2 && keys[0]["key"] == fmt.Sprint(hot) && busy > 0
			})
			if format != "" {
				_, _ = in.Write([]byte{255, 255})
			}
			in.Close()
			if err := <-over; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// binaryHead is what comes before binary rows.
func binaryHead(format string) []byte {
	if format == "" {
		return nil
	}
	return append([]byte("PGCOPY\n\377\r\n\000"), make([]byte, 8)...)
}
