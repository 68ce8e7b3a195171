package crash

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// springs lays traps for words on all cables. The first that is sprung cuts its cable, before the words are
// passed on or after, and makes it whole again after a while; 0 for never. healed is closed when that is done.
func (w *network) springs(words string, before bool, heal time.Duration) (healed chan struct{}) {
	healed = make(chan struct{})
	for _, c := range w.cables {
		c.lay(&trap{words: []byte(words), before: before, found: func() {}, spring: func() {
			for _, other := range w.cables {
				if other != c {
					other.lay(nil)
				}
			}
			c.sever()
			go func() {
				defer close(healed)
				if heal > 0 {
					time.Sleep(heal)
					c.whole()
				}
			}()
		}})
	}
	return healed
}

func (w *network) wholeAgain() {
	for _, c := range w.cables {
		c.lay(nil)
		c.whole()
	}
}

// TestTold: COMMIT is answered when the client can read what it has written, on every shard. 08006 means that nothing
// has happened, 08007 that it may have, in a block and outside.
func TestTold(t *testing.T) {
	together(t)
	w := newNetwork(t, "c_told", func(int) string { return "127.0.0.1" })
	v := func(c *pgx.Conn, key int64) int { return value[int](t, c, "select v::int from s where id = $1", key) }
	for _, test := range []struct {
		name string
		heal time.Duration
		want string
	}{{"back soon", 300 * time.Millisecond, ""}, {"away", 0, "08007"}} {
		c := w.conn(0)
		w.n++
		must(t, c, "begin")
		must(t, c, "update s set v = $1 where id = $2", w.n, w.a)
		must(t, c, "update s set v = $1 where id = $2", w.n, w.b)
		w.springs("COMMIT PREPARED", true, test.heal)
		_, err := c.Exec(t.Context(), "COMMIT", pgx.QueryExecModeSimpleProtocol)
		if code(err) != test.want {
			t.Errorf("%s: told %v", test.name, err)
		}
		if e := (*pgconn.PgError)(nil); test.want != "" && (!errors.As(err, &e) || !strings.Contains(e.Message, "is committed") || c.IsClosed()) {
			t.Errorf("%s: told %v", test.name, err)
		}
		if test.want != "" {
			w.wholeAgain()
			within(t, 12*time.Second, "it is there", func() bool { return v(c, w.a) == w.n && v(c, w.b) == w.n })
		} else if a, b := v(c, w.a), v(c, w.b); a != w.n || b != w.n {
			t.Errorf("%s: committed, and the session reads %d and %d, not %d", test.name, a, b, w.n)
		}
		w.wholeAgain()
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		for _, test := range []struct {
			name, sql, want string
			block           bool
		}{
			{"write", "update s set v = 77 where id = $1", "08007", false},
			{"read", "select v from s where id = $1", "08006", false},
			{"write in a block", "update s set v = 78 where id = $1", "08006", true},
		} {
			c := w.conn(0)
			if test.block {
				must(t, c, "begin")
			}
			healed := w.springs(test.sql[:12], false, 100*time.Millisecond)
			_, err := c.Exec(t.Context(), test.sql, mode, w.a)
			if code(err) != test.want {
				t.Errorf("%s (%v): told %v", test.name, mode, err)
			}
			<-healed
			w.wholeAgain()
			if test.block {
				must(t, c, "rollback")
				if v(c, w.a) == 78 {
					t.Errorf("%s: told 08006, and it is there", test.name)
				}
			}
		}
	}
}
