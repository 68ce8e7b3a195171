package vigil

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/proxy/peer"
)

// village is the other proxies and the shards of a test.
type village struct {
	mu      sync.Mutex
	proxies []directory.Proxy
	away    bool // the other proxy does not answer
	works   bool // the other proxy's backends begin statements
	shards  bool // the shards answer
	steady  bool // this proxy gets the processor
	asked   int  // questions to the other proxy
	ended   int  // times that the shards were told to end backends
}

// counts tells how often the other proxy was asked, and the shards told to end backends.
func (v *village) counts() (asked, ended int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked, v.ended
}

// set changes the village.
func (v *village) set(f func(*village)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(v)
}

func (v *village) config() Config {
	return Config{
		Self: "self", Log: slog.New(slog.DiscardHandler), Guarded: func(f func()) func() { return f },
		Proxies: func(context.Context) ([]directory.Proxy, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			return append([]directory.Proxy{{ID: "self"}}, v.proxies...), nil
		},
		Backends: func(ctx context.Context, other directory.Proxy, known uint64) (peer.Backends, error) {
			v.mu.Lock()
			away := v.away
			v.asked++
			v.mu.Unlock()
			if other.ID == "self" {
				panic("the proxy asks itself")
			}
			if away {
				<-ctx.Done()
				return peer.Backends{}, ctx.Err()
			}
			if known > 0 {
				select {
				case <-time.After(AskEvery):
				case <-ctx.Done():
					return peer.Backends{}, ctx.Err()
				}
			}
			return peer.Backends{List: []pool.Process{{Shard: "a", PID: 7}}, Opened: 1}, nil
		},
		Exec: func(_ context.Context, shard, sql string) ([][]string, error) {
			v.mu.Lock()
			defer v.mu.Unlock()
			switch {
			case shard != "a" || !strings.Contains(sql, "(7, 0::bigint)"):
				panic("other backends than the proxy's: " + sql)
			case !v.shards:
				return nil, errors.New("connection refused")
			case strings.Contains(sql, "pg_terminate_backend"):
				v.ended++
				return [][]string{{"7", "t"}}, nil
			case v.works:
				return [][]string{{"1"}}, nil
			}
			return [][]string{{"0"}}, nil
		},
		Steady: func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.steady
		},
	}
}

// watched runs f beside a Vigil of a village with one other proxy that is well.
func watched(t *testing.T, f func(t *testing.T, v *village, vigil *Vigil)) {
	synctest.Test(t, func(t *testing.T) {
		v := &village{proxies: []directory.Proxy{{ID: "other"}}, works: true, shards: true, steady: true}
		vigil := New(v.config())
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan bool)
		go func() { defer close(over); vigil.Run(ctx) }()
		time.Sleep(5 * time.Second)
		if asked, _ := v.counts(); asked < 5 || vigil.Hung("other") {
			t.Errorf("a proxy that is well: asked %d times, hung %t", asked, vigil.Hung("other"))
		}
		f(t, v, vigil)
		stop()
		<-over
	})
}

// TestHung: a proxy that neither answers nor works hangs, and its transactions are ended within
// 5 s. When it answers again it no longer hangs.
func TestHung(t *testing.T) {
	watched(t, func(t *testing.T, v *village, vigil *Vigil) {
		v.set(func(v *village) { v.away, v.works = true, false })
		time.Sleep(5 * time.Second)
		if _, ended := v.counts(); !vigil.Hung("other") || ended == 0 {
			t.Errorf("hung %t, ended %d times", vigil.Hung("other"), ended)
		}
		v.set(func(v *village) { v.away, v.works = false, true })
		time.Sleep(3 * time.Second)
		if vigil.Hung("other") {
			t.Error("a proxy that answers again hangs")
		}
	})
}

// TestLetBe: a proxy that does not answer is let be as long as it may work.
func TestLetBe(t *testing.T) {
	for name, change := range map[string]func(*village){
		"it works":                            func(*village) {},
		"no shard answers":                    func(v *village) { v.works, v.shards = false, false },
		"the watching proxy has no processor": func(v *village) { v.works, v.steady = false, false },
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, v *village, vigil *Vigil) {
				v.set(func(v *village) { v.away = true; change(v) })
				time.Sleep(30 * time.Second)
				if _, ended := v.counts(); vigil.Hung("other") || ended > 0 {
					t.Errorf("hung %t, ended %d times", vigil.Hung("other"), ended)
				}
			})
		})
	}
}

// TestGone: a proxy that hangs is looked after for a minute after the directory has forgotten it; one
// that was well is forgotten at once.
func TestGone(t *testing.T) {
	watched(t, func(t *testing.T, v *village, vigil *Vigil) {
		v.set(func(v *village) { v.away, v.works = true, false })
		time.Sleep(5 * time.Second)
		v.set(func(v *village) { v.proxies = nil })
		time.Sleep(20 * time.Second)
		if !vigil.Hung("other") {
			t.Error("a proxy that hangs is forgotten with its lease")
		}
		time.Sleep(rememberFor)
		if vigil.Hung("other") {
			t.Error("a proxy that is gone is looked after for ever")
		}
		before, _ := v.counts()
		time.Sleep(10 * time.Second)
		if after, _ := v.counts(); after != before {
			t.Error("a proxy that is gone is still asked")
		}
	})
}
