package move

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// shardOf returns the shard that has the rows of an account, past weft.
func (w *world) shardOf(id int) string {
	w.Helper()
	var found []string
	for i, s := range w.proxies[0].Shards() {
		d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
		if err != nil {
			w.Fatal(err)
		}
		if value[bool](w, d, "select exists (select from acct where id = $1) or exists (select from line where acct = $1)", id) {
			found = append(found, names(w.T)[i])
		}
		_ = d.Close(context.Background())
	}
	return strings.Join(found, ", ")
}

// isolate takes an account to a shard in a bucket of its own, and returns the job.
func (w *world) isolate(c *pgx.Conn, id int, to string) string {
	w.Helper()
	job := value[string](w, c, "select weft.isolate('acct', $1, $2)", fmt.Sprint(id), to)
	w.must(c, "select weft.wait_move($1)", job)
	return job
}

// lines returns the rows of a query as sorted texts.
func (w *world) lines(c *pgx.Conn, sql string) []string {
	w.Helper()
	_, list, err := asked(c, sql)
	if err != nil {
		list = append(list, err.Error())
	}
	slices.Sort(list)
	return list
}

// asked returns the tag of a text and its rows, sorted.
func asked(c *pgx.Conn, sql string) (tag string, list []string, err error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	rows, _ := c.Query(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	list, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		values, err := r.Values()
		return fmt.Sprint(values), err
	})
	slices.Sort(list)
	return rows.CommandTag().String(), list, err
}

// TestIsolateDiffers: before, after and after the way back, through two proxies, everything is as
// one PostgreSQL says.
func TestIsolateDiffers(t *testing.T) {
	w := newWorld(t, "move_isolate", 2)
	a, b := w.conn(0), w.conn(1)
	plain := harness.Postgres(t)
	plain.CreateDatabase(t, w.db)
	p := plain.Connect(t, "postgres", "dbname="+w.db)
	w.must(p, `create table acct (id bigint primary key, balance bigint not null default 1000, touched int not null default 0, note text);
		create table line (acct bigint not null, n bigint not null, body text, primary key (acct, n));`)
	w.must(p, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	for _, c := range []*pgx.Conn{a, p} {
		w.must(c, "create table doc (acct bigint not null, n bigserial primary key, title text unique, body text)")
		w.must(c, "create table spare (acct bigint, k int)")
	}
	w.must(a, "select weft.shard_table('doc', 'acct', ids => 'routed', ids_column => 'n')")

	both := func(sql string) {
		t.Helper()
		if x, y := w.must(a, sql).String(), w.must(p, sql).String(); x != y {
			t.Errorf("%s: %s, PostgreSQL says %s", sql, x, y)
		}
	}
	step := 0
	compare := func(when string) {
		t.Helper()
		step++
		// Writes of every kind.
		both(fmt.Sprintf("insert into line select 17, %d + i, 'x' from generate_series(1, 5) i", step*100))
		both(fmt.Sprintf("insert into line values (17, %d, 'one'), (18, %d, 'two'), (19, %d, 'three')", step*100+50, step*100+51, step*100+52))
		both(fmt.Sprintf("insert into doc (acct, title) values (17, 'title %d'), (18, 'other %d')", step, step))
		both(fmt.Sprintf("insert into doc (acct, title, body) select id, 'all ' || id || ' %d', 'y' from acct where id between 10 and 30", step))
		both("update acct set balance = balance + 1 where id = 17")
		both("update acct set balance = balance * 2 where id in (16, 17, 18)")
		both("update acct set touched = touched + 1")
		both(fmt.Sprintf("update doc set body = 'by title' where title = 'title %d'", step))
		both(fmt.Sprintf("delete from line where acct = 17 and n = %d", step*100+2))
		both(fmt.Sprintf("delete from line where n = %d", step*100+3))
		both(fmt.Sprintf("insert into acct (id, note) values (17, 'again %d') on conflict (id) do update set note = excluded.note", step))
		both(fmt.Sprintf("insert into acct (id) values (%d)", 17000+step))
		both(fmt.Sprintf("delete from acct where id = %d", 17000+step))
		// A key comes to the isolated bucket, and leaves it.
		both(fmt.Sprintf("update line set acct = 17 where acct = 18 and n = %d", step*100+51))
		both(fmt.Sprintf("update line set acct = 20 where acct = 17 and n = %d", step*100+50))
		for _, c := range []*pgx.Conn{b, p} {
			n, err := c.CopyFrom(context.Background(), pgx.Identifier{"line"}, []string{"acct", "n", "body"}, pgx.CopyFromSlice(30, func(i int) ([]any, error) {
				return []any{10 + i%10, int64(step*100000 + i), "copied"}, nil
			}))
			if err != nil || n != 30 {
				t.Errorf("%s: copied %d, %v", when, n, err)
			}
		}
		for _, sql := range []string{
			"select * from acct where id = 17",
			"select * from line where acct = 17",
			"select * from acct where id in (16, 17, 18)",
			"select * from acct where id between 15 and 19",
			"select count(*), sum(balance), sum(touched) from acct",
			"select acct, count(*), sum(n) from line group by acct",
			"select a.id, a.balance, l.n, l.body from acct a join line l on l.acct = a.id where a.id = 17",
			"select a.id, count(*) from acct a join line l on l.acct = a.id group by a.id",
			"select a.id, d.title, l.n from acct a join doc d on d.acct = a.id join line l on l.acct = a.id where d.title like 'title%'",
			"select acct, title, body from doc",
			fmt.Sprintf("select acct, title, body from doc where title = 'title %d'", step),
			"select acct, title from doc where title in ('title 1', 'other 1', 'all 17 1', 'all 18 1')",
			"select a.id from acct a where exists (select from line l where l.acct = a.id and l.body = 'copied')",
			"select id, (select count(*) from line where acct = id) from acct where id < 40",
		} {
			want := w.lines(p, sql)
			for i, c := range []*pgx.Conn{a, b} {
				if got := w.lines(c, sql); !slices.Equal(got, want) {
					t.Errorf("%s, through proxy %d: %s\n  got  %d %.600v\n  want %d %.600v", when, i, sql, len(got), got, len(want), want)
				}
			}
		}
		// A routed id leads to its row, wherever that is.
		rows, _ := a.Query(context.Background(), "select n, title from doc where acct in (16, 17, 18)")
		ids, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			N     int64
			Title string
		}])
		if err != nil || len(ids) == 0 {
			t.Fatal(err)
		}
		for _, r := range ids {
			if got := value[string](w, b, "select title from doc where n = $1", r.N); got != r.Title {
				t.Errorf("%s: document %d is %q, want %q", when, r.N, got, r.Title)
			}
		}
		for _, r := range w.lines(a, "select * from weft.verify_lookup()") {
			if !strings.HasSuffix(r, " 0 0 0]") {
				t.Errorf("%s: %s", when, r)
			}
		}
		w.settled(a)
	}
	compare("at first")
	from := w.shardOf(17)
	to := other(names(t), from)
	job := w.isolate(a, 17, to)
	if at := w.shardOf(17); at != to {
		t.Errorf("the account is on %s, not on %s", at, to)
	}
	if kind := value[string](w, b, "select kind from weft.moves where job = $1", job); kind != "isolate" {
		t.Errorf("the job is of kind %s", kind)
	}
	compare("isolated")
	// It is a bucket like any other.
	own := value[int](w, a, "select max(bucket)::int from weft.buckets where shard = $1", to)
	third := other(names(t), from, to)
	w.move(b, []int{own}, third)
	if at := w.shardOf(17); at != third {
		t.Errorf("the account is on %s, not on %s", at, third)
	}
	compare("moved on")
	w.move(b, []int{own}, to)
	back := value[string](w, b, "select weft.undo_move($1)", job)
	w.must(b, "select weft.wait_move($1)", back)
	if at := w.shardOf(17); at != from {
		t.Errorf("the account is on %s, not on %s again", at, from)
	}
	compare("back")
	w.isolate(b, 17, to)
	if n := value[int](w, a, "select max(bucket)::int from weft.buckets"); n != own {
		t.Errorf("the second time it has got bucket %d, not %d", n, own)
	}
	compare("and there again")
	// A table that is declared afterwards has its rows there.
	for _, c := range []*pgx.Conn{a, p} {
		w.must(c, "insert into spare select i % 40, i from generate_series(1, 400) i")
	}
	w.must(a, "select weft.shard_table('spare', 'acct')")
	sql := "select a.id, count(*), sum(s.k) from acct a join spare s on s.acct = a.id group by a.id"
	if got, want := w.lines(b, sql), w.lines(p, sql); !slices.Equal(got, want) {
		t.Errorf("declared afterwards: %v, want %v", got, want)
	}
	w.settled(a)
	w.must(a, "select weft.unshard_table('spare')")
	if got, want := w.lines(b, "select * from spare"), w.lines(p, "select * from spare"); !slices.Equal(got, want) {
		t.Errorf("undeclared: %v, want %v", got, want)
	}
}

// other returns a name that is none of some.
func other(names []string, not ...string) string {
	for _, n := range names {
		if !slices.Contains(not, n) {
			return n
		}
	}
	return ""
}

// TestIsolateUnderLoad: accounts are isolated and go back and forth while clients read and write
// through two proxies. Every answer is exact.
func TestIsolateUnderLoad(t *testing.T) {
	w := newWorld(t, "move_isolated", 2)
	var stop sync.WaitGroup
	done := make(chan struct{})
	c := w.conn(1)
	names := names(t)
	count := 0
	stop.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			rows, _ := c.Query(ctx, "select weft.isolate('line', $1, $2)", fmt.Sprint(1+rand.IntN(40)), names[rand.IntN(len(names))])
			if jobs, err := pgx.CollectRows(rows, pgx.RowTo[string]); err == nil && len(jobs) == 1 {
				if _, err := c.Exec(ctx, "select weft.wait_move($1)", jobs[0]); err != nil {
					t.Error(err)
				}
				count++
			}
			cancel()
			time.Sleep(5 * time.Millisecond) // the load has jobs of its own
		}
	})
	wrong := w.loadBeside(*loadFor, true)
	close(done)
	stop.Wait()
	for _, err := range wrong {
		t.Error(err)
	}
	if count == 0 {
		t.Error("nothing was isolated")
	}
	t.Logf("%d times an account was isolated", count)
}

// TestIsolateMistakes: what cannot be isolated is refused, and says why.
func TestIsolateMistakes(t *testing.T) {
	w := newWorld(t, "move_isolate_wrong", 1)
	c := w.conn(0)
	to := names(t)[1]
	w.must(c, `create table home (id bigint primary key); create table ref (id bigint primary key);
		create table pair (a bigint, b bigint, primary key (a, b)); create table day (id date primary key); create table zone (region text primary key);
		create table tenant (id text primary key)`)
	w.must(c, "select weft.reference_table('ref')")
	w.must(c, "select weft.shard_table('pair', 'a, b')")
	w.must(c, "select weft.shard_table('day', 'id')")
	w.must(c, `select weft.shard_table('zone', 'region', vindex => 'list', params => '{"zones": [{"values": ["eu"], "buckets": "0-31"}, {"buckets": "32-63"}]}')`)
	for sql, want := range map[string][2]string{
		"select weft.isolate('nowhere', 1, '" + to + "')":         {"42P01", `relation "nowhere" does not exist`},
		"select weft.isolate('home', 1, '" + to + "')":            {"42809", `"home" is not a sharded table`},
		"select weft.isolate('ref', 1, '" + to + "')":             {"42809", `"ref" is not a sharded table`},
		"select weft.isolate('acct', 'x', '" + to + "')":          {"22P02", `invalid input syntax for type bigint: "x"`},
		"select weft.isolate('acct', 1.5, '" + to + "')":          {"22P02", `invalid input syntax for type bigint`},
		"select weft.isolate('acct', '99999999999999999999')":     {"22P02|22003", `bigint`},
		"select weft.isolate('day', '1/2/2026', '" + to + "')":    {"0A000", "weft cannot tell which value of type date"},
		"select weft.isolate('acct', null, '" + to + "')":         {"22004", "value must not be null"},
		"select weft.isolate(null, 1, '" + to + "')":              {"22004", "table must not be null"},
		"select weft.isolate('acct', 1, 'shard-99')":              {"42704", `shard "shard-99" does not exist`},
		"select weft.isolate('acct')":                             {"42883", "does not exist"},
		"select weft.isolate('acct', 1, '" + to + "', duty => 0)": {"22023", "duty"},
		"select weft.isolate('pair', 1, '" + to + "')":            {"0A000", "cannot be isolated: by its composite vindex"},
		"select weft.isolate('zone', 'eu', '" + to + "')":         {"0A000", "cannot be isolated: by its list vindex"},
		"select isolate_tenant_to_new_shard('nowhere', 1)":        {"42P01", `relation "nowhere" does not exist`},
	} {
		code, _, _ := strings.Cut(want[0], "|")
		w.refused(c, sql, code, want[1])
	}
	// Isolated twice.
	to = other(names(t), w.shardOf(7))
	w.isolate(c, 7, to)
	w.refused(c, "select weft.isolate('acct', 7, '"+to+"')", "55006", `value "7" is isolated already, in bucket \d+ on `+to)
	w.refused(c, "select weft.isolate('line', '7')", "55006", "isolated already, in bucket")
	// Where it is, as users of Citus know it.
	own := value[string](w, c, "select isolate_tenant_to_new_shard('acct', 8)")
	if n := value[int](w, c, "select max(bucket)::int from weft.buckets"); own != fmt.Sprint(n) {
		t.Errorf("bucket %s, the last is %d", own, n)
	}
	w.settled(c)
	// Beside another job.
	block, err := c.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := block.Exec(context.Background(), "update acct set balance = 0 where id = 9"); err != nil {
		t.Fatal(err)
	}
	d := w.conn(0)
	job := value[string](w, d, "select weft.isolate('acct', 9, $1)", other(names(t), w.shardOf(9)))
	w.refused(d, "select weft.isolate('acct', 10, '"+to+"')", "55000", "job "+job+" moves rows of this database already")
	w.refused(d, "select weft.isolate('acct', 10)", "55000", "moves rows of this database already")
	w.refused(d, "select weft.move_buckets('1', '"+to+"')", "55000", "moves rows of this database already")
	time.Sleep(300 * time.Millisecond)
	if at := w.shardOf(9); strings.Contains(at, ",") {
		t.Errorf("account 9 is on %s", at)
	}
	// Cancelled before anything has moved, it has a bucket of its own where it was: what a transaction has
	// noted before that names another bucket, and the next job waits for it.
	w.must(d, "select weft.cancel_move($1)", job)
	next := value[string](w, d, "select weft.isolate('acct', 9, $1)", other(names(t), w.shardOf(9)))
	time.Sleep(300 * time.Millisecond)
	if err := block.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.must(d, "select weft.wait_move($1)", next)
	if n := value[int](w, d, "select balance from acct where id = 9"); n != 0 {
		t.Errorf("the balance of account 9 is %d", n)
	}
	w.settled(c)
	w.must(c, "create role plain_isolate login")
	t.Cleanup(func() { w.must(w.conn(0), "drop role plain_isolate") })
	w.refused(w.proxies[0].Connect(t, "plain_isolate", "dbname="+w.db), "select weft.isolate('acct', 1, '"+to+"')", "42501", "must be superuser or a member of role weft_operator")
}
