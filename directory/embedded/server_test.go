package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/directory"
	"weft/directory/etcd"
	"weft/directory/storetest"
	"weft/pgserver/pgtest"
)

var quiet = slog.New(slog.DiscardHandler)

func start(t *testing.T, dir, listen string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, Listen: listen, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	defer s.Close()
	var n atomic.Int32
	storetest.Run(t, func(t *testing.T) directory.Store {
		st, err := s.Store(fmt.Sprint("cluster", n.Add(1)))
		if err != nil {
			t.Fatal(err)
		}
		return st
	})
}

func TestRestartKeepsData(t *testing.T) {
	dir := t.TempDir()
	s := start(t, dir, "127.0.0.1:0")
	listen := strings.TrimPrefix(s.Endpoint(), "http://")
	st, _ := s.Store("c")
	made := storetest.Create(t, st)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = start(t, dir, listen) // the port is free again
	defer s.Close()
	st, _ = s.Store("c")
	got, err := st.Load(t.Context())
	if err != nil || got.Version != made.Version || got.Cluster != made.Cluster {
		t.Errorf("after a restart: %+v, %v; want %+v", got, err, made)
	}
}

func TestPortInUse(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	defer s.Close()
	_, err := Start(t.Context(), Config{Dir: t.TempDir(), Listen: strings.TrimPrefix(s.Endpoint(), "http://"), Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
}

// Another process's watch and lease must not hold up the end of this one.
func TestCloseIsQuick(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	other := open(t, s.Endpoint())
	defer other.Close()
	storetest.Create(t, other)
	seen := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- other.Watch(ctx, func(*directory.Snapshot) { seen <- struct{}{} }) }()
	<-seen
	go func() {
		done <- other.Register(ctx, directory.Proxy{ID: "p"}, storetest.NewServing(1), func(int64) { seen <- struct{}{} })
	}()
	<-seen
	time.Sleep(100 * time.Millisecond) // the stream opens after the first call
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); pgtest.Late(t, took, 3*time.Second) {
		t.Errorf("Close took %v", took)
	}
	cancel()
	<-done
	<-done
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func open(t *testing.T, endpoint string) *etcd.Store {
	t.Helper()
	st, err := etcd.Open(etcd.Config{
		Endpoints: []string{endpoint}, Prefix: etcd.Prefix("c"), Log: quiet,
		RequestTimeout: 2 * time.Second, ProbeInterval: 200 * time.Millisecond, LeaseTTL: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The store goes away and comes back: reads go on from the last snapshot, a
// change fails and says so, and afterwards all is as before.
func TestOutage(t *testing.T) {
	dir := t.TempDir()
	srv := start(t, dir, "127.0.0.1:0")
	listen := strings.TrimPrefix(srv.Endpoint(), "http://")
	st := open(t, srv.Endpoint())
	defer st.Close()
	storetest.Create(t, st)
	made, err := st.Update(t.Context(), storetest.Tenants)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.PutEntries(t.Context(), "tenants", []directory.Entry{{Key: []byte("42"), Bucket: 7}}); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cur := directory.NewCurrent(st, quiet)
	ran := make(chan error, 2)
	go func() { ran <- cur.Run(ctx) }()
	epochs := make(chan int64, 10)
	go func() {
		ran <- st.Register(ctx, directory.Proxy{ID: "p"}, storetest.NewServing(1), func(e int64) { epochs <- e })
	}()
	if got, err := cur.Wait(t.Context()); err != nil || got.Version != made.Version {
		t.Fatalf("first snapshot: %+v, %v", got, err)
	}
	<-epochs

	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the watch notices", func() bool { return cur.Err() != nil })
	if !errors.Is(cur.Err(), directory.ErrUnavailable) {
		t.Errorf("Err is %v, want ErrUnavailable", cur.Err())
	}
	if got := cur.Snapshot(); got == nil || got.Version != made.Version {
		t.Errorf("while etcd is away: %+v", got)
	} else if tab := got.Table("app", "public", "accounts"); tab == nil || len(got.Placement) != 64 {
		t.Errorf("while etcd is away: table %+v, %d buckets", tab, len(got.Placement))
	} else if b, ok := got.Entry("tenants", []byte("42"), 0); !ok || b != 7 {
		t.Errorf("while etcd is away: entry %d, %v", b, ok)
	}
	if _, err := cur.Place(t.Context(), "tenants", []byte("43"), 8<<58); !errors.Is(err, directory.ErrUnavailable) {
		t.Errorf("an entry while etcd is away: %v", err)
	}
	if _, err := cur.Pin(t.Context(), "tenants", []byte("43"), "b"); !errors.Is(err, directory.ErrUnavailable) {
		t.Errorf("a pin while etcd is away: %v", err)
	}
	if err := st.Acknowledged(t.Context(), made.Version); !errors.Is(err, directory.ErrUnavailable) {
		t.Errorf("Acknowledged while etcd is away: %v", err)
	}
	_, err = st.Update(t.Context(), storetest.SetHost("h:9"))
	if !errors.Is(err, directory.ErrUnavailable) || !strings.Contains(err.Error(), srv.Endpoint()) {
		t.Errorf("Update while etcd is away: %v", err)
	}
	if _, err = st.Load(t.Context()); !errors.Is(err, directory.ErrUnavailable) {
		t.Errorf("Load while etcd is away: %v", err)
	}
	time.Sleep(1500 * time.Millisecond) // longer than the lease lives

	srv = start(t, dir, listen)
	defer srv.Close()
	eventually(t, "the watch resumes", func() bool { return cur.Err() == nil })
	var after *directory.Snapshot
	eventually(t, "changes are taken again", func() bool {
		after, err = st.Update(t.Context(), storetest.SetHost("h:11"))
		return err == nil
	})
	eventually(t, "the change arrives", func() bool { return cur.Snapshot().Version == after.Version })
	if h := cur.Snapshot().Shards[0].Hosts[0]; h != "h:11" {
		t.Errorf("host %s", h)
	}
	if b, err := cur.Place(t.Context(), "tenants", []byte("43"), 8<<58); err != nil || b != 8 {
		t.Errorf("an entry after the outage: %d, %v", b, err)
	}
	if b, ok := cur.Snapshot().Entry("tenants", []byte("42"), 0); !ok || b != 7 {
		t.Errorf("after the outage: entry %d, %v", b, ok)
	}
	eventually(t, "the proxy is listed again", func() bool {
		list, err := st.Proxies(t.Context())
		return err == nil && len(list) == 1
	})
	cancel()
	for range 2 {
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
}

// The server goes away after the snapshot was read and before the watch stands.
func TestOutageBeforeWatch(t *testing.T) {
	srv := start(t, t.TempDir(), "127.0.0.1:0")
	st := open(t, srv.Endpoint())
	defer st.Close()
	storetest.Create(t, st)
	done := make(chan error, 1)
	go func() {
		done <- st.Watch(t.Context(), func(*directory.Snapshot) {
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
		})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, directory.ErrUnavailable) {
			t.Errorf("Watch: %v", err)
		}
	case <-time.After(storetest.Patience):
		t.Error("Watch did not notice")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(storetest.Patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, storetest.Patience)
		}
	}
}
