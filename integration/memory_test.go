package integration

import (
	"context"
	"io"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
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
// does nothing.
func TestIdleClients(t *testing.T) {
	const n, most = 1000, 16 << 10
	p := harness.StartProgram(t, func(*config.Config) {})
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
	before := p.RSS(t)
	open(n)
	each := (p.RSS(t) - before) / n
	t.Logf("an idle client costs %d bytes", each)
	if each > most {
		t.Errorf("an idle client costs %d bytes, want at most %d", each, most)
	}
	backends, err := p.AdminInt(t.Context(), "select count(*) from pg_stat_activity where datname = 'app' and application_name <> 'harness'")
	if err != nil {
		t.Fatal(err)
	}
	if backends > 45 {
		t.Errorf("%d idle clients hold %d server connections", n, backends)
	}
}
