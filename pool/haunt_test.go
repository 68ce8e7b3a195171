package pool_test

import (
	"context"
	"fmt"
	"testing"

	"weft/pool"
	"weft/wire"
)

// TestGhosts: a backend that is closed in the middle of a statement is ended, and told of until it is gone. One that is closed while
// idle, in a transaction or not, is no ghost.
func TestGhosts(t *testing.T) {
	var spares *pool.Spares
	p, sh := home(t, pool.Config{
		Verify: func(pool.Login) error { return nil },
		Ask: func(ctx context.Context, _, database, sql string) ([][]string, error) {
			c, err := spares.Dial(ctx, spec(postgres.Addr()), database, "postgres")
			if err != nil {
				return nil, err
			}
			defer c.Terminate()
			return c.Exec(sql)
		},
	})
	spares = pool.NewSpares(p)
	t.Cleanup(spares.End)
	l := lane(t, sh)
	eye := acquire(t, l, pool.Want{})
	defer eye.Release()
	write := func(c *pool.Conn, messages []byte) {
		if _, err := c.Write(messages); err != nil {
			t.Fatal(err)
		}
	}
	long := wire.AppendQuery(nil, "select pg_sleep(1000)")
	for _, test := range []struct {
		name  string
		do    func(c *pool.Conn)
		ghost bool
	}{
		{"idle", func(*pool.Conn) {}, false},
		{"after an answer", func(c *pool.Conn) { ask(t, c, "select 1") }, false},
		{"in a transaction", func(c *pool.Conn) { ask(t, c, "begin") }, false},
		{"in a statement", func(c *pool.Conn) { write(c, long) }, true},
		{"in a statement of a transaction", func(c *pool.Conn) { ask(t, c, "begin"); write(c, long) }, true},
		{"behind a BEGIN", func(c *pool.Conn) {
			c.BeginSent()
			write(c, append(wire.AppendQuery(nil, "begin"), long...))
			if err := c.UntilReady(func(byte, []byte) {}); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"in the second of two", func(c *pool.Conn) {
			write(c, append(wire.AppendQuery(nil, "select 1"), long...))
			if err := c.UntilReady(func(byte, []byte) {}); err != nil {
				t.Fatal(err)
			}
			c.Owes()
		}, true},
	} {
		for _, end := range []func(*pool.Conn){(*pool.Conn).Discard, (*pool.Conn).Terminate} {
			c := acquire(t, l, pool.Want{})
			test.do(c)
			if test.ghost { // the server is at it
				eventually(t, func() string {
					if s := ask(t, eye, fmt.Sprintf("select count(*) from pg_stat_activity where pid = %d and wait_event = 'PgSleep'", c.PID())); s != "1" {
						return test.name + ": the statement does not begin"
					}
					return ""
				})
			}
			end(c)
			list := p.Ghosts("home")
			if test.ghost != (len(list) == 1) || test.ghost && (list[0].PID != c.PID() || list[0].Database != "postgres" || list[0].Since.IsZero()) {
				t.Errorf("%s: ghosts %v", test.name, list)
			}
			eventually(t, func() string {
				if s := ask(t, eye, fmt.Sprintf("select count(*) from pg_stat_activity where pid = %d", c.PID())); s != "0" || len(p.Ghosts("home")) != 0 {
					return fmt.Sprintf("%s: %s backends, ghosts %v", test.name, s, p.Ghosts("home"))
				}
				return ""
			})
		}
	}
}
