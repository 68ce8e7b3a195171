package crash

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestEntries: a new value of a lookup in etcd gets its entry before its row is stored.
// A proxy that dies in between leaves an entry without a row, which says where the row
// would be: it is not found, and can be stored by anybody, one row or many.
func TestEntries(t *testing.T) {
	together(t)
	w := newWorld(t, "c_entries", nil)
	w.proxy(nil)
	w.proxy(nil)
	setup := w.conn(2)
	must(t, setup, "create table tenants (name text primary key, v bigint)")
	declare(t, setup, "select weft.shard_table('tenants', 'name', vindex => 'lookup_unique', name => 'names')")
	count := func() int {
		n, err := w.store.CountEntries(context.Background(), "names")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, way := range []struct {
		name  string
		write func(c *pgx.Conn)
	}{
		{"rows", func(c *pgx.Conn) {
			_, _ = c.Exec(context.Background(), "insert into tenants values ('r1', 1), ('r2', 2), ('r3', 3), ('r4', 4), ('r5', 5)")
		}},
		{"copy", func(c *pgx.Conn) {
			_, _ = c.PgConn().CopyFrom(context.Background(), strings.NewReader("c1\t1\nc2\t2\nc3\t3\nc4\t4\nc5\t5\n"), "copy tenants from stdin")
		}},
	} {
		before := count()
		// Whoever stores them waits: somebody has such rows everywhere.
		var locks []*pgx.Conn
		for shard := range w.any.Shards() {
			c := w.direct(shard)
			must(t, c, "begin")
			must(t, c, "insert into tenants select $1 || i, 0 from generate_series(1, 5) i", way.name[:1])
			locks = append(locks, c)
		}
		done := make(chan struct{})
		c := w.conn(i)
		go func() {
			defer close(done)
			way.write(c)
		}()
		within(t, patience, way.name+": the entries are there", func() bool { return count() == before+5 })
		within(t, patience, way.name+": the rows wait", func() bool {
			n := 0
			for shard := range w.any.Shards() {
				n += value[int](t, w.eye(shard), "select count(*) from pg_locks k join pg_stat_activity a using (pid) where a.datname = current_database() and not k.granted")
			}
			return n > 0
		})
		w.weft[i].Signal(t, syscall.SIGKILL)
		<-done
		for _, c := range locks {
			must(t, c, "rollback")
		}
		name := way.name[:1] + "3"
		within(t, patience, way.name+": the dead one's backends are gone", func() bool {
			n := 0
			for shard := range w.any.Shards() {
				n += value[int](t, w.eye(shard), "select count(*) from pg_stat_activity where state <> 'idle' and pid <> pg_backend_pid() and backend_type = 'client backend' and datname = current_database()")
			}
			return n == 0
		})
		if n := value[int](t, setup, "select count(*) from tenants where name = $1", name); n != 0 {
			t.Errorf("%s: %d rows of a statement that nobody committed", way.name, n)
		}
		must(t, setup, "insert into tenants values ($1, 30), ($2, 40)", name, way.name[:1]+"9")
		if v := value[int](t, setup, "select v from tenants where name = $1", name); v != 30 {
			t.Errorf("%s: %d is found", way.name, v)
		}
		if got, _ := exec(setup, patience, "insert into tenants values ($1, 31)", name); got != "23505" {
			t.Errorf("%s: a second row: %q", way.name, got)
		}
		if n := count(); n != before+6 {
			t.Errorf("%s: %d entries are new", way.name, n-before)
		}
	}
}
