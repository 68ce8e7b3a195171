package handover

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/directory/embedded"
	"weft/directory/etcd"
	"weft/directory/storetest"
	"weft/pgserver/pgtest"
	"weft/primary"
)

// proxy is a proxy that follows the directory, and says when it is clear.
type proxy struct {
	t       *testing.T
	store   *etcd.Store
	serving *storetest.Serving

	mu   sync.Mutex
	busy bool // a session uses the shard
	seen []string
}

// newProxy starts an etcd with a cluster, and a proxy.
func newProxy(t *testing.T) (*Shard, *proxy) {
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	store, err := etcd.Open(etcd.Config{Endpoints: []string{e.Endpoint()}, Prefix: "/weft/t/", Log: slog.New(slog.DiscardHandler), LeaseTTL: 10 * time.Second, RequestTimeout: 10 * time.Second, ProbeInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	snap, err := store.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) {
		return directory.New(16, "s", []directory.Shard{{Name: "s", Hosts: []string{"a:1", "b:1"}, Weight: 1, System: "7"}}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, store: store, serving: storetest.NewServing(snap.Version)}
	leave := storetest.Join(t, store, "p", p.serving)
	t.Cleanup(leave)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = store.Watch(ctx, p.follow) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return &Shard{store, "s"}, p
}

// follow notes a snapshot. The proxy is clear at once, unless it is busy.
func (p *proxy) follow(snap *directory.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sh, _ := snap.Shard("s")
	switch {
	case sh.Drain != nil && sh.Drain.Shut:
		p.seen = append(p.seen, "shut")
	case sh.Drain != nil:
		p.seen = append(p.seen, "drained")
	case sh.Fence != 0:
		p.seen = append(p.seen, "fenced")
	default:
		p.seen = append(p.seen, "open")
	}
	if !p.busy {
		p.serving.Set(snap.Version)
	}
}

func (p *proxy) steps() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.seen, " ")
}

// await waits until the proxy has seen a step last.
func (p *proxy) await(step string) {
	p.t.Helper()
	for end := time.Now().Add(pgtest.Patience); !strings.HasSuffix(p.steps(), step); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("seen: %s", p.steps())
		}
	}
}

// manager is a Manager that does what the test says.
type manager struct {
	check    error
	switchTo func(ctx context.Context) error
}

func (m manager) Check(context.Context) error      { return m.check }
func (m manager) Switch(ctx context.Context) error { return m.switchTo(ctx) }

var minutes = Options{Wait: pgtest.Patience, For: 2 * pgtest.Patience}

// TestSwitchover: the shard is drained, shut, switched, and the new generation ends the drain.
func TestSwitchover(t *testing.T) {
	s, p := newProxy(t)
	r, err := s.Switchover(t.Context(), manager{switchTo: func(ctx context.Context) error {
		p.await("drained shut")
		_, err := s.change(ctx, func(sh *directory.Shard) error {
			sh.Raise(primary.Generation{System: "7", Timeline: 2, Fork: 0x60}, "b:1")
			return nil
		})
		return err
	}}, minutes, false)
	if err != nil || r.Now.Primary != "b:1" || r.Now.Drain != nil {
		t.Fatalf("%+v, %v", r.Now, err)
	}
	p.await("drained shut open")
}

// TestSwitchoverFails: whatever fails, clients go on with the primary that there is.
func TestSwitchoverFails(t *testing.T) {
	s, p := newProxy(t)
	broken := errors.New("broken")
	if _, err := s.Switchover(t.Context(), manager{check: broken}, minutes, false); !errors.Is(err, broken) || strings.Contains(p.steps(), "drained") {
		t.Errorf("a check that fails: %v, %s", err, p.steps())
	}
	fails := manager{switchTo: func(context.Context) error { return broken }}
	if _, err := s.Switchover(t.Context(), fails, minutes, false); !errors.Is(err, broken) {
		t.Errorf("a switch that fails: %v", err)
	}
	p.await("shut open")
	p.mu.Lock()
	p.busy = true
	p.mu.Unlock()
	brief := Options{Wait: 10 * time.Millisecond, For: pgtest.Patience}
	if _, err := s.Switchover(t.Context(), fails, brief, false); err == nil || errors.Is(err, broken) || !strings.Contains(err.Error(), "not free of transactions") {
		t.Errorf("transactions that do not end: %v", err)
	}
	if _, err := s.Switchover(t.Context(), fails, brief, true); !errors.Is(err, broken) {
		t.Errorf("transactions that do not end, by force: %v", err)
	}
	p.await("drained open")
	if _, err := (&Shard{s.Directory, "none"}).Load(t.Context()); !errors.Is(err, ErrNoShard) {
		t.Errorf("no shard: %v", err)
	}
}

// TestDrainTwice: a drain is not begun beside another, and one that has ended meanwhile is not taken for one that goes on.
func TestDrainTwice(t *testing.T) {
	s, p := newProxy(t)
	if err := s.Drain(t.Context(), minutes); err != nil {
		t.Fatal(err)
	}
	if err := s.Drain(t.Context(), minutes); err == nil || !strings.Contains(err.Error(), "drained already") {
		t.Errorf("a second drain: %v", err)
	}
	for _, want := range []bool{true, false} {
		if got, err := s.EndDrain(t.Context()); got != want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	p.await("open")
	if _, err := s.step(t.Context(), "k", 0, true); err == nil {
		t.Error("a drain that has ended goes on")
	}
}

// TestFence: the timeline of the primary is over, and that can be taken back.
func TestFence(t *testing.T) {
	s, p := newProxy(t)
	if timeline, err := s.Fence(t.Context()); timeline != 1 || err != nil {
		t.Errorf("timeline %d, %v", timeline, err)
	}
	p.await("fenced")
	for _, want := range []bool{true, false} {
		if got, err := s.EndFence(t.Context()); got != want || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
	p.await("open")
	p.mu.Lock()
	p.busy = true
	p.mu.Unlock()
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := s.Fence(ctx); err == nil || !strings.Contains(err.Error(), "let go") {
		t.Errorf("a proxy that does not let go: %v", err)
	}
}
