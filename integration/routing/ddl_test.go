package routing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/integration/pair"
)

// world is a database of a test's own, with a connection to each shard.
type world struct {
	*testing.T
	weft   *pgx.Conn
	shards []*pgx.Conn
	told   []string // notices
}

// newWorld makes one.
func newWorld(t *testing.T, name string) *world {
	t.Helper()
	db := database(t, name)
	w := &world{T: t}
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	connect := func(url string) *pgx.Conn {
		cfg, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { w.told = append(w.told, n.Message) }
		c, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	w.weft = connect(harness.Weft(t).ConnString("postgres", "dbname="+db))
	for _, s := range harness.Weft(t).Shards() {
		w.shards = append(w.shards, connect(s.ConnString(db)))
	}
	return w
}

// run runs statements through weft, which must not fail.
func (w *world) run(statements ...string) {
	w.Helper()
	for _, sql := range statements {
		if _, err := w.weft.Exec(context.Background(), sql); err != nil {
			w.Fatalf("%s: %v", sql, err)
		}
	}
}

// fails runs a statement through weft that must fail so.
func (w *world) fails(sql, want string) {
	w.Helper()
	_, err := w.weft.Exec(context.Background(), sql)
	var e *pgconn.PgError
	if !errors.As(err, &e) || !strings.Contains(e.Code+" "+e.Message+" "+e.Detail+" "+e.Hint, want) {
		w.Errorf("%s: %+v, want %s", sql, err, want)
	}
}

// on runs statements on one shard, past weft.
func (w *world) on(shard int, statements ...string) {
	w.Helper()
	for _, sql := range statements {
		if _, err := w.shards[shard].Exec(context.Background(), sql); err != nil {
			w.Fatalf("shard %d: %s: %v", shard, sql, err)
		}
	}
}

// each asks every shard for one value.
func (w *world) each(sql string) []string {
	w.Helper()
	var out []string
	for i, c := range w.shards {
		var v *string
		if err := c.QueryRow(context.Background(), sql).Scan(&v); err != nil {
			w.Fatalf("shard %d: %s: %v", i, sql, err)
		}
		if v == nil {
			v = new(string)
		}
		out = append(out, *v)
	}
	return out
}

// all fails unless every shard gives that value.
func (w *world) all(sql, want string) {
	w.Helper()
	got := w.each(sql)
	if slices.ContainsFunc(got, func(s string) bool { return s != want }) {
		w.Errorf("%s: %q, want %q everywhere", sql, got, want)
	}
}

// alike fails unless weft finds no difference between the shards.
func (w *world) alike() {
	w.Helper()
	rows, err := w.weft.Query(context.Background(), "select * from weft.schema_diff()")
	if err != nil {
		w.Fatal(err)
	}
	for rows.Next() {
		var shard, object, what string
		if err := rows.Scan(&shard, &object, &what); err != nil {
			w.Fatal(err)
		}
		w.Errorf("%s: %s: %s", shard, object, what)
	}
	if rows.Err() != nil {
		w.Fatal(rows.Err())
	}
}

// TestOneShardFails: what one shard refuses no shard has, in a block and without.
func TestOneShardFails(t *testing.T) {
	w := newWorld(t, "one_fails")
	w.run("create table t (id int primary key, v text)", "create table c (id int, t_id int, primary key (t_id, id))",
		"select weft.shard_table('t', 'id')", "select weft.shard_table('c', 't_id')")
	for _, tc := range []struct{ there, sql, gone, code string }{
		{"create table t_v_idx (x int)", "create index t_v_idx on t (v)", "drop table t_v_idx", "42P07"},
		{"alter table t add column w int", "alter table t add column w int", "alter table t drop column w", "42701"},
		{"create type mood as enum ('a')", "create type mood as enum ('a', 'b')", "drop type mood", "42710"},
		{"create function f() returns int language sql as 'select 1'", "create function f() returns text language sql as $$select ''::text$$", "drop function f()", "42723"},
		{"create schema s", "create schema s", "drop schema s", "42P06"},
		{"create view v as select 1 as x", "create view v as select id from t", "drop view v", "42P07"},
		{"alter table t rename column v to vv", "alter table t rename column v to w", "alter table t rename column vv to v", "42703"},
		{"alter table t drop constraint t_pkey", "alter table c add foreign key (t_id) references t", "alter table t add primary key (id)", "42704"},
		{"create table p (x int)", "alter table t rename to p", "drop table p", "42P07"},
		{"insert into t values (100000, 'x')", "alter table t add check (id < 10000)", "delete from t where id = 100000", "23514"},
	} {
		before := w.each(fingerprint)
		w.on(2, tc.there)
		changed := w.each(fingerprint)
		w.fails(tc.sql, tc.code)
		w.run("begin", "create table made_before (x int)", "savepoint s")
		w.fails(tc.sql, tc.code)
		w.run("rollback to s", "alter table t add column kept int", "rollback")
		w.run("begin")
		w.fails(tc.sql, tc.code)
		w.fails("select 1", "25P02")
		w.run("commit")
		if got := w.each(fingerprint); !slices.Equal(got, changed) {
			t.Errorf("%s has left something: %v", tc.sql, got)
		}
		w.on(2, tc.gone)
		if got := w.each(fingerprint); !slices.Equal(got, before) {
			t.Fatalf("%s does not take back %s", tc.gone, tc.there)
		}
		w.run(tc.sql)
		w.run("begin", "rollback")
		w.alike()
		w.undo(tc.sql)
	}
}

// undo takes back what a test has made, so that the next finds what it expects.
func (w *world) undo(sql string) {
	for prefix, undo := range map[string]string{
		"create index": "drop index t_v_idx", "alter table t add column": "alter table t drop column w", "create type": "drop type mood",
		"create function": "drop function f()", "create schema": "drop schema s", "create view": "drop view v",
		"alter table t rename column": "alter table t rename column w to v", "alter table c add": "alter table c drop constraint c_t_id_fkey",
		"alter table t rename to": "alter table p rename to t", "alter table t add check": "alter table t drop constraint t_id_check",
	} {
		if strings.HasPrefix(sql, prefix) {
			w.run(undo)
		}
	}
}

// fingerprint tells what a shard has in its catalogs, but for weft's own.
const fingerprint = `with own as (select coalesce(array_agg(oid), '{}') as oids from pg_namespace where nspname in ('weft', 'weft_gate'))
select md5(string_agg(x, ',' order by x)) from (
select 'r' || relname || relkind::text from pg_class, own where pg_class.oid >= 16384 and relkind <> 't' and relname !~ '^pg_toast' and relnamespace <> all (own.oids)
union all select 'a' || c.relname || attname || atttypid::regtype || attnotnull from pg_attribute join pg_class c on c.oid = attrelid, own where attrelid >= 16384 and attnum > 0 and not attisdropped and c.relkind <> 't' and relname !~ '^pg_toast' and relnamespace <> all (own.oids)
union all select 'c' || conname || pg_get_constraintdef(pg_constraint.oid) from pg_constraint, own where pg_constraint.oid >= 16384 and connamespace <> all (own.oids)
union all select 'p' || proname || prosrc from pg_proc, own where pg_proc.oid >= 16384 and pronamespace <> all (own.oids)
union all select 't' || typname from pg_type, own where pg_type.oid >= 16384 and typname !~ 'toast' and typnamespace <> all (own.oids)
union all select 'n' || nspname from pg_namespace where nspname !~ '^pg_' and nspname not in ('weft', 'weft_gate')) s(x)`

// TestMadeBefore: what was made before the first declaration is there when a
// statement uses it inside the shards, and what mentions a table follows it.
func TestMadeBefore(t *testing.T) {
	w := newWorld(t, "made_before")
	w.run("create type mood as enum ('sad', 'fine')",
		"create function twice(x int) returns int language sql immutable as 'select x * 2'",
		"create aggregate addup(int) (sfunc = int4pl, stype = int, initcond = '0')",
		"create function near(a int, b int) returns bool language sql immutable as 'select abs(a - b) < 2'",
		"create operator <~> (leftarg = int, rightarg = int, function = near)",
		"create table t (id int primary key, n int)", "create table u (id int primary key, t_id int)", "create table h (id int primary key)",
		"insert into t select g, g from generate_series(1, 20) g", "insert into u select g, g from generate_series(1, 20) g",
		"create view big as select id, twice(n) as n from t where n > 10", "create view bigger as select b.id from big b join u using (id)",
		"create function of_u(i int) returns text language sql stable as 'select t_id::text from u where id = i'",
		"create function of_h() returns bigint language sql stable as 'select count(*) from h'",
		"select weft.shard_table('t', 'id')")
	w.all("select count(*)::text from pg_proc where proname in ('twice', 'addup', 'near')", "3")
	ask := func(sql, want string) {
		t.Helper()
		var got string
		if err := w.weft.QueryRow(context.Background(), sql).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", sql, got, err, want)
		}
	}
	ask("select addup(twice(n))::text from t", "420")
	ask("select string_agg(id::text, ',' order by id) from t where n <~> 7", "6,7,8")
	ask("select count(*)::text from big", "10")
	ask("select ('fine'::mood)::text from t where id = 5", "fine")
	if got := w.each("select count(*)::text from pg_proc where proname = 'of_u'"); !slices.Equal(got, []string{"1", "0", "0", "0"}) {
		t.Errorf("a function that reads a home table: %v", got)
	}
	w.run("select weft.shard_table('u', 'id')")
	w.all("select count(*)::text from pg_proc where proname = 'of_u'", "1")
	w.all("select count(*)::text from pg_class where relname = 'bigger'", "1")
	if got := w.each("select count(*)::text from pg_proc where proname = 'of_h'"); !slices.Equal(got, []string{"1", "0", "0", "0"}) {
		t.Errorf("a function that reads a home table: %v", got)
	}
	ask("select count(*)::text from bigger", "10")
	w.alike()
}

// TestConcurrently: what cannot run in a transaction says how far it is, and what
// to do when a shard fails; run again it finishes.
func TestConcurrently(t *testing.T) {
	w := newWorld(t, "concurrently")
	w.run("create table t (id int, v text) partition by range (id)", "create table t_1 partition of t for values from (0) to (1000)",
		"create table t_2 partition of t for values from (1000) to (2000)", "create table s (id int, v text)",
		"insert into s select g, 'v' || g from generate_series(1, 40) g", "select weft.shard_table('t', 'id')", "select weft.shard_table('s', 'id')")
	valid := "select coalesce((select indisvalid::text from pg_index where indexrelid = to_regclass('s_v')), 'none')"

	w.on(2, "create table s_v (x int)")
	w.told = nil
	w.fails("create index concurrently s_v on s (v)", "42P07")
	w.fails("create index concurrently s_v on s (v)", "Carried out on shard-0, shard-1; not yet on shard-2, shard-3")
	w.fails("create index concurrently s_v on s (v)", "run the same command again")
	if !slices.Contains(w.told, "2 of 4 shards have carried this out: shard-0, shard-1") {
		t.Errorf("told %q", w.told)
	}
	w.on(2, "drop table s_v")
	w.run("create index concurrently s_v on s (v)")
	w.all(valid, "true")
	w.fails("create index concurrently s_v on s (v)", "42P07")
	w.run("create index concurrently if not exists s_v on s (v)")
	w.run("reindex index concurrently s_v", "reindex table concurrently s", "vacuum s", "vacuum (analyze) s", "vacuum full s")
	w.on(3, "drop index s_v")
	w.run("drop index concurrently s_v")
	w.all(valid, "none")
	w.fails("drop index concurrently s_v", "42704")
	w.run("drop index concurrently if exists s_v")

	// A duplicate on one shard leaves an index there that is not valid.
	w.run("insert into s values (7, 'v7')")
	w.fails("create unique index concurrently s_v on s (id, v)", "23505")
	if got := w.each(valid); !slices.Contains(got, "false") {
		t.Errorf("no invalid index is left: %v", got)
	}
	w.run("delete from s where id = 7")
	w.run("create unique index concurrently s_v on s (id, v)")
	w.all(valid, "true")

	w.run("begin")
	w.fails("create index concurrently s_w on s (v)", "25001")
	w.run("rollback")

	w.on(1, "alter table t detach partition t_2 concurrently")
	w.run("alter table t detach partition t_2 concurrently")
	w.all("select count(*)::text from pg_inherits where inhrelid = 't_2'::regclass", "0")
	w.run("insert into t_2 values (1005, 'free')", "insert into t_2 values (1006, 'free')")
	w.fails("alter table t detach partition t_2 concurrently", "42P01")
	w.alike()
}
