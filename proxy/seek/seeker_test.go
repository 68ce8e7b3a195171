package seek

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/primary"
)

// world is the servers of one shard, its side in the pool, and the directory.
type world struct {
	t *testing.T
	*Seeker

	mu      sync.Mutex
	servers map[string]string // what each server says: "primary 2", "standby 1", "refuses"
	lead    string
	raised  primary.Generation
	sought  bool
	split   bool
	drained pool.Drain
	fenced  uint32
	busy    bool     // a session uses the shard
	ended   []string // drains that were taken out of the directory
	closed  int
	ahead   []string // servers that were logged in to ahead
	waits   bool
	snap    *directory.Snapshot
	entered []string
	down    error // why the directory does not answer
	log     bytes.Buffer
	settle  func() // nil: nothing is in doubt
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, waits: true, servers: map[string]string{"a:1": "primary 1", "b:1": "standby 1"}}
	w.snap = directory.New(16, "s", []directory.Shard{{Name: "s", Hosts: []string{"a:1", "b:1"}, Weight: 1, System: "7"}})
	w.Seeker = New(Config{
		Log: slog.New(slog.NewTextHandler(&locked{w: w}, nil)),
		Snapshot: func() *directory.Snapshot {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.snap
		},
		Shard: func(*directory.Shard) Shard { return shard{w} },
		Waits: func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.waits
		},
		Timing: func() primary.Timing { return primary.Timing{Interval: time.Millisecond, Seeking: time.Millisecond} },
		Enter: func(_ context.Context, shard string, v *primary.View) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.down != nil {
				return w.down
			}
			if text := fmt.Sprintf("%s %s %s", shard, v.Generation, v.Primary); len(w.entered) == 0 || w.entered[len(w.entered)-1] != text {
				w.entered = append(w.entered, text)
			}
			return nil
		},
		EndDrain: func(_ context.Context, shard, key string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, shard+" "+key)
			next := w.snap.Clone()
			next.Shards[0].EndDrain(key)
			w.snap = next
			return nil
		},
		Settle: func(context.Context, string) {
			w.mu.Lock()
			settle := w.settle
			w.mu.Unlock()
			if settle != nil {
				settle()
			}
		},
		Guard: func(_ string, f func()) func() { return f },
	})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return w
}

// locked writes to the log of a world.
type locked struct{ w *world }

func (l *locked) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

// shard is the pool's side of the shard.
type shard struct{ w *world }

func (s shard) Lead(address string)                          { s.w.set(func() { s.w.lead = address }) }
func (s shard) Raise(g primary.Generation, _ primary.Ruling) { s.w.set(func() { s.w.raised = g }) }
func (s shard) Seek(sought bool)                             { s.w.set(func() { s.w.sought, s.w.split = sought, false }) }

func (s shard) Split()                 { s.w.set(func() { s.w.sought, s.w.split = true, true }) }
func (s shard) Fence(timeline uint32)  { s.w.set(func() { s.w.fenced = timeline }) }
func (s shard) Drain(d pool.Drain)     { s.w.set(func() { s.w.drained = d }) }
func (s shard) CloseIdle()             { s.w.set(func() { s.w.closed++ }) }
func (s shard) Anticipate(at []string) { s.w.set(func() { s.w.ahead = at }) }
func (s shard) Answers() uint64        { return 0 }
func (shard) Paused() bool             { return false }

func (shard) Watched(func() *primary.View) {}

func (s shard) Dial(_ context.Context, address string) (primary.Conn, error) {
	return conn{s.w, address}, s.w.says(address)
}

func (s shard) Empty() bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return !s.w.busy
}

// says returns why a server refuses connections.
func (w *world) says(address string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.servers[address] == "refuses" {
		return syscall.ECONNREFUSED
	}
	return nil
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// conn is a connection to a server.
type conn struct {
	w       *world
	address string
}

func (c conn) Ask(_ context.Context, sql string) ([][]string, error) {
	if err := c.w.says(c.address); err != nil {
		return nil, errors.New("EOF")
	}
	if strings.Contains(sql, "history") {
		return [][]string{{"1\t0/60\tno recovery target specified\n"}}, nil
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	kind, timeline, _ := strings.Cut(c.w.servers[c.address], " ")
	recovery := map[string]string{"primary": "f", "standby": "t"}[kind]
	return [][]string{{recovery, "7", timeline, "0/100", "", "", "1000000", "100" + fmt.Sprint(c.address[0]), "off", "", "", ""}}, nil
}

func (conn) Close() {}

// await waits until the pool and the directory have been told.
func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		ok := is()
		state := fmt.Sprintf("lead %s, raised %s, sought %v, closed %d, entered %q, log %s", w.lead, w.raised, w.sought, w.closed, w.entered, &w.log)
		w.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: %s", what, state)
		}
	}
}

// TestSeeker: the pool and the directory hear of a failover, and the log tells of it.
func TestSeeker(t *testing.T) {
	w := newWorld(t)
	w.await("start", func() bool { return w.lead == "a:1" && !w.sought })
	w.set(func() { w.servers["a:1"] = "refuses" })
	w.Suspect(t.Context(), "s")
	w.await("a is gone", func() bool { return w.sought && w.closed == 1 && fmt.Sprint(w.ahead) == "[b:1]" })
	if text := w.Describe("s"); !strings.Contains(text, "a:1 refuses connections; b:1 is a standby") {
		t.Error(text)
	}
	w.set(func() { w.servers["b:1"], w.down = "primary 2", errors.New("no etcd") })
	w.await("b is promoted", func() bool { return w.lead == "b:1" && !w.sought && w.raised.String() == "7/2@0/60" })
	w.await("the log", func() bool { return strings.Contains(w.log.String(), "the directory was not told") })
	w.set(func() { w.down = nil })
	w.await("the directory", func() bool { return len(w.entered) > 0 && w.entered[len(w.entered)-1] == "s 7/2@0/60 b:1" })
	w.set(func() { w.servers["a:1"] = "primary 1" })
	w.await("a is back", func() bool { return strings.Contains(w.log.String(), "is=stale") && w.lead == "b:1" && !w.sought })
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, says := range []string{"a shard has no primary", "a shard has another primary"} {
		if n := strings.Count(w.log.String(), says); n != 1 {
			t.Errorf("the log says %d times: %s", n, says)
		}
	}
}

// TestDirectory: another proxy has seen a failover that this one has not.
func TestDirectory(t *testing.T) {
	w := newWorld(t)
	w.await("start", func() bool { return w.lead == "a:1" })
	w.set(func() {
		next := w.snap.Clone()
		next.Shards[0].Raise(primary.Generation{System: "7", Timeline: 2, Fork: 0x60}, "b:1")
		w.snap = next
	})
	w.await("the directory is ahead", func() bool { return w.sought && w.raised.Timeline == 2 })
	w.set(func() {
		next := w.snap.Clone()
		next.Shards[0].Hosts = []string{"a:1", "c:1"}
		w.snap, w.servers["c:1"] = next, "primary 2"
	})
	w.await("another host", func() bool { return w.lead == "c:1" && !w.sought })
	w.set(func() {
		next := w.snap.Clone()
		next.Shards[0].Name, next.Home = "other", "other"
		w.snap = next
	})
	for end := time.Now().Add(2 * time.Minute); w.find("s") != nil || w.find("other") == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a shard that has gone is watched")
		}
	}
	w.Suspect(t.Context(), "s")
	if text := w.Describe("s"); !strings.Contains(text, "not watched") {
		t.Error(text)
	}
}

// TestTwoPrimaries: the pool hears of two primaries of one timeline, also where sessions do not wait.
func TestTwoPrimaries(t *testing.T) {
	for _, waits := range []bool{true, false} {
		w := newWorld(t)
		w.set(func() { w.waits = waits })
		w.await("start", func() bool { return w.lead == "a:1" })
		w.set(func() { w.servers["b:1"] = "primary 1" })
		w.await("two primaries", func() bool { return w.split })
		w.set(func() { w.servers["b:1"] = "standby 1" })
		w.await("one primary", func() bool { return !w.split && !w.sought })
	}
}

// TestNoWait: where sessions do not wait, the pool is told of primaries all the same.
func TestNoWait(t *testing.T) {
	w := newWorld(t)
	w.set(func() { w.waits = false })
	w.await("start", func() bool { return w.lead == "a:1" })
	w.set(func() { w.servers["a:1"], w.servers["b:1"] = "refuses", "primary 2" })
	w.await("b is promoted", func() bool { return w.lead == "b:1" })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sought {
		t.Error("sessions wait")
	}
}

// TestSettle: sessions wait until what is in doubt has ended, and go on waiting if the primary is lost meanwhile.
func TestSettle(t *testing.T) {
	w := newWorld(t)
	w.await("start", func() bool { return w.lead == "a:1" && !w.sought })
	begun, ends := make(chan struct{}, 10), make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(ends) }) }
	defer end()
	w.set(func() {
		w.settle = func() { begun <- struct{}{}; <-ends }
		w.servers["a:1"], w.servers["b:1"] = "refuses", "primary 2"
	})
	<-begun
	w.await("b leads", func() bool { return w.lead == "b:1" })
	w.mu.Lock()
	if !w.sought {
		t.Error("sessions go on before the settlement")
	}
	w.mu.Unlock()
	if w.Away("s") || w.Away("other") {
		t.Error("a shard that is being settled has no primary")
	}
	// The new primary is lost before the settlement ends.
	w.set(func() { w.servers["b:1"] = "refuses" })
	for !w.Away("s") {
		w.Suspect(t.Context(), "s")
	}
	end()
	w.Suspect(t.Context(), "s")
	w.mu.Lock()
	if !w.sought {
		t.Error("sessions go on without a primary")
	}
	w.mu.Unlock()
	w.set(func() { w.servers["b:1"] = "primary 2" })
	<-begun
	w.await("b is back", func() bool { return !w.sought })
}
