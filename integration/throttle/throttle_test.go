package throttle

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
)

// A rate holds for both proxies together, whichever way statements come, and concerns the key alone.
func TestRate(t *testing.T) {
	w := newWorld(t, "rate", plain, plain)
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	id := w.throttle(a, "table_name => 'acct', key => '7', rate => '20/s', duration => '1h', reason => 'import'")
	w.awaitThrottles(b, 1)
	cr := w.run(6, "postgres", "select n from acct where id = $1", 7)
	w.await("a second", func() (any, bool) { n := cr.passed.Load(); return n, n > 20 })
	before, began := cr.passed.Load(), time.Now()
	w.await("five seconds of it", func() (any, bool) { n := cr.passed.Load(); return n, n >= before+100 })
	rate := float64(cr.passed.Load()-before) / time.Since(began).Seconds()
	if t.Logf("%.1f statements per second", rate); rate > 40 {
		t.Errorf("%.1f statements per second", rate)
	}
	for range 50 {
		w.must(a, "select n from acct where id = 8")
	}
	w.await("what was counted", func() (any, bool) {
		rows := w.rows(b, "select * from weft.throttles where id = $1", atoi(id))
		if len(rows) != 1 {
			return rows, false
		}
		r := rows[0]
		return r, r["target"] == "key 7 of acct" && r["allows"] == "20/s" && r["origin"] == "manual" && r["reason"] == "import" && r["made_by"] == "postgres" &&
			r["demand_s"].(float64) > 0 && r["passed"].(int64)+r["delayed"].(int64) > 100 && r["delayed"].(int64) > 0 && r["mode"] == "enforce" && r["database"] == w.db
	})
	w.must(b, "select weft.unthrottle('"+id+"')")
	w.awaitThrottles(a, 0)
	n := cr.passed.Load()
	w.await("what was held back", func() (any, bool) { return cr.passed.Load(), cr.passed.Load() > n+200 })
	cr.halt()
	if _, err := a.Exec(t.Context(), "select weft.unthrottle('"+id+"')"); code(err) != "42704" {
		t.Error(err)
	}
}

func atoi(text string) (n int64) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// A client that is refused keeps its session and its prepared statements, in both protocols, and hears what to do.
func TestRefused(t *testing.T) {
	w := newWorld(t, "refused", plain, plain)
	a := w.conn(0, "postgres")
	c, simple, later := w.conn(1, "postgres"), w.conn(1, "postgres", "default_query_exec_mode=simple_protocol"), w.conn(1, "postgres", "default_query_exec_mode=exec")
	if _, err := c.Prepare(t.Context(), "one", "select n from acct where id = $1"); err != nil {
		t.Fatal(err)
	}
	id := w.throttle(a, "table_name => 'acct', key => '7', refuse => true, class => 'read', max_wait => '100ms', duration => '1h', reason => '<b>import\u0001'")
	w.awaitThrottles(c, 1)
	for _, x := range []struct {
		name string
		run  func() error
	}{
		{"prepared", func() error { _, err := c.Exec(t.Context(), "one", 7); return err }},
		{"simple", func() error { _, err := simple.Exec(t.Context(), "select n from acct where id = $1", 7); return err }},
		{"unnamed", func() error { _, err := later.Exec(t.Context(), "select n from acct where id = $1", 7); return err }},
		{"several keys", func() error {
			_, err := simple.Exec(t.Context(), "select n from acct where id in (1, 2, 3, 4, 5, 6, 7)")
			return err
		}},
		{"join", func() error {
			_, err := simple.Exec(t.Context(), "select from acct, home where acct.id = 7")
			return err
		}},
	} {
		began := time.Now()
		pe := w.refused(x.run())
		if pe.Severity != "ERROR" || pe.Message != "key 7 of acct is closed to reads for now" || !strings.Contains(pe.Detail, "Throttle "+id+` (manual: <b>import`) ||
			!strings.Contains(pe.Detail, "retry_after_ms=") || !strings.Contains(pe.Hint, "weft.throttles") {
			t.Errorf("%s: %+v", x.name, pe)
		}
		if time.Since(began) < 100*time.Millisecond {
			t.Errorf("%s: refused after %v", x.name, time.Since(began))
		}
	}
	// Other keys, writes, and what nothing waits for.
	w.must(c, "one", 8)
	w.must(simple, "select 1")
	w.must(simple, "show work_mem")
	w.must(later, "update acct set n = n + 1 where id = $1", 7)
	// A block fails as by any error, and its end is never refused.
	w.must(c, "begin")
	_, err := c.Exec(t.Context(), "one", 7)
	w.refused(err)
	if _, err := c.Exec(t.Context(), "one", 8); code(err) != "25P02" {
		t.Error(err)
	}
	w.must(c, "rollback")
	w.must(a, "select weft.unthrottle($1)", id)
	w.awaitThrottles(c, 0)
	w.must(c, "one", 7)
	w.must(simple, "select n from acct where id = $1", 7)
}

// A transaction that holds a backend goes on to its end, whatever throttles say, and so does a pipeline.
func TestUnderway(t *testing.T) {
	w := newWorld(t, "underway", plain, plain)
	a, c := w.conn(0, "postgres"), w.conn(1, "postgres")
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("update acct set n = n + 1 where id = 1")
	id := w.throttle(a, "database => '"+w.db+"', refuse => true, max_wait => '0', duration => '1h'")
	other := w.conn(1, "postgres")
	w.await("the throttle", func() (any, bool) {
		_, err := other.Exec(t.Context(), "select n from acct where id = 1")
		return err, code(err) == "53400"
	})
	for i := range 20 {
		exec("update acct set n = n + 1 where id = $1", i+1)
		exec("select count(*) from acct")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "select n from acct where id = 1")
	w.refused(err)
	// Operators get in.
	w.rows(other, "select * from weft.throttles")
	w.must(c, "select weft.unthrottle($1)", id)
	w.await("the end of the throttle", func() (any, bool) {
		_, err := other.Exec(t.Context(), "select n from acct where id = 1")
		return err, err == nil
	})
	// A pipeline pays for all its statements, and only the first waits.
	w.throttle(c, "table_name => 'acct', key => '3', rate => '10/s', duration => '1h'")
	batch := &pgx.Batch{}
	for range 300 { // what it owes takes half a minute to pay
		batch.Queue("select n from acct where id = $1", 3)
	}
	if err := c.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "select n from acct where id = $1", 3)
	if pe := w.refused(err); pe.Message != "key 3 of acct is limited to 10 statements per second" {
		t.Errorf("%+v", pe)
	}
}

// A throttle ends when its time is over, in all proxies.
func TestEnds(t *testing.T) {
	w := newWorld(t, "ends", plain, plain)
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	alice := []*pgx.Conn{w.conn(0, "alice"), w.conn(1, "alice")}
	began := time.Now()
	w.throttle(a, "username => 'alice', refuse => true, max_wait => '0', duration => '4s'")
	if _, err := alice[0].Exec(t.Context(), "select n from acct where id = 1"); time.Since(began) < 4*time.Second {
		w.refused(err)
	}
	w.await("the throttle through the other proxy", func() (any, bool) {
		rows := w.rows(b, "select * from weft.throttles")
		return rows, len(rows) == 1 || time.Since(began) > 4*time.Second
	})
	for p, c := range alice {
		w.await(fmt.Sprintf("the end through proxy %d", p), func() (any, bool) {
			_, err := c.Exec(t.Context(), "select n from acct where id = 1")
			return err, err == nil
		})
	}
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("ended after %v", took)
	}
	w.awaitThrottles(a, 0)
	w.awaitThrottles(b, 0)
}

// What is refused is still demand, and weft.statements of another proxy has statements to refuse.
func TestDemand(t *testing.T) {
	w := newWorld(t, "demand", plain, plain)
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	w.must(b, "select n from acct where id = 42")
	rows := w.rows(b, "select id from weft.statements where statement = 'select n from acct where id = $1' and database = current_database()")
	if len(rows) == 0 {
		t.Fatal("the statement is not known")
	}
	w.throttle(a, fmt.Sprintf("statement => '%v', refuse => true, max_wait => '10ms', duration => '1h'", rows[0]["id"]))
	w.awaitThrottles(b, 1)
	cr := w.run(2, "alice", "select n from acct where id = 42")
	w.await("the key that nobody gets at", func() (any, bool) {
		rows := w.rows(a, "select * from weft.hot_keys where key = '42' and reads_s > 20 and failed_s > 20 and share_of_shard > 0.1")
		return w.rows(a, "select key, reads_s, failed_s, share_of_shard from weft.hot_keys"), len(rows) == 1
	})
	if cr.halt(); cr.passed.Load() > 0 {
		t.Errorf("%d passed", cr.passed.Load())
	}
}

// A throttle that is observed counts what it would do, and nobody notices.
func TestObserve(t *testing.T) {
	w := newWorld(t, "observe", plain, plain)
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	w.throttle(a, "table_name => 'acct', key => '7', rate => '1/s', mode => 'observe', duration => '1h'")
	w.throttle(a, "shard => 'shard-0', concurrency => 1, mode => 'observe', duration => '1h'")
	w.awaitThrottles(b, 2)
	cr := w.run(3, "postgres", "select n from acct where id = $1", 7)
	w.await("many statements", func() (any, bool) { return nil, cr.passed.Load() > 300 })
	cr.halt()
	if n := cr.refused.Load(); n > 0 {
		t.Errorf("%d were refused", n)
	}
	w.await("what would have been done", func() (any, bool) {
		rows := w.rows(b, "select * from weft.throttles where mode = 'observe' and allows = '1/s' and refused > 100 and delay_p99_ms = 0")
		return w.rows(b, "select * from weft.throttles"), len(rows) == 1
	})
}

// A cancel request, statement_timeout, a kill and a drain end a wait.
func TestWaitEnds(t *testing.T) {
	w := newWorld(t, "wait_ends", plain, plain)
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	c := w.conn(1, "alice")
	w.must(a, "grant temp on database "+w.db+" to alice")
	pinned := w.conn(1, "alice")
	w.must(pinned, "create temp table own (i int)")
	w.throttle(a, "username => 'alice', refuse => true, max_wait => '1min', duration => '1h'")
	w.awaitThrottles(b, 1)
	for name, sql := range map[string]string{"in a block": "begin", "alone": "select 1", "of a session that keeps its backend": ""} {
		c := c
		if sql == "" {
			c = pinned
		}
		w.must(c, sql)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := c.Exec(t.Context(), "select n from acct where id = 1"); done <- err }()
		time.Sleep(200 * time.Millisecond)
		w.await("the cancelled statement "+name, func() (any, bool) {
			_ = c.PgConn().CancelRequest(ctx)
			select {
			case err := <-done:
				if code(err) != "57014" {
					t.Fatalf("%s: %v", name, err)
				}
				return nil, true
			case <-time.After(100 * time.Millisecond):
				return nil, false
			}
		})
		stop()
		w.must(c, "rollback")
	}
	w.must(c, "set statement_timeout = '300ms'")
	if _, err := c.Exec(t.Context(), "select n from acct where id = 1"); code(err) != "57014" || !strings.Contains(err.Error(), "statement timeout") {
		t.Error(err)
	}
	w.must(c, "reset statement_timeout")
	// A session that is killed while it waits ends.
	done := make(chan error, 1)
	go func() { _, err := c.Exec(t.Context(), "select n from acct where id = 1"); done <- err }()
	admin := w.proxies[1].Connect(t, "postgres", "dbname=weft")
	w.await("the kill", func() (any, bool) {
		rows := w.rows(admin, "SHOW CLIENTS")
		for _, r := range rows {
			if r["username"] == "alice" && strings.HasPrefix(fmt.Sprint(r["state"]), "waiting for throttle ") {
				_, _ = admin.Exec(t.Context(), fmt.Sprintf("KILL %v", r["id"]))
			}
		}
		select {
		case err := <-done:
			return err, code(err) == "57P01" || code(err) == "57014" || c.IsClosed()
		default:
			return rows, false
		}
	})
}

// Throttles by all that can be named: each concerns its own, and exempt users nothing.
func TestTargets(t *testing.T) {
	exempt := func(c *config.Config) {
		plain(c)
		c.Auth.Users = append(c.Auth.Users, auth.User{Name: "alice", Exempt: true})
	}
	w := newWorld(t, "targets", exempt, exempt)
	a := w.conn(0, "postgres")
	w.must(a, "select n from acct where id = 5")
	statement := w.rows(a, "select id from weft.statements where statement = 'select n from acct where id = $1' and database = current_database()")
	if len(statement) != 1 {
		t.Fatal(statement)
	}
	var place []map[string]any
	w.await("the place of the key", func() (any, bool) {
		w.must(a, "select n from acct where id = 5")
		place = w.rows(a, "select shard, bucket from weft.hot_keys where key = '5' and database = current_database()")
		return place, len(place) == 1
	})
	shard, bucket := place[0]["shard"].(string), place[0]["bucket"].(int64)
	app := w.conn(0, "postgres", "application_name=etl")
	other := "update acct set n = n + 1 where id = 5"
	for _, x := range []struct {
		args    string
		c       *pgx.Conn
		refused []string
		passes  []string
	}{
		{"table_name => 'public.acct', key => '5'", a, []string{"select n from acct where id = 5", other, "select from acct where id = '5'"}, []string{"select n from acct where id = 6", "select n from acct where id = 4294967301"}},
		{fmt.Sprintf("bucket => '%d'", bucket), a, []string{"select n from acct where id = 5"}, []string{"select from home"}},
		{fmt.Sprintf("bucket => '%d-%d'", bucket, bucket), a, []string{other}, nil},
		{fmt.Sprintf("statement => '%d'", statement[0]["id"]), a, []string{"select n from acct where id = 9"}, []string{other}},
		{"shard => '" + shard + "'", a, []string{"select n from acct where id = 5", "select count(*) from acct"}, []string{"select 1"}},
		{"username => 'postgres', class => 'write'", a, []string{other}, []string{"select n from acct where id = 5"}},
		{"database => '" + w.db + "'", a, []string{other, "select count(*) from home"}, nil},
		{"application_name => 'etl'", app, []string{other}, nil},
	} {
		id := w.throttle(a, x.args+", refuse => true, max_wait => '0', duration => '1h'")
		for _, sql := range x.refused {
			_, err := x.c.Exec(t.Context(), sql)
			if code(err) != "53400" {
				t.Errorf("%s: %s: %v", x.args, sql, err)
			}
		}
		for _, sql := range x.passes {
			if _, err := x.c.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s: %s: %v", x.args, sql, err)
			}
		}
		if x.c == app {
			w.must(a, other)
		}
		if c := w.conn(0, "alice"); !strings.HasPrefix(x.args, "username") {
			w.must(c, "select n from acct where id = 5")
		}
		w.must(a, "select weft.unthrottle($1)", id)
		for _, sql := range x.refused {
			if _, err := x.c.Exec(t.Context(), sql); err != nil {
				t.Errorf("%s, when it has ended: %s: %v", x.args, sql, err)
			}
		}
	}
}

// So many transactions at a time: a transaction keeps its place until its end.
func TestConcurrency(t *testing.T) {
	w := newWorld(t, "concurrency", plain)
	a := w.conn(0, "postgres")
	w.throttle(a, "username => 'alice', concurrency => '1', max_wait => '300ms', duration => '1h'")
	one, two := w.conn(0, "alice"), w.conn(0, "alice")
	w.must(one, "begin")
	w.must(one, "update acct set n = n + 1 where id = 1")
	_, err := two.Exec(t.Context(), "select n from acct where id = 2")
	if pe := w.refused(err); pe.Message != "user alice is limited to 1 transactions at a time" {
		t.Errorf("%+v", pe)
	}
	w.must(one, "select n from acct where id = 1")
	w.must(one, "commit")
	w.must(two, "begin")
	w.must(two, "select n from acct where id = 2")
	two.Close(t.Context())
	w.await("the place of a client that is gone", func() (any, bool) {
		_, err := one.Exec(t.Context(), "select n from acct where id = 1")
		return err, err == nil
	})
}

// What cannot be is refused, and so is who may not.
func TestBadInput(t *testing.T) {
	w := newWorld(t, "bad", plain, plain)
	a := w.conn(0, "postgres")
	w.must(a, "create role operator login in role pg_signal_backend")
	const good = ", rate => '5/s', duration => '1h'"
	for args, want := range map[string]string{
		"":                                                                    "22023",
		"shard => 'shard-0'":                                                  "22023",
		"shard => 'shard-0', duration => '1h'":                                "22023",
		"shard => 'shard-0', rate => '5/s'":                                   "22023",
		"shard => 'shard-9'" + good:                                           "42704",
		"username => 'nobody'" + good:                                         "42704",
		"database => 'nowhere'" + good:                                        "3D000",
		"statement => '12345'" + good:                                         "42704",
		"statement => 'x'" + good:                                             "22023",
		"table_name => 'nowhere', key => 1" + good:                            "42P01",
		"table_name => 'home', key => 1" + good:                               "42809",
		"table_name => 'acct', key => 'x'" + good:                             "22P02",
		"table_name => 'acct'" + good:                                         "22023",
		"key => '7'" + good:                                                   "22023",
		"bucket => '1000000'" + good:                                          "42704",
		"bucket => '9-3'" + good:                                              "22023",
		"bucket => 'x'" + good:                                                "22023",
		"shard => 'shard-0', username => 'postgres'" + good:                   "22023",
		"shard => 'shard-0', rate => '-5/s', duration => '1h'":                "22023",
		"shard => 'shard-0', rate => 'many', duration => '1h'":                "22023",
		"shard => 'shard-0', rate => '5/s', refuse => true, duration => '1h'": "22023",
		"shard => 'shard-0', rate => '5/s', duration => '0s'":                 "22023",
		"shard => 'shard-0', rate => '5/s', duration => '-1h'":                "22023",
		"shard => 'shard-0', rate => '5/s', duration => '31d'":                "22023",
		"shard => 'shard-0', rate => '5/s', duration => 'soon'":               "22023",
		"shard => 'shard-0', share => '2', duration => '1h'":                  "22023",
		"shard => 'shard-0', concurrency => '1.5', duration => '1h'":          "22023",
		"shard => 'shard-0', class => 'all'" + good:                           "22023",
		"shard => 'shard-0', mode => 'dry'" + good:                            "22023",
		"shard => 'shard-0', max_wait => '2min'" + good:                       "22023",
		"shard => 'shard-0', color => 'red'" + good:                           "42883",
	} {
		if _, err := a.Exec(t.Context(), "select weft.throttle("+args+")"); code(err) != want {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := w.conn(1, "alice").Exec(t.Context(), "select weft.throttle(shard => 'shard-0'"+good+")"); code(err) != "42501" {
		t.Error(err)
	}
	for i := range 40 {
		w.throttle(a, fmt.Sprintf("application_name => 'app %d'", i)+good)
	}
	if _, err := w.conn(1, "postgres").Exec(t.Context(), "select weft.throttle(application_name => 'one more'"+good+")"); code(err) != "54000" {
		t.Error(err)
	}
	if _, err := w.conn(1, "alice").Exec(t.Context(), "select weft.unthrottle('1')"); code(err) != "42501" {
		t.Error(err)
	}
	if _, err := a.Exec(t.Context(), "select weft.unthrottle('x')"); code(err) != "22023" {
		t.Error(err)
	}
	rows := w.rows(a, "select id from weft.throttles")
	for _, r := range rows {
		w.must(a, "select weft.unthrottle($1)", fmt.Sprint(r["id"]))
	}
	// Values are shown as text.
	w.throttle(a, `table_name => 'page', key => e'<img src=x onerror=y>\x01'`+good)
	if rows := w.rows(a, "select target from weft.throttles"); len(rows) != 1 || rows[0]["target"] != `key <img src=x onerror=y>\u0001 of page` {
		t.Errorf("%v", rows)
	}
	if rows := w.rows(w.conn(0, "alice"), "select target, reason from weft.throttles"); len(rows) != 1 || rows[0]["target"] != "<insufficient privilege>" {
		t.Errorf("%v", rows)
	}
}

// The console limits a shard when no shard answers.
func TestConsole(t *testing.T) {
	w := newWorld(t, "console", plain, plain)
	a, b := w.proxies[0].Connect(t, "postgres", "dbname=weft"), w.proxies[1].Connect(t, "postgres", "dbname=weft")
	id := w.rows(a, "THROTTLE SHARD shard-1 RATE 5 FOR 5m")[0]["id"].(int64)
	w.await("the throttle through the other proxy", func() (any, bool) {
		rows := w.rows(b, "SHOW THROTTLES")
		return rows, len(rows) == 1 && rows[0]["target"] == "shard shard-1" && rows[0]["allows"] == "5/s" && rows[0]["id"] == id
	})
	w.must(b, fmt.Sprintf("UNTHROTTLE %d", id))
	w.await("its end", func() (any, bool) { rows := w.rows(a, "SHOW THROTTLES"); return rows, len(rows) == 0 })
	for _, bad := range []string{"THROTTLE SHARD nowhere RATE 5 FOR 5m", "THROTTLE SHARD shard-1 RATE -5 FOR 5m", "THROTTLE SHARD shard-1 RATE 5 FOR ever", fmt.Sprintf("UNTHROTTLE %d", id)} {
		if _, err := a.Exec(t.Context(), bad); code(err) != "42704" && code(err) != "22023" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A throttle of a user outlives the proxy that made it, which judged what is hot too.
func TestProxyDies(t *testing.T) {
	first := harness.StartProgram(t, plain)
	w := newWorld(t, "dies", plain)
	a, b := first.Connect(t, "postgres", "dbname="+w.db), w.conn(0, "postgres")
	w.throttle(a, "username => 'alice', refuse => true, max_wait => '0', duration => '1h'")
	w.awaitThrottles(b, 1)
	first.Signal(t, syscall.SIGKILL)
	alice := w.conn(0, "alice")
	for range 20 {
		_, err := alice.Exec(t.Context(), "select n from acct where id = 1")
		w.refused(err)
		time.Sleep(100 * time.Millisecond)
	}
	w.awaitThrottles(b, 1)
}

// A proxy that is told to end does not wait for clients that wait.
func TestDrain(t *testing.T) {
	p := harness.StartProgram(t, func(c *config.Config) { plain(c); c.Limits.DrainTimeout = patience })
	w := newWorld(t, "drain", plain)
	a, c := p.Connect(t, "postgres", "dbname="+w.db), p.Connect(t, "alice", "dbname="+w.db)
	w.throttle(a, "username => 'alice', refuse => true, max_wait => '1min', duration => '1h'")
	done := make(chan error, 1)
	go func() { _, err := c.Exec(t.Context(), "select n from acct where id = 1"); done <- err }()
	w.await("the client that waits", func() (any, bool) {
		rows := w.rows(a, "select * from weft.sessions where username = 'alice' and state like 'waiting for throttle %'")
		return w.rows(a, "select username, state from weft.sessions"), len(rows) == 1
	})
	began := time.Now()
	p.Signal(t, syscall.SIGTERM)
	if err := <-done; code(err) != "57P01" {
		t.Error(err)
	}
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("the client has waited for %v", took)
	}
}

// In a database without sharded tables throttles hold too, in both protocols.
func TestUnsharded(t *testing.T) {
	w := newWorld(t, "sharded", plain)
	w.proxies[0].CreateDatabase(t, "unsharded")
	w.db = "unsharded"
	a := w.conn(0, "postgres")
	w.must(a, "create table t (id int); grant all on t to public")
	c, simple := w.conn(0, "alice", "default_query_exec_mode=exec"), w.conn(0, "alice", "default_query_exec_mode=simple_protocol")
	prepared := w.conn(0, "alice")
	w.must(prepared, "select id from t where id = $1", 1)
	id := w.throttle(a, "username => 'alice', refuse => true, max_wait => '0', duration => '1h'")
	for name, c := range map[string]*pgx.Conn{"exec": c, "simple": simple, "prepared": prepared} {
		for range 2 {
			_, err := c.Exec(t.Context(), "select id from t where id = $1", 1)
			if code(err) != "53400" {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := c.Exec(t.Context(), "begin"); code(err) != "53400" {
			t.Errorf("%s: %v", name, err)
		}
		w.must(a, "select id from t")
	}
	w.must(a, "select weft.unthrottle($1)", id)
	for _, c := range []*pgx.Conn{c, simple, prepared} {
		w.must(c, "select id from t where id = $1", 1)
		w.must(c, "begin")
		w.must(c, "select id from t where id = $1", 1)
		w.must(c, "commit")
	}
}
