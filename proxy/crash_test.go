package proxy_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/wire"
)

// TestExecuteOfFailedQuery: a simple query that fails while it runs in a
// transaction leaves the unnamed portal behind, whose statements PostgreSQL (15
// to at least 15.18) has freed. Executing it reads that memory, so that whatever
// has been written there since may crash the server, and every client's session
// with it. Weft must not pass such an Execute on.
func TestExecuteOfFailedQuery(t *testing.T) {
	w := startWeft(t, one)
	const failed = "C=25P02"
	overwrite := strings.Repeat("x", 3000)
	for name, between := range map[string][][]byte{
		"Query":       {query(overwrite)},
		"Execute":     {execute(overwrite, 0), synced()},
		"failed Bind": {parse("s", "SELECT 1"), synced(), bind("", "s", overwrite), synced(), execute(overwrite, 0), synced()},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, w.addr, "postgres")
			pid := c.exec("SELECT pg_backend_pid()")
			c.exec("BEGIN")
			if got := c.query("FETCH 1 FROM nosuch"); !strings.HasPrefix(got, "error 34000") {
				t.Fatalf("FETCH: %s", got)
			}
			for _, b := range between {
				c.send(b)
				if b[0] == wire.Query || b[0] == wire.Sync {
					c.untilReady()
				}
			}
			for range 2 {
				c.send(execute("", 0), synced())
				if got := fmt.Sprint(c.untilReady()); !strings.Contains(got, failed) || c.status != wire.TxFailed {
					t.Errorf("Execute: %s", got)
				}
			}
			// A portal that can be executed is.
			c.send(parse("", "ROLLBACK"), bind("", ""), execute("", 0), synced())
			if got := fmt.Sprint(c.untilReady()); !strings.Contains(got, `C "ROLLBACK`) || c.status != wire.TxIdle {
				t.Errorf("ROLLBACK: %s", got)
			}
			if got := c.query("SELECT pg_backend_pid()"); got != pid {
				t.Errorf("backend %s after %s", got, pid)
			}
		})
	}
}

// crashLog finds crashes in the log of the package's server.
var crashLog crashReader

type crashReader struct {
	sync.Mutex
	read      int64 // so much of the log has been looked at
	unclaimed bool  // a crash was found when its test was over
}

// take returns what the log says about crashes since the last time.
func (r *crashReader) take() string {
	r.Lock()
	defer r.Unlock()
	f, err := os.Open(postgres.LogFile())
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	b := make([]byte, max(0, info.Size()-r.read))
	n, _ := f.ReadAt(b, r.read)
	b = b[:strings.LastIndexByte(string(b[:n]), '\n')+1]
	r.read += int64(len(b))
	var found []string
	for l := range strings.Lines(string(b)) {
		// The second follows the first and says what it was doing.
		if strings.Contains(l, "was terminated by signal") || strings.Contains(l, "Failed process was running") {
			found = append(found, fmt.Sprintf("%.300s", strings.TrimSpace(l)))
		}
	}
	return strings.Join(found, "\n")
}

// blameCrashes fails the test if the server crashes during it, and makes the
// next one wait until the server is back.
func blameCrashes(tb testing.TB) {
	tb.Helper()
	if crashes := crashLog.take(); crashes != "" {
		fmt.Fprintln(os.Stderr, "PostgreSQL crashed before", tb.Name(), crashes)
		crashLog.unclaimed = true
		awaitServer(tb)
	}
	tb.Cleanup(func() {
		if crashes := crashLog.take(); crashes != "" {
			tb.Errorf("PostgreSQL crashed:\n%s", crashes)
			awaitServer(tb)
		}
	})
}

// awaitServer returns when the server accepts connections again.
func awaitServer(tb testing.TB) {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for {
		c, err := pgx.Connect(ctx, postgres.ConnString("postgres"))
		if err == nil {
			_ = c.Close(ctx)
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("PostgreSQL is not back after a crash: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
