package heat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
)

// roomy lets clients wait as long as it takes, and says what becomes of limits.
func roomy(mode string) func(*config.Config) {
	return func(c *config.Config) {
		c.Heat.Limit, c.Heat.Throttle = mode, config.ThrottleOff
		c.Pool.MaxPerShard, c.Pool.QueueTimeout, c.Pool.OverloadWait = 40, 10*time.Minute, 0
	}
}

// grind is a statement that takes a core for a while: the table pace says how long.
const grind = "select count(*) from acct a, pace p, generate_series(1, p.n) g where a.id = $1"

// paced makes the table pace, the same on every shard.
func (w *world) paced(n int) {
	w.Helper()
	c := w.conn(0, "postgres")
	w.must(c, "create table pace (one int primary key, n int not null)")
	w.must(c, "insert into pace values (1, $1)", n)
	w.must(c, "select weft.reference_table('pace')")
}

// limitOf returns slowdown and limit of the shard that a key is on.
func (w *world) limitOf(proxy int, shard string) (slowdown float64, allows int64) {
	w.Helper()
	c := w.conn(proxy, "postgres")
	defer func() { _ = c.Close(w.Context()) }()
	r := w.rows(c, "select slowdown, allows from weft.load where shard = $1", shard)[0]
	slowdown, _ = r["slowdown"].(float64)
	allows, _ = r["allows"].(int64)
	return slowdown, allows
}

// shardOfKey names the shard of a key.
func (w *world) shardOfKey(id int64) string {
	w.Helper()
	port := w.rows(w.conn(0, "postgres"), "select current_setting('port') as port from acct where id = $1", id)[0]["port"].(string)
	for i, s := range w.proxies[0].Shards() {
		if strings.HasSuffix(s.Addr(), ":"+port) {
			return harness.Snapshot(w.T).Shards[i].Name
		}
	}
	w.Fatalf("no shard has port %s", port)
	return ""
}

// The limit of a crowded shard falls and is obeyed through both proxies, and nobody is refused. The limit of the other shard does not fall.
func TestLimit(t *testing.T) {
	w := newWorld(t, "limited", roomy(config.ThrottleAuto), roomy(config.ThrottleAuto))
	w.paced(2000)
	by := w.keysByShard()
	hot, calm := w.shardOfKey(by[0][0]), w.shardOfKey(by[1][0])
	learn := w.run(1, "postgres", 10*time.Millisecond, grind, by[0][0])
	w.await("what statements take", func() (any, bool) {
		slowdown, allows := w.limitOf(0, hot)
		return fmt.Sprint(slowdown, allows), slowdown > 0 && slowdown < 2 && allows == 80
	})
	learn.stop()
	w.run(24, "postgres", 0, grind, by[0][0])
	w.runOn(1, 24, "postgres", 0, grind, by[0][0])
	w.await("a lower limit", func() (any, bool) {
		slowdown, allows := w.limitOf(1, hot)
		return fmt.Sprint(slowdown, allows), allows <= 16
	})
	w.await("few backends at a time", func() (any, bool) {
		_, allows := w.limitOf(0, hot)
		n := 0
		for p := range w.proxies {
			n += w.lent(p, hot)
		}
		return fmt.Sprint(n, allows), n <= int(allows)+2
	})
	if _, allows := w.limitOf(0, calm); allows != 80 {
		t.Errorf("the other shard is limited to %d", allows)
	}
}

// By default a limit is shown, and nobody waits for it.
func TestLimitObserved(t *testing.T) {
	w := newWorld(t, "observed", roomy(config.Default().Heat.Limit))
	w.paced(2000)
	by := w.keysByShard()
	hot := w.shardOfKey(by[0][0])
	learn := w.run(1, "postgres", 10*time.Millisecond, grind, by[0][0])
	w.await("what statements take", func() (any, bool) {
		slowdown, allows := w.limitOf(0, hot)
		return fmt.Sprint(slowdown, allows), slowdown > 0 && slowdown < 2 && allows == 40
	})
	learn.stop()
	w.run(24, "postgres", 0, grind, by[0][0])
	w.await("a lower limit", func() (any, bool) {
		slowdown, allows := w.limitOf(0, hot)
		return fmt.Sprint(slowdown, allows), allows <= 16
	})
	w.await("all backends", func() (any, bool) { n := w.lent(0, hot); return n, n == 24 })
}

// lent is how many connections to a shard clients of a proxy have now.
func (w *world) lent(proxy int, shard string) (n int) {
	w.Helper()
	admin := w.proxies[proxy].Connect(w.T, "postgres", "dbname=weft", "default_query_exec_mode=simple_protocol")
	defer func() { _ = admin.Close(w.Context()) }()
	for _, r := range w.rows(admin, "SHOW POOLS") {
		if r["shard"] == shard {
			n += number(r["open"]) - number(r["idle"])
		}
	}
	return n
}
