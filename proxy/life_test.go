package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/proxy"
	"weft/wire"
)

// TestLargeAnswerBeforeSync has the backend fill all buffers with an answer
// that nobody asked to have flushed, and only then sends the Sync.
func TestLargeAnswerBeforeSync(t *testing.T) {
	w := startWeft(t, one)
	c := dial(t, w.addr, "postgres")
	sql := "SELECT repeat('x', 1000) FROM generate_series(1, 8000) /* " + strings.Repeat("long ", 4000) + "*/"
	for _, pause := range []time.Duration{0, 300 * time.Millisecond} {
		c.send(parse("", sql), bind("", ""), execute("", 0))
		time.Sleep(pause)
		c.send(synced())
		if n := strings.Count(values(c.untilReady()), "\n"); n != 7999 {
			t.Errorf("pause of %v: %d rows", pause, n+1)
		}
	}
	// And several of them in one go.
	var all []byte
	for range 10 {
		all = append(append(append(append(all, parse("", sql)...), bind("", "")...), execute("", 100)...), synced()...)
	}
	go func() { _, _ = c.nc.Write(all) }()
	for range 10 {
		if n := strings.Count(values(c.untilReady()), "\n"); n != 99 {
			t.Errorf("in a pipeline: %d rows", n+1)
		}
	}
}

// TestBackendDiesInsideRow: half a row cannot be followed by an error, because
// the client would take it for the other half.
func TestBackendDiesInsideRow(t *testing.T) {
	w := startWeft(t, one)
	c := dial(t, w.addr, "postgres")
	c.exec("SET application_name = 'to be killed'")
	c.send(query("SELECT 1; SELECT repeat('x', 40000000)"))
	c.until(wire.CommandComplete)
	// Until every buffer is full.
	directUntil(t, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'to be killed' AND wait_event = 'ClientWrite'")
	// Until it is gone: one that can write again before it has noticed goes on.
	direct(t, "postgres", "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name = 'to be killed'")
	for {
		m, err := c.read()
		if err != nil {
			if errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "inside") || strings.Contains(err.Error(), "timeout") {
				t.Errorf("ended with %v", err)
			}
			return
		}
		if m.typ == wire.DataRow {
			t.Fatalf("got a row of %d bytes that the backend never finished: %.40q … %.300q", len(m.body), m.body[:40], m.body[len(m.body)-300:])
		}
	}
}

// TestCloseWithStuckClient: a client that does not read must not keep weft from
// ending.
func TestCloseWithStuckClient(t *testing.T) {
	blameCrashes(t)
	w, err := newWeft(postgres.Addr(), pool.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, w.addr, "postgres")
	c.send(query("SELECT repeat('x', 1000) FROM generate_series(1, 100000)"))
	copying := dial(t, w.addr, "postgres")
	copying.send(query("COPY (SELECT repeat('x', 1000) FROM generate_series(1, 100000)) TO STDOUT"))
	silent, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	w.close(t)
	if took := time.Since(began); pgtest.Late(t, took, 8*time.Second) {
		t.Errorf("Close took %v", took)
	}
}

// TestDrainWithSilentClient: a connection that never says anything is no
// session to wait for.
func TestDrainWithSilentClient(t *testing.T) {
	w := startWeft(t, pool.Config{})
	silent, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	idle := dial(t, w.addr, "postgres")
	time.Sleep(50 * time.Millisecond)
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	if err := w.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	m, err := idle.read()
	if code, _ := wire.ErrorField(m.body, 'C'); err != nil || code != "57P01" {
		t.Errorf("the idle client heard %v, %v", m, err)
	}
}

// TestDrainLetsTransactionsEnd plays the end of weft as a client with an open
// transaction sees it.
func TestDrainLetsTransactionsEnd(t *testing.T) {
	db := database(t, "CREATE TABLE t(a int)")
	w := startWeft(t, pool.Config{})
	c := dial(t, w.addr, db)
	c.exec("BEGIN")
	drained := make(chan error, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		drained <- w.Drain(ctx)
	}()
	time.Sleep(100 * time.Millisecond)
	c.exec("INSERT INTO t VALUES (1)")
	select {
	case err := <-drained:
		t.Fatalf("drained with an open transaction: %v", err)
	default:
	}
	c.exec("COMMIT")
	if m, err := c.read(); err != nil || !strings.Contains(m.String(), "57P01") {
		t.Errorf("after it: %v %v", m, err)
	}
	if err := <-drained; err != nil {
		t.Errorf("drain: %v", err)
	}
}

// TestClientLeavesAnywhere has clients vanish at every step of a dialogue; the
// next client gets the only backend clean.
func TestClientLeavesAnywhere(t *testing.T) {
	db := database(t, "CREATE TABLE t(a int, b text)")
	w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: 10 * time.Second})
	big := strings.Repeat("x", 100_000)
	check := dial(t, w.addr, db)
	clean := func() string {
		return check.query(`SELECT current_setting('my.leaver', true), count(*) FILTER (WHERE locktype = 'advisory' AND pid = pg_backend_pid()), to_regclass('left_behind'),
			(SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM t WHERE a > 1) FROM pg_locks`)
	}
	want := clean()
	for _, steps := range [][][]byte{
		{query("BEGIN"), query("SET my.leaver = 'x'"), query("INSERT INTO t VALUES (2, 'left open')"), query("SELECT 1/0"), query("ROLLBACK")},
		{parse("", "SELECT $1::text"), bind("", "", big), execute("", 0), synced()},
		{parse("s", "SELECT generate_series(1, 100000)"), bind("p", "s"), execute("p", 10), flush(), execute("p", 0), synced()},
		{query("COPY t FROM STDIN"), copyData("3\tcopied\n"), copyData("4\t" + big + "\n"), copyFail("enough")},
		{parse("c", "COPY t FROM STDIN"), bind("", "c"), execute("", 0), flush(), copyData("5\tcopied\n"), copyFail("enough"), synced()},
		{query("COPY (SELECT repeat('y', 1000) FROM generate_series(1, 20000)) TO STDOUT")},
		{query("LISTEN ch"), query("PREPARE x AS SELECT 1"), query("SELECT pg_sleep(0.01)"), query("SET my.leaver = 'x'")},
		{query("CREATE TEMP TABLE left_behind(a int)"), query("SELECT pg_advisory_lock(9)"), query("SELECT setseed(0.1)"), parse("", "SELECT 1")},
	} {
		for i := range steps {
			for _, cut := range []int{1, len(steps[i]) / 2, len(steps[i])} {
				c, err := tryDial(w.addr, db)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range steps[:i] {
					_, _ = c.nc.Write(b)
				}
				_, _ = c.nc.Write(steps[i][:cut])
				if cut == len(steps[i]) {
					time.Sleep(3 * time.Millisecond)
				}
				if cut == 1 { // reset instead of closing
					_ = c.nc.(*net.TCPConn).SetLinger(0)
				}
				c.nc.Close()
				if got := clean(); got != want {
					t.Fatalf("after %d messages and %d bytes of %.30q: %s", i, cut, steps[i], got)
				}
			}
		}
	}
}

// TestCancelHitsItsSession sends cancel requests all the time while two clients
// share the only backend: the one whose key it is not must never feel it.
func TestCancelHitsItsSession(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: 10 * time.Second})
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	stop := time.Now().Add(1500 * time.Millisecond)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for time.Now().Before(stop) {
			if err := cancel(w.addr, a.pid, a.key); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
		}
	})
	wg.Go(func() {
		for time.Now().Before(stop) {
			if got := b.query("SELECT pg_sleep(0.0002)"); got != "" {
				t.Errorf("the other client: %q", got)
			}
		}
	})
	cancelled := 0
	for time.Now().Before(stop) {
		switch got := a.query("SELECT pg_sleep(0.002)"); {
		case strings.Contains(got, "error 57014"): // it may come behind the row
			cancelled++
		case got != "":
			t.Fatalf("the cancelled client: %q", got)
		}
		// What weft asks the backend by itself is not the client's to cancel.
		if got := a.query("SET work_mem = '5MB'; RESET work_mem"); got != "" && !strings.HasPrefix(got, "error 57014") {
			t.Fatalf("the cancelled client: %q", got)
		}
	}
	wg.Wait()
	if cancelled == 0 {
		t.Error("no statement was cancelled")
	}
}

func cancel(addr string, pid int32, key []byte) error {
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	if _, err := nc.Write(wire.AppendCancel(nil, pid, key)); err != nil {
		return err
	}
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	if _, err := nc.Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("cancel request: %v", err)
	}
	return nil
}

// TestCancelInQueue: a client that waits for a backend can give up.
func TestCancelInQueue(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: time.Minute})
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	a.exec("BEGIN")
	b.send(query("SELECT 1"))
	awaitQueue(t, w, 1)
	if err := cancel(w.addr, b.pid, b.key); err != nil {
		t.Fatal(err)
	}
	if got := values(b.untilReady()); !strings.HasPrefix(got, "error 57014") {
		t.Errorf("cancelled in the queue: %q", got)
	}
	a.exec("COMMIT")
	if got := b.query("SELECT 1"); got != "1" {
		t.Errorf("then: %q", got)
	}
}

// TestNothingIsLeftOver counts goroutines and connections before and after many
// short sessions.
func TestNothingIsLeftOver(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 4}, func(c *proxy.Config) { c.AdminDatabase = "weft" })
	admin := dial(t, w.addr, "weft")
	session := func(i int) {
		c, err := tryDial(w.addr, "postgres", "application_name", fmt.Sprint("app ", i))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.nc.Close()
		c.tb = t
		for _, sql := range []string{"SET my.x = '1'", "PREPARE p AS SELECT 1", "LISTEN ch", "BEGIN", "CREATE TEMP TABLE x(a int)", "SELECT 1/0", "ROLLBACK", "SELECT pg_advisory_lock(1)", "SELECT 1"} {
			if i%3 == 0 || !strings.Contains(sql, "advisory") {
				c.query(sql)
			}
		}
		if i%2 == 0 {
			c.send(terminate())
		}
	}
	session(0)
	settled := func() int {
		n := -1
		for range 40 {
			time.Sleep(50 * time.Millisecond)
			if m := runtime.NumGoroutine(); m == n {
				return n
			} else {
				n = m
			}
		}
		return n
	}
	before := settled()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { session(i) })
	}
	wg.Wait()
	after := settled()
	if after > before+2 {
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
	for line := range strings.SplitSeq(admin.query("SHOW POOLS"), "\n") {
		if f := strings.Split(line, "|"); len(f) != 10 || f[6] != "0" || f[8] != "0" {
			t.Errorf("SHOW POOLS: %s", line)
		}
	}
	if got := admin.query("SHOW CLIENTS"); strings.Count(got, "\n") != 0 {
		t.Errorf("SHOW CLIENTS:\n%s", got)
	}
}

// TestOneByteAtATime: frames may come in any pieces.
func TestOneByteAtATime(t *testing.T) {
	w := startWeft(t, one)
	nc, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	b := startupPacket("user", "postgres", "database", "postgres")
	for _, f := range [][]byte{
		query("SELECT 'one'"), parse("s", "SELECT $1::text"), bind("", "s", "two"), execute("", 0), closing('S', "s"), synced(),
		query("COPY (SELECT 'three') TO STDOUT"), query("SELECT 1/0"), terminate(),
	} {
		b = append(b, f...)
	}
	go func() {
		for i := range b {
			if _, err := nc.Write(b[i : i+1]); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	_ = nc.SetReadDeadline(time.Now().Add(patience))
	all, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "two", "three", "22012"} {
		if !strings.Contains(string(all), want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
}
