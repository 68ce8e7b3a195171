package heat

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weft/config"
)

// looker looks at the dashboard of a proxy.
type looker struct {
	w    *world
	addr string
}

// configure gives a proxy a dashboard, for an operator and a viewer.
func (l *looker) configure(c *config.Config) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	l.addr = listener.Addr().String()
	listener.Close()
	c.HTTP.Listen = l.addr
	c.HTTP.Users = []config.HTTPUser{{Name: "op", Password: "op", Operator: true}, {Name: "eye", Password: "eye"}}
}

// ask sends a request as a user whose password is the name, and returns the answer and its headers.
func (l *looker) ask(user, path string, form url.Values) (int, string, http.Header) {
	l.w.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(l.w.Context(), method, "http://"+l.addr+path, body)
	if err != nil {
		l.w.Fatal(err)
	}
	r.SetBasicAuth(user, user)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		l.w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		l.w.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// The dashboard of either proxy shows the work of both: the brightest row of the map is that of the hot bucket, and the hot key is
// listed. Operators act with the rights of weft's service user, and viewers do not.
func TestDashboard(t *testing.T) {
	lookers := []*looker{{}, {}}
	w := newWorld(t, "dashed", lookers[0].configure, lookers[1].configure)
	lookers[0].w, lookers[1].w = w, w
	w.start(account(42))
	c := w.conn(0, "postgres")
	var bucket int64
	w.await("the hot key", func() (any, bool) {
		rows := w.rows(c, "select key, bucket from weft.hot_keys order by reads_s + writes_s desc limit 1")
		if len(rows) == 0 || rows[0]["key"] != "42" {
			return rows, false
		}
		bucket = rows[0]["bucket"].(int64)
		return rows, true
	})
	for i, l := range lookers {
		w.await("the hot bucket on the map", func() (any, bool) {
			row, ok := l.brightest(w.db)
			return row, ok && slices.Contains(row, bucket)
		})
		if code, body, _ := l.ask("eye", "/dashboard/keys", nil); code != 200 || !strings.Contains(body, "<span>42</span>") {
			t.Errorf("proxy %d: %d\n%s", i, code, body)
		}
		var sessions []struct{ Proxy, Database string }
		_, body, _ := l.ask("eye", "/api/views/sessions", nil)
		if err := json.Unmarshal([]byte(body), &sessions); err != nil {
			t.Fatal(err)
		}
		proxies := map[string]bool{}
		for _, s := range sessions {
			proxies[s.Proxy] = proxies[s.Proxy] || s.Database == w.db
		}
		if len(proxies) < 2 {
			t.Errorf("proxy %d shows sessions of %v", i, proxies)
		}
	}
}

// brightest returns the buckets of the row with most reads in the newest columns of the map.
func (l *looker) brightest(database string) ([]int64, bool) {
	l.w.Helper()
	_, text, _ := l.ask("eye", "/api/rows?database="+database, nil)
	var rows struct {
		Strips []struct{ Buckets []int64 }
	}
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		l.w.Fatal(err)
	}
	_, levels, h := l.ask("eye", "/api/heat?metric=reads&database="+database, nil)
	n, err := strconv.Atoi(h.Get("Weft-Rows"))
	if err != nil || n != len(rows.Strips) {
		l.w.Fatalf("%d rows of %v", len(rows.Strips), h)
	}
	if n == 0 || len(levels) < n {
		return nil, false
	}
	newest := []byte(levels[len(levels)-n:])
	top := slices.Index(newest, slices.Max(newest))
	return rows.Strips[top].Buckets, newest[top] > 0
}

// What operators do is done, with the outcome on the page.
func TestDashboardActs(t *testing.T) {
	l := &looker{}
	w := newWorld(t, "acted", l.configure)
	l.w = w
	c := w.conn(0, "postgres")
	shards := w.rows(c, "select name, (select string_agg(bucket::text, ',') from weft.buckets where shard = name) as buckets from weft.shards order by 1")
	job := w.rows(c, "select weft.move_buckets($1, $2, rate => '1kB')", shards[1]["buckets"], shards[0]["name"])
	id := fmt.Sprint(job[0]["job"])
	act := func(action, id string) {
		t.Helper()
		if code, body, _ := l.ask("op", "/dashboard/act", url.Values{"action": {action}, "id": {id}, "database": {w.db}}); code != 200 || !strings.Contains(body, "Done.") {
			t.Errorf("%s: %d\n%s", action, code, body)
		}
	}
	await := func(state string) {
		t.Helper()
		w.await("the job to be "+state, func() (any, bool) {
			rows := w.rows(c, "select state, reason from weft.moves where job = $1", id)
			return rows, len(rows) == 1 && rows[0]["state"] == state
		})
	}
	await("running")
	act("pause_move", id)
	await("paused")
	if _, body, _ := l.ask("op", "/dashboard/jobs", nil); !strings.Contains(body, "action=resume_move") || strings.Contains(body, "action=pause_move") {
		t.Errorf("the actions of a paused job:\n%s", body)
	}
	act("resume_move", id)
	await("running")
	act("cancel_move", id)
	await("cancelled")
	for _, tc := range []struct {
		user, action, id string
		code             int
		text             string
	}{
		{"eye", "pause_move", id, 403, "you may look"},
		{"op", "dismiss", "none", 409, "there is no warning"},
		{"op", "cancel_move", "none", 409, "there is no job"},
		{"op", "reload", "", 409, "not started from a file"},
		{"op", "kill_session", "1", 409, "there is no client"},
	} {
		form := url.Values{"action": {tc.action}, "database": {w.db}}
		if tc.id != "" {
			form.Set("id", tc.id)
		}
		if code, body, _ := l.ask(tc.user, "/dashboard/act", form); code != tc.code || !strings.Contains(strings.ToLower(body), tc.text) {
			t.Errorf("%+v: %d\n%s", tc, code, body)
		}
	}
	throttle := fmt.Sprint(w.rows(c, "select weft.throttle(username => 'alice', rate => '5/s', duration => '1h')")[0]["id"])
	if _, body, _ := l.ask("op", "/dashboard/throttles", nil); !strings.Contains(body, "action=unthrottle") || !strings.Contains(body, "user alice") {
		t.Errorf("the throttles:\n%s", body)
	}
	act("unthrottle", throttle)
	w.await("the throttle to end", func() (any, bool) { // proxies learn of it from the directory
		rows := w.rows(c, "select id from weft.throttles where target like '%alice%'")
		return rows, len(rows) == 0
	})
	other := w.conn(0, "alice")
	if code, body, _ := l.ask("op", "/dashboard/act", url.Values{"action": {"kill_session"}, "id": {strconv.Itoa(int(other.PgConn().PID()))}}); code != 200 {
		t.Errorf("%d\n%s", code, body)
	}
	if err := other.Ping(t.Context()); err == nil {
		t.Error("the session has not ended")
	}
}
