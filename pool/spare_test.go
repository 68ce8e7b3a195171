package pool_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"weft/pool"
)

// TestSpares: a connection that is given back is the next one's, as if it were new; one of which
// too little is known is nobody's.
func TestSpares(t *testing.T) {
	p, _ := home(t, pool.Config{})
	shard := spec(postgres.Addr())
	spares := pool.NewSpares(p)
	defer spares.End()
	dial := func() *pool.Spare {
		t.Helper()
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		c, err := spares.Dial(ctx, shard, "postgres", "postgres")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const state = "SELECT current_setting('search_path'), current_setting('TimeZone'), current_setting('application_name'), " +
		"(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), (SELECT count(*) FROM pg_prepared_statements), " +
		"(SELECT count(*) FROM pg_class WHERE relname = 'spared'), pg_current_xact_id_if_assigned() IS NULL, current_user, session_user"
	see := func(c *pool.Spare) string {
		t.Helper()
		rows, err := c.Exec(state)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(rows)
	}
	c := dial()
	fresh := see(c)
	for name, tc := range map[string]struct {
		do     func(c *pool.Spare)
		closed bool
	}{
		"settings": {do: func(c *pool.Spare) {
			_, _ = c.Exec("SET search_path = public; SET TimeZone = 'CET'; SET application_name = 'x'")
		}},
		"locks":         {do: func(c *pool.Spare) { _, _ = c.Exec("SELECT pg_advisory_lock(7)") }},
		"prepared":      {do: func(c *pool.Spare) { _, _ = c.Exec("PREPARE p AS SELECT 1") }},
		"temp":          {do: func(c *pool.Spare) { _, _ = c.Exec("CREATE TEMP TABLE spared (a int)") }},
		"role":          {do: func(c *pool.Spare) { _, _ = c.Exec("SET SESSION AUTHORIZATION pg_monitor; SET ROLE pg_read_all_stats") }},
		"transaction":   {do: func(c *pool.Spare) { _, _ = c.Exec("BEGIN; CREATE TABLE public.spared (a int)") }},
		"failed":        {do: func(c *pool.Spare) { _, _ = c.Exec("BEGIN; SELECT 1/0") }},
		"two":           {do: func(c *pool.Spare) { _, _ = c.ExecOne("SELECT 1; SELECT 2") }},
		"interrupted":   {do: func(c *pool.Spare) { c.Interrupt() }, closed: true},
		"abandoned":     {do: func(c *pool.Spare) { c.Abandon() }, closed: true},
		"copy":          {do: func(c *pool.Spare) { _ = c.CopyOut("COPY none TO STDOUT", nil) }, closed: true},
		"left":          {do: func(*pool.Spare) { spares.CloseIdle(time.Now().Add(time.Hour)) }},
		"ended by them": {do: func(c *pool.Spare) { _, _ = c.Exec("SELECT pg_terminate_backend(pg_backend_pid())") }, closed: true},
	} {
		c.Session()
		tc.do(c)
		pid := c.PID()
		c.Terminate()
		if c = dial(); (c.PID() != pid) != tc.closed {
			t.Errorf("%s: process %d, then %d", name, pid, c.PID())
		}
		if now := see(c); now != fresh {
			t.Errorf("%s: %s, at first %s", name, now, fresh)
		}
	}

	// An interrupt that comes late is not for the next user.
	before := c
	c.Terminate()
	if c = dial(); c.PID() != before.PID() {
		t.Errorf("process %d, then %d", before.PID(), c.PID())
	}
	before.Interrupt()
	before.Abandon()
	if _, err := c.Exec("SELECT pg_sleep(0.1)"); err != nil {
		t.Errorf("after an interrupt of the user before: %v", err)
	}

	// Whoever wants a database to be empty finds nobody there.
	pid := c.PID()
	c.Terminate()
	spares.Leave("postgres")
	if c = dial(); c.PID() == pid {
		t.Error("the connection is still there")
	}
	pid = c.PID()
	c.Terminate()
	if c = dial(); c.PID() == pid {
		t.Error("a connection was kept in a database that should be empty")
	}
	c.Terminate()
}

// TestSparesBound: only so many connections are kept.
func TestSparesBound(t *testing.T) {
	p, _ := home(t, pool.Config{})
	shard := spec(postgres.Addr())
	spares := pool.NewSpares(p)
	defer spares.End()
	var all []*pool.Spare
	for range 15 {
		c, err := spares.Dial(context.Background(), shard, "postgres", "postgres")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	seen := map[int32]bool{}
	for _, c := range all {
		seen[c.PID()] = true
		c.Terminate()
	}
	kept := 0
	for range all {
		c, err := spares.Dial(context.Background(), shard, "postgres", "postgres")
		if err != nil {
			t.Fatal(err)
		}
		if seen[c.PID()] {
			kept++
		}
		defer c.Terminate()
	}
	if kept != 12 {
		t.Errorf("%d connections were kept", kept)
	}
}

// TestSparesPaused: no connection to a shard is kept that an operator has paused.
func TestSparesPaused(t *testing.T) {
	p, sh := home(t, pool.Config{})
	spares := pool.NewSpares(p)
	defer spares.End()
	dial := func() *pool.Spare {
		t.Helper()
		c, err := spares.Dial(t.Context(), spec(postgres.Addr()), "postgres", "postgres")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := dial()
	pid := first.PID()
	first.Terminate()
	if err := p.Pause(t.Context(), sh); err != nil {
		t.Fatal(err)
	}
	spares.CloseIdle(time.Time{})
	second := dial()
	if second.PID() == pid {
		t.Error("a connection that was idle is kept through a pause")
	}
	pid = second.PID()
	second.Terminate()
	if third := dial(); third.PID() == pid {
		t.Error("a connection is kept during a pause")
	} else {
		third.Terminate()
	}
	p.Resume(sh)
}
