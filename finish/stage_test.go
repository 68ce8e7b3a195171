package finish_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weft/finish"
	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/wire"
)

// open begins a stage of one piece, int and text, on a backend in a
// transaction.
func open(t *testing.T, limits finish.Limits) (*finish.Stage, *pool.Conn) {
	t.Helper()
	c := backend(t)
	g := several(t, c, nil, "SELECT 1 AS i, 'x' AS t")
	run(t, c, "BEGIN")
	s, err := finish.OpenStage(c, finish.NewInputs(g.shapes, 0, limits))
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// row is the body of a DataRow of an int and a text.
func row(i byte, text string) []byte {
	b := []byte{0, 2, 0, 0, 0, 4, 0, 0, 0, i}
	b = append(b, byte(len(text)>>24), byte(len(text)>>16), byte(len(text)>>8), byte(len(text)))
	return append(b, text...)
}

// fill adds rows until one is refused.
func fill(s *finish.Stage, n int, row []byte) error {
	for range n {
		if err := s.Add(row); err != nil {
			return err
		}
	}
	return nil
}

// TestStageLarge: rows of all sizes around that of a chunk, and two stages in
// one transaction.
func TestStageLarge(t *testing.T) {
	s, c := open(t, finish.Limits{})
	var size int
	sizes := []int{0, 1, 65535 - 14 - 19, 65536, 65537, 200000, 5 << 20, 3}
	for i, n := range sizes {
		size += n
		if err := s.Add(row(byte(i), strings.Repeat("y", n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	g := several(t, c, nil, "SELECT 1 AS i, 'x' AS t")
	again, err := finish.OpenStage(c, finish.NewInputs(g.shapes, 0, finish.Limits{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fill(again, 20000, row(7, "z")), again.Close()); err != nil {
		t.Fatal(err)
	}
	sql := fmt.Sprintf("SELECT a.*, b.* FROM (SELECT count(*), sum(length(t)) FROM %s x) a, (SELECT count(*), sum(i) FROM %s x) b",
		s.AppendInput(nil, 0), again.AppendInput(nil, 0))
	if got, want := fmt.Sprint(run(t, c, sql)), fmt.Sprintf("[[%d %d 20000 140000]]", len(sizes), size); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s.Rows(0) != int64(len(sizes)) || again.Rows(0) != 20000 {
		t.Errorf("%d and %d rows", s.Rows(0), again.Rows(0))
	}
	// Of the large one the planner has been told.
	const stats = "SELECT tablename LIKE 'weft_gather%', attname, n_distinct FROM pg_stats WHERE schemaname LIKE 'pg_temp%' ORDER BY 2"
	if got := fmt.Sprint(run(t, c, stats)); got != "[[t c1 1] [t c2 1]]" {
		t.Error(got)
	}
	if got := fmt.Sprint(run(t, c, "SHOW default_statistics_target")); got != "[[100]]" {
		t.Error(got)
	}
	run(t, c, "COMMIT")
	if got := run(t, c, "SELECT relname FROM pg_class WHERE relname LIKE 'weft_gather%'"); len(got) > 0 {
		t.Errorf("left behind: %s", got)
	}
}

// TestStageFails: whatever ends a stage, Add or Close tells, nobody waits for
// ever, and the backend can be used.
func TestStageFails(t *testing.T) {
	other := backend(t)
	for _, tc := range []struct {
		name string
		make func(t *testing.T) (*finish.Stage, *pool.Conn, error)
		want string
	}{
		{"too large", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			s, c := open(t, finish.Limits{Max: 1 << 20})
			return s, c, fill(s, 1e6, row(1, "x"))
		}, "53400"},
		{"a value that the server refuses", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			s, c := open(t, finish.Limits{})
			if err := s.Add(row(1, "\xff")); err != nil {
				return s, c, err
			}
			return s, c, fill(s, 1e6, row(1, "x"))
		}, "22021"},
		{"the same, noticed at the end", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			s, c := open(t, finish.Limits{})
			return s, c, errors.Join(s.Add(row(1, "\xff")), s.Close())
		}, "22021"},
		{"a row that is cut off", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			s, c := open(t, finish.Limits{})
			return s, c, errors.Join(s.Add(row(1, "x")[:12]), s.Close())
		}, "22P04"},
		{"cancel", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			s, c := open(t, finish.Limits{})
			if err := fill(s, 100000, row(1, "x")); err != nil {
				return s, c, err
			}
			run(t, other, fmt.Sprintf("SELECT pg_cancel_backend(%d)", c.PID()))
			return s, c, fill(s, 1e8, row(1, "x"))
		}, "57014"},
		{"no right to a temporary table", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			run(t, other, "DROP ROLE IF EXISTS poor; REVOKE TEMP ON DATABASE postgres FROM public; CREATE ROLE poor")
			t.Cleanup(func() { run(t, other, "GRANT TEMP ON DATABASE postgres TO public") })
			c := backend(t)
			g := several(t, c, nil, "SELECT 1 AS i, 'x' AS t")
			run(t, c, "SET ROLE poor; BEGIN")
			s, err := finish.OpenStage(c, finish.NewInputs(g.shapes, 0, finish.Limits{}))
			if err != nil {
				return nil, c, err
			}
			return s, c, fill(s, 1e8, row(1, "x"))
		}, "42501"},
		{"read only", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			c := backend(t)
			g := several(t, c, nil, "SELECT 1 AS i, 'x' AS t")
			run(t, c, "BEGIN READ ONLY")
			s, err := finish.OpenStage(c, finish.NewInputs(g.shapes, 0, finish.Limits{}))
			if err != nil {
				return nil, c, err
			}
			return s, c, s.Close()
		}, "25006"},
		{"outside a transaction", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			c := backend(t)
			s, err := finish.OpenStage(c, finish.NewInputs(nil, 0, finish.Limits{}))
			return s, c, err
		}, "XX000"},
		{"nobody wants it any more", func(t *testing.T) (*finish.Stage, *pool.Conn, error) {
			s, c := open(t, finish.Limits{})
			return s, c, fill(s, 100000, row(1, "x"))
		}, "<nil>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c, err := tc.make(t)
			if code(err) != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
			if s != nil {
				if err := s.Abort(); err != nil {
					t.Errorf("abort: %v", err)
				}
				if c.Status() != wire.TxFailed {
					t.Errorf("the transaction is %c", c.Status())
				}
			}
			if got := fmt.Sprint(run(t, c, "ROLLBACK; SELECT 1")); got != "[[1]]" {
				t.Error(got)
			}
		})
	}
}

// TestStageLost: a backend that is gone is noticed, and said to be.
func TestStageLost(t *testing.T) {
	s, c := open(t, finish.Limits{})
	run(t, backend(t), fmt.Sprintf("SELECT pg_terminate_backend(%d)", c.PID()))
	err := fill(s, 1e8, row(1, "x"))
	if !errors.Is(err, pool.ErrLost) || code(err) != "08006" {
		t.Error(err)
	}
	if err := s.Abort(); !errors.Is(err, pool.ErrLost) {
		t.Errorf("abort: %v", err)
	}
}

// TestStageInterrupted: Interrupt ends a stage.
func TestStageInterrupted(t *testing.T) {
	s, c := open(t, finish.Limits{})
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	context.AfterFunc(ctx, c.Interrupt)
	if err := fill(s, 1e9, row(1, "x")); code(err) != "57014" {
		t.Error(err)
	}
	if err := s.Abort(); err != nil {
		t.Error(err)
	}
}

// TestStageStopped: a server that does not read any more keeps nobody longer
// than the connection's deadline, whatever the stage is doing.
func TestStageStopped(t *testing.T) {
	for name, f := range map[string]func(s *finish.Stage) error{
		"add":   func(s *finish.Stage) error { return fill(s, 1e9, row(1, "x")) },
		"close": (*finish.Stage).Close,
		"abort": (*finish.Stage).Abort,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := open(t, finish.Limits{})
			if err := fill(s, 50000, row(1, "x")); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(int(c.PID()), syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Kill(int(c.PID()), syscall.SIGCONT) }()
			time.AfterFunc(100*time.Millisecond, func() { _ = c.Conn().SetDeadline(time.Unix(1, 0)) })
			if err := f(s); !errors.Is(err, pool.ErrLost) {
				t.Error(err)
			}
			if err := s.Abort(); !errors.Is(err, pool.ErrLost) {
				t.Errorf("abort: %v", err)
			}
		})
	}
}

// TestStageAnywhere ends stages at any moment, in every way.
func TestStageAnywhere(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	other := backend(t)
	for range 80 {
		s, c := open(t, finish.Limits{})
		end, n := r.IntN(4), r.IntN(60000)
		wait := time.Duration(r.IntN(8000)) * time.Microsecond
		var wg sync.WaitGroup
		wg.Go(func() {
			time.Sleep(wait)
			switch end {
			case 0:
				_, _ = other.Exec(fmt.Sprintf("SELECT pg_cancel_backend(%d)", c.PID()))
			case 1:
				_, _ = other.Exec(fmt.Sprintf("SELECT pg_terminate_backend(%d)", c.PID()))
			}
		})
		err := fill(s, n, row(1, strings.Repeat("x", r.IntN(300))))
		if err == nil && end < 3 {
			err = s.Close()
		}
		abort := s.Abort()
		wg.Wait()
		switch {
		case end >= 2 && (err != nil || abort != nil):
			t.Errorf("%v, abort: %v", err, abort)
		case errors.Is(err, pool.ErrLost):
			if end != 1 || !errors.Is(abort, pool.ErrLost) {
				t.Errorf("way %d: %v, abort: %v", end, err, abort)
			}
		case err == nil && end == 2:
			if got := fmt.Sprint(run(t, c, fmt.Sprintf("SELECT count(*) FROM %s x", s.AppendInput(nil, 0)))); got != fmt.Sprintf("[[%d]]", n) {
				t.Errorf("%s rows, want %d", got, n)
			}
		case end == 0:
			// The cancel may come when the COPY is over.
			if err != nil && code(err) != "57014" {
				t.Error(err)
			}
		}
		if end != 1 {
			if _, err := c.Exec("ROLLBACK"); err != nil && code(err) != "57014" {
				t.Error(err)
			}
		}
	}
}

// TestStageMemory: what a stage holds does not grow with what goes through it.
func TestStageMemory(t *testing.T) {
	s, _ := open(t, finish.Limits{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := errors.Join(fill(s, 200000, row(1, strings.Repeat("x", 300))), s.Close()); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("60 MB of rows took %d bytes of memory", got)
	}
}

// BenchmarkStage stages rows that are in memory; psql reads them from a file.
func BenchmarkStage(b *testing.B) {
	from, to := backend(b), backend(b)
	const n = 300000
	sql := fmt.Sprintf("SELECT i, i::int8 AS j, i::numeric(10,2) AS n, 'row number ' || i AS t FROM generate_series(1, %d) i", n)
	_, cols, err := finish.Describe(from, sql, nil)
	if err != nil {
		b.Fatal(err)
	}
	one := &gathering{conn: from, pieces: []string{sql}, shapes: []finish.Shape{{Columns: cols}}}
	two := &gathering{conn: from, pieces: []string{sql, "SELECT 1, 2"}, shapes: []finish.Shape{{Columns: cols}, {Columns: cols[:2]}}}
	for name, g := range map[string]*gathering{"one piece": one, "two pieces": two} {
		var rows [][]byte
		if err := execute(from, g.tagged(), nil, nil, finish.Formats(g.columns()), nil, func(row []byte) error {
			rows = append(rows, append([]byte(nil), row...))
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run(b, to, "BEGIN")
				s, err := finish.OpenStage(to, finish.NewInputs(g.shapes, 0, finish.Limits{}))
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range rows {
					if err := s.Add(r); err != nil {
						b.Fatal(err)
					}
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				run(b, to, "COMMIT")
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	psql := filepath.Join(pgtest.Install(b).Bin, "psql")
	out := filepath.Join(pgtest.Dir(b), "rows")
	copyOut := fmt.Sprintf(`\copy (%s) to '%s' (format binary)`, sql, out)
	if o, err := exec.Command(psql, "-qXd", postgres.ConnString("postgres"), "-c", copyOut).CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, o)
	}
	b.Run("psql", func(b *testing.B) {
		for b.Loop() {
			o, err := exec.Command(psql, "-qXd", postgres.ConnString("postgres"), "-c", "BEGIN", "-c", "CREATE TEMP TABLE x(i int, j int8, n numeric(10,2), t text) ON COMMIT DROP",
				"-c", fmt.Sprintf(`\copy x from '%s' (format binary)`, out), "-c", "COMMIT").CombinedOutput()
			if err != nil {
				b.Fatalf("%v: %s", err, o)
			}
		}
		b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
