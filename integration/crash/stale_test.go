package crash

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// TestQueued: a statement that was planned before a table was declared, and that
// waited for a connection meanwhile, goes where the rows are now.
func TestQueued(t *testing.T) {
	together(t)
	w := newWorld(t, "c_queued", func(c *config.Config) { c.Pool.MaxPerShard = 3 })
	w.proxy(nil)
	setup := w.conn(1)
	must(t, setup, "create table q (id bigint primary key, v bigint not null default 0); create table other (a int); create table decl (id bigint primary key)")
	must(t, setup, "insert into q select i from generate_series(1, 100) i")
	declare(t, setup, "select weft.shard_table('decl', 'id')") // so that all is planned
	var readers, writers []*pgx.Conn
	for i := range 5 {
		readers, writers = append(readers, w.conn(0)), append(writers, w.conn(0))
		must(t, readers[i], "select v from q where id = 1")
		must(t, writers[i], "select v from q where id = 1")
	}
	var holders []*pgx.Conn
	for range 3 {
		c := w.conn(0)
		must(t, c, "begin")
		must(t, c, "select * from other")
		holders = append(holders, c)
	}
	type result struct {
		what string
		n    int64
		err  error
	}
	done := make(chan result)
	for i := range 5 {
		go func() {
			tag, err := writers[i].Exec(context.Background(), fmt.Sprintf("insert into q values (%d)", 1000+i))
			done <- result{"insert", tag.RowsAffected(), err}
		}()
		go func() {
			tag, err := readers[i].Exec(context.Background(), fmt.Sprintf("select v from q where id = %d", 1+i))
			done <- result{"select", tag.RowsAffected(), err}
		}()
	}
	time.Sleep(500 * time.Millisecond)
	must(t, setup, "select weft.shard_table('q', 'id')")
	for _, c := range holders {
		must(t, c, "commit")
	}
	for range 10 {
		if r := <-done; r.err != nil || r.n != 1 {
			t.Errorf("%s: %d rows, %v", r.what, r.n, r.err)
		}
	}
	if got := w.rowsOf("q"); len(got) != 105 {
		t.Errorf("%d rows of 105", len(got))
	}
}

// TestPaused: a proxy that stood still while others changed the cluster without
// it looks again before it serves.
func TestPaused(t *testing.T) {
	together(t)
	w := newWorld(t, "c_paused", nil)
	w.proxy(nil)
	setup := w.conn(1)
	must(t, setup, "create table p (id bigint primary key, v bigint not null default 0); create table decl (id bigint primary key)")
	must(t, setup, "insert into p select i from generate_series(1, 100) i")
	declare(t, setup, "select weft.shard_table('decl', 'id')")
	const n = 20
	var conns []*pgx.Conn
	for i := range n {
		conns = append(conns, w.conn(0))
		must(t, conns[i], "select v from p where id = 1")
	}
	w.weft[0].Signal(t, syscall.SIGSTOP)
	began := time.Now()
	must(t, setup, "select weft.shard_table('p', 'id')")
	t.Logf("declared without the paused proxy after %s", time.Since(began).Round(time.Millisecond))
	type result struct {
		what string
		n    int64
		err  error
	}
	done := make(chan result)
	for i, c := range conns {
		sql := fmt.Sprintf("select v from p where id = %d", 1+i)
		if i%2 == 1 {
			sql = fmt.Sprintf("insert into p values (%d)", 1000+i)
		}
		go func() {
			tag, err := c.Exec(context.Background(), sql)
			done <- result{sql, tag.RowsAffected(), err}
		}()
	}
	time.Sleep(300 * time.Millisecond)
	w.weft[0].Signal(t, syscall.SIGCONT)
	for range n {
		if r := <-done; r.err != nil || r.n != 1 {
			t.Errorf("%s: %d rows, %v", r.what, r.n, r.err)
		}
	}
	if got := w.rowsOf("p"); len(got) != 100+n/2 {
		t.Errorf("%d rows of %d", len(got), 100+n/2)
	}
}

// TestCutOff: a proxy that alone has lost etcd serves again what holds when it
// is back. Until then it answers from the last snapshot, as all do that have
// lost etcd, while those that have not may declare tables without it: its
// answers lack rows then. Only fencing on the shards themselves can prevent it.
func TestCutOff(t *testing.T) {
	if *rounds < 2 {
		t.Skip("waits for a lease to end; what it shows is known")
	}
	w := newWorld(t, "c_cutoff", nil)
	w.proxy(nil)
	setup := w.conn(1)
	must(t, setup, "create table p (id bigint primary key, v bigint not null default 0); create table decl (id bigint primary key)")
	must(t, setup, "insert into p select i from generate_series(1, 100) i")
	declare(t, setup, "select weft.shard_table('decl', 'id')")
	c := w.conn(0)
	must(t, c, "select v from p where id = 1")
	w.wire[0].freeze()
	began := time.Now()
	must(t, setup, "select weft.shard_table('p', 'id')")
	t.Logf("declared without the proxy after %s", time.Since(began).Round(time.Millisecond))
	missing := 0
	for k := 1; k <= 20; k++ {
		tag, err := c.Exec(context.Background(), fmt.Sprintf("select v from p where id = %d", k))
		if err == nil && tag.RowsAffected() != 1 {
			missing++
		}
	}
	t.Logf("%d of 20 rows missing through the proxy that has lost etcd", missing)
	w.wire[0].reconnect()
	time.Sleep(5 * time.Second)
	for k := 1; k <= 20; k++ {
		tag, err := c.Exec(context.Background(), fmt.Sprintf("select v from p where id = %d", k))
		if err != nil || tag.RowsAffected() != 1 {
			t.Errorf("after it is back: %v %v", tag, err)
		}
	}
}
