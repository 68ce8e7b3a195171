package throttle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
)

// With etcd dead, throttles go on, and those whose time is over end by the clocks of the proxies. None comes back with etcd, and none is lost.
func TestEtcdDies(t *testing.T) {
	e := harness.StartEtcdProcess(t)
	configure := func(c *config.Config) { plain(c); c.Etcd.Endpoints = []string{e.Endpoint} }
	w := newWorld(t, "etcd_dies", configure, configure)
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	began := time.Now()
	w.throttle(a, "username => 'alice', refuse => true, max_wait => '0', duration => '6s'")
	w.throttle(a, "username => 'bob', refuse => true, max_wait => '0', duration => '1h'")
	w.awaitThrottles(b, 2)
	e.Kill()
	alice, bob := []*pgx.Conn{w.conn(0, "alice"), w.conn(1, "alice")}, []*pgx.Conn{w.conn(0, "bob"), w.conn(1, "bob")}
	for p, c := range alice {
		if _, err := c.Exec(t.Context(), "select n from acct where id = 1"); time.Since(began) < 5*time.Second {
			w.refused(err)
		}
		w.await(fmt.Sprintf("the end through proxy %d", p), func() (any, bool) {
			_, err := c.Exec(t.Context(), "select n from acct where id = 1")
			return err, err == nil
		})
	}
	if took := time.Since(began); took < 5*time.Second {
		t.Errorf("ended after %v", took)
	}
	if _, err := a.Exec(t.Context(), "select weft.throttle(username => 'alice', refuse => true, duration => '1h')"); code(err) != "55000" && code(err) != "58000" || !strings.Contains(err.Error(), "throttles cannot be changed") {
		t.Errorf("a throttle without etcd: %v", err)
	}
	still := func() {
		t.Helper()
		for p := range w.proxies {
			_, err := bob[p].Exec(t.Context(), "select n from acct where id = 1")
			w.refused(err)
			w.must(alice[p], "select n from acct where id = 1")
		}
	}
	still()
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	// What can be made again shows that the proxies have found etcd.
	w.await("etcd through either proxy", func() (any, bool) {
		_, err := a.Exec(t.Context(), "select weft.throttle(application_name => 'none', refuse => true, duration => '1h')")
		return err, err == nil
	})
	w.awaitThrottles(a, 2)
	w.awaitThrottles(b, 2)
	still()
}
