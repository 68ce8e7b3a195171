package move

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
)

// bucketCount is how many buckets the cluster has, without those of single values.
func bucketCount(t *testing.T) int { return harness.Snapshot(t).BucketCount }

// grow doubles the number of buckets, and returns the new one.
func (w *world) grow(c *pgx.Conn) int {
	w.Helper()
	n := 2 * bucketCount(w.T)
	if got := value[string](w, c, "select weft.grow_buckets($1)", fmt.Sprint(n)); got != fmt.Sprint(n) {
		w.Fatalf("%s buckets, not %d", got, n)
	}
	return n
}

// wide makes tables of every kind that names buckets, on weft and on one PostgreSQL, and returns a function
// that writes to both and compares them.
func wide(t *testing.T, db string) (w *world, compare func(when string)) {
	w = newWorld(t, db, 2)
	a, b := w.conn(0), w.conn(1)
	plain := harness.Postgres(t)
	plain.CreateDatabase(t, w.db)
	p := plain.Connect(t, "postgres", "dbname="+w.db)
	w.must(p, `create table acct (id bigint primary key, balance bigint not null default 1000, touched int not null default 0, note text);
		create table line (acct bigint not null, n bigint not null, body text, primary key (acct, n));`)
	w.must(p, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	for _, c := range []*pgx.Conn{a, p} {
		w.must(c, `create table doc (acct bigint not null, n bigserial primary key, title text unique, series text, part int, unique (series, part));
			create table tenant (name text, n bigint, v int not null default 0, primary key (name, n));
			create table region (id bigint primary key, email text unique, v int not null default 0);
			create table part (tenant bigint, day int, v int not null default 0, primary key (tenant, day))`)
	}
	last := bucketCount(t) - 1
	w.must(a, "select weft.shard_table('doc', 'acct', ids => 'routed', ids_column => 'n')")
	w.must(a, "select weft.shard_table('tenant', 'name', vindex => 'lookup_unique', name => '"+db+"')")
	w.must(a, fmt.Sprintf(`select weft.shard_table('region', 'id', vindex => 'range', params => '{"zones": [{"below": "500", "buckets": "0-%d"}, {"buckets": "%d-%d"}]}')`, last/3, last/3+1, last))
	w.must(a, "select weft.shard_table('part', 'tenant, day')")
	both := func(sql string) {
		t.Helper()
		if x, y := w.must(a, sql).String(), w.must(p, sql).String(); x != y {
			t.Errorf("%s: %s, PostgreSQL says %s", sql, x, y)
		}
	}
	step := 0
	return w, func(when string) {
		t.Helper()
		step++
		both(fmt.Sprintf("insert into line select i %% 400 + 1, %d + i, 'x' from generate_series(1, 50) i", step*1000))
		both(fmt.Sprintf("insert into doc (acct, title, series, part) select id, 'all ' || id || ' %d', 's' || id %% 7, %d * 1000 + id from acct where id between 1 and 60", step, step))
		both(fmt.Sprintf("insert into doc (acct, title) values (17, 'one %d')", step))
		both(fmt.Sprintf("insert into tenant select 't' || i %% 90, %d + i from generate_series(1, 200) i", step*1000))
		both(fmt.Sprintf("insert into tenant values ('new %d', 1)", step))
		both(fmt.Sprintf("insert into region (id, email) select %d + i * 20, 'e' || %d + i from generate_series(1, 40) i", step, step*1000))
		both(fmt.Sprintf("insert into part (tenant, day) select i %% 9, %d + i from generate_series(1, 60) i", step*1000))
		both("update acct set balance = balance + 1 where id = 17")
		both("update acct set touched = touched + 1")
		both("update tenant set v = v + 1 where name = 't7'")
		both("update region set v = v + 1 where id = 41")
		both("update region set v = v + 1 where id < 300")
		both("update part set v = v + 1 where tenant = 3")
		both(fmt.Sprintf("update doc set series = 'moved', part = %d + acct where title = 'all 23 %d'", step*100, step))
		both(fmt.Sprintf("update line set acct = 21 where acct = 22 and n = %d", step*1000+21))
		both(fmt.Sprintf("delete from line where n = %d", step*1000+3))
		for _, c := range []*pgx.Conn{b, p} {
			n, err := c.CopyFrom(context.Background(), pgx.Identifier{"doc"}, []string{"acct", "title", "series", "part"}, pgx.CopyFromSlice(30, func(i int) ([]any, error) {
				return []any{10 + i%10, fmt.Sprintf("copied %d %d", step, i), "c", int32(step*100 + i)}, nil
			}))
			if err != nil || n != 30 {
				t.Errorf("%s: copied %d, %v", when, n, err)
			}
		}
		for _, sql := range []string{
			"select * from acct where id = 17",
			"select * from acct where id in (16, 17, 18, 300)",
			"select count(*), sum(balance), sum(touched) from acct",
			"select a.id, count(*), sum(n) from acct a join line l on l.acct = a.id group by a.id",
			"select acct, title, series, part from doc",
			fmt.Sprintf("select acct, title from doc where title = 'all 23 %d'", step),
			fmt.Sprintf("select acct, title from doc where title in ('one 1', 'one %d', 'copied %d 3', 'none')", step, step),
			fmt.Sprintf("select acct, title from doc where series = 's3' and part = %d", step*1000+10),
			fmt.Sprintf("select acct, title from doc where series = 'moved' and part = %d", step*100+23),
			"select * from tenant", "select * from tenant where name = 't7'", "select * from tenant where name in ('t1', 't2', 'new 1', 'nobody')",
			"select * from region", "select * from region where id = 41", "select * from region where id < 100", "select id from region where email = 'e1003'",
			"select * from part", "select * from part where tenant = 3", "select * from part where tenant = 3 and day = 1003",
		} {
			want := w.lines(p, sql)
			for i, c := range []*pgx.Conn{a, b} {
				if got := w.lines(c, sql); !slices.Equal(got, want) {
					t.Errorf("%s, through proxy %d: %s\n  got  %d %.600v\n  want %d %.600v", when, i, sql, len(got), got, len(want), want)
				}
			}
		}
		rows, _ := a.Query(context.Background(), "select n, title from doc where acct in (16, 17, 23)")
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
		w.refused(a, "insert into doc (acct, title) values (99, 'all 23 1')", "23505", "duplicate key")
		w.refused(b, fmt.Sprintf("insert into doc (acct, title, series, part) values (99, 'n', 's3', %d)", step*1000+10), "23505", "duplicate key")
		w.settled(a)
	}
}

// TestGrowDiffers: with more buckets, and with single ones of them elsewhere, everything is as one
// PostgreSQL says, through proxies that were there before and one that comes later.
func TestGrowDiffers(t *testing.T) {
	w, compare := wide(t, "move_grow")
	a, b := w.conn(0), w.conn(1)
	names := names(t)
	compare("at first")
	count := bucketCount(t)

	// Rows are elsewhere than the cluster's placement says, some have buckets of their own.
	before := value[string](w, a, "select weft.move_buckets($1, $2)", fmt.Sprintf("0-%d", count/4), names[1])
	w.must(a, "select weft.wait_move($1)", before)
	from := w.shardOf(17)
	w.isolate(a, 17, other(names, from))
	w.must(a, "select weft.wait_move($1)", value[string](w, a, "select weft.pin($1, 't7', $2)", w.db, names[2]))
	w.must(b, "select weft.pin($1, 'new 3', $2)", w.db, names[2]) // has no rows yet
	compare("moved, isolated and pinned")
	places := w.lines(a, "select shard, bucket from weft.buckets")

	// A block and cursors go on; a REPEATABLE READ block sees what it saw.
	open, snapped := w.conn(0), w.conn(1)
	w.must(open, "begin")
	w.must(open, "declare one cursor for select id from acct where id = 25")
	w.must(open, "declare two cursor for select id from acct order by id")
	if n := value[int](w, open, "fetch 1 from two"); n != 1 {
		t.Errorf("fetched %d", n)
	}
	w.must(snapped, "begin isolation level repeatable read")
	sum := value[int](w, snapped, "select sum(balance)::int from acct")

	n := w.grow(a)
	if got := value[int](w, b, "select count(*)::int from weft.buckets"); got != len(places)+n-count {
		t.Errorf("%d buckets of %d, there were %d", got, n, len(places))
	}
	if got := value[int](w, a, "select touched from acct where id = $1", 17); got != 2 {
		t.Errorf("touched %d times", got)
	}
	if x, y := value[int](w, open, "fetch 1 from one"), value[int](w, open, "fetch 1 from two"); x != 25 || y != 2 {
		t.Errorf("fetched %d and %d", x, y)
	}
	w.must(open, "update acct set note = 'in the block' where id = 25")
	w.must(snapped, "select balance from acct where id = 17")
	w.must(open, "rollback")
	compare("grown")
	if got := value[int](w, snapped, "select sum(balance)::int from acct"); got != sum {
		t.Errorf("the snapshot saw %d and sees %d", sum, got)
	}
	w.must(snapped, "commit")

	// Every second one of the new buckets goes elsewhere, then all that were one before.
	for i, to := range []string{names[0], names[2], names[1]} {
		var some []int
		for b := 1 + i; b < n; b += 2 + i {
			some = append(some, b)
		}
		w.move(w.conn(i%2), some, to)
		compare(fmt.Sprintf("every %d to %s", 2+i, to))
	}
	w.proxies = append(w.proxies, harness.StartWeft(t, func(*config.Config) {}))
	if got := value[int](w, w.conn(2), "select count(*)::int from doc"); got == 0 {
		t.Error("a proxy that comes later sees nothing")
	}

	// Own buckets go on, and there are more.
	own := value[int](w, a, "select max(bucket)::int from weft.buckets")
	w.move(b, []int{own}, names[0])
	w.isolate(b, 23, other(names, w.shardOf(23)))
	w.must(a, "select weft.wait_move($1)", value[string](w, a, "select weft.pin($1, 't8', $2)", w.db, other(names, w.tenantShard("t8"))))
	compare("isolated and pinned again")

	// What a job from before has moved goes back to where it was.
	back := value[string](w, b, "select weft.undo_move($1)", before)
	w.must(b, "select weft.wait_move($1)", back)
	compare("undone")
	w.grow(b)
	compare("grown again")
	last := value[string](w, a, "select weft.move_buckets('0-7', $1)", names[2])
	w.must(a, "select weft.wait_move($1)", last)
	w.grow(a)
	back = value[string](w, a, "select weft.undo_move($1)", last)
	w.must(a, "select weft.wait_move($1)", back)
	compare("and undone")
	// Tables that are declared now are beside those from before.
	w.must(a, "create table late (acct bigint, k int); insert into late select i % 40, i from generate_series(1, 400) i; create table later (tenant bigint, day int)")
	w.must(a, "insert into later select tenant, day from part")
	w.must(a, "select weft.shard_table('late', 'acct')")
	w.must(a, "select weft.shard_table('later', 'tenant, day')")
	if got := value[int](w, b, "select count(*)::int from acct a join late l on l.acct = a.id"); got != 390 {
		t.Errorf("%d rows of a table that was declared later", got)
	}
	if x, y := value[int](w, b, "select count(*)::int from part join later using (tenant, day)"), value[int](w, b, "select count(*)::int from part"); x != y {
		t.Errorf("%d of %d rows", x, y)
	}
}

// tenantShard returns the shard that has a tenant's rows.
func (w *world) tenantShard(name string) string {
	w.Helper()
	for shard := range w.tenantsOn(name) {
		return shard
	}
	w.Fatalf("tenant %s has no rows", name)
	return ""
}

// TestGrowUnderLoad: clients read and write through two proxies while the number of buckets grows and new
// buckets move, and every answer is exact.
func TestGrowUnderLoad(t *testing.T) {
	w := newWorld(t, "move_growing", 2)
	a := w.conn(0)
	names := names(t)
	var wg sync.WaitGroup
	var over atomic.Bool
	defer func() { over.Store(true); wg.Wait() }()
	var updates [4]int64
	for i := range updates {
		c := w.conn(i % 2)
		wg.Go(func() {
			for n := 0; !over.Load(); n++ {
				ctx, stop := context.WithTimeout(context.Background(), patience)
				id := 1 + (n*7+i*101)%accounts
				tag, err := c.Exec(ctx, "update acct set touched = touched + 1 where id = $1", id)
				if err != nil || tag.RowsAffected() != 1 {
					t.Errorf("account %d: %s %v", id, tag, err)
				}
				updates[i]++
				var count int
				if err := c.QueryRow(ctx, "select count(*) from acct").Scan(&count); err != nil || count != accounts {
					t.Errorf("%d accounts, %v", count, err)
				}
				if n%10 == 0 {
					err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
						if _, err := tx.Exec(ctx, "update acct set balance = balance - 5 where id = $1", id); err != nil {
							return err
						}
						_, err := tx.Exec(ctx, "update acct set balance = balance + 5 where id = $1", 1+id%accounts)
						return err
					})
					if err != nil && !strings.Contains(err.Error(), "40P01") {
						t.Errorf("a transfer: %v", err)
					}
				}
				stop()
				time.Sleep(3 * time.Millisecond)
			}
		})
	}
	for i := range 3 {
		n := w.grow(a)
		w.move(a, []int{i, n/2 + 1, n - 1 - i}, names[i])
		w.move(a, []int{n/2 + 1}, names[(i+1)%3])
	}
	over.Store(true)
	wg.Wait()
	want := updates[0] + updates[1] + updates[2] + updates[3]
	if got := value[int64](w, a, "select sum(touched) from acct"); got != want {
		t.Errorf("%d updates are there of %d", got, want)
	}
	if got := value[int](w, a, "select sum(balance)::int from acct"); got != accounts*1000 {
		t.Errorf("the accounts have %d", got)
	}
	w.settled(a)
}

// TestGrowAwaitsOlder: a transaction that has touched a bucket by its old number is waited for before one of
// the new buckets moves.
func TestGrowAwaitsOlder(t *testing.T) {
	w := newWorld(t, "move_older", 2)
	a, open := w.conn(0), w.conn(1)
	names := names(t)
	// While a job is there, transactions note what they touch.
	at := w.shardOf(17)
	busy := value[string](w, a, "select weft.move_buckets($1, $2, until => 1, duty => 1)", fmt.Sprintf("0-%d", bucketCount(t)-1), other(names, at))
	w.must(open, "begin")
	w.must(open, "update acct set touched = 1 where id = 17")
	w.must(a, "select weft.cancel_move($1)", busy)
	w.grow(a)
	at = w.shardOf(17)
	to := other(names, at)
	job := value[string](w, a, "select weft.move_buckets($1, $2)", fmt.Sprintf("0-%d", bucketCount(t)-1), to)
	w.until(a, "select blocked_by is not null from weft.moves where job = $1", job)
	if got := w.shardOf(17); got != at {
		t.Errorf("the account has gone to %s", got)
	}
	w.must(open, "update acct set touched = touched + 1 where id = 17")
	w.must(open, "commit")
	w.must(a, "select weft.wait_move($1)", job)
	if n := value[int](w, a, "select touched from acct where id = 17"); n != 2 || w.shardOf(17) != to {
		t.Errorf("touched %d times, on %s", n, w.shardOf(17))
	}
	w.settled(a)
}

// TestGrowRefused: who may, to how many, and not while rows are on their way.
func TestGrowRefused(t *testing.T) {
	w := newWorld(t, "move_narrow", 1)
	c := w.conn(0)
	n := bucketCount(t)
	for _, bad := range []string{"0", "-1", fmt.Sprint(n), fmt.Sprint(n / 2), fmt.Sprint(3 * n), "131072", "'many'", "null"} {
		w.refused(c, "select weft.grow_buckets("+bad+")", "22023|22004", "cannot become|is not a number|must not be null")
	}
	w.refused(c, "select weft.grow_buckets("+fmt.Sprint(2*n)+", dry_run => 'perhaps')", "22023", "dry_run")
	if got := w.lines(c, fmt.Sprintf("select * from weft.grow_buckets(%d, dry_run => true)", 2*n)); !slices.Equal(got, []string{fmt.Sprintf("[%d %d]", n, 2*n)}) || bucketCount(t) != n {
		t.Errorf("a dry run: %v", got)
	}
	w.operators(c)
	w.must(c, "create role narrow login; grant weft_operator to narrow")
	t.Cleanup(func() { w.must(w.conn(0), "drop role narrow") })
	low := w.proxies[0].Connect(t, "narrow", "dbname="+w.db)
	w.refused(low, "select weft.grow_buckets("+fmt.Sprint(2*n)+")", "42501", "must be superuser")
	_ = low.Close(context.Background())
	job := value[string](w, c, "select weft.move_buckets('0-9', $1, until => 1, duty => 1)", names(t)[1])
	w.refused(c, "select weft.grow_buckets("+fmt.Sprint(2*n)+")", "55000", "while job "+job+" runs")
	w.must(c, "select weft.cancel_move($1)", job)
	if bucketCount(t) != n {
		t.Error("it has grown")
	}
}
