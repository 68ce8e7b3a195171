package routing

import (
	"fmt"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
	"weft/pgserver/pgtest"
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
	p := pair.Connect(t, target, db, "postgres")
	p.Must(t, "create table e (id bigserial primary key, v text); create table home (a int)")
	p.Must(t, "select weft.shard_table('e', 'id')")
	work := func(from int) {
		t.Helper()
		q := pair.Connect(t, target, db, "postgres")
		for k := from; k < from+20; k++ {
			q.Must(t, fmt.Sprintf("insert into e (v) values ('%d')", k))
			if a := q.Ask(pair.Prepared, "select v from e where id = $1", []pair.Param{{Type: "int8", Text: ptr(fmt.Sprint(k))}}, nil); a.Code != "" || len(a.Results[0].Rows) != 1 || a.Results[0].Rows[0] != fmt.Sprintf("%d | ", k) {
				t.Fatalf("%d: %s %v", k, a.Message, a.Results)
			}
		}
		q.Must(t, "begin; update e set v = v where id = 3; commit")
		q.Must(t, "insert into home values (1)")
		q.Must(t, "select count(*) from pg_class")
	}
	work(1)
	stopEtcd()
	time.Sleep(500 * time.Millisecond)
	work(21)
	started := time.Now()
	for _, sql := range []string{"select weft.shard_table('home', 'a')", "alter table e add column w int"} {
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code == "" || a.Code == "?????" {
			t.Errorf("%s without etcd: %q %s", sql, a.Code, a.Message)
		}
	}
	if d := time.Since(started); pgtest.Late(t, d, 15*time.Second) {
		t.Errorf("refusing takes %s", d)
	}
	work(41)
}
