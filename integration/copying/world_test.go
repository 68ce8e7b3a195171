package copying

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/integration/pair"
	"weft/pgserver/pgtest"
)

const patience = pgtest.Patience

// world is a database on both sides.
type world struct {
	database    string
	plain, weft *pgconn.PgConn
	tables      *pair.Tables
	mask        map[string]bool
}

// newWorld makes the tables on both sides and declares them to weft.
func newWorld(t testing.TB, name string, setup []string, declare ...string) *world {
	t.Helper()
	w := &world{database: "c_" + name, mask: map[string]bool{}}
	harness.Weft(t).CreatePrepared(t, w.database)
	harness.Postgres(t).CreateDatabase(t, w.database)
	w.plain, w.weft = connect(t, harness.Postgres(t), w.database), connect(t, harness.Weft(t), w.database)
	for _, sql := range setup {
		must(t, w.plain, sql)
		must(t, w.weft, sql)
	}
	for _, sql := range declare {
		must(t, w.weft, sql)
	}
	w.tables = pair.OpenTables(t, w.database)
	t.Cleanup(w.tables.Close)
	return w
}

// anew is the same world for another test: with sessions of its own, and without rows.
func (w *world) anew(t testing.TB) *world {
	t.Helper()
	out := *w
	out.mask = map[string]bool{}
	out.plain, out.weft = connect(t, harness.Postgres(t), w.database), connect(t, harness.Weft(t), w.database)
	must(t, out.plain, "truncate items")
	must(t, out.weft, "truncate items")
	return &out
}

// quiet waits until no shard has anything left of a COPY: no transaction, open or
// prepared, and no backend that is busy.
func (w *world) quiet(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, s := range harness.Weft(t).Shards() {
		conn := pair.Dial(t, ctx, s, w.database)
		for {
			left := ""
			if err := conn.QueryRow(ctx, `select coalesce(string_agg(what, '; '), '') from (
				select 'prepared ' || gid from pg_prepared_xacts where database = current_database()
				union all select state || ' ' || query from pg_stat_activity
				where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' and state <> 'idle') as x (what)`).Scan(&left); err != nil {
				t.Fatal(err)
			}
			if left == "" {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("shard %d has left: %s", i, left)
			}
			time.Sleep(20 * time.Millisecond)
		}
		_ = conn.Close(ctx)
	}
}

// awaitCopy waits until a shard has begun a COPY into items.
func (w *world) awaitCopy(t testing.TB, shard int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn := pair.Dial(t, ctx, harness.Weft(t).Shards()[shard], w.database)
	defer conn.Close(ctx)
	for {
		began := false
		if err := conn.QueryRow(ctx, "select exists (select from pg_locks where relation = 'items'::regclass and mode = 'RowExclusiveLock')").Scan(&began); err != nil {
			t.Error(err)
			return
		}
		if began {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func connect(t testing.TB, target *harness.Target, database string) *pgconn.PgConn {
	t.Helper()
	conn := target.Connect(t, "postgres", "dbname="+database)
	return conn.PgConn()
}

func must(t testing.TB, c *pgconn.PgConn, sql string) []*pgconn.Result {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	res, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return res
}

// chunks hands out data in pieces of random sizes: each becomes a message.
type chunks struct {
	data []byte
	max  int
	rnd  *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := min(1+c.rnd.IntN(c.max), len(c.data), len(p))
	copy(p, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

// outcome is what the client is told.
func outcome(tag pgconn.CommandTag, err error) string {
	if err == nil {
		return tag.String()
	}
	e := (*pgconn.PgError)(nil)
	if !errors.As(err, &e) {
		return "lost: " + err.Error()
	}
	return fmt.Sprintf("%s %s: %s\nDETAIL: %s\nHINT: %s\nWHERE: %s\nOF: %s.%s.%s %s", e.Severity, e.Code, e.Message, e.Detail, e.Hint, e.Where,
		e.SchemaName, e.TableName, e.ColumnName, e.ConstraintName)
}

// both copies the same data on both sides and compares what is told.
func (w *world) both(t testing.TB, sql, data string, piece int) string {
	t.Helper()
	want := w.copyFrom(w.plain, sql, data, piece)
	got := w.copyFrom(w.weft, sql, data, piece)
	if want != got {
		t.Errorf("%s\n%q\nPostgreSQL: %s\nweft:       %s", sql, clip(data), want, got)
	}
	return want
}

func clip(s string) string {
	if len(s) > 2000 {
		return s[:2000] + "…"
	}
	return s
}

func (w *world) copyFrom(c *pgconn.PgConn, sql, data string, piece int) string {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	return outcome(c.CopyFrom(ctx, &chunks{[]byte(data), piece, rand.New(rand.NewPCG(1, 2))}, sql))
}

func (w *world) same(t testing.TB) {
	t.Helper()
	w.tables.Same(t, w.mask)
}
