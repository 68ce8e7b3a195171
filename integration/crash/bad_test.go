package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"

	"weft/integration/harness"
	"weft/twopc"
)

// TestBadInput: statements for all shards of which one cannot do its part. The client
// hears what PostgreSQL would tell it, and nothing is written anywhere.
func TestBadInput(t *testing.T) {
	w := newWorld(t, "c_bad", nil)
	plain := harness.Postgres(t)
	plain.CreateDatabase(t, w.db)
	one, c := plain.Connect(t, "postgres", "dbname="+w.db), w.conn(0)
	for _, conn := range []*pgx.Conn{one, c} {
		must(t, conn, "create table bad (id bigint primary key, v int not null check (v < 1000), code text unique)")
	}
	declare(t, c, "select weft.shard_table('bad', 'id')")
	for _, conn := range []*pgx.Conn{one, c} {
		must(t, conn, "insert into bad select i, i, 'c' || i from generate_series(1, 100) i")
	}
	var rows, wrong strings.Builder
	for i := 101; i <= 3000; i++ {
		fmt.Fprintf(&rows, "%d\t1\tn%d\n", i, i)
		if wrong.WriteString(fmt.Sprintf("%d\t1\tn%d\n", i, i)); i == 1500 {
			wrong.WriteString("1501\tmany\tx\n")
		}
	}
	last := w.keyOn(3, 5) // some key of one shard
	for _, try := range []struct{ name, sql, copied, code string }{
		{"a bad row in the middle", "copy bad from stdin", wrong.String(), "22P02"},
		{"a row that is there already", "copy bad from stdin", rows.String() + "50\t1\tz\n", "23505"},
		{"a row without its columns", "copy bad from stdin", rows.String() + "5000\n", "22P04"},
		{"a row that breaks a CHECK", "copy bad from stdin", rows.String() + "5000\t1000\tz\n", "23514"},
		{"a key twice on one shard of many", fmt.Sprintf("insert into bad select i, 0 from generate_series(1001, 1100) i union all select %d, 0", last), "", "23505"},
		{"values, one of them there already", fmt.Sprintf("insert into bad values (2001, 0), (2002, 0), (2003, 0), (2004, 0), (2005, 0), (2006, 0), (%d, 0)", last), "", "23505"},
		{"unique on another column", "insert into bad values (2001, 0, 'q1'), (2002, 0, 'q2'), (2003, 0, 'q3'), (2004, 0, 'c77')", "", "23505"},
		{"CHECK fails on one shard", fmt.Sprintf("update bad set v = case id when %d then 1000 else 0 end", last), "", "23514"},
		{"NOT NULL fails on one shard", fmt.Sprintf("update bad set v = case id when %d then null else 0 end", last), "", "23502"},
		{"division by zero on one shard", fmt.Sprintf("delete from bad where 1 / (id - %d) >= 0", last), "", "22012"},
	} {
		do := func(conn *pgx.Conn) error {
			ctx, stop := context.WithTimeout(context.Background(), patience)
			defer stop()
			if try.copied != "" {
				_, err := conn.PgConn().CopyFrom(ctx, strings.NewReader(try.copied), try.sql)
				return err
			}
			_, err := conn.Exec(ctx, try.sql)
			return err
		}
		want, got := do(one), do(c)
		if code(want) != try.code || code(got) != try.code {
			t.Errorf("%s: weft %v, PostgreSQL %v, want %s", try.name, got, want, try.code)
		}
		w.untouched(try.name)
	}
}

// untouched complains if the table is not as it was.
func (w *world) untouched(what string) {
	w.t.Helper()
	const sql = "select count(*)::int || ' ' || coalesce(sum(v), 0)::int from bad"
	var rows, sum int
	for shard := range w.any.Shards() {
		var n, s int
		_, _ = fmt.Sscan(value[string](w.t, w.eye(shard), sql), &n, &s)
		rows, sum = rows+n, sum+s
	}
	if rows != 100 || sum != 5050 {
		w.t.Errorf("%s: the shards have %d rows with a sum of %d, not 100 with 5050", what, rows, sum)
	}
	if n := w.prepared(); n != 0 {
		w.t.Errorf("%s: %d transactions are prepared", what, n)
	}
}

// TestShardFull: a shard has no connection left. Writes over all shards wait in the queue, fail as
// PostgreSQL would refuse the connection, and nothing is written on the others.
func TestShardFull(t *testing.T) {
	w := newWorld(t, "c_full", nil)
	c := w.conn(0)
	must(t, c, "create table bad (id bigint primary key, v int not null)")
	declare(t, c, "select weft.shard_table('bad', 'id')")
	must(t, c, "insert into bad select i, i from generate_series(1, 100) i")
	w.untouched("before")
	// Its pool has no connection to the shard.
	fresh := w.proxy(func(c *config.Config) { c.Pool.QueueTimeout = 2 * time.Second })
	c = fresh.Connect(t, "postgres", "dbname="+w.db)
	s := w.any.Shards()[2]
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var taken []*pgx.Conn
	var pids []int32
	take := func() {
		for {
			d, err := pgx.Connect(ctx, s.ConnString(w.db))
			switch {
			case err == nil:
				taken, pids = append(taken, d), append(pids, int32(d.PgConn().PID()))
				continue
			case code(err) != "53300":
				t.Fatal(err)
			}
			// What weft's own work holds would become free, or serve, while a statement waits.
			if value[int](t, taken[0], "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity where backend_type = 'client backend' and pid <> all($1)", pids) == 0 {
				return
			}
		}
	}
	for _, sql := range []string{
		"update bad set v = v + 1", "insert into bad select i, 0 from generate_series(1001, 1100) i", "delete from bad",
	} {
		take()
		if got, err := exec(c, patience, sql); got != "53300" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	must(t, c, "begin")
	must(t, c, "update bad set v = 0 where id = $1", w.keyOn(1, 0))
	take()
	if got, err := exec(c, patience, "update bad set v = 0 where id = $1", w.keyOn(2, 0)); got != "53300" {
		t.Errorf("in a block: %v", err)
	}
	if got, err := exec(c, patience, "update bad set v = 0 where id = $1", w.keyOn(1, 0)); got != "25P02" {
		t.Errorf("and then: %v", err)
	}
	must(t, c, "commit") // which rolls back
	for _, d := range taken {
		_ = d.Close(ctx)
	}
	w.untouched("after")
	within(t, 10*time.Second, "it serves again", func() bool {
		got, _ := exec(c, patience, "update bad set v = v")
		return got == ""
	})
}

// TestGoneBeforeCommit: the deciding shard goes after all have prepared, and stays
// away: its client hears that within a bounded time, and when it is back nothing has been written.
func TestGoneBeforeCommit(t *testing.T) {
	b := newBank(t, "c_gone")
	r := newRand(*seed + 4)
	c := b.conn(0)
	shards := b.transfer(c, r, 1, 3)
	decider, _, _ := roles(shards)
	p, s := b.weft[0], b.any.Shards()[decider]
	p.StopAt(t, string(twopc.AfterPrepare), false)
	done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
	within(t, patience, "all have prepared", p.Stopped)
	s.Kill()
	t.Cleanup(func() { revive(t, s) })
	p.GoOn()
	select {
	case err := <-done:
		// Not committed for certain, but that cannot be known while it is away.
		if got := code(err); got != "08007" && got != "08006" {
			t.Errorf("told %v", err)
		}
	case <-time.After(patience):
		t.Fatal("COMMIT does not return")
	}
	if n := b.preparedOn(slices.DeleteFunc(slices.Clone(shards), func(i int) bool { return i == decider })); n != len(shards)-1 {
		t.Errorf("%d of %d participants wait for the decision", n, len(shards)-1)
	}
	b.weft[0].Signal(t, syscall.SIGKILL) // its proxy need not be there
	if err := s.Restart(context.Background()); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "nothing is prepared", func() bool { return b.prepared() == 0 })
	if parts, sum := b.applied(1); parts != 0 || sum != b.total || b.decisions() != 0 {
		t.Errorf("%d parts, sum %d", parts, sum)
	}
}

// preparedOn counts the prepared transactions on some shards.
func (w *world) preparedOn(shards []int) (n int) {
	for _, shard := range shards {
		n += value[int](w.t, w.eye(shard), "select count(*)::int from pg_prepared_xacts where database = current_database()")
	}
	return n
}
