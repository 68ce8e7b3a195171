package dashboard

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"

	"weft/console"
	"weft/heat"
)

// Proxy is the proxy that is shown.
type Proxy interface {
	// Proxy is what it is called among others, Version that of weft.
	Proxy() string
	Version() string
	// Declared lists the databases that have declared tables.
	Declared() []string
	// Tables reads views as an admin user sees them, with the rows of all proxies.
	Tables(ctx context.Context, views []*console.View) []console.Table
	// Command runs a command of the admin console, and Query a statement in a database as the service user,
	// for the operator of that name. Both return what is told beside the result.
	Command(ctx context.Context, line string) (notices []string, err error)
	Query(ctx context.Context, operator, database, sql string) (notices []string, err error)

	// Databases, Strips, Map and Series are those of a heat.History.
	Databases() []string
	Strips(database string) ([]heat.Strip, int)
	Map(database string, span heat.Span, m heat.Metric, from int64) heat.Map
	Series(m heat.Metric) (first int64, out map[string][]float32)
}

// Config is what a dashboard needs.
type Config struct {
	// Proxy returns the proxy, nil while it starts. Required.
	Proxy func() Proxy
	// Log is told what operators do. Default: discarded.
	Log *slog.Logger
	// Guard writes down a panic of what it is given. Required.
	Guard func(where string, f func()) func()
}

//go:embed templates static
var files embed.FS

// Dashboard serves the pages.
type Dashboard struct {
	cfg       Config
	templates map[string]*template.Template // by name of the file
	static    map[string]asset
	hub       *hub
}

// New returns the handler of /dashboard/ and /api/.
func New(cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Dashboard{cfg: cfg, templates: map[string]*template.Template{}, static: assets()}
	for _, name := range []string{"overview", "heat", "tables", "act", "message"} {
		d.templates[name] = template.Must(template.ParseFS(files, "templates/layout.html", "templates/"+name+".html"))
	}
	d.hub = newHub(func(ctx context.Context, views []*console.View) [][]byte {
		p := cfg.Proxy()
		if p == nil {
			return nil
		}
		return frames(views, p.Tables(ctx, views))
	}, func(f func()) func() { return cfg.Guard("dashboard", f) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dashboard/{$}", d.page(&pages[0]))
	for i := range pages[1:] {
		mux.HandleFunc("GET /dashboard/"+pages[i+1].Path, d.page(&pages[i+1]))
	}
	mux.HandleFunc("GET /dashboard/static/{name}", d.asset)
	mux.HandleFunc("GET /dashboard/act", d.confirm)
	mux.HandleFunc("POST /dashboard/act", d.act)
	mux.HandleFunc("GET /api/views/{name}", d.view)
	mux.HandleFunc("GET /api/events", d.events)
	mux.HandleFunc("GET /api/heat", d.heat)
	mux.HandleFunc("GET /api/heat.png", d.picture)
	mux.HandleFunc("GET /api/rows", d.rows)
	mux.HandleFunc("GET /api/series", d.series)
	return guarded(http.NewCrossOriginProtection().Handler(mux))
}

// policy lets a page use what this package serves, and nothing else.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// guarded tells browsers what they may do with the answers.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// asset is a file that does not change while the process runs.
type asset struct {
	kind string
	data []byte
	tag  string
}

// kinds are the types of files by their ending.
var kinds = map[string]string{"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}

// assets reads the files that browsers may have.
func assets() map[string]asset {
	out := map[string]asset{}
	err := fs.WalkDir(files, "static", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		kind := kinds[path[strings.LastIndexByte(path, '.')+1:]]
		if kind == "" {
			return nil // a licence
		}
		data, err := files.ReadFile(path)
		out[e.Name()] = asset{kind, data, fmt.Sprintf(`"%x"`, sum(data))}
		return err
	})
	if err != nil {
		panic(err) // the files are in the binary
	}
	return out
}

func (d *Dashboard) asset(w http.ResponseWriter, r *http.Request) {
	a, ok := d.static[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Cache-Control", "private, no-cache") // kept, and asked for again: weft may be another version by then
	w.Header().Set("ETag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.data)
}

// proxy returns the proxy, or answers that there is none yet.
func (d *Dashboard) proxy(w http.ResponseWriter, r *http.Request) Proxy {
	p := d.cfg.Proxy()
	if p == nil {
		w.Header().Set("Retry-After", "2")
		if strings.HasPrefix(r.URL.Path, "/api/") {
			http.Error(w, "weft is starting", http.StatusServiceUnavailable)
			return nil
		}
		d.render(w, r, http.StatusServiceUnavailable, "message", &content{Title: "Starting", Message: "weft waits for its directory. This page can be loaded again in a moment."})
	}
	return p
}

// render writes a page.
func (d *Dashboard) render(w http.ResponseWriter, r *http.Request, status int, name string, c *content) {
	c.fill(r, d.cfg.Proxy())
	var b bytes.Buffer
	if err := d.templates[name].ExecuteTemplate(&b, "layout", c); err != nil {
		d.cfg.Log.Error("a page of the dashboard cannot be made", "page", name, "err", err)
		http.Error(w, "internal error: the log of the proxy has the details", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// view answers with the rows of a view, as they are.
func (d *Dashboard) view(w http.ResponseWriter, r *http.Request) {
	view := console.Named(r.PathValue("name"))
	if view == nil {
		http.Error(w, "there is no such view", http.StatusNotFound)
		return
	}
	p := d.proxy(w, r)
	if p == nil {
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), readTimeout)
	defer stop()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(p.Tables(ctx, []*console.View{view})[0].JSON())
}

// answerJSON answers with a value.
func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone if it fails
}
