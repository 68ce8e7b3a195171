package schema

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"weft/directory"
	"weft/directory/embedded"
	"weft/pgerr"
)

// TestEtcd goes the whole way with a real directory: declare by a lookup, pin,
// fail, take back.
func TestEtcd(t *testing.T) {
	c := newCluster(t)
	quiet := slog.New(slog.DiscardHandler)
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: quiet, NoFsync: true})
	c.must(err)
	defer etcd.Close()
	st, err := etcd.Store("c")
	c.must(err)
	_, err = st.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) { return c.store.snap, nil })
	c.must(err)
	current := directory.NewCurrent(st, quiet)
	running, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = current.Run(running) })
	defer wg.Wait()
	defer stop()
	_, err = current.Wait(t.Context())
	c.must(err)
	m := New(Config{Shards: dialer{}, Directory: st, Entries: current, Proxy: "p"})

	c.home("CREATE TABLE users (id int, tenant text, PRIMARY KEY (id, tenant)); INSERT INTO users SELECT i, E'tenant\\t' || i % 50 FROM generate_series(1, 1000) i; CREATE TABLE more (tenant text)")
	req := c.request("users", "tenant")
	req.Vindex = directory.Vindex{Kind: "lookup_unique", Name: "dir"}
	count := func() int {
		n, err := st.CountEntries(t.Context(), "dir")
		c.must(err)
		return n
	}
	failing := New(m.cfg)
	failing.cfg.step = func(name string) error {
		if name == "copied" {
			return errors.New("failed on purpose")
		}
		return nil
	}
	if err := failing.Shard(c.context(), req, c.notice); err == nil || count() != 0 {
		t.Fatalf("%v, %d entries", err, count())
	}
	more := c.request("more", "tenant")
	more.Vindex = req.Vindex
	c.must(m.Shard(c.context(), more, c.notice))
	c.must(m.Pin(c.context(), c.db, "postgres", "dir", "tenant\t7", "west"))
	c.must(m.Shard(c.context(), req, c.notice))
	if n := count(); n != 50 {
		t.Errorf("%d entries", n)
	}
	if got := c.each("SELECT count(*) FROM users WHERE tenant LIKE '%\t7'"); got["west"] != "20" {
		t.Errorf("%v", got)
	}
	var e *pgerr.Error
	if err := m.Pin(c.context(), c.db, "postgres", "dir", "tenant\t8", "west"); !errors.As(err, &e) || e.Code != pgerr.ObjectInUse {
		t.Errorf("%v", err)
	}
	c.must(m.Unshard(c.context(), req, c.notice))
	if n := count(); n != 50 {
		t.Errorf("%d entries while a table uses them", n)
	}
	c.must(m.Unshard(c.context(), more, c.notice))
	if n := count(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	snap, err := st.Load(t.Context())
	c.must(err)
	if len(snap.Tables) != 0 || len(snap.Placement) != snap.BucketCount || snap.Schemas[c.db] != 4 {
		t.Errorf("%d tables, %d buckets, schemas %v", len(snap.Tables), len(snap.Placement), snap.Schemas)
	}
	if got := c.each("SELECT count(*) FROM users"); got["home"] != "1000" || got["east"] != "-" {
		t.Errorf("%v", got)
	}
}
