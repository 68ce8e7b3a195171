package throttle

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/config"
)

// narrow lets few statements run on a shard at a time, so that it is soon saturated.
func narrow(mode string) func(*config.Config) {
	return func(c *config.Config) {
		c.Pool.MaxPerShard, c.Pool.OverloadWait = 3, 0
		c.Heat.Throttle = mode
	}
}

// flood keeps clients busy with a key until the function that it returns is called. It counts what was refused.
func (w *world) flood(clients int, sql string) (refused *atomic.Int64, halt func()) {
	w.Helper()
	refused = &atomic.Int64{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range clients {
		c := w.conn(i%len(w.proxies), "postgres", "default_query_exec_mode=simple_protocol")
		wg.Go(func() {
			for ctx.Err() == nil {
				switch _, err := c.Exec(context.Background(), sql); code(err) {
				case "":
				case "53400":
					refused.Add(1)
				default:
					w.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	halt = sync.OnceFunc(func() { stop(); wg.Wait() })
	w.Cleanup(halt)
	return refused, halt
}

const hotKey = "select pg_sleep(0.05) from acct where id = 42"

// A key that saturates its shard is limited as long as it does, and let go then.
func TestAutomatic(t *testing.T) {
	w := newWorld(t, "automatic", narrow(config.ThrottleAuto), narrow(config.ThrottleAuto))
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	_, halt := w.flood(16, hotKey)
	const about = "select * from weft.throttles where origin = 'automatic' and target = 'key 42 of acct'"
	w.await("an automatic throttle", func() (any, bool) {
		rows := w.rows(b, about)
		return w.rows(b, "select * from weft.warnings"), len(rows) == 1 && rows[0]["mode"] == "enforce" && rows[0]["delayed"].(int64) > 0 && rows[0]["reason"] != nil
	})
	// Its demand is still seen as what it is.
	w.await("the verdict beside the throttle", func() (any, bool) {
		rows := w.rows(a, "select verdict, share_of_shard from weft.hot_keys where key = '42'")
		return rows, len(rows) == 1 && rows[0]["verdict"] != nil
	})
	halt()
	w.await("the end of the throttle", func() (any, bool) {
		rows := w.rows(a, "select * from weft.throttles where origin = 'automatic'")
		return rows, len(rows) == 0
	})
	w.must(a, "select n from acct where id = 42")
}

// By default automatic throttles only say what they would do.
func TestAutomaticObserve(t *testing.T) {
	w := newWorld(t, "automatic_observe", narrow(config.Default().Heat.Throttle), narrow(config.Default().Heat.Throttle))
	b := w.conn(1, "postgres")
	refused, halt := w.flood(16, hotKey)
	w.await("a throttle that is observed", func() (any, bool) {
		rows := w.rows(b, "select * from weft.throttles where origin = 'automatic' and target = 'key 42 of acct' and mode = 'observe' and delayed + refused > 0")
		return w.rows(b, "select * from weft.throttles"), len(rows) == 1
	})
	time.Sleep(time.Second)
	halt()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d statements were refused", n)
	}
}
