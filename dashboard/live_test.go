package dashboard

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weft/console"
	wefthttp "weft/http"
)

// readers is a hub whose views are their names, and how often each was read.
func readers(reads map[string]int) *hub {
	return newHub(func(_ context.Context, views []*console.View) [][]byte {
		out := make([][]byte, len(views))
		for i, v := range views {
			reads[v.Name]++
			out[i] = []byte(v.Name + ";")
		}
		return out
	}, func(f func()) func() { return f })
}

func named(names ...string) (out []*console.View) {
	for _, n := range names {
		out = append(out, console.Named(n))
	}
	return out
}

// Views are read once for all viewers, once a second, and only while there are viewers.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := map[string]int{}
		h := readers(reads)
		a := h.join(named("load", "moves"))
		synctest.Wait()
		if e := string(<-a.events); e != "load;moves;" {
			t.Errorf("first %q", e)
		}
		b, c := h.join(named("load")), h.join(named("load", "moves"))
		got := map[*viewer]string{}
		for range 10 {
			time.Sleep(time.Second)
			synctest.Wait()
			for _, v := range []*viewer{a, b, c} {
				got[v] += string(<-v.events) + " "
			}
		}
		// The view that asks shards is read when somebody comes, and then every five seconds.
		if reads["load"] != 11 || reads["moves"] != 3 {
			t.Errorf("%v", reads)
		}
		if strings.Count(got[b], "load;") != 10 || strings.Contains(got[b], "moves") || !strings.HasPrefix(got[c], "load;moves; load; ") {
			t.Errorf("%v", got)
		}
		for _, v := range []*viewer{a, b, c} {
			h.leave(v)
			h.leave(v)
		}
		before := reads["load"]
		time.Sleep(time.Minute)
		h.mu.Lock()
		running := h.running
		h.mu.Unlock()
		if reads["load"] != before || running {
			t.Errorf("read %d times for nobody", reads["load"]-before)
		}
		d := h.join(named("load"))
		synctest.Wait()
		if string(<-d.events) != "load;" {
			t.Error("it does not begin again")
		}
		h.leave(d)
		time.Sleep(2 * time.Second)
	})
}

// A viewer who does not read is dropped, and others are not held up. Viewers have a limit.
func TestSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := readers(map[string]int{})
		lazy, eager := h.join(named("load")), h.join(named("load"))
		n := 0
		for range 20 {
			time.Sleep(time.Second)
			synctest.Wait()
			for len(eager.events) > 0 {
				<-eager.events
				n++
			}
		}
		if n < 20 || h.viewers[lazy] || !h.viewers[eager] {
			t.Errorf("%d events, %d viewers", n, len(h.viewers))
		}
		for range maxViewers - 1 {
			if h.join(named("load")) == nil {
				t.Fatal("too few viewers")
			}
		}
		if h.join(named("load")) != nil {
			t.Error("too many viewers")
		}
		for v := range h.viewers {
			h.leave(v)
		}
		time.Sleep(2 * time.Second)
	})
}

// A panic ends the streams, and the next viewer begins anew.
func TestHubPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := true
		h := newHub(func(context.Context, []*console.View) [][]byte {
			if bad {
				panic("no")
			}
			return [][]byte{[]byte("load;")}
		}, func(f func()) func() {
			return func() { defer func() { _ = recover() }(); f() }
		})
		v := h.join(named("load"))
		if _, ok := <-v.events; ok {
			t.Error("an event")
		}
		bad = false
		v = h.join(named("load"))
		if e := <-v.events; string(e) != "load;" {
			t.Errorf("%q", e)
		}
		h.leave(v)
		time.Sleep(2 * time.Second)
	})
}

// A stream has the views as pages show them, until the browser goes.
func TestEvents(t *testing.T) {
	f := &fake{}
	s := serve(t, f)
	ctx, stop := context.WithCancel(t.Context())
	w := &stream{ResponseRecorder: httptest.NewRecorder()}
	w.flushed = func() {
		if w.events.Add(1) == 2 {
			stop()
		}
	}
	r := wefthttp.WithUser(httptest.NewRequestWithContext(ctx, "GET", "/api/events?views=sessions,load,none,load", nil), s.user)
	s.ServeHTTP(w, r)
	body := w.Body.String()
	if w.Header().Get("Content-Type") != "text/event-stream" || strings.Count(body, `data: {"view":"load"`) != 2 || strings.Count(body, `data: {"view":"sessions"`) != 2 || strings.Count(body, "\n\n") != 4 {
		t.Errorf("%v %s", w.Header(), body)
	}
	if strings.Contains(body, "<img") || !strings.Contains(body, `\u003cimg src=x`) || !strings.Contains(body, `"raw":[`) {
		t.Errorf("%s", body)
	}
	for _, path := range []string{"/api/events", "/api/events?views=none"} {
		if w := s.ask("GET", path, nil); w.Code != 400 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// stream is a recorder that says when an event is complete.
type stream struct {
	*httptest.ResponseRecorder
	events  atomic.Int64
	flushed func()
}

func (s *stream) Flush()                           { s.flushed() }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }
