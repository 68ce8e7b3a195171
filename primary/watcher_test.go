package primary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// stage is the servers of a test, which answer as the test says.
type stage struct {
	t *testing.T

	mu      sync.Mutex
	answers map[string]answer
	asked   map[string]int // probes by address
	dials   map[string]int
	open    map[string]int // connections by address
	brief   bool
	heard   uint64
	views   []string
	changed chan struct{} // replaced when answers have changed
}

// answer is what a server says: a row or an error, or nothing while hangs is set.
type answer struct {
	row   []string
	err   error
	hangs bool
}

func primaryRow(timeline int) answer {
	return answer{row: []string{"f", "7", fmt.Sprint(timeline), "0/100", "", "", "1000000", fmt.Sprint(1000000 + timeline), "off", "", "", ""}}
}

func standbyRow(timeline int) answer {
	return answer{row: []string{"t", "7", fmt.Sprint(timeline), "0/100", "0/100", "", "1000000", "1000005", "off", "", "", ""}}
}

var refused = answer{err: fmt.Errorf("dial: %w", syscall.ECONNREFUSED)}

// staged runs a Watcher of these servers until the test ends.
func staged(t *testing.T, timing Timing, answers map[string]answer, hosts ...string) (*stage, *Watcher) {
	st := &stage{t: t, answers: answers, asked: map[string]int{}, dials: map[string]int{}, open: map[string]int{}, changed: make(chan struct{})}
	w := NewWatcher(Config{
		Dial:   func(ctx context.Context, address string) (Conn, error) { return st.dial(ctx, address) },
		Heard:  func() uint64 { st.mu.Lock(); defer st.mu.Unlock(); return st.heard },
		Timing: func() Timing { return timing },
		Brief:  func() bool { st.mu.Lock(); defer st.mu.Unlock(); return st.brief },
		Changed: func(_, now *View) {
			st.mu.Lock()
			defer st.mu.Unlock()
			st.views = append(st.views, fmt.Sprintf("%s %s", now.State, now.Primary))
		},
	}, hosts, Generation{System: "7"})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { stop(); wg.Wait() })
	return st, w
}

func (st *stage) dial(ctx context.Context, address string) (*staged1, error) {
	st.mu.Lock()
	st.dials[address]++
	a := st.answers[address]
	st.mu.Unlock()
	if a.err != nil {
		return nil, a.err
	}
	st.mu.Lock()
	st.open[address]++
	st.mu.Unlock()
	return &staged1{st, address}, nil
}

// set changes what servers say. Connections of servers that refuse are lost.
func (st *stage) set(address string, a answer) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.answers[address] = a
	close(st.changed)
	st.changed = make(chan struct{})
}

// staged1 is a connection to one server of a stage.
type staged1 struct {
	st      *stage
	address string
}

func (c *staged1) Ask(ctx context.Context, sql string) ([][]string, error) {
	for {
		c.st.mu.Lock()
		a, changed := c.st.answers[c.address], c.st.changed
		if sql == Probe {
			c.st.asked[c.address]++
		}
		c.st.mu.Unlock()
		switch {
		case a.hangs:
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case a.err != nil:
			return nil, errors.New("EOF")
		case strings.Contains(sql, "history"):
			return [][]string{{"1\t0/60\tno recovery target specified\n"}}, nil
		}
		return [][]string{a.row}, nil
	}
}

func (c *staged1) Close() {
	c.st.mu.Lock()
	defer c.st.mu.Unlock()
	c.st.open[c.address]--
}

// await waits for a view.
func await(t *testing.T, w *Watcher, what string, is func(*View) bool) *View {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if v := w.View(); is(v) {
			return v
		} else if time.Now().After(end) {
			t.Fatalf("%s: %s, primary %s, %s", what, v.State, v.Primary, v.Describe())
		}
	}
}

func steadyAt(address string) func(*View) bool {
	return func(v *View) bool { return v.State == Steady && v.Primary == address }
}

// TestWatcherFollows: a failover is noticed by probes, and told of once.
func TestWatcherFollows(t *testing.T) {
	st, w := staged(t, Timing{Interval: 5 * time.Millisecond, Seeking: time.Millisecond, Timeout: time.Minute}, map[string]answer{"a": primaryRow(1), "b": standbyRow(1)}, "a", "b")
	await(t, w, "start", steadyAt("a"))
	st.set("a", refused)
	await(t, w, "a is gone", func(v *View) bool { return v.State == Seeking })
	st.set("b", primaryRow(2))
	v := await(t, w, "b is promoted", steadyAt("b"))
	if v.Generation.String() != "7/2@0/60" {
		t.Errorf("generation %s", v.Generation)
	}
	st.set("a", primaryRow(1))
	await(t, w, "a is back", func(v *View) bool { return v.Servers[0].Role == Stale && v.State == Steady })
	st.mu.Lock()
	defer st.mu.Unlock()
	if got := strings.Join(st.views, ", "); !strings.HasSuffix(got, "steady a, seeking a, steady b, steady b") && !strings.Contains(got, "seeking a, steady b") {
		t.Errorf("told of %s", got)
	}
}

// TestWatcherSilence: a server that does not answer is silent, unless others have heard of it, and its answer ends that.
func TestWatcherSilence(t *testing.T) {
	// A machine that stands still for a moment hears of nobody meanwhile.
	const timeout = time.Second
	st, w := staged(t, Timing{Interval: time.Millisecond, Seeking: time.Millisecond, Timeout: timeout, Patience: time.Minute}, map[string]answer{"a": primaryRow(1)}, "a")
	await(t, w, "start", steadyAt("a"))
	st.set("a", answer{hangs: true})
	await(t, w, "a hangs", func(v *View) bool { return v.State == Seeking && v.Suspect() == Silent })
	st.set("a", primaryRow(1))
	await(t, w, "a goes on", steadyAt("a"))

	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			st.mu.Lock()
			st.heard++
			st.mu.Unlock()
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	time.Sleep(5 * time.Millisecond)
	st.set("a", answer{hangs: true})
	time.Sleep(2 * timeout)
	if v := w.View(); v.State != Steady {
		t.Errorf("a server that answers others is %s", v.State)
	}
	close(stop)
	wg.Wait()
	await(t, w, "nothing is heard any more", func(v *View) bool { return v.State == Seeking })
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.dials["a"] != 1 {
		t.Errorf("%d logins", st.dials["a"])
	}
}

// TestWatcherSuspect: a suspicion is looked into at once, and Suspect returns what was found.
func TestWatcherSuspect(t *testing.T) {
	st, w := staged(t, Timing{Interval: time.Hour, Seeking: time.Hour, Timeout: time.Hour}, map[string]answer{"a": primaryRow(1), "b": standbyRow(1)}, "a", "b")
	await(t, w, "start", steadyAt("a"))
	if v := w.Suspect(t.Context()); v.State != Steady {
		t.Errorf("a server that is well: %s", v.State)
	}
	st.set("a", refused)
	if v := w.Suspect(t.Context()); v.State != Seeking {
		t.Errorf("a server that refuses: %s", v.State)
	}
	st.set("b", primaryRow(2))
	w.Suspect(t.Context())
	await(t, w, "b is promoted", steadyAt("b"))
	st.set("b", answer{hangs: true})
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if v := w.Suspect(ctx); v.State != Steady {
		t.Errorf("before anything was found: %s", v.State)
	}
}

// TestWatcherHosts: servers that join are watched, and those that leave are not.
func TestWatcherHosts(t *testing.T) {
	st, w := staged(t, Timing{Interval: time.Millisecond, Seeking: time.Millisecond}, map[string]answer{"a": primaryRow(1), "b": standbyRow(1)}, "a")
	await(t, w, "start", steadyAt("a"))
	w.SetHosts([]string{"b"})
	await(t, w, "another server", func(v *View) bool { return v.State == Seeking && len(v.Servers) == 1 })
	st.set("b", primaryRow(2))
	await(t, w, "which is promoted", steadyAt("b"))
	st.mu.Lock()
	n := st.asked["a"]
	st.mu.Unlock()
	w.Know(Generation{System: "7", Timeline: 3})
	await(t, w, "the directory is ahead", func(v *View) bool { return v.State == Seeking && v.Servers[0].Role == Stale })
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.asked["a"] > n+1 {
		t.Errorf("a server that has left is asked %d times", st.asked["a"]-n)
	}
}

// TestWatcherBrief: connections are closed after each probe as long as that is asked for, and servers are watched all the same.
func TestWatcherBrief(t *testing.T) {
	st, w := staged(t, Timing{Interval: time.Millisecond, Seeking: time.Millisecond}, map[string]answer{"a": primaryRow(1), "b": standbyRow(1)}, "a", "b")
	await(t, w, "start", steadyAt("a"))
	set := func(brief bool) {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.brief = brief
	}
	open := func() int {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.open["a"] + st.open["b"]
	}
	set(true)
	await(t, w, "no connection", func(*View) bool { return open() == 0 })
	st.set("a", refused)
	st.set("b", primaryRow(2))
	await(t, w, "b is promoted", steadyAt("b"))
	set(false)
	await(t, w, "a connection", func(*View) bool { return open() == 1 })
}

// TestPause: while no primary is known servers are probed often, and less often when that lasts.
func TestPause(t *testing.T) {
	now := time.Now()
	timing := Timing{}.WithDefaults()
	for _, test := range []struct {
		view View
		want time.Duration
	}{
		{View{State: Steady, Since: now.Add(-time.Hour)}, 500 * time.Millisecond},
		{View{State: Seeking, Since: now}, 20 * time.Millisecond},
		{View{State: Seeking, Since: now.Add(-9 * time.Second)}, 20 * time.Millisecond},
		{View{State: Seeking, Since: now.Add(-46 * time.Second)}, 50 * time.Millisecond},
		{View{State: Split, Since: now.Add(-time.Hour)}, 50 * time.Millisecond},
	} {
		if got := timing.pause(&test.view, now); got != test.want {
			t.Errorf("%v since %v: %v, want %v", test.view.State, now.Sub(test.view.Since), got, test.want)
		}
	}
}
