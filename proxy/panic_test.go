package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/console"
	"weft/pgerr"
	"weft/proxy"
)

// TestPanic: a panic ends one session, whose client, the log and the metric tell of
// it; what runs for nobody begins again.
func TestPanic(t *testing.T) {
	var log lockedBuffer
	w := startWeft(t, one, func(c *proxy.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.AdminDatabase, c.AdminUsers = "weft", []string{"postgres"}
		c.Settings = func() []console.Setting { panic("on the session's goroutine") }
	})
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	connect := func(database string) *pgx.Conn {
		c, err := pgx.Connect(ctx, "postgres://postgres@"+w.addr+"/"+database+"?sslmode=disable&default_query_exec_mode=simple_protocol")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	bad, good := connect("weft"), connect("postgres")
	_, err := bad.Exec(ctx, "show config")
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "XX000" || e.Severity != "FATAL" {
		t.Fatalf("the client is told %v", err)
	}
	id := regexp.MustCompile(`^internal error ([0-9a-f]{16})$`).FindStringSubmatch(e.Message)
	if id == nil || !strings.Contains(log.String(), "id="+id[1]) || !strings.Contains(log.String(), "stack=") {
		t.Errorf("%q is not in the log:\n%s", e.Message, log.String())
	}
	if n := w.Panics(); n != 1 {
		t.Errorf("%d panics counted", n)
	}
	if _, err := good.Exec(ctx, "select 1"); err != nil {
		t.Errorf("another session: %v", err)
	}

	again := make(chan struct{})
	first := true
	w.Keep(func(context.Context) {
		if first {
			first = false
			panic("in the background")
		}
		close(again)
	})
	select {
	case <-again:
	case <-ctx.Done():
		t.Error("what runs in the background did not begin again")
	}

	err = func() (err error) {
		defer pgerr.Recovered(&err)
		panic("on another goroutine")
	}()
	if e := w.ErrorOf(int32(good.PgConn().PID()), err); !e.IsFatal() || !strings.Contains(e.Message, "internal error ") || w.Panics() != 3 {
		t.Errorf("an error that comes from a panic is told as %v, %d counted", e, w.Panics())
	}
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A panic that one goroutine has recovered from and another raises again is written down with
// the stack of the first.
func TestRaise(t *testing.T) {
	var log lockedBuffer
	p := proxy.NewPanics(slog.New(slog.NewTextHandler(&log, nil)))
	n := 0
	err := p.Keep(t.Context(), "test", func(context.Context) error {
		n++
		var failed error
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer pgerr.Recovered(&failed)
			if n == 1 {
				deepInside()
			}
		}()
		<-done
		pgerr.Raise(failed)
		return errors.New("ended")
	})
	if err == nil || err.Error() != "ended" || n != 2 {
		t.Errorf("%v after %d rounds", err, n)
	}
	if got := log.String(); !strings.Contains(got, "deepInside") || strings.Count(got, "level=ERROR") != 1 {
		t.Errorf("the log says %s", got)
	}
}

func deepInside() { panic("deep inside") }
