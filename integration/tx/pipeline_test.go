package tx

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPipelineUndone: whatever follows a write in a pipeline, and whatever weft has
// to find out about it first, an error behind it undoes that write.
func TestPipelineUndone(t *testing.T) {
	w := newWorld(t, "undone", 1)
	c := w.conn(0)
	conns := []*pgx.Conn{c, w.conn(0, "default_query_exec_mode=exec")}
	must(t, c, "create table other (id bigint primary key, v int default 1, at timestamptz default now())")
	must(t, c, "select weft.shard_table('other', 'id')")
	second := []string{
		"insert into other (id) values (1), (2), (3), (4), (5), (6)",
		"insert into other (id, v) values (1, 1 + 1), (2, 2), (3, 3) returning v",
		"insert into other (id) select id from acct",
		"insert into other (id, v) select id * 2, 2 from acct",
		"update acct set note = now()::text",
		"update acct set note = (select max(v)::text from home)",
		"update other set v = a.balance from acct a where a.balance = other.v",
		"delete from acct where note = 'none'",
		"delete from acct where id in (select v from ref)",
		"merge into other o using (select id, balance from acct) a on a.id = o.id when not matched then insert values (a.id, 1)",
		"with d as (delete from other returning id) insert into home select id + 100, 1 from d",
		"update ref set v = v + 1",
		"insert into ref values (100, 1)",
		"insert into ref select id + 1000, balance from acct",
		"select count(*) from acct",
		"select a.id from acct a join other o on o.v = a.balance",
		"select id from acct for update",
		"select id, now() from acct order by balance, id limit 3",
		"create index on acct (note)",
		"alter table other add column x int",
		"explain update acct set note = ''",
		"explain analyze update acct set note = ''",
		"explain (analyze, costs off) select count(*) from acct",
		"select pg_advisory_xact_lock(1)",
		"update other set id = id + 1000",
		"select weft.verify_reference('ref')",
	}
	for i := range shards {
		for _, sql := range second {
			// A text that nobody knows yet: how the portal is described differs.
			sql += fmt.Sprintf(" -- %d", i)
			c := conns[i%len(conns)]
			var b pgx.Batch
			b.Queue(take, w.keys[i][0])
			b.Queue(sql)
			b.Queue("select 1 / (select 0)")
			ctx, stop := context.WithTimeout(context.Background(), patience)
			err := c.SendBatch(ctx, &b).Close()
			stop()
			if got := code(err); got != "22012" {
				t.Errorf("shard %d, %s: %v", i, sql, err)
			}
			if got := w.total(); got != accounts*1000 {
				t.Fatalf("shard %d, %s: %d in all", i, sql, got)
			}
		}
	}
	if n := value[int](t, c, "select (select count(*) from other) + (select count(*) from ref) + (select count(*) from acct where note is not null)"); n != 10 {
		t.Errorf("%d rows", n)
	}
	w.quiet()
}
