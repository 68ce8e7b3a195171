package primary

import (
	"fmt"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestFailoverWithoutEtcd: a standby is promoted while etcd stands still. Probes find it, on each proxy by itself, and the old primary
// is refused when it is back, though no directory says so. When etcd is back it learns of the new generation.
func TestFailoverWithoutEtcd(t *testing.T) {
	e := harness.StartEtcdProcess(t)
	w := newWorldAt(t, e.Endpoint, func(c *config.Config) { c.Etcd.Timeout = pgtest.Stretch(time.Second) })
	e.Freeze()
	w.a.Kill()
	w.seeking(0, "shop-1")
	w.seeking(1, "shop-1")
	waits := []<-chan error{w.later(w.connect(0), write(w.there)), w.later(w.connect(1), write(w.there))}
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, done := range waits {
		if err := <-done; err != nil {
			t.Errorf("proxy %d: %v", i, err)
		}
	}
	if err := w.a.Restart(t.Context()); err != nil { // it comes back as a primary of its old timeline
		t.Fatal(err)
	}
	before := w.ask(w.a.Server, fmt.Sprintf("select v from t where k = %d", w.there))
	for i := range w.proxies {
		w.must(w.connect(i), write(w.there))
		w.must(w.connect(i), "select sum(v) from t")
	}
	if n := w.ask(w.b, fmt.Sprintf("select v from t where k = %d", w.there)); n != 4 {
		t.Errorf("the row was written %d times, not 4", n)
	}
	if n := w.ask(w.a.Server, fmt.Sprintf("select v from t where k = %d", w.there)); n != before {
		t.Errorf("the old primary was written to: %d, and %d before", n, before)
	}
	e.Thaw()
	w.generation(2)
	c := w.connect(1)
	w.await("schema changes", func() bool {
		_, err := c.Exec(w.within(), "alter table t add column w int")
		return err == nil || code(err) == "42701"
	})
}
