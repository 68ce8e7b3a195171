package http

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/auth"
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
	return getAs(t, s, "", "", path)
}

func getAs(t *testing.T, s *Server, user, password, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	resp, err := http.DefaultClient.Do(req)
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
	var missing []string
	s := start(t, Config{Ready: func(context.Context, bool) ([]string, error) { return missing, sick }, Metrics: reg})

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
	missing = []string{"b: does not answer"}
	if code, body := get(t, s, "/readyz"); code != 200 || body != "ok\nb: does not answer\n" {
		t.Errorf("/readyz while a shard is missing: %d %q", code, body)
	}
	missing, sick = nil, errors.New("home shard a does not answer")
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
	verifier, err := auth.Verifier("right")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Ready: func(context.Context, bool) ([]string, error) { return nil, nil }, Pprof: true, Users: []User{{Name: "ops", Password: verifier}, {Name: "dev", Password: "clear"}}})
	if code, body := getAs(t, s, "ops", "right", "/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "TestPprof") {
		t.Errorf("goroutine profile: %d %q", code, body)
	}
	if code, _ := get(t, s, "/metrics"); code != 404 {
		t.Errorf("/metrics without a gatherer: %d", code)
	}
}

// TestGuard: health is open, metrics are unless they are private, and the rest is
// for users, whatever the path looks like.
func TestGuard(t *testing.T) {
	private := start(t, Config{
		Ready: func(context.Context, bool) ([]string, error) { return nil, nil }, Metrics: prometheus.NewRegistry(), Pprof: true, PrivateMetrics: true,
		Users: []User{{Name: "ops", Password: "right"}},
	})
	open := start(t, Config{Ready: func(context.Context, bool) ([]string, error) { return nil, nil }, Metrics: prometheus.NewRegistry(), Pprof: true})
	for _, c := range []struct {
		s                    *Server
		user, password, path string
		code                 int
	}{
		{private, "", "", "/readyz", 200},
		{private, "", "", "/livez", 200},
		{private, "", "", "/", 200},
		{private, "", "", "/nowhere", 404},
		{private, "", "", "/metrics", 401},
		{private, "ops", "right", "/metrics", 200},
		{private, "ops", "wrong", "/metrics", 401},
		{private, "ops", "", "/metrics", 401},
		{private, "nobody", "right", "/metrics", 401},
		{private, "", "", "/debug/pprof/", 401},
		{private, "", "", "/debug/pprof/heap", 401},
		{private, "", "", "/livez/../debug/pprof/heap", 401},
		{private, "", "", "//debug/pprof/heap", 401},
		{private, "", "", "/debug/pprof/cmdline", 401},
		{private, "ops", "right", "/debug/pprof/cmdline", 200},
		{open, "", "", "/metrics", 200},
		{open, "", "", "/debug/pprof/heap", 403},
		{open, "ops", "", "/debug/pprof/heap", 403},
	} {
		if code, _ := getAs(t, c.s, c.user, c.password, c.path); code != c.code {
			t.Errorf("%s as %q with %q: %d, want %d", c.path, c.user, c.password, code, c.code)
		}
	}
	for range failuresPerMinute {
		getAs(t, private, "ops", "guess", "/metrics")
	}
	if code, _ := getAs(t, private, "ops", "right", "/metrics"); code != 429 {
		t.Errorf("after many failures: %d", code)
	}
	if code, _ := get(t, private, "/readyz"); code != 200 {
		t.Errorf("health after many failures: %d", code)
	}
}

// A check that hangs is an answer too: not ready.
func TestReadyTimeout(t *testing.T) {
	s := start(t, Config{ReadyTimeout: 50 * time.Millisecond, Ready: func(ctx context.Context, _ bool) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	if code, body := get(t, s, "/readyz"); code != 503 || !strings.Contains(body, "deadline exceeded") {
		t.Errorf("got %d %q", code, body)
	}
}

// Close does not wait for a request that never ends.
func TestCloseEndsRequests(t *testing.T) {
	entered := make(chan struct{})
	s := start(t, Config{ReadyTimeout: time.Hour, Ready: func(ctx context.Context, _ bool) ([]string, error) {
		close(entered)
		<-ctx.Done()
		return nil, ctx.Err()
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

// TestPanic: a request that ends in a panic is answered, and written down.
func TestPanic(t *testing.T) {
	var where string
	s := start(t, Config{
		Ready: func(context.Context, bool) ([]string, error) { panic("not ready") },
		Guard: func(in string, f func()) func() {
			return func() {
				defer func() {
					if recover() != nil {
						where = in
					}
				}()
				f()
			}
		},
	})
	if status, _ := get(t, s, "/readyz"); status != http.StatusInternalServerError || where != "http" {
		t.Errorf("%d, written down by %q", status, where)
	}
	if status, _ := get(t, s, "/livez"); status != http.StatusOK {
		t.Errorf("the next request: %d", status)
	}
}

// The dashboard is for users, who are known to it, and browsers that come to the top find it.
func TestDashboard(t *testing.T) {
	s := start(t, Config{
		Ready: func(context.Context, bool) ([]string, error) { return nil, nil },
		Users: []User{{Name: "ops", Password: "right", Operator: true}, {Name: "wall", Password: "look"}},
		Dashboard: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %v %s", UserOf(r).Name, UserOf(r).Operator, r.URL.Path)
		}),
	})
	for _, c := range []struct {
		user, password, path string
		code                 int
		body                 string
	}{
		{"ops", "right", "/dashboard/keys", 200, "ops true /dashboard/keys"},
		{"wall", "look", "/api/events", 200, "wall false /api/events"},
		{"wall", "right", "/api/events", 401, ""},
		{"", "", "/dashboard/", 401, ""},
		{"", "", "/dashboard/static/app.js", 401, ""},
		{"", "", "/", 200, "/dashboard/\n"},
	} {
		if code, body := getAs(t, s, c.user, c.password, c.path); code != c.code || !strings.Contains(body, c.body) {
			t.Errorf("%s as %q: %d %q", c.path, c.user, code, body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,*/*")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/dashboard/" {
		t.Errorf("a browser at the top: %d %v", resp.StatusCode, resp.Header)
	}
}

// All of it is served with TLS, if there is a certificate.
func TestTLS(t *testing.T) {
	other := httptest.NewTLSServer(nil) // has a certificate, and a client that trusts it
	defer other.Close()
	s := start(t, Config{Ready: func(context.Context, bool) ([]string, error) { return nil, nil }, TLS: &tls.Config{Certificates: other.TLS.Certificates}})
	resp, err := other.Client().Get("https://" + s.Addr().String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.TLS == nil {
		t.Errorf("%d, %v", resp.StatusCode, resp.TLS)
	}
	if code, _ := get(t, s, "/livez"); code == 200 {
		t.Error("it is served without TLS too")
	}
}
