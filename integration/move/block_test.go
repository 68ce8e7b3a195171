package move

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestDeclareInBlock: a migration makes tables, declares them and uses them in one transaction. What it declares takes
// effect with COMMIT, and not with ROLLBACK.
func TestDeclareInBlock(t *testing.T) {
	w := newWorld(t, "block", 2)
	c, other := w.conn(0), w.conn(1)
	ctx := context.Background()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
		name := "note_" + map[bool]string{true: "simple", false: "extended"}[mode == pgx.QueryExecModeSimpleProtocol]
		run := func(tx pgx.Tx, sql string) {
			t.Helper()
			if _, err := tx.Exec(ctx, sql, mode); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		for _, end := range []string{"rollback", "commit"} {
			tx, err := c.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			run(tx, "create table "+name+" (acct bigint not null, n bigint not null, body text, primary key (acct, n))")
			run(tx, "create table "+name+"_kind (id int primary key, name text)")
			run(tx, "select weft.shard_table('"+name+"', 'acct')")
			run(tx, "savepoint s")
			run(tx, "select weft.reference_table('"+name+"_kind')")
			run(tx, "rollback to s")
			run(tx, "alter table "+name+" add foreign key (acct) references acct (id)")
			run(tx, "insert into "+name+" select i, 1, 'x' from generate_series(1, 50) i")
			var n int
			if err := tx.QueryRow(ctx, "select count(*) from acct join "+name+" on acct = id", mode).Scan(&n); err != nil || n != 50 {
				t.Errorf("%d rows inside the block: %v", n, err)
			}
			run(tx, end)
			if n := value[int](w, c, "select count(*) from weft.tables where name = $1", name); n != map[string]int{"rollback": 0, "commit": 1}[end] {
				t.Errorf("%s: %d declarations", end, n)
			}
			if n := value[int](w, other, "select count(*) from pg_class where relname = $1", name); n != map[string]int{"rollback": 0, "commit": 1}[end] {
				t.Errorf("%s: %d tables", end, n)
			}
		}
		w.spread(name)
		for _, c := range []*pgx.Conn{c, other} {
			if n := value[int](w, c, "select count(*) from acct join "+name+" on acct = id"); n != 50 {
				t.Errorf("%d rows", n)
			}
		}
		w.refused(c, "insert into "+name+" (acct, n) values (99999, 1)", "23503", "")
		if n := value[int](w, c, "select count(*) from weft.tables where name = $1", name+"_kind"); n != 0 {
			t.Error("a declaration that was rolled back to a savepoint is in force")
		}
	}
	w.settled(c)

	refused := func(code, match string, texts ...string) {
		t.Helper()
		w.must(c, "begin")
		for _, sql := range texts[:len(texts)-1] {
			w.must(c, sql)
		}
		w.refused(c, texts[len(texts)-1], code, match)
		w.refused(c, "select 1", "25P02", "")
		w.must(c, "rollback")
	}
	refused("0A000", "has rows", "create table full_table (id bigint primary key)", "insert into full_table values (1)", "select weft.shard_table('full_table', 'id')")
	refused("0A000", "does not contain the shard key", "create table with_email (id bigint primary key, email text unique deferrable)", "select weft.shard_table('with_email', 'id')")
	refused("55006", "pending trigger events", "create table bay (id int primary key, acct bigint not null references acct deferrable initially deferred)",
		"select weft.shard_table('bay', 'acct', foreign_keys => 'shard')", "insert into bay values (1, 1)",
		"create table bed (id int primary key, acct bigint not null, bay int references bay)", "select weft.shard_table('bed', 'acct', foreign_keys => 'shard')")
	refused("42703", "does not exist", "create table other_table (id bigint primary key)", "select weft.shard_table('other_table', 'key')")
	refused("42710", "already declared", "select weft.shard_table('acct', 'id')")
	refused("25001", "transaction block", "select weft.unshard_table('acct')")
}

// TestDeclareInBlockViews: views go to the other shards with the last of the tables that they read, made before
// the block or in it. What cannot follow keeps the table from being declared there.
func TestDeclareInBlockViews(t *testing.T) {
	w := newWorld(t, "block_views", 2)
	c, other := w.conn(0), w.conn(1)
	w.must(c, `create table part (id bigint primary key, color text); create table stock (part bigint, n int, amount int, primary key (part, n)); create table home_only (id int primary key);
		create view parts as select id as part, color from part; create view colors as select color, count(*) from parts group by color;
		create view stocked as select p.color, s.* from parts p join stock s using (part); create view mixed as select p.* from part p, home_only`)
	w.must(c, "begin")
	w.must(c, "select weft.shard_table('part', 'id')")
	w.must(c, "create view few as select * from stocked where amount < 5")
	w.must(c, "insert into parts select i, 'c' || i % 3 from generate_series(1, 60) i")
	w.must(c, "select weft.shard_table('stock', 'part')")
	w.must(c, "insert into stock select i, 1, i % 10 from generate_series(1, 60) i")
	w.must(c, "commit")
	for _, c := range []*pgx.Conn{c, other} {
		w.must(c, "update parts set color = color where part < 30")
		w.must(c, "update parts set color = color || 'x' where part = 7")
		for sql, want := range map[string]int{"select sum(count)::int from colors": 60, "select count(*) from stocked": 60, "select count(*) from few": 30, "select count(*) from mixed": 0} {
			if n := value[int](w, c, sql); n != want {
				t.Errorf("%s: %d, not %d", sql, n, want)
			}
		}
	}
	for i, s := range w.proxies[0].Shards()[1:] {
		d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
		if err != nil {
			t.Fatal(err)
		}
		if n := value[int](w, d, "select count(*) from pg_views where schemaname = 'public'"); n != 4 {
			t.Errorf("%d views on shard %d", n, i+1)
		}
		_ = d.Close(context.Background())
	}

	for name, made := range map[string]string{
		"mentions": "create function mentions() returns bigint language sql as $$ select count(*) from late $$",
		"taken":    "create function taken(late) returns bigint language sql as 'select $1.id'",
	} {
		w.must(c, "begin")
		w.must(c, "create table late (id bigint primary key)")
		w.must(c, made)
		w.refused(c, "select weft.shard_table('late', 'id')", "0A000", "function .*"+name+".* is about \"late\"")
		w.must(c, "rollback")
	}
	w.settled(c)
}
