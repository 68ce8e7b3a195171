package move

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestDeclareLargeChild: a large table whose foreign key references a table that is sharded already is declared with
// the table locked, because the foreign key has been off since: a notice says so. online => true is refused.
func TestDeclareLargeChild(t *testing.T) {
	w := plain(t, "online_child", 2)
	c, other := w.conn(0), w.conn(1)
	w.must(c, "insert into ord (cust, n, body) select i % 100 + 1, i, repeat('x', 1000) from generate_series(5001, 15000) i")
	const sum = "select count(*), sum(n), sum(length(body)) from ord"
	before := w.dump(c, sum)
	w.must(c, "select weft.shard_table('cust', 'id', online => false)")
	w.refused(c, "select weft.shard_table('ord', 'cust', online => true)", "0A000", "sharded already")
	w.refused(c, "select weft.shard_table('ord', 'cust', cascade => true)", "0A000", "sharded already")

	config := c.Config().Copy()
	var notices []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }
	told, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = told.Close(context.Background()) }()
	w.must(told, "select weft.shard_table('ord', 'cust')")
	if all := strings.Join(notices, "; "); !strings.Contains(all, "is locked while its rows are copied") || !strings.Contains(all, "sharded already") {
		t.Errorf("the notices are %s", all)
	}
	for _, c := range []*pgx.Conn{c, other} {
		if after := w.dump(c, sum); after != before {
			t.Errorf("%s before, %s after", before, after)
		}
		w.refused(c, "insert into ord (cust, n) values (99999, 1)", "23503", "")
	}
	w.spread("ord")
	w.must(c, "select weft.shard_table('item', 'cust')")
	w.must(c, "delete from cust where id = 17")
	if n := value[int](w, other, "select (select count(*) from ord where cust = 17) + (select count(*) from item where cust = 17)"); n != 0 {
		t.Errorf("%d rows of a customer who is gone", n)
	}

	// Nothing keeps a large table without foreign keys from being declared online, and nobody need ask for it.
	w.must(c, "insert into alone (id, email) select i, repeat('y', 1000) || i from generate_series(5001, 15000) i")
	w.must(c, "select weft.shard_table('alone', 'id')")
	if n := value[int](w, c, "select count(*) from weft.moves where kind = 'declare' and state = 'done'"); n != 1 {
		t.Errorf("%d jobs have declared a table", n)
	}
	w.spread("alone")

	// The way home: alone with the table locked, together online.
	w.must(c, "select weft.unshard_table('item')")
	w.must(c, "select weft.shard_table('item', 'cust')")
	before = w.dump(c, sum)
	w.must(c, "select weft.unshard_table('cust', cascade => true)")
	for _, c := range []*pgx.Conn{c, other} {
		if after := w.dump(c, sum); after != before {
			t.Errorf("%s before, %s at home", before, after)
		}
		w.refused(c, "insert into ord (cust, n) values (99999, 1)", "23503", "")
	}
	w.settled(c)
}

// TestDeclareCode: a trigger that writes another sharded table keeps a table from being apart from it. Large tables are locked then.
func TestDeclareCode(t *testing.T) {
	w := plain(t, "online_code", 2)
	c, other := w.conn(0), w.conn(1)
	w.must(c, `create table tally (id bigint primary key, n int not null default 0); insert into tally select id from alone;
		create function counted() returns trigger language plpgsql as $$ begin update tally set n = n + 1 where id = new.id; return null; end $$;
		create trigger counts after update on alone for each row execute function counted()`)
	w.must(c, "insert into alone (id, email) select i, repeat('y', 1000) || i from generate_series(5001, 15000) i")
	touch := func(want int) {
		t.Helper()
		for i, c := range []*pgx.Conn{c, other} {
			w.must(c, "update alone set n = n + 1 where id = 17")
			if n := value[int](w, c, "select n from tally where id = 17"); n != want+i {
				t.Errorf("the trigger has counted %d of %d", n, want+i)
			}
		}
	}
	w.must(c, "select weft.shard_table('tally', 'id')")
	w.refused(c, "select weft.shard_table('alone', 'id', online => true)", "0A000", "apart from those of other sharded tables")
	w.must(c, "select weft.shard_table('alone', 'id')")
	if n := value[int](w, c, "select count(*) from weft.moves"); n != 0 {
		t.Errorf("%d jobs", n)
	}
	w.spread("alone")
	touch(1)
	w.refused(c, "select weft.unshard_table('tally', online => true)", "0A000", "apart")
	w.refused(c, "select weft.unshard_table('alone', online => true)", "0A000", "apart")
	w.must(c, "select weft.unshard_table('alone', online => false)")
	w.must(c, "select weft.unshard_table('tally', online => false)")
	touch(3)
	w.must(c, "select weft.shard_tables('alone.id, tally.id')") // together they are never apart
	touch(5)
	w.settled(c)
}

// TestDeclareLargeBucket: a table is declared although a bucket takes longer than max_pause, unless the caller has bounded
// the pauses.
func TestDeclareLargeBucket(t *testing.T) {
	w := plain(t, "online_bucket", 1)
	c := w.conn(0)
	w.must(c, `create function slow(n int) returns boolean immutable language plpgsql as 'begin perform pg_sleep(0.03); return true; end'`)
	for _, table := range []string{"heavy", "bounded"} {
		w.must(c, "create table "+table+" (tenant int, n int check (slow(n)), primary key (tenant, n))")
		for tenant := range 8 { // some of them leave home
			w.must(c, "insert into "+table+" select $1, i from generate_series(1, 25) i", tenant)
		}
	}
	w.must(c, "select weft.shard_table('heavy', 'tenant', online => true)")
	if n := value[int](w, c, "select count(*) from heavy"); n != 200 {
		t.Errorf("%d rows", n)
	}
	if n := value[int](w, c, "select count(*) from weft.moves where state = 'done' and given_up >= 2 and pause_max_ms > 500"); n != 1 {
		t.Error("no round has given way: the test tests nothing")
	}
	w.must(c, "select weft.shard_table('bounded', 'tenant', online => true, max_pause => '500ms', wait => false)")
	w.until(c, "select exists (select from weft.moves where state = 'running' and given_up >= 4 and blocked_by like '%max_pause is over%')")
	w.must(c, "select weft.cancel_move($1)", value[string](w, c, "select job from weft.moves where state = 'running'"))
	w.until(c, "select not exists (select from weft.moves where state in ('running', 'preparing', 'finishing'))")
	if n := value[int](w, c, "select count(*) from bounded"); n != 200 {
		t.Errorf("%d rows", n)
	}
	w.settled(c)
}

// TestMoveIndex: the rounds of a job find the rows of a large table by an index, also if nobody has analyzed the table
// yet. The index goes with the job.
func TestMoveIndex(t *testing.T) {
	w := newWorld(t, "move_index", 1)
	c := w.conn(0)
	w.must(c, "alter table line set (autovacuum_enabled = off)")
	w.must(c, fmt.Sprintf("insert into line select i %% %d + 1, i, repeat('x', 1000) from generate_series(1, 40000) i", accounts))
	indexes := func(want bool) {
		t.Helper()
		n := 0
		for _, s := range w.proxies[0].Shards() {
			d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
			if err != nil {
				t.Fatal(err)
			}
			n += value[int](w, d, "select count(*) from pg_indexes where tablename = 'line' and indexname like 'weft move%'")
			_ = d.Close(context.Background())
		}
		if (n > 0) != want {
			t.Errorf("%d indexes of the job", n)
		}
	}
	job := value[string](w, c, "select weft.move_buckets($1, $2, until => 1)", fmt.Sprintf("0-%d", bucketCount(t)-1), names(t)[1])
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	indexes(true)
	w.must(c, "select weft.resume_moves()")
	w.must(c, "select weft.wait_move($1)", job)
	indexes(false)
	w.settled(c)
}
