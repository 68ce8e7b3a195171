package routing

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestBystanders: clients that touch other tables, or none, notice nothing while tables
// are declared and dropped through their proxy and through another.
func TestBystanders(t *testing.T) {
	db := database(t, "bystanders")
	one, two := pair.Connect(t, harness.Weft(t), db, "postgres"), second(t, db)
	one.Must(t, "create table kept (k int primary key, v int)")
	one.Must(t, "create table lo (id int primary key, val int)")
	one.Must(t, "create function plus(x int) returns int language sql as 'select x + 1'")
	one.Must(t, "insert into kept select g, g from generate_series(1, 20) g")
	one.Must(t, "insert into lo select g, g from generate_series(1, 20) g")
	one.Must(t, "select weft.shard_table('kept', 'k')")
	texts := [][]string{
		{"set timezone = 'UTC'", "select current_setting('timezone')", "show timezone", "begin", "commit", "select plus(1)"},
		{"prepare z as select 1", "execute z", "deallocate z"},
		{"select v from kept where k = 3", "update kept set v = v + 1 where k = 4", "select count(*) from kept", "insert into kept values (100, 1) on conflict do nothing", "delete from kept where k = 100"},
		{"select val from lo where id = 3", "update lo set val = val + 1 where id = 4", "insert into lo values (100, 1) on conflict do nothing", "delete from lo where id = 100"},
		{"begin", "select v from kept where k = 5", "update lo set val = 1 where id = 6", "commit"},
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	for i, list := range texts {
		peers := []*pair.Peer{pair.Connect(t, harness.Weft(t), db, "postgres"), pair.Connect(t, harness.Weft(t), db, "postgres")}
		for j, mode := range []pair.Mode{pair.Simple, pair.Prepared} {
			if i == 1 && mode == pair.Prepared {
				continue // two names for one thing
			}
			wg.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-over:
						if n%len(list) == 0 { // nobody waits for a block
							return
						}
					default:
					}
					if a := peers[j].Ask(mode, list[n%len(list)], nil, nil); a.Code != "" {
						t.Errorf("%s, %s: %s %s", list[n%len(list)], mode, a.Code, a.Message)
						return
					}
				}
			})
		}
	}
	for n, end := 0, time.Now().Add(5*time.Second); time.Now().Before(end) && !t.Failed(); n++ {
		peer, name := []*pair.Peer{one, two}[n%2], fmt.Sprintf("passing%d", n)
		peer.Must(t, "create table "+name+" (id int primary key, v int check (v > 0), unique (id, v))")
		peer.Must(t, "insert into "+name+" select g, g from generate_series(1, 9) g")
		peer.Must(t, "select weft.shard_table('"+name+"', 'id')")
		peer.Must(t, "drop table "+name)
	}
	close(over)
	wg.Wait()
}
