package http

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := Start(cfg, l)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestEndpoints(t *testing.T) {
	reg := prometheus.NewRegistry()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_test_gauge", Help: "A test's."})
	g.Set(42)
	reg.MustRegister(g)
	var sick error
	s := start(t, Config{Ready: func(context.Context) error { return sick }, Metrics: reg})

	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/", 200, "/readyz\n/livez\n/metrics\n"},
		{"/readyz", 200, "ok\n"},
		{"/livez", 200, "ok\n"},
		{"/metrics", 200, "weft_test_gauge 42"},
		{"/debug/pprof/", 404, "not found"},
		{"/debug/pprof/heap", 404, "not found"},
		{"/nothing", 404, "not found"},
	} {
		if code, body := get(t, s, c.path); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s: %d %q, want %d %q", c.path, code, body, c.code, c.body)
		}
	}
	sick = errors.New("home shard a does not answer")
	if code, body := get(t, s, "/readyz"); code != 503 || body != "home shard a does not answer\n" {
		t.Errorf("/readyz while not ready: %d %q", code, body)
	}
	if code, _ := get(t, s, "/livez"); code != 200 {
		t.Errorf("/livez while not ready: %d", code)
	}
	resp, err := http.Post("http://"+s.Addr().String()+"/readyz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 405 {
		t.Errorf("POST /readyz: %d", resp.StatusCode)
	}
}

func TestPprof(t *testing.T) {
	s := start(t, Config{Ready: func(context.Context) error { return nil }, Pprof: true})
	if code, body := get(t, s, "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "TestPprof") {
		t.Errorf("goroutine profile: %d %q", code, body)
	}
	if code, _ := get(t, s, "/metrics"); code != 404 {
		t.Errorf("/metrics without a gatherer: %d", code)
	}
}

// A check that hangs is an answer too: not ready.
func TestReadyTimeout(t *testing.T) {
	s := start(t, Config{ReadyTimeout: 50 * time.Millisecond, Ready: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	if code, body := get(t, s, "/readyz"); code != 503 || !strings.Contains(body, "deadline exceeded") {
		t.Errorf("got %d %q", code, body)
	}
}

// Close does not wait for a request that never ends.
func TestCloseEndsRequests(t *testing.T) {
	entered := make(chan struct{})
	s := start(t, Config{ReadyTimeout: time.Hour, Ready: func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}})
	failed := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + s.Addr().String() + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-entered
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
	if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening")
	}
}
