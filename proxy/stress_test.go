package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/proxy"
	"weft/wire"
)

// busy are messages that keep a session in one of its states for a while.
var busy = [][]byte{
	query("SELECT pg_sleep(0.05)"),
	query("SELECT repeat('x', 1000) FROM generate_series(1, 5000)"),
	query("LISTEN ch"), query("NOTIFY ch"), query("UNLISTEN *"),
	query("BEGIN"), query("COMMIT"),
	query("SET work_mem = '5MB'"), query("SET my.v = 'x'"), query("RESET ALL"),
	query("CREATE TEMP TABLE IF NOT EXISTS tt(a int)"), query("DISCARD ALL"),
	query("PREPARE p AS SELECT 1"), query("EXECUTE p"), query("DEALLOCATE p"),
	query("COPY (SELECT repeat('y', 1000) FROM generate_series(1, 3000)) TO STDOUT"),
	query("CREATE TEMP TABLE IF NOT EXISTS ct(a text); COPY ct FROM STDIN"), copyData(strings.Repeat("z", 50_000) + "\n"), copyDone(),
	query("SELECT pg_advisory_lock(hashtext('x'))"), query("SELECT pg_advisory_unlock_all()"),
	query("SELECT pg_backend_pid()"),
	parse("s", "SELECT $1::text"), bind("", "s", strings.Repeat("b", 100_000)), execute("", 0), flush(), closing('S', "s"), synced(), synced(),
}

// chatter sends random messages and reads what comes, or does not, until its
// connection ends.
func chatter(addr string, r *rand.Rand) {
	c, err := tryDial(addr, "postgres")
	if err != nil {
		return
	}
	defer c.nc.Close()
	if r.IntN(8) > 0 {
		go func() {
			b := make([]byte, 64<<10)
			for {
				if _, err := c.nc.Read(b); err != nil {
					return
				}
			}
		}()
	}
	_ = c.nc.SetDeadline(time.Now().Add(patience))
	for range 200 {
		if _, err := c.nc.Write(busy[r.IntN(len(busy))]); err != nil {
			return
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
		}
		if r.IntN(40) == 0 {
			_ = cancel(addr, c.pid, c.key)
		}
	}
}

// knock connects all the time until nobody is there, and says nothing on every
// other connection.
func knock(addr string) {
	for i := 0; ; i++ {
		nc, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return
		}
		defer nc.Close()
		if i%2 == 0 {
			_, _ = nc.Write(startupPacket("user", "postgres", "database", "postgres"))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestCloseUnderLoad ends weft at any moment, and everything it started with
// it.
func TestCloseUnderLoad(t *testing.T) {
	blameCrashes(t)
	before := runtime.NumGoroutine()
	for round := range 6 {
		w, err := newWeft(postgres.Addr(), pool.Config{MaxPerShard: 1 + round, QueueTimeout: time.Second, HealthInterval: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 8 {
			r := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			wg.Go(func() { chatter(w.addr, r) })
		}
		wg.Go(func() { knock(w.addr) })
		time.Sleep(time.Duration(50+60*round) * time.Millisecond)
		if round%2 == 1 {
			ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
			_ = w.Drain(ctx)
			stop()
		}
		began := time.Now()
		w.close(t)
		if took := time.Since(began); pgtest.Late(t, took, 8*time.Second) {
			t.Errorf("round %d: Close took %v", round, took)
		}
		wg.Wait()
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if runtime.NumGoroutine() <= before+1 {
			return
		}
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
}

// TestServerComesAndGoes kills the server under clients with statements,
// settings and listeners, and brings it back: everybody either hears that the
// session is over or can go on with it.
func TestServerComesAndGoes(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	w, err := newWeft(srv.Addr(), pool.Config{MaxPerShard: 4, HealthInterval: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.close(t) })
	idle, inTx, listener, temp := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	idle.exec("SET work_mem = '5MB'")
	idle.exec("PREPARE p AS SELECT 'still here'")
	inTx.exec("BEGIN")
	listener.exec("LISTEN ch")
	temp.exec("CREATE TEMP TABLE tt(a int)")
	srv.Kill()
	if got := idle.query("SELECT 1"); !strings.HasPrefix(got, "error 08006") && !strings.HasPrefix(got, "error 57P03") {
		t.Errorf("without a server: %q", got)
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := idle.query("SHOW work_mem") + idle.query("EXECUTE p"); got != "5MBstill here" {
		t.Errorf("an idle client finds %q", got)
	}
	// The backend may have had time to say its last word.
	inTx.send(query("SELECT 1"))
	switch m, err := inTx.read(); {
	case err != nil || m.typ != wire.ErrorResponse:
		t.Errorf("inside a transaction: %v %v", m, err)
	case strings.HasPrefix(m.String(), "Error S=FATAL"):
	default:
		inTx.untilReady()
		inTx.query("ROLLBACK")
		if got := inTx.query("SELECT 1"); got != "1" {
			t.Errorf("after a lost transaction: %q", got)
		}
	}
	for name, c := range map[string]*client{"listener": listener, "owner of a temporary table": temp} {
		c.send(query("SELECT 1"))
		for {
			m, err := c.read()
			if err != nil {
				t.Errorf("the %s was not told", name)
				break
			}
			if severity, _ := wire.ErrorField(m.body, 'S'); m.typ == wire.ErrorResponse && severity == "FATAL" {
				break
			}
			if m.typ == wire.ReadyForQuery {
				t.Errorf("the %s goes on as if nothing had happened", name)
				break
			}
		}
	}
	again := dial(t, w.addr, "postgres")
	again.exec("LISTEN ch")
	idle.exec("NOTIFY ch, 'back'")
	if got := again.until(wire.NotificationResponse); got[len(got)-1] != "Notification ch back" {
		t.Errorf("a new listener hears %q", got)
	}
}

// TestSequences: what nextval gave to one client is not another's currval, by
// whichever way it is asked for.
func TestSequences(t *testing.T) {
	db := database(t, `CREATE SEQUENCE s; CREATE TABLE t(id serial, v text);
		CREATE FUNCTION f_curr() RETURNS bigint LANGUAGE sql AS $$ SELECT currval('s') $$;
		CREATE FUNCTION f_last() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN lastval(); END $$;
		CREATE VIEW v_curr AS SELECT currval('s') AS c;
		CREATE TABLE child(parent bigint DEFAULT currval('s'), v text)`)
	for _, ask := range []string{
		"SELECT currval('s')", "SELECT lastval()", "SELECT f_curr()", "SELECT f_last()", "SELECT c FROM v_curr",
		"INSERT INTO child(v) VALUES ('x') RETURNING parent",
	} {
		t.Run(ask, func(t *testing.T) {
			w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: 300 * time.Millisecond})
			a, b := dial(t, w.addr, db), dial(t, w.addr, db)
			b.exec("SELECT 1")
			a.exec("SELECT nextval('s')")
			if got := b.query(ask); !strings.HasPrefix(got, "error 55000") && !strings.HasPrefix(got, "error 53300") {
				t.Errorf("another client gets %q", got)
			}
			// Its owner gets it, or is told why not. Never another value.
			a.exec("SELECT nextval('s')")
			a.query(ask)
			mine := a.exec("SELECT nextval('s')")
			if got := a.query(ask); got != mine {
				t.Errorf("the client itself gets %q, not %q", got, mine)
			}
		})
	}
}

// TestSequencesOfAnother: nor where nobody had asked before, so that the
// backend has passed from one client to the other.
func TestSequencesOfAnother(t *testing.T) {
	db := database(t, "CREATE SEQUENCE s")
	for _, before := range []string{
		"SELECT 1", "SELECT lastval()", "SELECT now();;SELECT lastval()", "BEGIN;;SAVEPOINT a;;SELECT lastval();;ROLLBACK TO a",
		"BEGIN;;SAVEPOINT a;;SELECT 1/0;;SELECT lastval();;ROLLBACK TO a", "SELECT now();;BEGIN;;SAVEPOINT a;;SELECT lastval();;ROLLBACK TO a",
	} {
		t.Run(before, func(t *testing.T) {
			w := startWeft(t, one)
			a, b := dial(t, w.addr, db), dial(t, w.addr, db)
			a.exec("SELECT nextval('s')")
			for sql := range strings.SplitSeq(before, ";;") {
				b.query(sql)
			}
			if got := b.run("SELECT lastval()"); !strings.HasPrefix(got, "error 55000") {
				t.Errorf("another client gets %q", got)
			}
			b.query("ROLLBACK TO a")
			if got := b.exec("SELECT nextval('s')"); got != b.run("SELECT lastval()") {
				t.Error("its own value is not there")
			}
		})
	}
}

// TestSequencesOneByOne: of clients that come one after the other, the first that
// asks for currval gets its own value, on a backend that all of them have used.
func TestSequencesOneByOne(t *testing.T) {
	db := database(t, "CREATE SEQUENCE s; CREATE SEQUENCE other; CREATE TABLE t (id serial, v int)")
	for _, stays := range []bool{false, true} {
		t.Run(fmt.Sprintf("first stays %v", stays), func(t *testing.T) {
			w := startWeft(t, one)
			a := dial(t, w.addr, db)
			a.exec("SELECT nextval('s'), nextval('other')")
			b := dial(t, w.addr, db)
			b.exec("SELECT nextval('s'), nextval('other')")
			b.leave(w)
			c := a
			if !stays {
				a.leave(w)
				c = dial(t, w.addr, db)
			}
			c.exec("INSERT INTO t (v) VALUES (1)")
			if got, want := c.query("SELECT currval('t_id_seq')"), c.query("SELECT max(id) FROM t"); got != want {
				t.Errorf("currval is %q, not %q", got, want)
			}
			if got := c.query("SELECT currval('other')"); !strings.HasPrefix(got, "error 55000") {
				t.Errorf("another client's value: %q", got)
			}
		})
	}
}

// leave ends the client and waits until the proxy has noticed.
func (c *client) leave(w *weft) {
	c.tb.Helper()
	c.send(terminate())
	for give := time.Now().Add(pgtest.Patience); w.Connected(c.pid); time.Sleep(time.Millisecond) {
		if time.Now().After(give) {
			c.tb.Fatal("the proxy keeps a client that has left")
		}
	}
}

// TestSessionMode: in session mode a client keeps its backend, and leaves it
// clean.
func TestSessionMode(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: 5 * time.Second, Mode: pool.ModeSession}, func(c *proxy.Config) { c.AdminDatabase = "weft" })
	a := dial(t, w.addr, "postgres")
	for _, sql := range []string{"SET work_mem = '5MB'", "SET my.v = 'x'", "CREATE TEMP TABLE tt(a int)", "PREPARE p AS SELECT 1", "LISTEN ch", "SELECT pg_advisory_lock(3)", "SELECT set_config('my.' || 'w', 'x', false)"} {
		a.exec(sql)
	}
	if got := dial(t, w.addr, "weft").query("SHOW CLIENTS"); !strings.Contains(got, "session pooling") {
		t.Errorf("SHOW CLIENTS: %s", got)
	}
	a.send(terminate())
	b := dial(t, w.addr, "postgres")
	got := b.query(`SELECT current_setting('work_mem'), current_setting('my.v', true), current_setting('my.w', true), to_regclass('tt'),
		(SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())`)
	if got != "4MB|∅|∅|∅|0|0" {
		t.Errorf("the next client finds %s", got)
	}
}

// TestSettingsOfTransaction: a statement that has to be prepared again on
// another backend does not disturb what the transaction has set.
func TestSettingsOfTransaction(t *testing.T) {
	db := database(t, `CREATE SCHEMA s1; CREATE SCHEMA s2; CREATE TABLE s1.w AS SELECT 's1' AS w; CREATE TABLE s2.w AS SELECT 's2' AS w; CREATE TABLE w AS SELECT 'public' AS w`)
	for _, set := range []string{"SET search_path = s2", "SET LOCAL search_path = s2", "SELECT set_config('search_path', 's2', true)"} {
		w := startWeft(t, pool.Config{MaxPerShard: 2})
		a, b := dial(t, w.addr, db), dial(t, w.addr, db)
		a.exec("SET search_path = s1")
		a.send(parse("p", "SELECT w FROM w"), synced())
		a.untilReady()
		a.exec("RESET search_path")
		b.exec("BEGIN") // takes the backend that knows it
		a.exec("BEGIN")
		a.exec(set)
		a.send(bind("", "p"), execute("", 0), synced())
		if got := values(a.untilReady()); got != "s2" {
			t.Errorf("%s: reads from %s", set, got)
		}
		if got := a.query("SHOW search_path"); got != "s2" {
			t.Errorf("%s: search_path is %s then", set, got)
		}
		a.exec("COMMIT")
	}
}

// TestSamePreparedText: many clients prepare the same texts at the same time.
func TestSamePreparedText(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 3, MaxPrepared: 3})
	var wg sync.WaitGroup
	for i := range 6 {
		c := dial(t, w.addr, "postgres")
		wg.Go(func() {
			for j := range 30 {
				text := fmt.Sprint("SELECT ", (i+j)%5)
				name := fmt.Sprint("n", j%3)
				if j%2 == 0 {
					c.query("PREPARE " + name + " AS " + text)
					if got := c.query("EXECUTE " + name); got != fmt.Sprint((i+j)%5) {
						t.Errorf("EXECUTE: %q", got)
					}
					c.query("DEALLOCATE " + name)
					continue
				}
				c.send(parse(name, text), bind("", name), execute("", 0), closing('S', name), synced())
				if got := values(c.untilReady()); got != fmt.Sprint((i+j)%5) {
					t.Errorf("Execute: %q", got)
				}
			}
		})
	}
	wg.Wait()
}
