package routing

import (
	"fmt"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
)

// TestEtcdAway: without etcd weft serves from its last snapshot, ids included,
// and refuses only what would change the cluster.
func TestEtcdAway(t *testing.T) {
	db := database(t, "etcd")
	endpoint, stopEtcd := harness.StartEtcd(t)
	target := harness.StartWeft(t, func(c *config.Config) {
		c.Etcd.Endpoints = []string{endpoint}
		c.Etcd.Timeout = 2 * time.Second
	})
	p := connect(t, target, db, "postgres")
	p.must(t, "create table e (id bigserial primary key, v text); create table home (a int)")
	p.must(t, "select weft.shard_table('e', 'id')")
	work := func(from int) {
		t.Helper()
		q := connect(t, target, db, "postgres")
		for k := from; k < from+20; k++ {
			q.must(t, fmt.Sprintf("insert into e (v) values ('%d')", k))
			if a := q.ask(prepared, "select v from e where id = $1", []param{{"int8", ptr(fmt.Sprint(k))}}, nil); a.code != "" || len(a.results[0].rows) != 1 || a.results[0].rows[0] != fmt.Sprintf("%d | ", k) {
				t.Fatalf("%d: %s %v", k, a.message, a.results)
			}
		}
		q.must(t, "begin; update e set v = v where id = 3; commit")
		q.must(t, "insert into home values (1)")
		q.must(t, "select count(*) from pg_class")
	}
	work(1)
	stopEtcd()
	time.Sleep(500 * time.Millisecond)
	work(21)
	started := time.Now()
	for _, sql := range []string{"select weft.shard_table('home', 'a')", "alter table e add column w int"} {
		if a := p.ask(simple, sql, nil, nil); a.code == "" || a.code == "?????" {
			t.Errorf("%s without etcd: %q %s", sql, a.code, a.message)
		}
	}
	if d := time.Since(started); d > 15*time.Second {
		t.Errorf("refusing takes %s", d)
	}
	work(41)
}
