package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/console"
	"weft/heat"
	wefthttp "weft/http"
	"weft/pgerr"
)

var rewrite = flag.Bool("rewrite", false, "write the golden pages anew")

// nasty is what strangers might call their rows.
const nasty = "<img src=x onerror=alert(1)>\x1b]0;owned\x07'\"&\u202e</script>"

// fake is a proxy with one row in each view, whose texts are nasty.
type fake struct {
	ran    []string
	err    error
	tables int
}

func (f *fake) Proxy() string      { return "p1" }
func (f *fake) Version() string    { return "v-test" }
func (f *fake) Declared() []string { return []string{"app", nasty[:28]} }

func (f *fake) Tables(_ context.Context, views []*console.View) []console.Table {
	f.tables++
	out := make([]console.Table, len(views))
	for i, v := range views {
		row := make([]any, len(v.Columns))
		for c, col := range v.Columns {
			switch col.Type {
			case console.Bool:
				row[c] = true
			case console.Int:
				row[c] = int64(1234567)
			case console.Float:
				row[c] = 0.4321
			case console.Time:
				row[c] = time.Date(2020, 2, 3, 1, 2, 3, 0, time.UTC) // long ago: what the page shows of it does not depend on today
			case console.Texts:
				row[c] = []string{nasty, "b"}
			default:
				row[c] = nasty
			}
			if col.Name == "state" {
				row[c] = "running"
			}
		}
		out[i] = console.Table{Columns: v.Columns, Rows: [][]any{row, make([]any, len(v.Columns))}, Notices: []string{"proxy " + nasty + " is silent"}}
	}
	return out
}

func (f *fake) Command(_ context.Context, line string) ([]string, error) {
	f.ran = append(f.ran, line)
	return []string{"told " + nasty}, f.err
}

func (f *fake) Query(_ context.Context, operator, database, sql string) ([]string, error) {
	f.ran = append(f.ran, operator+" in "+database+": "+sql)
	return nil, f.err
}

func (f *fake) Databases() []string { return []string{"app"} }
func (f *fake) Strips(string) ([]heat.Strip, int) {
	return heat.Strips([]uint16{0, 1}, []string{"a", nasty}, heat.MaxRows), 3
}

func (f *fake) Map(string, heat.Span, heat.Metric, int64) heat.Map {
	return heat.Map{Layout: 3, First: 100, Columns: 3, Rows: 2, Levels: []byte{0, 1, 50, 100, 200, 255}}
}

func (f *fake) Series(heat.Metric) (int64, map[string][]float32) {
	return 100, map[string][]float32{"a": {1, 2}}
}

// served is a dashboard over a proxy.
type served struct {
	http.Handler
	t    *testing.T
	user wefthttp.User
}

func serve(t *testing.T, p Proxy) *served {
	h := New(Config{
		Proxy: func() Proxy {
			if p == (*fake)(nil) {
				return nil
			}
			return p
		},
		Guard: func(_ string, f func()) func() { return f },
	})
	return &served{h, t, wefthttp.User{Name: "ann", Operator: true}}
}

func (s *served) ask(method, path string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	s.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, body)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, wefthttp.WithUser(r, s.user))
	return w
}

// Every page shows nasty texts as texts: none of them is part of the HTML.
func TestEscaping(t *testing.T) {
	s := serve(t, &fake{})
	for _, p := range pages {
		if !p.exists() {
			continue
		}
		w := s.ask("GET", "/dashboard/"+p.Path, nil)
		body := w.Body.String()
		if w.Code != 200 || !strings.Contains(body, "&lt;img src=x onerror=alert(1)&gt;") {
			t.Errorf("/%s: %d, and the text is not there", p.Path, w.Code)
		}
		for _, bad := range []string{"<img src=x", "\x1b", "\x07", "\u202e", "</script>'", "style=", "onclick", "javascript:"} {
			if strings.Contains(body, bad) {
				t.Errorf("/%s contains %q", p.Path, bad)
			}
		}
	}
}

// TestGolden compares a page with how it was.
func TestGolden(t *testing.T) {
	s := serve(t, &fake{})
	for _, path := range []string{"keys", "servers", "act?action=dismiss&id=" + url.QueryEscape("<img src=x onerror=alert(1)>'\"&")} {
		body := s.ask("GET", "/dashboard/"+path, nil).Body.String()
		_, body, _ = strings.Cut(body, "<main>")
		body, _, _ = strings.Cut(body, "</main>")
		name, _, _ := strings.Cut(path, "?")
		file := filepath.Join("testdata", name+".html")
		if *rewrite {
			if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if body != string(want) {
			t.Errorf("%s is not as in %s:\n%s", path, file, body)
		}
	}
}

// All answers tell browsers to run nothing but what weft serves.
func TestHeaders(t *testing.T) {
	s := serve(t, &fake{})
	for _, path := range []string{"/dashboard/", "/dashboard/heat", "/dashboard/static/app.js", "/dashboard/static/uPlot.iife.min.js", "/api/views/load", "/api/heat", "/api/rows", "/api/series", "/api/heat.png", "/dashboard/nowhere"} {
		h := s.ask("GET", path, nil).Header()
		if h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") == "" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, h)
		}
		if !strings.HasPrefix(path, "/dashboard/static/") && h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s is kept: %v", path, h)
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'self'") {
		t.Error(policy)
	}
	w := s.ask("GET", "/dashboard/static/app.js", nil)
	if again := s.ask("GET", "/dashboard/static/app.js", nil, "If-None-Match", w.Header().Get("ETag")); again.Code != 304 || again.Body.Len() != 0 {
		t.Errorf("the same file: %d", again.Code)
	}
	if w := s.ask("GET", "/dashboard/static/LICENSE", nil); w.Code != 404 {
		t.Errorf("a licence: %d", w.Code)
	}
}

// A page is there if its view is.
func TestMenu(t *testing.T) {
	body := serve(t, &fake{}).ask("GET", "/dashboard/", nil).Body.String()
	for _, p := range pages {
		if got := strings.Contains(body, `href="/dashboard/`+p.Path+`"`); got != p.exists() {
			t.Errorf("/%s is in the menu: %v", p.Path, got)
		}
	}
	for _, p := range pages {
		for _, b := range p.blocks {
			for _, c := range b.columns {
				v := console.Named(b.view)
				if v == nil {
					continue
				}
				found := false
				for _, have := range v.Columns {
					found = found || have.Name == c
				}
				if !found {
					t.Errorf("weft.%s has no column %s", b.view, c)
				}
			}
		}
	}
}

// Events have all columns that some page shows of a view, also if several pages show it.
func TestColumnsOfEvents(t *testing.T) {
	for _, p := range pages {
		for _, b := range p.blocks {
			all := blockOf(b.view)
			for _, c := range b.columns {
				if all.columns != nil && !slices.Contains(all.columns, c) {
					t.Errorf("/%s shows %s of weft.%s, and events lack it", p.Path, c, b.view)
				}
			}
			if b.columns == nil && all.columns != nil || all.most > 0 && (b.most == 0 || b.most > all.most) {
				t.Errorf("/%s shows more of weft.%s than events have", p.Path, b.view)
			}
		}
	}
	if cluster := pages[slices.IndexFunc(pages, func(p page) bool { return p.Path == "cluster" })]; len(cluster.blocks[0].columns) >= len(blockOf("shards").columns) {
		t.Error("events of weft.shards have the columns of one page only")
	}
}

// A filter leaves the rows that fit.
func TestFilter(t *testing.T) {
	s := serve(t, &fake{})
	if body := s.ask("GET", "/dashboard/keys?bucket=7,1234567", nil).Body.String(); !strings.Contains(body, "onerror") || !strings.Contains(body, `data-filter="{&#34;bucket&#34;:[&#34;7&#34;,&#34;1234567&#34;]}"`) {
		t.Errorf("a bucket: %s", body)
	}
	if body := s.ask("GET", "/dashboard/keys?bucket=8", nil).Body.String(); strings.Contains(body, "<td") {
		t.Error("a row of another bucket")
	}
}

func TestData(t *testing.T) {
	s := serve(t, &fake{})
	if w := s.ask("GET", "/api/views/hot_keys", nil); w.Code != 200 || !strings.HasPrefix(w.Body.String(), `[{"database":`) || strings.Contains(w.Body.String(), "<img") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := s.ask("GET", "/api/views/nothing", nil); w.Code != 404 {
		t.Errorf("%d", w.Code)
	}
	w := s.ask("GET", "/api/heat?from=101", nil)
	if h := w.Header(); w.Body.String() != "\x00\x01\x32\x64\xc8\xff" || h.Get("Weft-Rows") != "2" || h.Get("Weft-Columns") != "3" || h.Get("Weft-First") != "100" || h.Get("Weft-Step") != "10" || h.Get("Weft-Layout") != "3" {
		t.Errorf("%v %q", h, w.Body)
	}
	if w := s.ask("GET", "/api/heat.png", nil); !strings.HasPrefix(w.Body.String(), "\x89PNG") {
		t.Errorf("%q", w.Body)
	}
	if w := s.ask("GET", "/api/rows", nil); !strings.Contains(w.Body.String(), `"layout":3,"strips":[{"shard":"a","buckets":[0]}`) || strings.Contains(w.Body.String(), "<img") {
		t.Errorf("%s", w.Body)
	}
	if w := s.ask("GET", "/api/series", nil); !strings.HasPrefix(w.Body.String(), `{"first":1000,"step":10,"reads":{"a":[1,2]}`) {
		t.Errorf("%s", w.Body)
	}
}

// Until there is a proxy, pages say so.
func TestStarting(t *testing.T) {
	s := serve(t, (*fake)(nil))
	for _, path := range []string{"/dashboard/", "/api/views/load", "/api/events?views=load", "/api/heat"} {
		if w := s.ask("GET", path, nil); w.Code != 503 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// Operators act, by SQL that is shown to them first. Viewers do not, and pages of others cannot make an operator act.
func TestActions(t *testing.T) {
	f := &fake{}
	s := serve(t, f)
	form := func(action, id, database string) url.Values {
		return url.Values{"action": {action}, "id": {id}, "database": {database}}
	}
	for _, c := range []struct {
		form url.Values
		ran  string
	}{
		{form("dismiss", "a'b", ""), "ann in app: SELECT weft.dismiss('a''b', '7d')"},
		{form("pause_move", "j1", "app"), "ann in app: SELECT weft.pause_moves('j1')"},
		{form("resume_move", "j1", "elsewhere"), "ann in app: SELECT weft.resume_moves('j1')"},
		{form("cancel_move", "j1", "app"), "ann in app: SELECT weft.cancel_move('j1')"},
		{form("cancel_statement", "77", "app"), "ann in app: SELECT pg_cancel_backend(77)"},
		{form("kill_session", "77", ""), "KILL 77"},
		{form("reload", "", ""), "RELOAD"},
		{form("kill_session", "7; PAUSE", ""), ""},
		{form("cancel_statement", "77) , pg_reload_conf(", ""), ""},
		{form("reload", "x", ""), ""},
		{form("dismiss", "", ""), ""},
		{form("drop", "x", ""), ""},
		{form("dismiss", "a\u202eb", ""), ""},
	} {
		f.ran = nil
		shown := s.ask("GET", "/dashboard/act?"+c.form.Encode(), nil)
		if len(f.ran) > 0 {
			t.Fatalf("%v: looking has run %v", c.form, f.ran)
		}
		w := s.ask("POST", "/dashboard/act", c.form)
		if got := strings.Join(f.ran, "; "); got != c.ran {
			t.Errorf("%v has run %q, want %q", c.form, got, c.ran)
		}
		want := 400
		if c.ran != "" {
			want = 200
			_, sql, _ := strings.Cut(c.ran, ": ")
			if sql == "" {
				sql = c.ran
			}
			if text := strings.ReplaceAll(sql, "'", "&#39;"); !strings.Contains(shown.Body.String(), text) || !strings.Contains(w.Body.String(), text) {
				t.Errorf("%v: %s is not shown", c.form, text)
			}
		}
		if w.Code != want || shown.Code != want {
			t.Errorf("%v: %d and %d", c.form, shown.Code, w.Code)
		}
	}
	f.ran, f.err = nil, pgerr.New(pgerr.UndefinedObject, "there is no warning %q", nasty).WithHint("Look again.")
	if w := s.ask("POST", "/dashboard/act", form("dismiss", "w1", "")); w.Code != 409 || !strings.Contains(w.Body.String(), "Look again.") || strings.Contains(w.Body.String(), "<img src=x") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.ran, f.err = nil, errors.New("gone")
	for _, h := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}} {
		if w := s.ask("POST", "/dashboard/act", form("dismiss", "w1", ""), h...); w.Code != 403 || f.ran != nil {
			t.Errorf("%v: %d, %v", h, w.Code, f.ran)
		}
	}
	s.user.Operator = false
	if w := s.ask("POST", "/dashboard/act", form("dismiss", "w1", "")); w.Code != 403 || f.ran != nil {
		t.Errorf("a viewer: %d, %v", w.Code, f.ran)
	}
	if w := s.ask("GET", "/dashboard/act?action=reload", nil); w.Code != 403 {
		t.Errorf("a viewer: %d", w.Code)
	}
	if body := s.ask("GET", "/dashboard/settings", nil).Body.String(); strings.Contains(body, "action=reload") {
		t.Error("a viewer is offered an action")
	}
}

// What others have written is in the binary as they have published it.
func TestVendored(t *testing.T) {
	for name, want := range map[string]string{
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":           "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		data, err := files.ReadFile("static/uplot/" + name)
		if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: %x, %v", name, sum, err)
		}
	}
}

func TestFormat(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"reads_s", 0.0, "0 quiet"},
		{"reads_s", 3.14159, "3.14"},
		{"reads_s", 31.4159, "31.4"},
		{"reads_s", 9.9999, "10.0"},
		{"reads_s", 1234.5, "1234"},
		{"busy_ms_s", 12345.6, "12\u202f346"},
		{"share", 0.4321, "43.2 % bar 43.2"},
		{"share", 0.0, "0.0 % quiet bar 0.0"},
		{"bytes_s", 10.0, "10 B"},
		{"bytes_s", 2048.0, "2.00 KiB"},
		{"bytes", int64(5 << 30), "5.00 GiB"},
		{"calls", int64(-1234567), "-1\u202f234\u202f567"},
		{"bucket", int64(12345), "12345"},
		{"waiting", int64(3), "3 warm"},
		{"age_seconds", 7.25, "7.2 s"},
		{"age_seconds", 4000.0, "66 min"},
		{"age_seconds", 1e6, "11 d"},
		{"rate", 1e6, "977 KiB/s"},
		{"since", now.Add(-time.Hour), "11:00:00"},
		{"since", now.Add(-48 * time.Hour), "2026-11-15 12:00"},
		{"since", time.Time{}, "– quiet"},
		{"verdict", "hot", "hot hot"},
		{"home", true, "yes"},
		{"home", false, "no quiet"},
		{"durable", false, "no hot"},
		{"durable", true, "yes"},
		{"lossy", true, "yes hot"},
		{"lossy", false, "no quiet"},
		{"lossy", nil, "– quiet"},
		{"state", "standby", "standby good"},
		{"state", "silent", "silent hot"},
		{"state", "stale", "stale warm"},
		{"primary_state", "steady", "steady good"},
		{"primary_state", "seeking", "seeking hot"},
		{"role", "primary", "primary"},
		{"at_gate", int64(2), "2 warm"},
		{"at_gate", int64(0), "0 quiet"},
		{"timeline", int64(12345), "12345"},
		{"lag_bytes", int64(0), "0 B quiet"},
		{"lag_bytes", int64(2048), "2.00 KiB"},
		{"lost_bytes", int64(0), "0 quiet"},
		{"lost_bytes", int64(2048), "2.00 KiB hot"},
		{"hosts", []string{"a", "b\n\tc"}, "a, b c"},
		{"key", nasty[28:], `\u001b]0;owned\u0007'"&\u202e</script>`},
		{"key", nil, "– quiet"},
	} {
		got := newCell(console.Column{Name: c.name}, c.v, now)
		text := strings.TrimSpace(got.Text + " " + got.Tone)
		if isShare(c.name) {
			text += " bar " + got.Width()
		}
		if text != c.want {
			t.Errorf("%s %v: %q, want %q", c.name, c.v, text, c.want)
		}
	}
	for name, want := range map[string]string{"busy_ms_s": "busy ms/s", "p99_ms": "p99 ms", "reads_s": "reads /s", "bytes_s": "bytes /s", "age_seconds": "age ", "share_of_shard": "of shard ", "over_mean": "over mean "} {
		if h := newHeading(console.Column{Name: name, Type: console.Float}); h.Text+" "+h.Unit != want {
			t.Errorf("%s: %q %q", name, h.Text, h.Unit)
		}
	}
}

// The ramp gets lighter all the way, and the highest level is the lightest.
func TestRamp(t *testing.T) {
	last := -1.0
	for i, c := range ramp {
		var r, g, b int
		if _, err := fmt.Sscanf(c, "#%02x%02x%02x", &r, &g, &b); err != nil {
			t.Fatal(err)
		}
		light := 0.2126*float64(r) + 0.7152*float64(g) + 0.0722*float64(b)
		if light < last-0.5 {
			t.Errorf("colour %d is darker than the one before", i)
		}
		last = light
	}
	low, high := levelsOf([]byte{0, 3, 200})
	if low != 200-depth || shade(200, low, high) != 255 || shade(0, low, high) != 0 || shade(3, low, high) != 12 || shade(199, low, high) == 255 {
		t.Error("the ends of the ramp")
	}
}
