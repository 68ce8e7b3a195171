package discover

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/patroni"
	"weft/primary"
)

// world is the directory, Patroni's keys, DNS, and what is known of servers.
type world struct {
	t *testing.T

	mu       sync.Mutex
	snap     *directory.Snapshot
	keys     map[string]string
	watchers map[chan string]bool
	names    map[string][]string
	answers  map[string]bool
	suspects int
	log      bytes.Buffer
}

func newWorld(t *testing.T, shards ...directory.Shard) *world {
	w := &world{t: t, snap: directory.New(16, shards[0].Name, shards), keys: map[string]string{}, names: map[string][]string{}, answers: map[string]bool{}, watchers: map[chan string]bool{}}
	f := New(Config{
		Log: slog.New(slog.NewTextHandler(locked{w}, nil)), Source: &Source{Keys: w, Lookup: w.lookup}, Snapshot: w.snapshot, Update: w.update, View: w.view,
		Suspect: func(context.Context, string) { w.set(func() { w.suspects++ }) },
		Guard:   func(_ string, f func()) func() { return f },
	})
	f.pause, f.hurry = time.Hour, time.Millisecond
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { f.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return w
}

// locked writes to the log of a world.
type locked struct{ w *world }

func (l locked) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) snapshot() *directory.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.snap
}

func (w *world) update(_ context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := fn(w.snap)
	if err == nil {
		w.snap = next
	}
	return next, err
}

// view is that of a shard without a primary, so that names are looked up all the time.
func (w *world) view(string) *primary.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &primary.View{State: primary.Seeking}
	for a, yes := range w.answers {
		role := primary.Away
		if yes {
			role = primary.Follows
		}
		v.Servers = append(v.Servers, primary.Server{Address: a, Role: role})
	}
	return v
}

func (w *world) lookup(_ context.Context, host string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[host] == nil {
		return nil, errors.New("no such name")
	}
	return append([]string{}, w.names[host]...), nil
}

// Keys implements Keys.
func (w *world) Keys(_ context.Context, prefix string) (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]string{}
	for k, v := range w.keys {
		if strings.HasPrefix(k, prefix) {
			out[k] = v
		}
	}
	return out, nil
}

// WatchKeys implements Keys.
func (w *world) WatchKeys(ctx context.Context, _ string, changed func(string)) error {
	c := make(chan string, 100)
	w.set(func() { w.watchers[c] = true })
	defer w.set(func() { delete(w.watchers, c) })
	for {
		select {
		case key := <-c:
			changed(key)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// put changes a key.
func (w *world) put(key, value string) {
	w.set(func() {
		if w.keys[key] = value; value == "" {
			delete(w.keys, key)
		}
		for c := range w.watchers {
			c <- key
		}
	})
}

// await waits until a shard has hosts.
func (w *world) await(shard, hosts string) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		sh, _ := w.snapshot().Shard(shard)
		if got := strings.Join(sh.Hosts, " "); got == hosts {
			return
		} else if time.Now().After(end) {
			w.t.Fatalf("%s has %q, want %q", shard, got, hosts)
		}
	}
}

// TestPatroni: hosts follow Patroni's members, but a server that answers stays, and another leader is a reason to look.
func TestPatroni(t *testing.T) {
	member := func(addr string) string { return `{"conn_url":"postgres://` + addr + `/postgres"}` }
	w := newWorld(t, directory.Shard{Name: "s", Weight: 1, Patroni: &patroni.Scope{Scope: "s"}, Hosts: []string{"b:1"}}, directory.Shard{Name: "o", Weight: 1, Hosts: []string{"o:1"}})
	w.put("/service/s/members/n1", member("a:1"))
	w.put("/service/s/members/n2", member("b:1"))
	w.await("s", "b:1 a:1")
	w.set(func() { w.answers["b:1"] = true })
	w.put("/service/s/members/n3", member("c:1"))
	w.put("/service/s/members/n2", "")
	w.await("s", "b:1 a:1 c:1")
	w.set(func() { w.answers["b:1"] = false })
	w.await("s", "a:1 c:1")
	for n := range 3 {
		w.put([]string{"/service/s/members/n1", "/service/s/members/n3", "/service/s/leader"}[n], "")
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		done := w.suspects > 0
		w.mu.Unlock()
		if done {
			break
		}
		if time.Now().After(end) {
			t.Fatal("another leader is no reason to look")
		}
	}
	w.await("s", "a:1 c:1") // no members at all: nothing changes
	w.await("o", "o:1")
}

// TestNames: hosts follow the addresses of a name.
func TestNames(t *testing.T) {
	sh := directory.Shard{Name: "s", Weight: 1}
	sh.Find([]string{"dns:all.db:5432", "x:1"}, nil)
	w := newWorld(t, sh)
	w.set(func() { w.names["all.db"] = []string{"10.0.0.2", "10.0.0.1"} })
	w.await("s", "10.0.0.1:5432 10.0.0.2:5432 x:1")
	w.set(func() { w.names["all.db"] = []string{"fd00::1", "10.0.0.2"} })
	w.await("s", "10.0.0.2:5432 x:1 [fd00::1]:5432")
	w.set(func() { w.names["all.db"] = nil })
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		told := strings.Count(w.log.String(), "no such name")
		w.mu.Unlock()
		if told == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the log says %d times that there is no such name", told)
		}
	}
	w.await("s", "10.0.0.2:5432 x:1 [fd00::1]:5432")
}
