package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// live is true when an event has come.
const live = "document.getElementById('live').classList.contains('on')"

// texts is a script that returns the texts of a column of a table.
func texts(view, column string) string {
	return fmt.Sprintf(`(() => {
		const s = document.querySelector('[data-table=%s]');
		if (!s) return [];
		const at = [...s.querySelectorAll('th')].findIndex((h) => h.dataset.col === %q);
		return [...s.querySelectorAll('tbody tr')].map((r) => r.cells[at].innerText);
	})()`, view, column)
}

// A hot key is listed within seconds, its bucket is the brightest row of the map, and the map leads back to the key.
func TestHotKey(t *testing.T) {
	w := theWorld
	w.tables(t)
	b := w.tab(t)
	b.visit("keys")
	b.await("events", live)
	w.load(t, 6, 5*time.Millisecond, mixed(42))
	took := b.await("the hot key", texts("hot_keys", "key")+"[0] === '42'")
	t.Logf("the hot key is listed after %v", took.Round(10*time.Millisecond))

	c := w.conn(t)
	var bucket int
	var shard string
	if err := c.QueryRow(t.Context(), "select bucket, shard from weft.hot_keys where key = '42'").Scan(&bucket, &shard); err != nil {
		t.Fatal(err)
	}
	b.visit("heat?metric=reads")
	b.await("events", live)
	// The newest columns of the map, read from the pixels that people see: which row is the lightest.
	const brightest = `(() => {
		const m = window.weftMap;
		if (!m || m.columns.length === 0 || m.strips.length === 0) return -1;
		const g = m.canvas.getContext('2d'), a = m.area(), ratio = devicePixelRatio || 1;
		let best = -1, most = -1;
		for (let row = 0; row < m.strips.length; row++) {
			const x = a.x + ((m.columns.length - 0.5) / m.columns.length) * a.width;
			const y = a.y + ((row + 0.5) / m.strips.length) * a.height;
			const [r, gr, bl] = g.getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1).data;
			const light = 0.2126 * r + 0.7152 * gr + 0.0722 * bl;
			if (light > most) { most = light; best = row; }
		}
		return m.strips[best].buckets.includes(%d) && m.strips[best].shard === '%s' && most > 180 ? best : -1;
	})()`
	script := fmt.Sprintf(brightest, bucket, shard)
	b.await("the brightest row is that of the hot bucket", script+" >= 0")
	row := eval[int](b, script)

	// The point of the page that shows the newest cell of the row.
	const cellOf = `(() => {
		const m = window.weftMap, a = m.area(), box = m.canvas.getBoundingClientRect();
		return [box.left + a.x + a.width - a.width / m.columns.length / 2, box.top + a.y + (%s + 0.5) / m.strips.length * a.height];
	})()`
	at := eval[[]float64](b, fmt.Sprintf(cellOf, strconv.Itoa(row)))
	b.await("keys of the map", "window.weftMap.keys.length > 0")
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
	tip := eval[string](b, "document.getElementById('tip').innerText")
	if !strings.HasPrefix(tip, fmt.Sprintf("%s, bucket %d\n", shard, bucket)) || !strings.Contains(tip, "now: key 42") || !strings.Contains(tip, "statements/s") {
		t.Errorf("the cell says %q", tip)
	}
	var job string
	if err := c.QueryRow(t.Context(), "select weft.move_buckets($1, $2)", strconv.Itoa(bucket), map[string]string{"shard-0": "shard-1", "shard-1": "shard-0"}[shard]).Scan(&job); err != nil {
		t.Fatal(err)
	}
	b.await("the job on the map", fmt.Sprintf("window.weftMap.moves.some((m) => m.text.startsWith('%s, move: %s → '))", job, shard))
	b.await("the past of the bucket on the other shard", fmt.Sprintf("window.weftMap.strips.some((s) => s.shard !== '%s' && s.buckets.includes(%d))", shard, bucket))
	// The map moves while it grows, so a click may miss it: people click again.
	for began := time.Now(); eval[string](b, "location.pathname") == "/dashboard/heat" && time.Since(began) < patience; time.Sleep(500 * time.Millisecond) {
		at = eval[[]float64](b, fmt.Sprintf(cellOf, fmt.Sprintf("m.strips.findIndex((s) => s.buckets.includes(%d))", bucket)))
		b.do(chromedp.MouseClickXY(at[0], at[1]))
	}
	b.await("the keys of the bucket", "location.pathname === '/dashboard/keys' && "+texts("hot_keys", "key")+"[0] === '42'")
	b.await("events", live)
	for _, text := range eval[[]string](b, texts("hot_keys", "bucket")) {
		if text != strconv.Itoa(bucket) {
			t.Errorf("a key of bucket %s", text)
		}
	}
	b.visit("")
	b.await("cards that move", "document.querySelectorAll('.card').length === 2 && "+live)
	b.await("charts", "document.querySelectorAll('.chart canvas').length === 2")
}

// Texts of strangers are texts, on pages as they are loaded and when events change them.
func TestStrangers(t *testing.T) {
	w := theWorld
	w.tables(t)
	nasty := "<img src=x onerror=\"window.owned=1\">\x1b]0;owned\x07'\u202e</td><script>window.owned=2</script>"
	shown := `<img src=x onerror="window.owned=1">\u001b]0;owned\u0007'\u202e</td><script>window.owned=2</script>`
	w.load(t, 2, 2*time.Millisecond, func(ctx context.Context, c *pgx.Conn, _ int) error {
		_, err := c.Exec(ctx, "insert into page values ($1, 1) on conflict (path) do update set n = page.n + 1", nasty)
		return err
	})
	b := w.tab(t)
	b.visit("keys")
	b.await("the key", fmt.Sprintf("%s.includes(%s)", texts("hot_keys", "key"), strconv.Quote(shown)))
	b.await("events", live)
	b.visit("keys") // now the server has it from the beginning
	b.await("the key", fmt.Sprintf("%s.includes(%s)", texts("hot_keys", "key"), strconv.Quote(shown)))
	b.await("events", live)
	if eval[bool](b, "'owned' in window || document.querySelector('img[src=x]') !== null || document.querySelectorAll('body script').length > 0") {
		t.Error("a text became a part of the page")
	}
}

// Pages can be read without JavaScript.
func TestWithoutScripts(t *testing.T) {
	w := theWorld
	w.tables(t)
	w.load(t, 1, 10*time.Millisecond, mixed(7))
	b := w.tab(t, command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	for path, wanted := range map[string][]string{
		"":         {">shard-0<", ">shard-1<", "ms/s busy", "How evenly work is spread"},
		"heat":     {"/api/heat.png?database=app", "Busiest buckets now", "Last hour"},
		"keys":     {"Hot keys", "<td"},
		"settings": {"heat.samples", ">2000<"},
		"cluster":  {"Declared tables", ">acct<"},
	} {
		b.visit(path)
		html, err := chromedp.Run(b.ctx, chromedp.OuterHTML("html"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range wanted {
			if !strings.Contains(html, text) {
				t.Errorf("/%s: %q is missing", path, text)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := strings.Join(b.requests, "\n")
	if strings.Contains(all, "/api/events") || !strings.Contains(all, "/api/heat.png") {
		t.Errorf("the browser has asked for\n%s", all)
	}
}

// contrast is a script that returns the lowest contrast of texts against what is behind them, with its element.
const contrast = `(() => {
	const parse = (c) => c.match(/[\d.]+/g).map(Number);
	const lum = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.9) return c; } return [255, 255, 255]; };
	let worst = [99, ''];
	for (const e of document.querySelectorAll('h1, h2, p, td span, th, small, nav a, .foot p, dt, dd, b, button, .act, label')) {
		if (e.innerText.trim() === '' || e.closest('[hidden]') || e.offsetParent === null) continue;
		const [a, b] = [lum(parse(getComputedStyle(e).color)), lum(behind(e))];
		const c = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (c < worst[0]) worst = [c, e.outerHTML.slice(0, 200)];
	}
	return worst[0] < 4.5 ? worst[0].toFixed(2) + ' ' + worst[1] : '';
})()`

// Both themes can be read, and readers may choose.
func TestThemes(t *testing.T) {
	w := theWorld
	w.tables(t)
	w.load(t, 1, 10*time.Millisecond, mixed(7))
	const paper = "getComputedStyle(document.body).backgroundColor"
	colours := map[string]string{}
	for _, theme := range []string{"light", "dark"} {
		b := w.tab(t, themed(theme))
		for _, path := range []string{"", "heat"} {
			b.visit(path)
			b.await("events", live)
			if low := eval[string](b, contrast); low != "" {
				t.Errorf("%s /%s: contrast %s", theme, path, low)
			}
		}
		colours[theme] = eval[string](b, paper)
	}
	if colours["light"] == colours["dark"] {
		t.Errorf("both themes are %s", colours["light"])
	}
	b := w.tab(t, themed("dark"))
	b.visit("")
	b.do(chromedp.Click("#theme"))
	if got := eval[string](b, paper); got != colours["light"] {
		t.Errorf("light was chosen: %s", got)
	}
	b.visit("keys")
	if got := eval[string](b, paper); got != colours["light"] {
		t.Errorf("light was chosen, and on the next page it is %s", got)
	}
	b.do(chromedp.Click("#theme"), chromedp.Click("#theme"))
	if got := eval[string](b, paper); got != colours["dark"] {
		t.Errorf("the system's theme was chosen: %s", got)
	}
}

// act clicks an action in the row of a session, checks what would be run, and runs it.
func (b *tab) act(id uint32, label, sql string) {
	b.t.Helper()
	b.visit("pools")
	link := fmt.Sprintf("(() => { const i = %s.indexOf('%d'); if (i < 0) return null; return [...document.querySelectorAll('[data-table=sessions] tbody tr')[i].querySelectorAll('a.act')].find((a) => a.innerText === '%s'); })()", texts("sessions", "id"), id, label)
	b.await("the action "+label, link+" != null")
	b.do(chromedp.Navigate(eval[string](b, link+".href")))
	if got := eval[string](b, "document.querySelector('pre.sql').innerText"); got != sql {
		b.t.Errorf("%q would be run, want %q", got, sql)
	}
	b.do(chromedp.Click("button.primary"))
	b.await("the outcome", "document.querySelector('pre.outcome') !== null")
	if got := eval[string](b, "document.querySelector('pre.outcome').innerText"); !strings.HasPrefix(got, "Done.") {
		b.t.Errorf("%s: %s", sql, got)
	}
}

// An operator cancels a statement and ends a session.
func TestActing(t *testing.T) {
	w := theWorld
	c := w.conn(t)
	id := c.PgConn().PID()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "select pg_sleep(600)")
		failed <- err
	}()
	b := w.tab(t)
	b.act(id, "Cancel", fmt.Sprintf("SELECT pg_cancel_backend(%d)", id))
	var e *pgconn.PgError
	if err := <-failed; !errors.As(err, &e) || e.Code != "57014" {
		t.Errorf("the statement ended with %v", err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Errorf("the session has not gone on: %v", err)
	}
	b.act(id, "End", fmt.Sprintf("KILL %d", id))
	if err := c.Ping(t.Context()); err == nil {
		t.Error("the session has not ended")
	}
}

// Nobody looks without a password, and no other site acts.
func TestClosed(t *testing.T) {
	w := theWorld
	ask := func(method, path, password string, form url.Values, headers ...string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.http+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			r.SetBasicAuth("dev", password)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	for _, path := range []string{"/dashboard/", "/dashboard/static/app.js", "/api/events?views=load", "/api/views/hot_keys", "/api/heat"} {
		if code := ask("GET", path, "", nil); code != 401 {
			t.Errorf("%s without a user: %d", path, code)
		}
	}
	if code := ask("GET", "/dashboard/", "wrong", nil); code != 401 {
		t.Errorf("with a wrong password: %d", code)
	}
	reload := url.Values{"action": {"reload"}}
	if code := ask("POST", "/dashboard/act", w.password, reload, "Origin", "http://elsewhere.example", "Sec-Fetch-Site", "cross-site"); code != 403 {
		t.Errorf("a form of another site: %d", code)
	}
	if code := ask("GET", "/readyz", "", nil); code != 200 {
		t.Errorf("health: %d", code)
	}
}
