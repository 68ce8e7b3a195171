package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// streamed is the size of the result that passes through: long enough that a
// proxy which keeps it would be seen.
const streamed = 200 << 20

// TestStream passes a large result, and a large COPY in each direction,
// through the weft program and looks at its memory meanwhile.
func TestStream(t *testing.T) {
	p := harness.StartProgram(t, func(*config.Config) {})
	conn := p.Connect(t, "postgres")
	mustExec(t, conn, "create table big (v text)")
	mustExec(t, conn, "select repeat('x', 10000) from generate_series(1, 500)") // warm
	before := p.RSS(t)
	for _, run := range []struct {
		name string
		do   func(ctx context.Context) (int64, error)
	}{
		{"result", func(ctx context.Context) (int64, error) {
			var n int64
			r := conn.PgConn().Exec(ctx, "select repeat('x', 10000) from generate_series(1, 20000)")
			for r.NextResult() {
				for rr := r.ResultReader(); rr.NextRow(); {
					n += int64(len(rr.Values()[0]))
				}
			}
			return n, r.Close()
		}},
		{"wide rows", func(ctx context.Context) (int64, error) {
			var n int64
			r := conn.PgConn().Exec(ctx, "select repeat('x', 20000000) from generate_series(1, 10)")
			for r.NextResult() {
				for rr := r.ResultReader(); rr.NextRow(); {
					n += int64(len(rr.Values()[0]))
				}
			}
			return n, r.Close()
		}},
		{"copy out", func(ctx context.Context) (int64, error) {
			var n counter
			_, err := conn.PgConn().CopyTo(ctx, &n, "copy (select repeat('x', 9999) from generate_series(1, 20000)) to stdout")
			return n.bytes, err
		}},
		{"copy in", func(ctx context.Context) (int64, error) {
			_, err := conn.PgConn().CopyFrom(ctx, io.LimitReader(lines{}, streamed), "copy big from stdin")
			return streamed, err
		}},
	} {
		t.Run(run.name, func(t *testing.T) {
			peak := p.WatchRSS(t)
			start := time.Now()
			n, err := run.do(within(t, time.Minute))
			if err != nil || n < streamed*9/10 {
				t.Fatalf("%d bytes: %v", n, err)
			}
			grown := peak() - before
			t.Logf("%d MB in %v, memory grew by %d KiB", n>>20, time.Since(start).Round(time.Millisecond), grown>>10)
			if grown > 24<<20 {
				t.Errorf("memory grew by %d MiB for a result of %d MB", grown>>20, n>>20)
			}
		})
	}
}

// lines is an endless text of 100-byte lines.
type lines struct{}

func (lines) Read(p []byte) (int, error) {
	n := len(p) / 100 * 100
	if n == 0 {
		n = len(p)
	}
	for i := range n {
		p[i] = 'x'
		if i%100 == 99 {
			p[i] = '\n'
		}
	}
	return n, nil
}

// TestIdleClients measures what a client costs that has done something and now
// does nothing: what is left of it when garbage has been collected. The resident
// memory has the collector's reserve on top, which depends on the moment.
func TestIdleClients(t *testing.T) {
	const n, most, mostResident = 1000, 15 << 10, 24 << 10
	p := harness.StartProgram(t, func(c *config.Config) {
		c.HTTP.Pprof, c.HTTP.Users = true, []config.HTTPUser{{Name: "ops", Password: "ops"}}
	})
	open := func(count int) {
		for range count {
			c := dialRaw(t, p.Addr)
			t.Cleanup(func() { _ = c.Close() })
			if err := c.login("postgres"); err != nil {
				t.Fatal(err)
			}
			if err := c.query("select 1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(50) // whatever is made once
	before, resident := live(t, p), p.RSS(t)
	open(n)
	resident = (p.RSS(t) - resident) / n
	each := (live(t, p) - before) / n
	t.Logf("an idle client costs %d bytes, %d resident", each, resident)
	if each > most {
		t.Errorf("an idle client costs %d bytes, want at most %d", each, most)
	}
	if resident > mostResident {
		t.Errorf("an idle client costs %d bytes of resident memory, want at most %d", resident, mostResident)
	}
	backends, err := p.AdminInt(t.Context(), "select count(*) from pg_stat_activity where datname = 'app' and application_name <> 'harness'")
	if err != nil {
		t.Fatal(err)
	}
	if backends > 45 {
		t.Errorf("%d idle clients hold %d server connections", n, backends)
	}
}

// live returns how many bytes of the heap and of the stacks the program has in use after a collection of garbage.
func live(t *testing.T, p *harness.Program) (bytes int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.HTTP()+"/debug/pprof/heap?gc=1&debug=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("ops", "ops")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	profile, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HeapAlloc", "Stack"} {
		_, rest, _ := strings.Cut(string(profile), "\n# "+name+" = ")
		var b int64
		if _, err := fmt.Sscan(rest, &b); err != nil {
			t.Fatalf("no %s in the profile: %v", name, err)
		}
		bytes += b
	}
	return bytes
}

// TestLargeStatements: a large statement costs no more than is counted for it, in whatever
// form it comes, and the memory is given back; what all clients send has a bound.
func TestLargeStatements(t *testing.T) {
	const size, clients, memory = 8 << 20, 3, 300 << 20
	p := harness.StartProgram(t, func(c *config.Config) {
		c.Limits.MaxQueryBytes, c.Limits.Memory = size+64<<10, memory
	})
	const database = "large"
	p.CreateDatabase(t, database)
	admin := p.Connect(t, "postgres", "dbname="+database)
	mustExec(t, admin, "create table large (id bigint primary key, v text)")
	mustExec(t, admin, "select weft.shard_table('large', 'id')")
	text := strings.Repeat("x", size)
	// What is made once, and what the C library keeps for the parser, is not the statement's.
	for range 2 {
		if _, err := admin.PgConn().Exec(within(t, time.Minute), "select length('"+text+"')").ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(3 * time.Second)
	for _, way := range []struct {
		name string
		cost int64 // for each byte
		do   func(ctx context.Context, c *pgx.Conn, n int) error
	}{
		{"simple", 16, func(ctx context.Context, c *pgx.Conn, _ int) error {
			_, err := c.PgConn().Exec(ctx, "select length('"+text+"')").ReadAll()
			return err
		}},
		{"parameter", 5, func(ctx context.Context, c *pgx.Conn, n int) error {
			_, err := c.Exec(ctx, "insert into large values ($1, $2) on conflict (id) do update set v = excluded.v", n, text)
			return err
		}},
		{"rows", 16, func(ctx context.Context, c *pgx.Conn, n int) error {
			var b strings.Builder
			b.WriteString("insert into large values ")
			for i := 0; b.Len() < size; i++ {
				if i > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, "(%d,'%s')", 1000*(n+1)+i, text[:32<<10])
			}
			b.WriteString(" on conflict (id) do update set v = excluded.v")
			_, err := c.PgConn().Exec(ctx, b.String()).ReadAll()
			return err
		}},
		{"copy", 5, func(ctx context.Context, c *pgx.Conn, n int) error {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				fmt.Fprintf(&b, "%d\t%s\n", 1_000_000*(n+1)+i, text[:32<<10])
			}
			_, err := c.PgConn().CopyFrom(ctx, strings.NewReader(b.String()), "copy large from stdin")
			return err
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			var conns []*pgx.Conn
			for range clients {
				c := p.Connect(t, "postgres", "dbname="+database)
				mustExec(t, c, "select 1")
				conns = append(conns, c)
			}
			before := p.RSS(t)
			peak := p.WatchRSS(t)
			one := way.do(within(t, time.Minute), conns[0], 9)
			grown := peak() - before
			if one != nil {
				t.Fatal(one)
			}
			t.Logf("%d MiB for one of %d MiB", grown>>20, size>>20)
			if grown > way.cost*size+16<<20 {
				t.Errorf("one statement of %d MiB takes %d MiB", size>>20, grown>>20)
			}
			errs := make(chan error, clients)
			peak = p.WatchRSS(t)
			for n, c := range conns {
				go func() { errs <- way.do(within(t, time.Minute), c, n) }()
			}
			for range clients {
				var e *pgconn.PgError
				if err := <-errs; err != nil && (!errors.As(err, &e) || e.Code != "53200" || !strings.Contains(e.Hint, "limits.memory")) {
					t.Error(err)
				}
			}
			if grown := peak() - before; grown > memory+64<<20 {
				t.Errorf("%d clients take %d MiB of %d", clients, grown>>20, memory>>20)
			}
			for until := time.Now().Add(pgtest.Patience); ; time.Sleep(100 * time.Millisecond) {
				left := p.RSS(t) - before
				if left < 64<<20 { // the C library keeps some of what the parser had
					break
				}
				if time.Now().After(until) {
					t.Errorf("%d MiB are not given back", left>>20)
					break
				}
			}
		})
	}
	c := p.Connect(t, "postgres", "dbname="+database)
	_, err := c.PgConn().Exec(within(t, time.Minute), "select '"+text+text+"'").ReadAll()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "54000" || !strings.Contains(e.Hint, "limits.max_query_bytes") {
		t.Error(err)
	}
	mustExec(t, c, "select 1") // it goes on
}
