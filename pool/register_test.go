package pool_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// clerk is a Registrar that keeps backends in a table.
type clerk struct {
	statement string
	asked     int
	failed    []string
	verdict   func(*pgerr.Error) error
}

func (c *clerk) Statement(_ context.Context, _, _ string, _ int32) (string, int64, error) {
	c.asked++
	if strings.HasPrefix(c.statement, "!") {
		return "", 0, pgerr.New(pgerr.CannotConnectNow, "%s", c.statement)
	}
	return c.statement, 7, nil
}

func (c *clerk) Failed(_ context.Context, _, _ string, _ int64, err *pgerr.Error) error {
	c.failed = append(c.failed, err.Code)
	return c.verdict(err)
}

// TestRegister: a new backend registers, whatever defaults its client asks for; one that is refused
// is not used; weft's own connections do not register.
func TestRegister(t *testing.T) {
	c := &clerk{}
	found := 0
	p, sh := home(t, pool.Config{Registrar: c, Verify: func(l pool.Login) error {
		if l.Found.System != "" {
			found++
		}
		return nil
	}})
	l := lane(t, sh, wire.Option{Name: "default_transaction_read_only", Value: "on"}, wire.Option{Name: "default_transaction_isolation", Value: "serializable"})
	first := acquire(t, l, pool.Want{})
	if got := len(p.Unregistered("postgres")); got != 1 || c.asked != 2 {
		t.Errorf("%d backends are not registered, asked %d times", got, c.asked)
	}
	first.Registered(5)
	ask(t, first, "BEGIN READ WRITE; CREATE TABLE IF NOT EXISTS public.registered (pid int, level text); TRUNCATE public.registered; COMMIT")
	c.statement = "INSERT INTO public.registered SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('transaction_isolation') RETURNING pid"
	second := acquire(t, l, pool.Want{})
	if got := ask(t, second, "SELECT * FROM public.registered"); got != fmt.Sprintf("%d|read committed", second.PID()) {
		t.Errorf("registered: %s", got)
	}
	if got := len(p.Unregistered("postgres")); got != 0 {
		t.Errorf("%d backends are not registered", got)
	}

	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	spares := pool.NewSpares(p)
	defer spares.End()
	c.asked = 0
	spare, err := spares.Dial(ctx, spec(postgres.Addr()), "postgres", "postgres")
	if err != nil || c.asked != 0 {
		t.Errorf("a spare: %v, asked %d times", err, c.asked)
	}
	spare.Terminate()

	found = 0
	c.statement = "SELECT 1/0"
	c.verdict = func(e *pgerr.Error) error { return pgerr.New(pgerr.CannotConnectNow, "refused: %s", e.Message) }
	if _, err := l.Acquire(ctx, pool.Want{}); code(err) != pgerr.CannotConnectNow || !strings.Contains(err.Error(), "refused: division by zero") || found != 1 {
		t.Errorf("told %v, identified %d times", err, found)
	}
	// Another try, as after the database was made anew.
	c.verdict = func(*pgerr.Error) error {
		c.statement = "SELECT 1"
		return nil
	}
	third := acquire(t, l, pool.Want{})
	if got := fmt.Sprint(c.failed); got != "[22012 22012]" {
		t.Errorf("failed with %s", got)
	}
	// One that fails for ever.
	c.statement = "SELECT 1/0"
	c.verdict = func(*pgerr.Error) error { return nil }
	if _, err := l.Acquire(ctx, pool.Want{}); code(err) != "22012" {
		t.Errorf("told %v", err)
	}
	c.statement = "!"
	if _, err := l.Acquire(ctx, pool.Want{}); code(err) != pgerr.CannotConnectNow {
		t.Errorf("told %v", err)
	}
	for _, c := range []*pool.Conn{first, second, third} {
		c.Release()
	}
	if open, _, _ := counts(p); open != 3 {
		t.Errorf("%d backends are open", open)
	}
}
