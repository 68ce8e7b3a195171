package http

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is what the endpoint shows.
type Config struct {
	// Ready returns nil when queries can be served, else why not, and what is missing
	// in either case, a line each. Required.
	Ready func(ctx context.Context, verbose bool) (missing []string, err error)
	// ReadyTimeout bounds a call of Ready. Default 2s: under the patience of
	// most probes.
	ReadyTimeout time.Duration
	// Metrics is what /metrics shows; nil for no /metrics.
	Metrics prometheus.Gatherer
	// Dashboard serves the pages below /dashboard/ and the data below /api/; nil for none.
	Dashboard http.Handler
	// TLS is nil without TLS.
	TLS *tls.Config
	// Pprof serves /debug/pprof. Default off: a heap profile shows what is in
	// memory, statements included.
	Pprof bool
	// Users may see what is not open to everybody: all but health, metrics and
	// the list of what there is.
	Users []User
	// PrivateMetrics shows metrics to Users alone. They name users and
	// databases.
	PrivateMetrics bool
	// Log receives what goes wrong. Default: discarded.
	Log *slog.Logger
	// Guard writes down a panic of what it is given. Nil: net/http does, in Log.
	Guard func(where string, f func()) func()
}

// Handler returns the endpoint.
func Handler(cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.ReadyTimeout == 0 {
		cfg.ReadyTimeout = 2 * time.Second
	}
	mux := http.NewServeMux()
	index := "/readyz\n/livez\n"
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), cfg.ReadyTimeout)
		defer cancel()
		missing, err := cfg.Ready(ctx, r.URL.Query().Has("verbose"))
		answer(w, err, missing...)
	})
	// Alive as long as it answers. What a restart would not heal, such as a
	// shard that is down, must not make an orchestrator restart the proxy.
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	if cfg.Metrics != nil {
		index += "/metrics\n"
		mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{
			ErrorLog:      slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn),
			ErrorHandling: promhttp.ContinueOnError, // one bad metric must not hide the rest
		}))
	}
	if cfg.Pprof {
		index += "/debug/pprof/\n"
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	if cfg.Dashboard != nil {
		index += "/dashboard/\n"
		mux.Handle("/dashboard/", cfg.Dashboard)
		mux.Handle("/api/", cfg.Dashboard)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if cfg.Dashboard != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
			http.Redirect(w, r, "/dashboard/", http.StatusSeeOther)
			return
		}
		fmt.Fprint(w, index)
	})
	g := &guard{next: mux, open: []string{"", "GET /{$}", "GET /readyz", "GET /livez"}, users: cfg.Users, log: cfg.Log}
	if !cfg.PrivateMetrics {
		g.open = append(g.open, "GET /metrics")
	}
	if cfg.Guard == nil {
		return g
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := false
		cfg.Guard("http", func() {
			g.ServeHTTP(w, r)
			answered = true
		})()
		if !answered {
			http.Error(w, "internal error: the log of the proxy has the details", http.StatusInternalServerError)
		}
	})
}

func answer(w http.ResponseWriter, err error, more ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
	} else {
		fmt.Fprintln(w, "ok")
	}
	for _, line := range more {
		fmt.Fprintln(w, line)
	}
}
