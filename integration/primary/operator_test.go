package primary

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/directory"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestDrained: a server whose shard every proxy has drained can be shut down the smart way, which waits for all connections to end.
func TestDrained(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	w.must(c, write(w.there))
	for i := range w.proxies {
		admin := w.proxies[i].Connect(t, "postgres", "dbname=weft", "default_query_exec_mode=simple_protocol")
		w.must(admin, "DRAIN SHARD shop-1")
	}
	waits := w.later(c, write(w.there))
	if err := syscall.Kill(w.a.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.a.Done():
	case <-time.After(pgtest.Patience):
		t.Fatal("the server does not shut down")
	}
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.generation(2) // a drained shard is watched
	for i := range w.proxies {
		admin := w.proxies[i].Connect(t, "postgres", "dbname=weft", "default_query_exec_mode=simple_protocol")
		w.must(admin, "RESUME SHARD shop-1")
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
}

// split makes the standby b and another one primaries of the same timeline, and returns the other one.
func (w *world) split() *pgserver.Server {
	w.t.Helper()
	other := pgtest.Standby(w.t, w.a.Server)
	if _, err := w.store.Update(w.t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		sh, _ := next.Shard("shop-1")
		sh.Hosts = append(sh.Hosts, other.Addr())
		return next, nil
	}); err != nil {
		w.t.Fatal(err)
	}
	c := w.connect(0)
	w.shown(c, "select count(*) from weft.replicas where shard = 'shop-1' and state = 'standby'", "2")
	w.a.Kill()
	if err := w.b.Promote(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.generation(2)
	w.await("a write to the new primary", func() bool { // at once, or when this proxy knows the new primary, if clients do not wait
		_, err := c.Exec(w.within(), write(w.there))
		return err == nil
	})
	if err := other.Promote(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.shown(c, "select count(*) from weft.replicas where shard = 'shop-1' and state = 'split'", "2")
	return other
}

// TestSplit: a shard with two primaries of one timeline is refused at once, whatever failover.wait is.
func TestSplit(t *testing.T) {
	for _, wait := range []time.Duration{0, pgtest.Patience} {
		w := newWorld(t, func(c *config.Config) { c.Failover.Wait = wait })
		other := w.split()
		c := w.connect(0)
		began := time.Now()
		_, err := c.Exec(w.within(), write(w.there))
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "57P03" || !strings.Contains(e.Detail, w.b.Addr()) || !strings.Contains(e.Detail, other.Addr()) || time.Since(began) > pgtest.Patience/2 {
			t.Errorf("%v, %+v, after %v", err, e, time.Since(began))
		}
		w.must(c, write(w.here))
		other.Kill()
		w.await("a write to the one that was known first", func() bool {
			_, err := c.Exec(w.within(), write(w.there))
			return err == nil
		})
	}
}
