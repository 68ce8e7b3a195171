package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/heat/limit"
	"weft/heat/trend"
	"weft/heat/verdict"
)

// town is proxies that judge one cluster.
type town struct {
	mu     sync.Mutex
	judges map[string]*Judge
	epochs map[string]int64
	away   map[string]bool // those that nobody reaches
	blind  map[string]bool // those that do not see the directory
	off    map[string]bool
	hot    bool // the shard is saturated
	mute   bool // the shard does not answer
	judged map[string]int
	log    bytes.Buffer
}

func newTown() *town {
	return &town{judges: map[string]*Judge{}, epochs: map[string]int64{}, away: map[string]bool{}, blind: map[string]bool{}, off: map[string]bool{}, judged: map[string]int{}}
}

func (w *town) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// Write takes the log of all proxies.
func (w *town) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

// said returns how often a text was logged.
func (w *town) said(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

// counts returns how often each proxy has judged, and forgets it.
func (w *town) counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.judged
	w.judged = map[string]int{}
	return out
}

// settle starts a proxy, which lives until ctx ends.
func (w *town) settle(ctx context.Context, wg *sync.WaitGroup, id string, epoch int64) *Judge {
	j := New(Config{
		Self: id, Log: slog.New(slog.NewTextHandler(w, nil)), Guarded: func(f func()) func() { return f },
		On: func() bool { w.mu.Lock(); defer w.mu.Unlock(); return !w.off[id] },
		Proxies: func(context.Context) ([]directory.Proxy, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.blind[id] {
				return nil, errors.New("the directory is away")
			}
			var out []directory.Proxy
			for other, epoch := range w.epochs {
				out = append(out, directory.Proxy{ID: other, Epoch: epoch})
			}
			return out, nil
		},
		Ask: func(ctx context.Context, other directory.Proxy) (State, error) {
			w.mu.Lock()
			o, away := w.judges[other.ID], w.away[other.ID] || w.away[id]
			w.mu.Unlock()
			if other.ID == id {
				panic("the proxy asks itself")
			}
			if away {
				<-ctx.Done()
				return State{}, ctx.Err()
			}
			text, err := json.Marshal(o.State())
			if err != nil {
				return State{}, err
			}
			var s State
			return s, json.Unmarshal(text, &s)
		},
		Facts: func(context.Context) *verdict.Facts {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.judged[id]++
			sh := heat.Shard{Load: heat.Load{Read: heat.Class{Calls: 500, Busy: 1e9}}}
			if w.hot {
				sh.Waits.Add(50e6, 500)
			}
			r := heat.Report{Shards: map[string]heat.Shard{"a": sh}}
			return &verdict.Facts{Brief: heat.Brief{Now: r, Recent: r}, Servers: []verdict.Server{{Name: "a", Weight: 1}}, Place: func(string, int32) string { return "a" }}
		},
		Limits: func(before limit.Limits, _ *verdict.Facts, seconds float64) limit.Limits {
			return limit.Limits{"a": {Most: before["a"].Most + seconds}}
		},
		Word: func(ctx context.Context, _ string) (verdict.Word, error) {
			w.mu.Lock()
			mute := w.mute
			w.mu.Unlock()
			if mute {
				<-ctx.Done()
				return verdict.Word{}, ctx.Err()
			}
			return verdict.Word{Known: true, CPU: 1, Cores: 2}, nil
		},
	})
	w.set(func() { w.judges[id], w.epochs[id] = j, epoch })
	wg.Go(func() { j.Run(ctx) })
	return j
}

// found reports whether a proxy knows of the saturated shard.
func found(j *Judge) bool {
	s := j.State()
	return len(s.Warnings()) == 1
}

func run(t *testing.T, f func(ctx context.Context, w *town, wg *sync.WaitGroup)) {
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		f(ctx, newTown(), &wg)
		stop()
		wg.Wait()
	})
}

// seconds lets time pass, and everything happen that is due then.
func seconds(n int) {
	time.Sleep(time.Duration(n) * time.Second)
	synctest.Wait()
}

// All know the limits that one proxy finds, and the next that judges goes on with them.
func TestLimitsAreTold(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		a, b := w.settle(ctx, wg, "old", 3), w.settle(ctx, wg, "new", 8)
		seconds(20)
		told := b.State().Limits["a"].Most
		if found := a.State().Limits["a"].Most; found < 17 || told < found-2 {
			t.Errorf("found %v, told %v", found, told)
		}
		w.set(func() { delete(w.epochs, "old") })
		seconds(5)
		if now := b.State().Limits["a"].Most; now <= told || now > told+10 {
			t.Errorf("%v after %v", now, told)
		}
		w.set(func() { w.off["new"] = true })
		seconds(2)
		if s := b.State(); s.Limits != nil {
			t.Errorf("%v", s.Limits)
		}
	})
}

// The oldest proxy judges, once a second, and all know what it has found.
func TestOneJudges(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		a, b := w.settle(ctx, wg, "z-old", 3), w.settle(ctx, wg, "a-new", 8)
		w.set(func() { w.hot = true })
		seconds(10)
		if n := w.counts(); n["z-old"] < 9 || n["a-new"] != 0 {
			t.Errorf("judged %v", n)
		}
		if !found(a) || !found(b) || w.said("a warning has begun") != 1 {
			t.Errorf("%+v, %+v, %s", a.State(), b.State(), w.log.String())
		}
		if s := b.State(); s.Age > 2.1 || s.Words["a"].CPU != 1 || s.Findings[0].Age < 5 {
			t.Errorf("%+v", s)
		}
		w.set(func() { w.hot = false })
		seconds(14)
		if !found(b) {
			t.Error("it has ended early")
		}
		seconds(5)
		if found(a) || found(b) || w.said("a warning has ended") != 1 {
			t.Errorf("%+v, %+v", a.State(), b.State())
		}
	})
}

// If the proxy that judges dies, the next one goes on within a few seconds, as if nothing had happened.
func TestJudgeDies(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		dying, kill := context.WithCancel(ctx)
		w.settle(dying, wg, "one", 1)
		two, three := w.settle(ctx, wg, "two", 2), w.settle(ctx, wg, "three", 3)
		w.set(func() { w.hot = true })
		seconds(20)
		kill()
		w.set(func() { w.away["one"] = true }) // and stays in the directory until its lease ends
		seconds(10)
		w.counts()
		seconds(10)
		if n := w.counts(); n["two"] < 4 || n["three"] != 0 {
			t.Errorf("judged %v", n)
		}
		if s := three.State(); !found(two) || !found(three) || s.Findings[0].Age < 35 || w.said("a warning has begun") != 1 || w.said("has ended") != 0 {
			t.Errorf("%+v, %s", s, w.log.String())
		}
		w.set(func() { delete(w.epochs, "one") })
		seconds(5)
		w.counts()
		seconds(10)
		if n := w.counts(); n["two"] < 9 || n["three"] != 0 {
			t.Errorf("judged %v", n)
		}
	})
}

// What the proxy that judges notes reaches the others, and the next one goes on with it.
func TestNotes(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		dying, kill := context.WithCancel(ctx)
		one, two := w.settle(dying, wg, "one", 1), w.settle(ctx, wg, "two", 2)
		seconds(3)
		if !one.Judges() || two.Judges() {
			t.Fatal("the wrong proxy judges")
		}
		one.Note(Notes{Advice: []Advice{{Shard: "a", SQL: "SELECT 1"}}, Skews: map[string]trend.Skew{"app": {Usual: 7, Effective: []float32{7}}}})
		seconds(3)
		kill()
		w.set(func() { w.away["one"] = true })
		seconds(10)
		if s := two.State(); !two.Judges() || len(s.Notes.Advice) != 1 || s.Notes.Skews["app"].Usual != 7 || len(s.Notes.Skews["app"].Effective) != 1 {
			t.Errorf("%+v", s)
		}
		w.set(func() { w.off["two"] = true })
		seconds(2)
		if s := two.State(); two.Judges() || len(s.Notes.Advice) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Two that cannot reach each other both judge; when they can, the later one stops and knows no less.
func TestTwoJudge(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		one, two := w.settle(ctx, wg, "one", 1), w.settle(ctx, wg, "two", 2)
		w.set(func() { w.away["two"], w.hot = true, true })
		seconds(20)
		if n := w.counts(); n["one"] < 15 || n["two"] < 5 || !found(one) || !found(two) {
			t.Errorf("judged %v", n)
		}
		w.set(func() { w.away["two"] = false })
		seconds(3)
		w.counts()
		seconds(10)
		if n := w.counts(); n["two"] != 0 || !found(two) || w.said("has ended") != 0 {
			t.Errorf("judged %v, %s", n, w.log.String())
		}
	})
}

// A proxy that samples nothing does not judge, and is passed over. One that does not see the directory
// goes on with the proxies that it knew.
func TestOff(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		w.set(func() { w.off["one"], w.hot = true, true })
		one, two := w.settle(ctx, wg, "one", 1), w.settle(ctx, wg, "two", 2)
		seconds(5)
		w.set(func() { w.blind["two"] = true })
		seconds(5)
		if n := w.counts(); n["one"] != 0 || n["two"] < 9 || found(one) || !found(two) {
			t.Errorf("judged %v", n)
		}
	})
}

// A shard that does not answer holds up nothing else, and its word is not made up.
func TestMuteShard(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		one := w.settle(ctx, wg, "one", 1)
		seconds(3)
		w.set(func() { w.mute, w.hot = true, true })
		seconds(10)
		if n, s := w.counts(), one.State(); n["one"] < 9 || s.Words["a"].Known || !found(one) {
			t.Errorf("judged %v, %+v", n, s)
		}
	})
}

// A warning that was dismissed is shown by no proxy, not by one that comes later either, until its time
// is over.
func TestDismiss(t *testing.T) {
	run(t, func(ctx context.Context, w *town, wg *sync.WaitGroup) {
		w.set(func() { w.hot = true })
		one := w.settle(ctx, wg, "one", 1)
		seconds(5)
		s := one.State()
		one.Dismiss(s.Warnings()[0].WarningID(), time.Minute)
		two := w.settle(ctx, wg, "two", 2)
		seconds(5)
		if found(one) || found(two) || len(two.State().Findings) == 0 {
			t.Errorf("%+v, %+v", one.State(), two.State())
		}
		seconds(60)
		if !found(one) || !found(two) {
			t.Errorf("%+v, %+v", one.State(), two.State())
		}
		one.Dismiss(s.Warnings()[0].WarningID(), time.Hour)
		one.Dismiss(s.Warnings()[0].WarningID(), 0)
		if !found(one) {
			t.Error("it is not shown again")
		}
		for i := range 2 * maxDismissed {
			one.Dismiss(string(rune('a'+i)), time.Hour)
		}
		if n := len(one.State().Dismissed); n != maxDismissed {
			t.Errorf("%d are dismissed", n)
		}
	})
}

// Values of keys are told to those only who may know them.
func TestWithout(t *testing.T) {
	s := State{Findings: []verdict.Finding{{Value: "secret", Known: true}}}
	if w := s.Without(); w.Findings[0].Value != "" || w.Findings[0].Known || s.Findings[0].Value != "secret" {
		t.Errorf("%+v, %+v", w, s)
	}
}
