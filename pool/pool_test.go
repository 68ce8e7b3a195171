package pool_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/wire"
)

var postgres *pgserver.Temp

func TestMain(m *testing.M) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	var err error
	postgres, err = pgserver.StartTemp(ctx, pgserver.Config{})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start PostgreSQL:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := postgres.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close PostgreSQL:", err)
		code = 1
	}
	os.Exit(code)
}

// home returns a pool and its one shard. The pool runs until the test ends.
func home(t *testing.T, cfg pool.Config, hosts ...string) (*pool.Pool, *pool.Shard) {
	t.Helper()
	p, err := pool.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(hosts) == 0 {
		hosts = []string{postgres.Addr()}
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return p, p.Shard(spec(hosts...))
}

func spec(hosts ...string) *directory.Shard {
	return &directory.Shard{Name: "home", Hosts: hosts, Options: map[string]string{"sslmode": "disable"}}
}

// lane opens a lane of its own startup parameters for postgres.
func lane(t *testing.T, sh *pool.Shard, options ...wire.Option) *pool.Lane {
	t.Helper()
	l := sh.OpenLane(pool.NewKey("postgres", "postgres", options))
	t.Cleanup(l.CloseLane)
	return l
}

func acquire(t *testing.T, l *pool.Lane, want pool.Want) *pool.Conn {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	c, err := l.Acquire(ctx, want)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return c
}

func ask(t *testing.T, c *pool.Conn, sql string) string {
	t.Helper()
	rows, err := c.Exec(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var lines []string
	for _, r := range rows {
		lines = append(lines, strings.Join(r, "|"))
	}
	return strings.Join(lines, "\n")
}

func code(err error) string {
	var e *pgerr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// counts returns what the pool says it has: open, idle and waiting.
func counts(p *pool.Pool) (open, idle, waiting int) {
	for _, l := range p.Lanes() {
		open, idle, waiting = open+l.Open, idle+l.Idle, waiting+l.Waiting
	}
	return open, idle, waiting
}

// eventually waits until f says that all is well, or fails with what it says.
func eventually(t *testing.T, f func() string) {
	t.Helper()
	for end := time.Now().Add(pgtest.Patience); ; time.Sleep(5 * time.Millisecond) {
		switch what := f(); {
		case what == "":
			return
		case time.Now().After(end):
			t.Fatal(what)
		}
	}
}

func TestReuse(t *testing.T) {
	p, sh := home(t, pool.Config{})
	l := lane(t, sh)
	a := acquire(t, l, pool.Want{})
	pid := a.PID()
	if got := ask(t, a, "SELECT pg_backend_pid()"); got != fmt.Sprint(pid) {
		t.Errorf("PID %d, the backend says %s", pid, got)
	}
	a.Release()
	b := acquire(t, l, pool.Want{})
	if b.PID() != pid {
		t.Error("an idle connection was not used again")
	}
	c := acquire(t, l, pool.Want{})
	if c.PID() == pid {
		t.Error("one connection was lent twice")
	}
	c.Release()
	b.Release()
	// The session's own is better than the warmest.
	if d := acquire(t, l, pool.Want{Prefer: c}); d != c {
		t.Error("the preferred connection was idle and not taken")
	} else {
		d.Discard()
	}
	if open, idle, _ := counts(p); open != 1 || idle != 1 {
		t.Errorf("%d open, %d idle", open, idle)
	}
}

// TestLimit: no more connections than allowed, and the rest waits in order.
func TestLimit(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 2, QueueTimeout: 10 * time.Second})
	l := lane(t, sh)
	a, b := acquire(t, l, pool.Want{}), acquire(t, l, pool.Want{})
	order := make(chan int, 3)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			c, err := l.Acquire(context.Background(), pool.Want{})
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			time.Sleep(20 * time.Millisecond)
			c.Release()
		})
		eventually(t, func() string {
			if _, _, n := counts(p); n != i+1 {
				return fmt.Sprintf("%d waiting, want %d", n, i+1)
			}
			return ""
		})
	}
	a.Release()
	wg.Wait()
	for want := range 3 {
		if got := <-order; got != want {
			t.Errorf("number %d came before number %d", got, want)
		}
	}
	b.Release()
	if open, idle, waiting := counts(p); open != 2 || idle != 2 || waiting != 0 {
		t.Errorf("%d open, %d idle, %d waiting", open, idle, waiting)
	}
	if n := sh.Queued.Read().Count; n != 3 {
		t.Errorf("%d waits counted", n)
	}
}

func TestQueueTimeout(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 1, QueueTimeout: 50 * time.Millisecond})
	l := lane(t, sh)
	a := acquire(t, l, pool.Want{})
	if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.TooManyConnections {
		t.Errorf("timeout: %v", err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	stop(errors.New("weft ends"))
	if _, err := l.Acquire(ctx, pool.Want{}); err == nil || err.Error() != "weft ends" {
		t.Errorf("context: %v", err)
	}
	cancel := make(chan struct{}, 1)
	cancel <- struct{}{}
	if _, err := l.Acquire(context.Background(), pool.Want{Cancel: cancel}); code(err) != pgerr.QueryCanceled {
		t.Errorf("cancel: %v", err)
	}
	if _, _, waiting := counts(p); waiting != 0 {
		t.Errorf("%d left in the queue", waiting)
	}
	if n := sh.Stats.Timeouts.Load(); n != 1 {
		t.Errorf("%d timeouts counted", n)
	}
	a.Release()
	acquire(t, l, pool.Want{}).Release()
}

// TestUserLimit: a user's own limit holds, and does not hold up others who
// queue behind.
func TestUserLimit(t *testing.T) {
	p, sh := home(t, pool.Config{
		MaxPerShard: 2, QueueTimeout: pgtest.Patience,
		Users: map[string]pool.User{"limited": {MaxConnections: 1, ServerUser: "postgres"}},
	})
	limited := sh.OpenLane(pool.NewKey("postgres", "limited", nil))
	defer limited.CloseLane()
	one := lane(t, sh)
	other := lane(t, sh, wire.Option{Name: "TimeZone", Value: "Asia/Tokyo"})
	a, b := acquire(t, limited, pool.Want{}), acquire(t, one, pool.Want{})
	type result struct {
		c   *pool.Conn
		err error
	}
	wait := func(l *pool.Lane) chan result {
		ch := make(chan result, 1)
		_, _, before := counts(p)
		go func() {
			c, err := l.Acquire(context.Background(), pool.Want{})
			ch <- result{c, err}
		}()
		eventually(t, func() string {
			if _, _, n := counts(p); n != before+1 {
				return fmt.Sprintf("%d waiting", n)
			}
			return ""
		})
		return ch
	}
	head := wait(limited) // blocked by its user's limit
	behind := wait(other) // blocked by the shard's
	time.Sleep(100 * time.Millisecond)
	b.Release()
	r := <-behind
	if r.err != nil {
		t.Errorf("behind a user at its limit: %v", r.err)
	} else {
		r.c.Release()
	}
	a.Release()
	if r := <-head; r.err != nil || r.c != a {
		t.Errorf("the limited user: %v", r.err)
	} else {
		r.c.Release()
	}
}

// TestLanesShareTheLimit: an idle connection of one lane makes way for another
// lane.
func TestLanesShareTheLimit(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 1, QueueTimeout: 5 * time.Second})
	one, two := lane(t, sh), lane(t, sh, wire.Option{Name: "TimeZone", Value: "Asia/Tokyo"})
	for range 3 {
		a := acquire(t, one, pool.Want{})
		a.Release()
		b := acquire(t, two, pool.Want{})
		if got := ask(t, b, "SHOW timezone"); got != "Asia/Tokyo" {
			t.Errorf("startup parameter: %s", got)
		}
		b.Release()
	}
	if open, idle, _ := counts(p); open != 1 || idle != 1 {
		t.Errorf("%d open, %d idle", open, idle)
	}
	// A busy lane does not starve the other.
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := one.Acquire(context.Background(), pool.Want{})
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				c.Release()
			}
		})
	}
	began := time.Now()
	acquire(t, two, pool.Want{}).Release()
	if took := time.Since(began); pgtest.Late(t, took, 2*time.Second) {
		t.Errorf("the other lane waited %v", took)
	}
	close(stop)
	wg.Wait()
}

func TestIdleAndLifetime(t *testing.T) {
	gone := func(t *testing.T, cfg pool.Config) {
		cfg.HealthInterval = 10 * time.Millisecond
		p, sh := home(t, cfg)
		l := lane(t, sh)
		acquire(t, l, pool.Want{}).Release()
		eventually(t, func() string {
			if open, _, _ := counts(p); open != 0 {
				return "still open"
			}
			return ""
		})
	}
	t.Run("idle", func(t *testing.T) { gone(t, pool.Config{IdleTimeout: 20 * time.Millisecond}) })
	t.Run("lifetime", func(t *testing.T) { gone(t, pool.Config{MaxLifetime: 20 * time.Millisecond}) })
	t.Run("lifetime on release", func(t *testing.T) {
		p, sh := home(t, pool.Config{MaxLifetime: 20 * time.Millisecond, HealthInterval: time.Hour})
		c := acquire(t, lane(t, sh), pool.Want{})
		time.Sleep(30 * time.Millisecond)
		c.Release()
		if open, _, _ := counts(p); open != 0 {
			t.Errorf("%d open", open)
		}
	})
}

// TestDeadBackend: a connection whose backend has died in its sleep is not
// lent.
func TestDeadBackend(t *testing.T) {
	p, sh := home(t, pool.Config{HealthInterval: time.Hour})
	l := lane(t, sh)
	killer := acquire(t, l, pool.Want{})
	victim := acquire(t, l, pool.Want{})
	pid := victim.PID()
	victim.Release()
	ask(t, killer, fmt.Sprintf("SELECT pg_terminate_backend(%d, 60000)", pid))
	c := acquire(t, l, pool.Want{Prefer: victim})
	if c.PID() == pid {
		t.Error("a dead connection was lent")
	}
	if got := ask(t, c, "SELECT 1"); got != "1" {
		t.Error(got)
	}
	c.Release()
	killer.Release()
	if open, idle, _ := counts(p); open != 2 || idle != 2 {
		t.Errorf("%d open, %d idle", open, idle)
	}
}

// TestServerReturns kills the server under the pool and brings it back.
func TestServerReturns(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	p, sh := home(t, pool.Config{MaxPerShard: 3, ConnectTimeout: 2 * time.Second, HealthInterval: 20 * time.Millisecond}, srv.Addr())
	l := lane(t, sh)
	held := acquire(t, l, pool.Want{})
	acquire(t, l, pool.Want{}).Release()
	srv.Kill()
	if _, err := held.Exec("SELECT 1"); !errors.Is(err, pool.ErrLost) || code(err) != pgerr.ConnectionFailure {
		t.Errorf("on a dead server: %v", err)
	}
	held.Discard()
	for range 5 {
		if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.ConnectionFailure {
			t.Errorf("dial: %v", err)
		}
	}
	eventually(t, func() string {
		if open, idle, _ := counts(p); open != 0 || idle != 0 {
			return fmt.Sprintf("%d open, %d idle with the server down", open, idle)
		}
		return ""
	})
	if err := sh.Reachable(context.Background()); err == nil {
		t.Error("a dead server is said to be reachable")
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := srv.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := sh.Reachable(ctx); err != nil {
		t.Error(err)
	}
	// The failures must not have cost capacity.
	var all []*pool.Conn
	for range 3 {
		all = append(all, acquire(t, l, pool.Want{}))
	}
	for _, c := range all {
		c.Release()
	}
}

// TestWelcome: the parameters that clients are told are those of a fresh login,
// whatever sessions have done to the connections there are.
func TestWelcome(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 2, QueueTimeout: 50 * time.Millisecond})
	l := lane(t, sh)
	fresh, err := l.Welcome(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	if fresh["TimeZone"] == "Asia/Tokyo" || fresh["server_version"] == "" {
		t.Fatalf("%v", fresh)
	}
	c := acquire(t, l, pool.Want{})
	ask(t, c, "SET timezone = 'Asia/Tokyo'")
	c.NoteSettings(pool.SettingsOf(map[string]string{"timezone": "Asia/Tokyo"}))
	if zone, _ := c.Param("TimeZone"); zone != "Asia/Tokyo" {
		t.Errorf("the connection reports %q", zone)
	}
	c.Release()
	p.Retire(func(k pool.Key) bool { return k.User == "somebody else" })
	for range 2 {
		got, err := l.Welcome(context.Background(), false)
		if err != nil || got["TimeZone"] != fresh["TimeZone"] {
			t.Errorf("a new client would be told %q, %v", got["TimeZone"], err)
		}
		// A dial that fails must not make the next client see another's values.
		bad := sh.OpenLane(pool.NewKey("nosuch", "postgres", nil))
		if _, err := bad.Welcome(context.Background(), false); code(err) != pgerr.InvalidCatalogName {
			t.Errorf("unknown database: %v", err)
		}
		bad.CloseLane()
	}
	if got := l.LoginRole(); got != "postgres" {
		t.Errorf("login role %q", got)
	}
}

// TestWelcomeAfterFailedDial: the lane's own dial has failed because the server
// is full, while a connection that another session has changed lies idle.
func TestWelcomeAfterFailedDial(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"max_connections": "5", "superuser_reserved_connections": "0", "max_wal_senders": "0"}})
	_, sh := home(t, pool.Config{MaxPerShard: 20, QueueTimeout: time.Second}, srv.Addr())
	l := lane(t, sh)
	fresh, err := l.Welcome(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	var held []*pool.Conn
	for {
		c, err := l.Acquire(context.Background(), pool.Want{})
		if err != nil {
			if code(err) != pgerr.TooManyConnections {
				t.Fatal(err)
			}
			break
		}
		held = append(held, c)
	}
	ask(t, held[0], "SET timezone = 'Asia/Tokyo'")
	held[0].NoteSettings(pool.SettingsOf(map[string]string{"timezone": "Asia/Tokyo"}))
	held[0].Release()
	got, err := l.Welcome(context.Background(), false)
	if err == nil && got["TimeZone"] != fresh["TimeZone"] {
		t.Errorf("a new client is told TimeZone %q of another's", got["TimeZone"])
	}
	for _, c := range held[1:] {
		c.Release()
	}
}

// TestRetire: connections of before are not lent after.
func TestRetire(t *testing.T) {
	p, sh := home(t, pool.Config{})
	l := lane(t, sh)
	held, idle := acquire(t, l, pool.Want{}), acquire(t, l, pool.Want{})
	idle.Release()
	if n := p.InUse(func(pool.Key) bool { return true }); n != 1 {
		t.Errorf("%d in use", n)
	}
	p.Retire(func(k pool.Key) bool { return k.Database == "postgres" })
	if open, free, _ := counts(p); open != 1 || free != 0 {
		t.Errorf("%d open, %d idle", open, free)
	}
	held.Release()
	if open, _, _ := counts(p); open != 0 {
		t.Errorf("%d open after the last came back", open)
	}
	c := acquire(t, l, pool.Want{})
	if c == held || c == idle {
		t.Error("a retired connection was lent")
	}
	c.Release()
}

// TestNewEndpoint: when a shard moves, nothing goes to where it was.
func TestNewEndpoint(t *testing.T) {
	p, sh := home(t, pool.Config{ConnectTimeout: time.Second})
	l := lane(t, sh)
	acquire(t, l, pool.Want{}).Release()
	if p.Shard(spec(postgres.Addr())) != sh {
		t.Error("the same endpoint made another shard")
	}
	if open, _, _ := counts(p); open != 1 {
		t.Errorf("%d open after a snapshot that changed nothing here", open)
	}
	p.Shard(spec("127.0.0.1:1"))
	if open, _, _ := counts(p); open != 0 {
		t.Errorf("%d open after the shard moved", open)
	}
	if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.ConnectionFailure {
		t.Errorf("where nobody listens: %v", err)
	}
	// Of several hosts the one that answers and takes writes is taken.
	p.Shard(spec("127.0.0.1:1", postgres.Addr()))
	acquire(t, l, pool.Want{}).Release()
}

// TestCustomParameters: a connection on which a custom parameter was set is only
// for sessions that set it too.
func TestCustomParameters(t *testing.T) {
	_, sh := home(t, pool.Config{MaxPerShard: 2})
	l := lane(t, sh)
	a := acquire(t, l, pool.Want{})
	a.NotePlaceholder("my.x")
	a.Release()
	if c := acquire(t, l, pool.Want{Prefer: a}); c == a {
		t.Error("lent to one who did not set it")
	} else {
		c.Discard()
	}
	c := acquire(t, l, pool.Want{Placeholders: map[string]bool{"my.x": true, "my.y": true}})
	if c != a {
		t.Error("not lent to one who did")
	}
	c.Release()
	// If the shard is full of those, one makes way.
	b := acquire(t, l, pool.Want{Placeholders: map[string]bool{"my.x": true}})
	d := acquire(t, l, pool.Want{})
	d.NotePlaceholder("my.z")
	b.Release()
	d.Release()
	e := acquire(t, l, pool.Want{})
	if e == b || e == d {
		t.Error("lent to one who did not set it")
	}
	e.Release()
}

// TestCancel: the backend is not given on before the request has been
// delivered.
func TestCancel(t *testing.T) {
	_, sh := home(t, pool.Config{MaxPerShard: 2})
	l := lane(t, sh)
	c, watcher := acquire(t, l, pool.Want{}), acquire(t, l, pool.Want{})
	defer watcher.Release()
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec("SELECT pg_sleep(600)")
		done <- err
	}()
	asleep := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event = 'PgSleep'", c.PID())
	eventually(t, func() string {
		if ask(t, watcher, asleep) != "1" {
			return "the statement does not run"
		}
		return ""
	})
	c.BeginCancel()
	if err := c.Cancel(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; code(err) != pgerr.QueryCanceled {
		t.Errorf("cancelled: %v", err)
	}
	if got := ask(t, c, "SELECT 1"); got != "1" {
		t.Error(got)
	}
	// Release waits for a cancel that is under way.
	c.BeginCancel()
	released := make(chan struct{})
	go func() {
		c.Release()
		close(released)
	}()
	select {
	case <-released:
		t.Error("released while a cancel request was under way")
	case <-time.After(50 * time.Millisecond):
	}
	if err := c.Cancel(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-released
}

func TestExec(t *testing.T) {
	_, sh := home(t, pool.Config{})
	c := acquire(t, lane(t, sh), pool.Want{})
	defer c.Release()
	if got := ask(t, c, "SELECT 1, NULL, 'a b'; SELECT 2; NOTIFY x"); got != "1||a b\n2" {
		t.Errorf("%q", got)
	}
	_, err := c.Exec("SELECT 1/0")
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != "22012" || e.Message != "division by zero" || errors.Is(err, pool.ErrLost) {
		t.Errorf("%v", err)
	}
	if got := ask(t, c, "SELECT 3"); got != "3" {
		t.Errorf("after an error: %q", got)
	}
	if c.Status() != wire.TxIdle {
		t.Errorf("status %c", c.Status())
	}
}

// TestSettings: what Settings.Steps says takes a real backend from any settings to any
// others.
func TestSettings(t *testing.T) {
	_, sh := home(t, pool.Config{})
	c := acquire(t, lane(t, sh), pool.Want{})
	defer c.Discard()
	ask(t, c, `CREATE SCHEMA IF NOT EXISTS "a b"; CREATE SCHEMA IF NOT EXISTS "q""x"`)
	sets := []map[string]string{
		nil,
		{"work_mem": "5MB"},
		{"work_mem": "6144", "search_path": `"a b", "q""x", public`},
		{"search_path": "", "application_name": `it's a \ name`},
		{"role": "pg_monitor"},
		{"role": "pg_monitor", "work_mem": "7MB", "my.custom": "x'y\\z"},
		{"session_authorization": "pg_monitor", "timezone": "<-08>+08"},
		{"my.custom": "", "my.Other_1": "é"},
		{"standard_conforming_strings": "off", "application_name": `a\b'c`},
		{"client_encoding": "LATIN1", "statement_timeout": "12345", "datestyle": "German, DMY"},
	}
	shown := func(m map[string]string) map[string]string {
		out := map[string]string{}
		for _, n := range []string{"work_mem", "search_path", "application_name", "role", "session_authorization", "timezone", "statement_timeout", "datestyle", "client_encoding", "standard_conforming_strings"} {
			out[n] = ask(t, c, "SELECT pg_catalog.current_setting('"+n+"')")
		}
		for n := range m {
			if strings.Contains(n, ".") {
				out[n] = ask(t, c, "SELECT pg_catalog.current_setting('"+n+"')")
			}
		}
		return out
	}
	same := map[string]map[string]string{
		"work_mem":          {"5MB": "5MB", "6144": "6MB", "7MB": "7MB"},
		"statement_timeout": {"12345": "12345ms"},
	}
	defaults := shown(nil)
	for from := range sets {
		for to := range sets {
			a, b := pool.SettingsOf(sets[from]), pool.SettingsOf(sets[to])
			c.NoteSettings(a)
			if err := c.Apply(b); err != nil {
				t.Fatalf("from %v to %v: %v", sets[from], sets[to], err)
			}
			for n, got := range shown(sets[to]) {
				want, ok := sets[to][n]
				if !ok {
					want = defaults[n]
				}
				if w, ok := same[n][want]; ok {
					want = w
				}
				if got != want {
					t.Fatalf("from %v to %v: %s is %q, want %q", sets[from], sets[to], n, got, want)
				}
			}
			if err := c.Apply(a); err != nil {
				t.Fatalf("back from %v to %v: %v", sets[to], sets[from], err)
			}
		}
		if err := c.Apply(pool.SettingsOf(sets[(from+1)%len(sets)])); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSettingsValue(t *testing.T) {
	var none *pool.Settings
	a := none.With("b", "2").With("a", "1")
	if got := a.All(); !slices.Equal(got, []pool.Setting{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}) {
		t.Errorf("%v", got)
	}
	if !a.Equal(pool.SettingsOf(map[string]string{"a": "1", "b": "2"})) || a.Equal(none) || !none.Equal(nil) || a.Equal(a.With("a", "3")) {
		t.Error("Equal")
	}
	if a.Without("a").Without("b") != nil || a.Without("c") != a || a.With("a", "1") != a {
		t.Error("Without and With")
	}
	if v, ok := a.Get("a"); v != "1" || !ok {
		t.Error("Get")
	}
	if _, ok := none.Get("a"); ok || none.All() != nil {
		t.Error("of nothing")
	}
	if a.Steps(a) != nil {
		t.Error("steps to itself")
	}
}

// TestStatements: the same text is one statement, for as long as anybody uses
// it.
func TestStatements(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPrepared: 2})
	d := p.Database("postgres")
	k := lane(t, sh).Key()
	a := d.Statement(k, "SELECT 1", "", false, nil)
	if d.Statement(k, "SELECT 1", "", false, nil) != a || p.Database("postgres") != d {
		t.Error("the same text made two statements")
	}
	for _, other := range []*pool.Statement{
		d.Statement(k, "SELECT 2", "", false, nil),
		d.Statement(k, "SELECT 1", "\x00\x00", false, nil),
		d.Statement(k, "SELECT 1", "", true, nil),
		d.Statement(k, "SELECT 1", "", false, pool.SettingsOf(map[string]string{"search_path": "x"})),
		d.Statement(pool.Key{Database: k.Database, User: "other"}, "SELECT 1", "", false, nil),
		d.Statement(pool.Key{Database: k.Database, User: k.User, Params: "search_path\x00x\x00"}, "SELECT 1", "", false, nil),
	} {
		if other == a || other.Name == a.Name {
			t.Errorf("%+v is taken for the same", other)
		}
	}
	d.Generation.Add(1)
	if b := d.Statement(k, "SELECT 1", "", false, nil); b == a {
		t.Error("a statement of before a change of the schema")
	} else {
		d.Forget(b)
	}
	d.Forget(a)
	d.Forget(a)

	// A backend forgets what was used longest ago.
	c := acquire(t, lane(t, sh), pool.Want{})
	defer c.Release()
	var all []*pool.Statement
	for i := range 3 {
		all = append(all, d.Statement(k, fmt.Sprint("SELECT ", i), "", false, nil))
		if c.Prepared(all[i]) {
			t.Errorf("%d is known already", i)
		}
		c.MarkPrepared(all[i])
	}
	c.Prepared(all[0])
	if name, ok := c.Evict(); !ok || name != all[1].Name {
		t.Errorf("evicts %q, %v", name, ok)
	}
	c.Unprepare(all[1].Name)
	if _, ok := c.Evict(); ok || c.Prepared(all[1]) || !c.Prepared(all[0]) {
		t.Error("after the eviction")
	}
	c.UnprepareAll()
	if c.Prepared(all[0]) || c.Prepared(all[2]) {
		t.Error("known after all were forgotten")
	}
}

func TestKey(t *testing.T) {
	o := func(kv ...string) (out []wire.Option) {
		for i := 0; i < len(kv); i += 2 {
			out = append(out, wire.Option{Name: kv[i], Value: kv[i+1]})
		}
		return out
	}
	same := [][]wire.Option{
		o("TimeZone", "UTC", "DateStyle", "ISO"),
		o("DateStyle", "ISO", "TimeZone", "UTC"),
		o("TimeZone", "Asia/Tokyo", "TimeZone", "UTC", "DateStyle", "ISO"),
		o("user", "x", "database", "y", "application_name", "z", "_pq_.x", "1", "DateStyle", "ISO", "TimeZone", "UTC"),
	}
	for _, opts := range same[1:] {
		if pool.NewKey("d", "u", opts) != pool.NewKey("d", "u", same[0]) {
			t.Errorf("%v is another key", opts)
		}
	}
	for _, opts := range [][]wire.Option{nil, o("TimeZone", "UTC"), o("TimeZone", "ISO", "DateStyle", "UTC"), o("options", "-c x=y")} {
		if pool.NewKey("d", "u", opts) == pool.NewKey("d", "u", same[0]) {
			t.Errorf("%v is the same key", opts)
		}
	}
}

func TestValidate(t *testing.T) {
	if _, err := pool.New(pool.Config{}); err != nil {
		t.Error(err)
	}
	for _, bad := range []pool.Config{
		{Mode: "statement"},
		{MaxPerShard: -1},
		{MaxPerUser: -1},
		{MaxPrepared: -1},
		{Users: map[string]pool.User{"u": {Mode: "x"}}},
		{Users: map[string]pool.User{"u": {MaxConnections: -1}}},
	} {
		if _, err := pool.New(bad); err == nil {
			t.Errorf("accepted %+v", bad)
		}
	}
	cfg := pool.Config{Users: map[string]pool.User{"s": {Mode: pool.ModeSession}}}.WithDefaults()
	if cfg.UserMode("s") != pool.ModeSession || cfg.UserMode("x") != pool.ModeTransaction {
		t.Error("modes")
	}
}

// TestManySessions has many goroutines take and give back few connections, some
// of which die meanwhile, and counts afterwards.
func TestManySessions(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 4, QueueTimeout: 20 * time.Second, HealthInterval: 5 * time.Millisecond, IdleTimeout: 20 * time.Millisecond})
	lanes := []*pool.Lane{lane(t, sh), lane(t, sh, wire.Option{Name: "TimeZone", Value: "UTC"})}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			var last *pool.Conn
			for j := range 40 {
				c, err := lanes[(i+j)%2].Acquire(context.Background(), pool.Want{Session: int32(i), Prefer: last})
				if err != nil {
					t.Error(err)
					return
				}
				if rows, err := c.Exec("SELECT 1"); err != nil || rows[0][0] != "1" {
					t.Errorf("%v %v", rows, err)
				}
				switch j % 10 {
				case 7:
					c.Discard()
				case 8:
					c.Terminate()
				default:
					c.Release()
				}
				last = c
				if j == 20 && i == 0 {
					p.Retire(func(pool.Key) bool { return true })
				}
			}
		})
	}
	wg.Wait()
	eventually(t, func() string {
		if open, idle, waiting := counts(p); open != 0 || idle != 0 || waiting != 0 {
			return fmt.Sprintf("%d open, %d idle, %d waiting", open, idle, waiting)
		}
		return ""
	})
}
