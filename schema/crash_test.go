package schema

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver/pgtest"
)

const crashRows = 300

// crash is a cluster with a table to declare, again and again.
type crash struct {
	*cluster
	op func(*Mover, context.Context) error
	// from brings the table into the state that op starts from.
	from func()
}

func newCrash(t *testing.T, kind string) *crash {
	c := &crash{cluster: newCluster(t)}
	c.cluster.home(`CREATE TABLE parent (id bigint PRIMARY KEY); INSERT INTO parent SELECT generate_series(0, 39);
CREATE TABLE t (id bigserial, k bigint REFERENCES parent, s text, PRIMARY KEY (k, id));
INSERT INTO t(k, s) SELECT i % 40, 'row ' || i FROM generate_series(1, 300) i;
CREATE TABLE child (id bigint, k bigint, t bigint, FOREIGN KEY (k, t) REFERENCES t(k, id)); INSERT INTO child SELECT 1, k, id FROM t LIMIT 1;
CREATE VIEW v AS SELECT * FROM t`)
	if kind != "reference" {
		c.shard("parent", "id")
	} else {
		c.cluster.reference("parent")
	}
	switch kind {
	case "shard":
		c.op = func(m *Mover, ctx context.Context) error { return m.Shard(ctx, c.request("t", "k"), c.notice) }
	case "reference":
		c.op = func(m *Mover, ctx context.Context) error { return m.Reference(ctx, c.request("t", ""), c.notice) }
	case "unshard":
		c.op = func(m *Mover, ctx context.Context) error { return m.Unshard(ctx, c.request("t", ""), c.notice) }
	}
	c.from = func() {
		c.Helper()
		switch declared := c.table("t") != nil; {
		case kind == "unshard" && !declared:
			c.shard("t", "k")
		case kind != "unshard" && declared:
			c.unshard("t")
		}
	}
	return c
}

// steps returns the names of all steps, in order.
func (c *crash) steps() []string {
	c.Helper()
	c.from()
	var names []string
	m := c.proxy("dry")
	m.cfg.step = func(name string) error { names = append(names, name); return nil }
	c.must(c.op(m, c.context()))
	return names
}

// verify fails unless all is done or nothing is, and the foreign keys fit.
func (c *crash) verify(when string) (declared bool) {
	c.Helper()
	declared = c.check("t", "k", crashRows)
	outgoing := c.each("SELECT count(*) FROM pg_constraint WHERE conname = 't_k_fkey'")
	incoming := c.each("SELECT count(*) FROM pg_constraint WHERE conname = 'child_k_t_fkey'")["home"]
	views := c.each("SELECT count(*) FROM pg_class WHERE relname = 'v'")
	wantOut, wantIn, waits := "1", "0", len(c.table("parent").ForeignKeys)
	if !declared {
		wantIn = "1"
		if c.table("parent").Kind == directory.Sharded {
			wantOut = "0"
		}
	} else if c.table("t").Kind == directory.Reference {
		wantIn = "1"
	}
	if outgoing["home"] != wantOut || declared && (outgoing["east"] != "1" || views["east"] != "1") || !declared && views["east"] != "0" || incoming != wantIn || (waits > 0) != (wantOut == "0") {
		c.Errorf("%s: declared %v, foreign keys %v, %s at home, %d waiting, views %v", when, declared, outgoing, incoming, waits, views)
	}
	if c.Failed() {
		c.Fatalf("%s", when)
	}
	return declared
}

// recoverAll does what a proxy does with the jobs of those that are gone.
func (c *crash) recoverAll(m *Mover) {
	c.Helper()
	for _, t := range c.store.snap.Declared(c.db) {
		c.must(m.Recover(c.context(), t))
	}
}

// committed tells whether after this step the job must be finished.
func committed(step string) bool {
	switch {
	case step == "home committed" || step == "moved" || step == "unmarked" || step == "active" || strings.HasPrefix(step, "dropped"):
		return true
	}
	return false
}

func forEachStep(t *testing.T, kinds []string, run func(c *crash, m *Mover, step string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			c := newCrash(t, kind)
			steps := c.steps()
			if len(steps) < 10 {
				t.Fatalf("only %q", steps)
			}
			for _, step := range steps {
				c.from()
				run(c, c.proxy("p-"+strings.ReplaceAll(step, " ", "-")), step)
				done := c.verify("after " + step)
				if undeclaring := kind == "unshard"; committed(step) != (done != undeclaring) {
					t.Fatalf("after %s: declared %v", step, done)
				}
			}
			t.Logf("%d steps: %q", len(steps), steps)
		})
	}
}

// TestError: a step fails, and the same call undoes or finishes all.
func TestError(t *testing.T) {
	forEachStep(t, []string{"shard", "reference", "unshard"}, func(c *crash, m *Mover, step string) {
		once := errors.New("failed on purpose")
		failed := false
		m.cfg.step = func(name string) error {
			if name == step && !failed {
				failed = true
				return once
			}
			return nil
		}
		if err := c.op(m, c.context()); errors.Is(err, once) == committed(step) || err != nil && committed(step) {
			c.Fatalf("%s: %v", step, err)
		}
	})
}

// TestCancel: the client gives up.
func TestCancel(t *testing.T) {
	forEachStep(t, []string{"shard", "unshard"}, func(c *crash, m *Mover, step string) {
		ctx, cancel := context.WithCancel(c.context())
		defer cancel()
		m.cfg.step = func(name string) error {
			if name == step {
				cancel()
			}
			return nil
		}
		if err := c.op(m, ctx); (err == nil) != committed(step) {
			c.Fatalf("%s: %v %q", step, err, pgerr.From(err).Hint)
		}
	})
}

// TestDeath: the process ends at a step, and another one recovers.
func TestDeath(t *testing.T) {
	forEachStep(t, []string{"shard", "reference", "unshard"}, func(c *crash, m *Mover, step string) {
		c.dies(m, step, func() { _ = c.op(m, c.context()) })
		c.recoverAll(c.proxy("second"))
	})
}

// dies runs f in a process that ends at a step: its connections close, and
// nothing of it goes on.
func (c *crash) dies(m *Mover, step string, f func()) {
	m.cfg.step = func(name string) error {
		if name == step {
			runtime.Goexit()
		}
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(f)
	wg.Wait()
}

// TestHang: the process stops at a step with all its connections open, is
// believed dead and recovered from, and then goes on.
func TestHang(t *testing.T) {
	forEachStep(t, []string{"shard", "unshard"}, func(c *crash, m *Mover, step string) {
		reached, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		m.cfg.step = func(name string) error {
			if name == step {
				once.Do(func() {
					close(reached)
					<-goOn
				})
			}
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = c.op(m, c.context()) })
		<-reached
		c.recoverAll(c.proxy("second"))
		c.verify("recovered while hanging at " + step)
		close(goOn)
		wg.Wait()
	})
}

// TestBackendsEnd: somebody ends the backends of one server at a step.
func TestBackendsEnd(t *testing.T) {
	for _, server := range []string{"home", "east"} {
		for _, kind := range []string{"shard", "unshard"} {
			t.Run(server+" "+kind, func(t *testing.T) {
				c := newCrash(t, kind)
				for _, step := range c.steps() {
					c.from()
					m := c.proxy("p")
					var once sync.Once
					m.cfg.step = func(name string) error {
						if name == step {
							once.Do(func() {
								on(t, server, c.db).run(t, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'weft %' AND pid <> pg_backend_pid()")
							})
						}
						return nil
					}
					err := c.op(m, c.context())
					c.recoverAll(c.proxy("second")) // if undoing failed too
					done := c.verify(step)
					if err == nil && done != (kind != "unshard") {
						t.Fatalf("%s: said to be done, and is not", step)
					}
				}
			})
		}
	}
}

// TestRecoveryDies: recovery itself ends at each of its steps, and two others
// recover at once.
func TestRecoveryDies(t *testing.T) {
	for _, kind := range []string{"shard", "unshard"} {
		t.Run(kind, func(t *testing.T) {
			c := newCrash(t, kind)
			for _, first := range []string{"filled", "committed on east", "home committed"} {
				for _, step := range []string{"dropped on east", "dropped on west", "undone", "moved", "unmarked", "active"} {
					c.from()
					m := c.proxy("first")
					c.dies(m, first, func() { _ = c.op(m, c.context()) })
					second := c.proxy("second")
					c.dies(second, step, func() {
						for _, t := range c.store.snap.Declared(c.db) {
							_ = second.Recover(c.context(), t)
						}
					})
					left := c.store.snap.Declared(c.db)
					var wg sync.WaitGroup
					for _, id := range []string{"third", "fourth"} {
						wg.Go(func() {
							for _, t := range left {
								if err := c.proxy(id).Recover(c.context(), t); err != nil {
									c.Errorf("%s: %v", id, err)
								}
							}
						})
					}
					wg.Wait()
					c.verify(first + ", then " + step)
				}
			}
		})
	}
}

// TestLockTimeout: a transaction that uses the table is waited for no longer
// than asked, and nothing is left.
func TestLockTimeout(t *testing.T) {
	c := newCrash(t, "shard")
	s := openAt(t, "home", c.db)
	if err := s.run("BEGIN", "LOCK TABLE public.t IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err := c.op(c.mover, c.context())
	if err == nil || !strings.Contains(err.Error(), "lock timeout") || pgtest.Late(t, time.Since(began), 20*time.Second) {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	s.close()
	if c.verify("timeout") {
		t.Error("declared")
	}
}

// TestCancelMidway: the client gives up while rows are under way.
func TestCancelMidway(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE t (id bigint, k bigint); INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, 200000) i")
	for _, wait := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond} {
		ctx, cancel := context.WithCancel(c.context())
		m := c.proxy("p")
		m.cfg.step = func(name string) error {
			if name == "defined" {
				time.AfterFunc(wait, cancel)
			}
			return nil
		}
		err := m.Shard(ctx, c.request("t", "k"), c.notice)
		cancel()
		var e *pgerr.Error
		if err != nil && (!errors.As(err, &e) || e.Code != pgerr.QueryCanceled) {
			t.Fatalf("after %v: %v", wait, err)
		}
		if err == nil {
			c.unshard("t") // it was faster
		}
		if got := c.each("SELECT count(*) || ' ' || sum(id) FROM t"); got["home"] != "200000 20000100000" || got["east"] != "-" || len(c.store.snap.Tables) != 0 {
			t.Fatalf("after %v: %v", wait, got)
		}
		if busy := c.each("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'weft job%'"); busy["home"] != "0" || busy["east"] != "0" {
			t.Errorf("after %v: %v backends are left", wait, busy)
		}
	}
}

// liar is a dialer whose home connections lose the answer to a COMMIT, or the
// COMMIT itself.
type liar struct {
	executes bool
	told     *sync.Once
}

type lyingConn struct {
	Conn
	liar
}

func (l liar) Dial(ctx context.Context, shard, database, user string) (Conn, error) {
	c, err := dialer{}.Dial(ctx, shard, database, user)
	if err != nil || shard != "home" {
		return c, err
	}
	return &lyingConn{c, l}, nil
}

func (c *lyingConn) Exec(sql string) ([][]string, error) {
	lost := false
	if sql == "COMMIT" {
		c.told.Do(func() { lost = true })
	}
	if lost && !c.executes {
		return nil, errors.New("connection lost")
	}
	rows, err := c.Conn.Exec(sql)
	if lost && err == nil {
		err = errors.New("connection lost")
	}
	return rows, err
}

// TestLostCommit: the connection to home is lost in the moment of COMMIT, and
// what the client hears is what happened.
func TestLostCommit(t *testing.T) {
	for _, kind := range []string{"shard", "unshard"} {
		t.Run(kind, func(t *testing.T) {
			c := newCrash(t, kind)
			for _, executes := range []bool{true, false} {
				c.from()
				m := c.proxy("p")
				m.cfg.Shards = liar{executes, new(sync.Once)}
				err := c.op(m, c.context())
				if done := c.verify("COMMIT"); done != (executes != (kind == "unshard")) || executes != (err == nil) {
					t.Errorf("executed %v: declared %v, %v", executes, done, err)
				}
			}
		})
	}
}
