package gather

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) {
	harness.ShardCount = shards
	os.Exit(harness.Main(m))
}

const (
	shards = 3
	// patience is how long something may take that must happen.
	patience = pgtest.Patience
	// rows of the tables, see newWorld.
	bigRows, othRows = 5000, 300
)

// world is a proxy over three shards and a database with two sharded tables that
// have nothing to do with each other, a reference table and a home table.
type world struct {
	t    *testing.T
	db   string
	weft *harness.Target
}

// newWorld makes one.
func newWorld(t *testing.T, db string, configure func(*config.Config)) *world {
	t.Helper()
	return makeWorld(t, db, 0, configure)
}

// newHeavyWorld makes one whose table big is about 20 MB: more than all buffers on
// the way hold.
func newHeavyWorld(t *testing.T, db string, configure func(*config.Config)) *world {
	t.Helper()
	return makeWorld(t, db, 4000, configure)
}

func makeWorld(t *testing.T, db string, pad int, configure func(*config.Config)) *world {
	t.Helper()
	w := &world{t: t, db: db}
	w.weft = harness.StartWeft(t, func(cfg *config.Config) {
		if configure != nil {
			configure(cfg)
		}
	})
	w.weft.CreatePrepared(t, db)
	c := w.conn()
	must(t, c, `create table big (k bigint primary key, g int, v int, pad text);
		create table oth (k bigint primary key, v int);
		create table ref (k bigint primary key, v int);
		create table home (k bigint primary key, v int)`)
	must(t, c, fmt.Sprintf("insert into big select i, i %% 7, i, repeat('x', %d) from generate_series(1, %d) i", pad, bigRows))
	must(t, c, fmt.Sprintf("insert into oth select i, i from generate_series(1, %d) i", othRows))
	must(t, c, "insert into ref select i, i from generate_series(1, 10) i; insert into home select i, i from generate_series(1, 10) i")
	must(t, c, "select weft.shard_table('big', 'k')")
	must(t, c, "select weft.shard_table('oth', 'k')")
	must(t, c, "select weft.reference_table('ref')")
	return w
}

// conn connects to weft.
func (w *world) conn(more ...string) *pgx.Conn {
	w.t.Helper()
	return w.weft.Connect(w.t, "postgres", append([]string{"dbname=" + w.db}, more...)...)
}

// as connects as somebody else.
func (w *world) as(user string) *pgx.Conn {
	w.t.Helper()
	return w.weft.Connect(w.t, user, "dbname="+w.db)
}

// direct connects to a shard itself.
func (w *world) direct(shard int) *pgx.Conn {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, w.weft.Shards()[shard].ConnString(w.db)+" application_name=direct")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// keyOn returns the n-th key of oth that is on the shard.
func (w *world) keyOn(shard, n int) int64 {
	w.t.Helper()
	return value[int64](w.t, w.direct(shard), "select k from oth order by k offset $1 limit 1", n)
}

// block makes a table stand still on a shard until the returned function is
// called.
func (w *world) block(shard int, table string) (release func()) {
	w.t.Helper()
	c := w.direct(shard)
	must(w.t, c, "begin")
	must(w.t, c, "lock table "+table+" in access exclusive mode")
	return func() { must(w.t, c, "rollback") }
}

// busy is a condition on pg_stat_activity: what weft has under way.
const busy = "datname = current_database() and backend_type = 'client backend' and application_name <> 'direct' and pid <> pg_backend_pid() and state = 'active'"

// victim waits until a backend of a shard does what the condition says, and
// returns its process ID; or until a statement has ended.
func (w *world) victim(shard int, condition string, ended ...chan error) (pid int) {
	w.t.Helper()
	c := w.direct(shard)
	defer c.Close(context.Background())
	within(w.t, "a backend with "+condition, func() bool {
		err := c.QueryRow(context.Background(), "select pid from pg_stat_activity where "+busy+" and "+condition+" limit 1").Scan(&pid)
		return err == nil || slices.ContainsFunc(ended, func(done chan error) bool { return len(done) > 0 })
	})
	return pid
}

// still complains of backends that are at work.
func (w *world) still() {
	w.t.Helper()
	for i := range shards {
		c := w.direct(i)
		within(w.t, fmt.Sprintf("nobody works on shard %d", i), func() bool {
			return value[int](w.t, c, "select count(*) from pg_stat_activity where "+busy) == 0
		})
		_ = c.Close(context.Background())
	}
}

// quiet complains of what a statement has left on the shards.
func (w *world) quiet() {
	w.t.Helper()
	for i := range shards {
		c := w.direct(i)
		working := ""
		within(w.t, fmt.Sprintf("shard %d is quiet", i), func() bool {
			working = value[string](w.t, c, "select coalesce(string_agg(state || ', ' || application_name || ': ' || left(query, 200), E'\\n'), '') from pg_stat_activity where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid() and application_name <> 'direct' and state <> 'idle'")
			return working == ""
		}, &working)
		within(w.t, fmt.Sprintf("shard %d has no temporary table", i), func() bool {
			return value[int](w.t, c, "select count(*) from pg_class where relnamespace in (select oid from pg_namespace where nspname ~ '^pg_temp_') and relname ~ '^weft'") == 0
		})
		_ = c.Close(context.Background())
	}
}

// lent is how many connections sessions hold, as the console tells.
func (w *world) lent() (n int) {
	w.t.Helper()
	c := w.weft.Connect(w.t, "postgres", "dbname=weft")
	defer c.Close(context.Background())
	rows, err := c.PgConn().Exec(context.Background(), "SHOW POOLS").ReadAll()
	if err != nil {
		w.t.Fatal(err)
	}
	r := rows[0]
	at := map[string]int{}
	for i, f := range r.FieldDescriptions {
		at[f.Name] = i
	}
	for _, row := range r.Rows {
		if string(row[at["database"]]) == w.db {
			var used int
			_, _ = fmt.Sscan(string(row[at["used"]]), &used)
			n += used
		}
	}
	return n
}

// free complains of connections that were not given back, and of goroutines that
// did not end.
func (w *world) free(goroutines int) {
	w.t.Helper()
	within(w.t, "all connections are given back", func() bool { return w.lent() == 0 })
	if goroutines == 0 {
		return
	}
	within(w.t, fmt.Sprintf("no more goroutines than %d", goroutines), func() bool { return runtime.NumGoroutine() <= goroutines+3 })
}

// works complains if the session does not answer as it should.
func (w *world) works(c *pgconn.PgConn, what string) {
	w.t.Helper()
	if c.IsClosed() {
		w.t.Errorf("%s: the session has ended", what)
		return
	}
	for sql, want := range map[string]string{
		"select count(*), sum(v) from oth":                             fmt.Sprintf("%d %d", othRows, othRows*(othRows+1)/2),
		"select count(*) from oth a join oth b on a.v = b.k":           fmt.Sprint(othRows),
		"select k from big order by k limit 3":                         "1 2 3",
		"select count(*), max(b.v) from big b join oth o on b.v = o.v": fmt.Sprintf("%d %d", othRows, othRows),
	} {
		got, err := ask(c, sql)
		if err != nil || got != want {
			w.t.Errorf("%s: afterwards %s gave %q %v, want %q", what, sql, got, err, want)
		}
	}
}

// ask returns the values of a simple query.
func ask(c *pgconn.PgConn, sql string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	var out []string
	for _, r := range results {
		for _, row := range r.Rows {
			for _, v := range row {
				out = append(out, string(v))
			}
		}
	}
	return strings.Join(out, " "), nil
}

func must(t testing.TB, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 2*patience)
	defer stop()
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value is the only value of a query.
func value[T any](t testing.TB, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// fails returns the SQLSTATE that a statement ends with, "" if it succeeds.
func fails(c *pgx.Conn, sql string, args ...any) string {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_, err := c.Exec(ctx, sql, args...)
	return code(err)
}

// code is the SQLSTATE of an error, "" for none, its text if it has no such.
func code(err error) string {
	var e *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	}
	return err.Error()
}

func within(t testing.TB, what string, ok func() bool, instead ...*string) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			for _, s := range instead {
				t.Log(*s)
			}
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
