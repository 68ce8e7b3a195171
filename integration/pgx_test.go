package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"weft/integration/harness"
)

// TestQueryModes asks the same in each of pgx's five ways of asking.
func TestQueryModes(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		modes := []pgx.QueryExecMode{
			pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
			pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
		}
		ctx := within(t, 20*time.Second)
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "create table item (id int8 primary key, name text, price numeric, at timestamptz, tags text[], doc jsonb)")
		for i, mode := range modes {
			t.Run(mode.String(), func(t *testing.T) {
				for round := range 3 {
					id := int64(i*10 + round)
					at := time.Date(2024, 2, 3, 4, 5, 6, 7000, time.UTC)
					_, err := conn.Exec(ctx, "insert into item values ($1, $2, $3, $4, $5, $6)", mode,
						id, "näme", "12.50", at, []string{"a", "b c"}, `{"k": 1}`)
					if err != nil {
						t.Fatalf("insert: %v", err)
					}
					var name string
					var price pgtype.Numeric
					var got time.Time
					var tags []string
					var doc map[string]any
					err = conn.QueryRow(ctx, "select name, price, at, tags, doc from item where id = $1", mode, id).
						Scan(&name, &price, &got, &tags, &doc)
					if err != nil {
						t.Fatalf("select: %v", err)
					}
					if f, _ := price.Float64Value(); name != "näme" || f.Float64 != 12.5 || !got.Equal(at) ||
						!slices.Equal(tags, []string{"a", "b c"}) || doc["k"] != 1.0 {
						t.Errorf("read back %v %v %v %v %v", name, price, got, tags, doc)
					}
				}
			})
		}
	})
}

// TestTransactions commits, rolls back, nests and fails.
func TestTransactions(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 20*time.Second)
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "create table account (id int primary key, balance int check (balance >= 0)); insert into account values (1, 10), (2, 0)")
		transfer := func(amount int) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "update account set balance = balance + $1 where id = 2", amount); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "update account set balance = balance - $1 where id = 1", amount)
				return err
			})
		}
		if err := transfer(4); err != nil {
			t.Fatal(err)
		}
		if err := transfer(7); code(err) != "23514" {
			t.Fatalf("overdraft: %v, want 23514", err)
		}
		// The failed statement is rolled back to a savepoint and the rest stays.
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "insert into account values (3, 30)"); err != nil {
				return err
			}
			if err := pgx.BeginFunc(ctx, tx, func(sub pgx.Tx) error {
				_, err := sub.Exec(ctx, "insert into account values (3, 31)")
				return err
			}); code(err) != "23505" {
				return fmt.Errorf("duplicate: %w, want 23505", err)
			}
			_, err := tx.Exec(ctx, "insert into account values (4, 40)")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := rows(t, conn, "select id, balance from account order by id"); got != "1|6\n2|4\n3|30\n4|40\n" {
			t.Errorf("accounts:\n%s", got)
		}
	})
}

// TestBatch sends many statements in one pipeline.
func TestBatch(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 20*time.Second)
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "create table n (i int primary key)")
		batch := &pgx.Batch{}
		for i := range 300 {
			batch.Queue("insert into n values ($1)", i)
		}
		batch.Queue("select count(*) from n")
		results := conn.SendBatch(ctx, batch)
		for i := range 300 {
			if _, err := results.Exec(); err != nil {
				t.Fatalf("statement %d: %v", i, err)
			}
		}
		var n int
		if err := results.QueryRow().Scan(&n); err != nil || n != 300 {
			t.Fatalf("count in the pipeline: %d, %v", n, err)
		}
		if err := results.Close(); err != nil {
			t.Fatal(err)
		}
		// One bad statement undoes its whole batch.
		bad := &pgx.Batch{}
		bad.Queue("insert into n values (1000)")
		bad.Queue("insert into n values (1)")
		bad.Queue("insert into n values (1001)")
		if err := conn.SendBatch(ctx, bad).Close(); code(err) != "23505" {
			t.Fatalf("bad batch: %v, want 23505", err)
		}
		if got := rows(t, conn, "select count(*), max(i) from n"); got != "300|299\n" {
			t.Errorf("after the bad batch: %s", got)
		}
	})
}

// TestPipelineMode keeps several Syncs in flight, one of them after an error.
func TestPipelineMode(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 20*time.Second)
		conn := target.Connect(t, "postgres").PgConn()
		p := conn.StartPipeline(ctx)
		p.SendQueryParams("select $1::int", [][]byte{[]byte("1")}, nil, nil, nil)
		p.SendPipelineSync()
		p.SendQueryParams("select 1/$1::int", [][]byte{[]byte("0")}, nil, nil, nil)
		p.SendQueryParams("select 'skipped'", nil, nil, nil, nil)
		p.SendPipelineSync()
		p.SendQueryParams("select $1::int", [][]byte{[]byte("3")}, nil, nil, nil)
		if err := p.Sync(); err != nil {
			t.Fatal(err)
		}
		var got []string
		for {
			r, err := p.GetResults()
			if err != nil {
				got = append(got, code(err))
				if code(err) == "?" {
					t.Fatal(err)
				}
				continue
			}
			if r == nil {
				break
			}
			switch r := r.(type) {
			case *pgconn.ResultReader:
				res := r.Read()
				if res.Err != nil {
					got = append(got, code(res.Err))
				} else {
					got = append(got, string(res.Rows[0][0]))
				}
			case *pgconn.PipelineSync:
				got = append(got, "sync")
			}
		}
		if err := p.Close(); err != nil && code(err) == "?" {
			t.Fatal(err)
		}
		if want := []string{"1", "sync", "22012", "sync", "3", "sync"}; !slices.Equal(got, want) {
			t.Errorf("results %v, want %v", got, want)
		}
	})
}

// TestCopy moves rows with the binary COPY that pgx uses, and out again.
func TestCopy(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 30*time.Second)
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "create table c (id int primary key, v text, b bytea)")
		const n = 20000
		copied, err := conn.CopyFrom(ctx, pgx.Identifier{"c"}, []string{"id", "v", "b"},
			pgx.CopyFromSlice(n, func(i int) ([]any, error) {
				return []any{i, fmt.Sprint("value ", i), []byte{byte(i), 0, 0xff}}, nil
			}))
		if err != nil || copied != n {
			t.Fatalf("copied %d: %v", copied, err)
		}
		if got := rows(t, conn, "select count(*), sum(id), sum(length(v)), count(distinct b) from c"); got != "20000|199990000|208890|256\n" {
			t.Errorf("after COPY: %s", got)
		}
		// A duplicate key in the middle: nothing stays, the connection does.
		_, err = conn.CopyFrom(ctx, pgx.Identifier{"c"}, []string{"id"},
			pgx.CopyFromSlice(n, func(i int) ([]any, error) { return []any{n + i%(n/2)}, nil }))
		if code(err) != "23505" {
			t.Fatalf("duplicates: %v, want 23505", err)
		}
		// The source fails: the client sends CopyFail.
		_, err = conn.CopyFrom(ctx, pgx.Identifier{"c"}, []string{"id"},
			pgx.CopyFromFunc(func() ([]any, error) { return nil, errors.New("source broke") }))
		if err == nil {
			t.Fatal("COPY from a broken source succeeded")
		}
		if got := rows(t, conn, "select count(*) from c"); got != "20000\n" {
			t.Errorf("after failed COPYs: %s", got)
		}
		var out counter
		tag, err := conn.PgConn().CopyTo(ctx, &out, "copy (select * from c order by id) to stdout")
		if err != nil || tag.RowsAffected() != n || out.lines != n {
			t.Errorf("COPY out: %v rows, %d lines, %v", tag, out.lines, err)
		}
	})
}

type counter struct{ lines, bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' {
			c.lines++
		}
	}
	c.bytes += int64(len(p))
	return len(p), nil
}

// TestPool has many goroutines share a pgxpool, each with transactions,
// prepared statements and settings of its own.
func TestPool(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 40*time.Second)
		cfg, err := pgxpool.ParseConfig(target.ConnString("postgres") + " pool_max_conns=16")
		if err != nil {
			t.Fatal(err)
		}
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Exec(ctx, "create table hits (worker int, n int, primary key (worker, n))"); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make(chan error, 24)
		for w := range 24 {
			wg.Go(func() {
				for n := range 30 {
					err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
						if _, err := tx.Exec(ctx, "select set_config('my.worker', $1, true)", fmt.Sprint(w)); err != nil {
							return err
						}
						if _, err := tx.Exec(ctx, "insert into hits values ($1, $2)", w, n); err != nil {
							return err
						}
						var mine string
						var count int
						// Text that differs per worker makes statements come and go.
						sql := fmt.Sprintf("select current_setting('my.worker'), count(*) + %d - %d from hits where worker = $1", w%7, w%7)
						if err := tx.QueryRow(ctx, sql, w).Scan(&mine, &count); err != nil {
							return err
						}
						if mine != fmt.Sprint(w) || count != n+1 {
							return fmt.Errorf("worker %d sees worker %s with %d rows, want %d", w, mine, count, n+1)
						}
						return nil
					})
					if err != nil {
						errs <- fmt.Errorf("worker %d, round %d: %w", w, n, err)
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
	})
}

// TestListen hears notifications while idle and while busy.
func TestListen(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 20*time.Second)
		listener, speaker := target.Connect(t, "postgres"), target.Connect(t, "postgres")
		mustExec(t, listener, "listen news")
		for i := range 20 {
			mustExec(t, speaker, fmt.Sprintf("notify news, '%d'", i))
			if i%3 == 0 {
				mustExec(t, listener, "select 1")
			}
			n, err := listener.WaitForNotification(ctx)
			if err != nil {
				t.Fatalf("notification %d: %v", i, err)
			}
			if n.Channel != "news" || n.Payload != fmt.Sprint(i) {
				t.Fatalf("notification %d: %+v", i, n)
			}
			if n.PID != speaker.PgConn().PID() {
				t.Errorf("notification from process %d, the speaker was told it is %d", n.PID, speaker.PgConn().PID())
			}
		}
	})
}

// TestContextCancel ends a query by its context: pgx sends a CancelRequest
// when told so, and closes the connection otherwise.
func TestContextCancel(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		cfg, err := pgx.ParseConfig(target.ConnString("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatchHandler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 5 * time.Second}
		}
		conn, err := pgx.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for range 3 {
			ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := conn.Exec(ctx, "select pg_sleep(20)")
			stop()
			if code(err) != "57014" {
				t.Fatalf("cancelled: %v, want 57014", err)
			}
			mustExec(t, conn, "select 1")
		}
	})
}

// TestLongSession mixes everything on one connection for a while.
func TestLongSession(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 30*time.Second)
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "create table l (i int, s text)")
		for i := range 200 {
			switch i % 5 {
			case 0:
				mustExec(t, conn, fmt.Sprintf("insert into l values (%d, 'x'); select 1", i))
			case 1:
				if _, err := conn.Exec(ctx, "insert into l values ($1, $2)", i, "y"); err != nil {
					t.Fatal(err)
				}
			case 2:
				if _, err := conn.Exec(ctx, "select nosuch"); code(err) != "42703" {
					t.Fatalf("round %d: %v", i, err)
				}
			case 3:
				mustExec(t, conn, fmt.Sprintf("set my.round = '%d'", i))
			case 4:
				var round string
				if err := conn.QueryRow(ctx, "select current_setting('my.round')").Scan(&round); err != nil || round != fmt.Sprint(i-1) {
					t.Fatalf("round %d: my.round is %q, %v", i, round, err)
				}
			}
		}
		if got := rows(t, conn, "select count(*), count(*) filter (where s = 'x') from l"); got != "80|40\n" {
			t.Errorf("rows: %s", got)
		}
	})
}
