package etcd_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"weft/directory"
	"weft/directory/etcd"
	"weft/directory/storetest"
	"weft/pgserver/pgtest"
)

var quiet = slog.New(slog.DiscardHandler)

// secured is an etcd of its own that asks for TLS and a password, as in
// production. It returns the configuration of a store that may use it, and a
// client that may do anything.
func secured(t *testing.T) (etcd.Config, *clientv3.Client) {
	t.Helper()
	local := func(scheme string) []url.URL { return []url.URL{{Scheme: scheme, Host: "127.0.0.1:0"}} }
	c := embed.NewConfig()
	c.Name, c.Dir = "t", t.TempDir()
	c.ListenPeerUrls, c.AdvertisePeerUrls = local("http"), local("http")
	c.ListenClientUrls, c.AdvertiseClientUrls = local("https"), local("https")
	c.InitialCluster = "t=http://127.0.0.1:0"
	c.ClientAutoTLS = true
	c.BcryptCost = 4 // each login costs this
	c.TickMs, c.ElectionMs = 10, 100
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcd.ZapLogger(quiet))
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()

	pem, err := os.ReadFile(filepath.Join(c.Dir, "fixtures", "client", "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	cfg := etcd.Config{
		Endpoints: []string{"https://" + e.Clients[0].Addr().String()},
		Prefix:    "/somewhere/else/",
		TLS:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Username:  "weft", Password: "thread",
		// Patient, because a TLS handshake and a login take their time on a
		// machine that is busy with other tests.
		RequestTimeout: 15 * time.Second, ProbeInterval: 100 * time.Millisecond,
		Log: quiet,
	}
	root, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints, TLS: cfg.TLS, Logger: etcd.ZapLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(root.UserAdd(ctx, "root", "root"))
	must(root.RoleAdd(ctx, "root"))
	must(root.UserGrantRole(ctx, "root", "root"))
	must(root.UserAdd(ctx, "weft", "thread"))
	must(root.RoleAdd(ctx, "weft"))
	must(root.RoleGrantPermission(ctx, "weft", "/somewhere/else/", clientv3.GetPrefixRangeEnd("/somewhere/else/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(root.UserGrantRole(ctx, "weft", "weft"))
	must(root.AuthEnable(ctx))
	admin, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints, TLS: cfg.TLS, Username: "root", Password: "root", Logger: etcd.ZapLogger(quiet)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() })
	return cfg, admin
}

func open(t *testing.T, cfg etcd.Config) *etcd.Store {
	t.Helper()
	st, err := etcd.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// The suite runs over TLS, with a user who may touch only the store's prefix.
func TestStore(t *testing.T) {
	cfg, _ := secured(t)
	var n atomic.Int32
	storetest.Run(t, func(t *testing.T) directory.Store {
		cfg := cfg
		cfg.Prefix += fmt.Sprint(n.Add(1), "/")
		return open(t, cfg)
	})
}

func TestDenied(t *testing.T) {
	cfg, _ := secured(t)
	wrong := cfg
	wrong.Password = "needle"
	if _, err := etcd.Open(wrong); !errors.Is(err, directory.ErrDenied) {
		t.Errorf("wrong password: %v", err)
	}
	outside := cfg
	outside.Prefix = "/weft/other/"
	if _, err := open(t, outside).Load(t.Context()); !errors.Is(err, directory.ErrDenied) {
		t.Errorf("another cluster's prefix: %v", err)
	}
}

func TestUnavailable(t *testing.T) {
	st := open(t, etcd.Config{Endpoints: []string{"127.0.0.1:1"}, Prefix: "/weft/c/", RequestTimeout: 200 * time.Millisecond, Log: quiet})
	began := time.Now()
	_, err := st.Load(context.WithoutCancel(t.Context())) // no deadline of the caller's
	if !errors.Is(err, directory.ErrUnavailable) || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); pgtest.Late(t, took, 2*time.Second) {
		t.Errorf("took %v", took)
	}
}

// A proxy whose lease has ended is entered again, under a new epoch, as soon as the proxy notices.
func TestLostLease(t *testing.T) {
	cfg, admin := secured(t)
	lost := make(lostLeases, 10)
	cfg.Log = slog.New(lost)
	st := open(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	epochs, done := make(chan int64, 10), make(chan error, 1)
	go func() {
		done <- st.Register(ctx, directory.Proxy{ID: "p"}, storetest.NewServing(1), func(e int64) { epochs <- e })
	}()
	first := <-epochs
	leases, err := admin.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases: %v, %v", leases, err)
	}
	if _, err := admin.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	select {
	case second := <-epochs:
		if second <= first {
			t.Errorf("epoch went from %d to %d", first, second)
		}
		if took := time.Since(<-lost); pgtest.Late(t, took, 500*time.Millisecond) {
			t.Errorf("registered again %s after the loss was noticed", took)
		}
	case <-time.After(storetest.Patience):
		t.Fatal("not registered again")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// Neither its entry nor its lease stays behind.
	if list, err := st.Proxies(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("still listed: %v, %v", list, err)
	}
	if leases, err := admin.Leases(t.Context()); err != nil || len(leases.Leases) != 0 {
		t.Errorf("leases left: %v, %v", leases, err)
	}
}

// lostLeases is a log handler that keeps the times at which a proxy notices that its lease has ended.
type lostLeases chan time.Time

func (l lostLeases) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "not registered in the directory") {
		l <- r.Time
	}
	return nil
}

func (l lostLeases) Enabled(context.Context, slog.Level) bool { return true }
func (l lostLeases) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lostLeases) WithGroup(string) slog.Handler            { return l }

// A proxy that died is waited for as long as its lease lives, and no longer.
func TestAcknowledgedByTheDead(t *testing.T) {
	cfg, admin := secured(t)
	st := open(t, cfg)
	defer storetest.Join(t, st, "alive", storetest.NewServing(9))()
	lives := pgtest.Stretch(2 * time.Second).Round(time.Second)
	lease, err := admin.Grant(t.Context(), int64(lives/time.Second))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for key, value := range map[string]string{"proxies/dead": `{"address":"nowhere:1"}`, "serves/dead": "8"} {
		if _, err := admin.Put(t.Context(), cfg.Prefix+key, value, clientv3.WithLease(lease.ID)); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Acknowledged(t.Context(), 8); err != nil || time.Since(began) > lives-500*time.Millisecond {
		t.Errorf("a version it serves: %v after %v", err, time.Since(began))
	}
	if err := st.Acknowledged(t.Context(), 9); err != nil || time.Since(began) < lives-500*time.Millisecond {
		t.Errorf("a version it does not serve: %v after %v", err, time.Since(began))
	}
	if list, err := st.Proxies(t.Context()); err != nil || len(list) != 1 || list[0].ID != "alive" {
		t.Errorf("proxies: %v, %v", list, err)
	}
}

// What somebody else put under the key must not reach a statement.
func TestGarbage(t *testing.T) {
	cfg, admin := secured(t)
	st := open(t, cfg)
	made := storetest.Create(t, st)
	cur := directory.NewCurrent(st, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cur.Run(ctx) }()
	if _, err := cur.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"{", `{"format":99}`, `{"format":1,"cluster":"x"}`} {
		if _, err := admin.Put(t.Context(), cfg.Prefix+"snapshot", bad); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Load(t.Context()); err == nil {
			t.Errorf("%s was loaded", bad)
		}
	}
	wait(t, func() bool { return cur.Err() != nil })
	if got := cur.Snapshot(); got.Version != made.Version {
		t.Errorf("serving %+v", got)
	}
	if _, err := admin.Delete(t.Context(), cfg.Prefix+"snapshot"); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return errors.Is(cur.Err(), directory.ErrNoCluster) })

	// A cluster made anew under the old name is not the one we serve.
	storetest.Create(t, st)
	wait(t, func() bool { return cur.Err() != nil && strings.Contains(cur.Err().Error(), "restart") })
	if got := cur.Snapshot(); got.Cluster != made.Cluster {
		t.Errorf("took over %+v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A damaged part or entry is refused with its place; what was served goes on.
func TestDamage(t *testing.T) {
	cfg, admin := secured(t)
	var log strings.Builder
	var mu sync.Mutex
	cfg.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	st := open(t, cfg)
	storetest.Create(t, st)
	made, err := st.Update(t.Context(), storetest.Tenants)
	if err != nil {
		t.Fatal(err)
	}
	cur := directory.NewCurrent(st, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cur.Run(ctx) }()
	if _, err := cur.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	put := func(key, value string) {
		t.Helper()
		if _, err := admin.Put(t.Context(), cfg.Prefix+key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("snapshot/entry/tenants/1", "nonsense")
	put("snapshot/entry/tenants/2", "4096")
	put("snapshot/entry/", "7")
	wait(t, func() bool { b, ok := cur.Snapshot().Entry("tenants", []byte("1"), 0); return ok && b < 0 })
	wait(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), `msg="lookup entry is not usable: its value is not a bucket" lookup=tenants key=1`) &&
			strings.Contains(log.String(), `msg="lookup entry is not usable: its bucket does not exist" lookup=tenants key=2 bucket=4096 buckets=64`) &&
			strings.Contains(log.String(), `msg="ignoring a lookup entry without a name"`)
	})
	put("snapshot/part/placement", "nonsense")
	fresh := open(t, cfg) // has not read the good one
	if _, err := fresh.Load(t.Context()); !errors.Is(err, directory.ErrPart) || !strings.Contains(err.Error(), "placement") {
		t.Errorf("damaged placement: %v", err)
	}
	if got := cur.Snapshot(); got.Version != made.Version {
		t.Errorf("serving %+v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *strings.Builder
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(storetest.Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen")
		}
	}
}
