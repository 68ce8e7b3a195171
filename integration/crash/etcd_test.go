package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
)

// TestEtcd: while etcd is silent, one-shard statements go on at full speed, and
// what would change the cluster is refused before anything has been done. When
// it is back every proxy serves what holds, as if nothing had been.
func TestEtcd(t *testing.T) {
	together(t)
	w := newWorld(t, "c_etcd", nil)
	w.proxy(nil)
	w.shop()
	setup := w.conn(0)
	must(t, setup, "create table l (tenant bigint primary key, v bigint); create table home (id bigint primary key, v bigint not null default 0)")
	declare(t, setup, "select weft.shard_table('l', 'tenant', vindex => 'lookup', name => 'tenants')")
	must(t, setup, "insert into l values (1, 1)")
	must(t, setup, "insert into home select i from generate_series(1, 10) i")
	ways := []struct {
		name string
		down func(*cable)
	}{{"frozen", (*cable).freeze}, {"cut", (*cable).sever}}
	if *rounds == 1 {
		ways = ways[:1]
	}
	for i, way := range ways {
		conns := []*pgx.Conn{w.conn(0), w.conn(1)}
		for _, c := range conns {
			must(t, c, "select v from s where id = 1")
			must(t, c, "select v from l where tenant = 1")
		}
		for _, c := range w.wire {
			way.down(c)
		}
		// At once: nobody has noticed yet.
		for _, sql := range []string{
			fmt.Sprintf("alter table s add column x%d int", i), "select weft.shard_table('home', 'id')", fmt.Sprintf("insert into l values (%d, 1)", 100+i),
			"select weft.pin('tenants', 7, 'shard-1')",
		} {
			began := time.Now()
			got, err := exec(conns[0], patience, sql)
			if d := time.Since(began); got != "55000" || pgtest.Late(t, d, 8*time.Second) {
				t.Errorf("%s: %s: %q %v after %s", way.name, sql, got, err, d.Round(time.Millisecond))
			}
		}
		var slowest time.Duration
		n := 0
		for end := time.Now().Add(time.Second); time.Now().Before(end); n++ {
			began := time.Now()
			c := conns[n%2]
			must(t, c, "update s set v = v + 1 where id = $1", n%100+1)
			must(t, c, "select v from l where tenant = 1")
			must(t, c, "update home set v = v + 1 where id = $1", n%10+1)
			slowest = max(slowest, time.Since(began))
		}
		if pgtest.Late(t, slowest, time.Second) {
			t.Errorf("%s: a statement took %s", way.name, slowest)
		}
		t.Logf("%s: %d rounds of three statements in a second, the slowest %s", way.name, n, slowest.Round(time.Millisecond))
		for shard := range w.any.Shards() {
			if n := value[int](t, w.eye(shard), "select count(*) from pg_attribute where attrelid = 's'::regclass and attnum > 0"); n != 2 {
				t.Errorf("%s: shard %d has %d columns: refused, and yet done", way.name, shard, n)
			}
		}
		for _, c := range w.wire {
			c.reconnect()
		}
		within(t, 15*time.Second, way.name+": changes are taken again", func() bool {
			got, _ := exec(conns[0], patience, fmt.Sprintf("insert into l values (%d, 1)", 200+i))
			return got == ""
		})
		for _, c := range conns {
			tag, err := c.Exec(context.Background(), fmt.Sprintf("select v from l where tenant = %d", 200+i))
			if err != nil || tag.RowsAffected() != 1 {
				t.Errorf("%s: a proxy does not know the new value: %v %v", way.name, tag, err)
			}
		}
	}
	within(t, 15*time.Second, "tables are declared again", func() bool {
		got, _ := exec(setup, patience, "select weft.shard_table('home', 'id')")
		return got == ""
	})
	if got := w.rowsOf("home"); len(got) != 10 {
		t.Errorf("%d rows of 10", len(got))
	}
	w.clean("home")
}
