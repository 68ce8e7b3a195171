package tx

import (
	"fmt"
	"sync"
	"testing"
)

// TestCrowd: statements over all shards that change the same rows come one after the other, as on
// one server. On all shards at once they would wait for each other crosswise. There is one row on each
// shard: several of one server may be locked in another order by whoever sees them elsewhere.
func TestCrowd(t *testing.T) {
	w := newWorld(t, "crowd", 2)
	home := w.conn(0)
	must(t, home, "create table crowd (id bigint primary key, n int not null)")
	must(t, home, "select weft.shard_table('crowd', 'id')")
	values := ""
	for i, keys := range w.keys {
		values += fmt.Sprintf("%s(%d, 0)", []string{"", ", "}[min(i, 1)], keys[0])
	}
	must(t, home, "insert into crowd values "+values)
	const clients, times = 6, 8
	for name, sql := range map[string]string{
		"update":     "update crowd set n = n + 1",
		"returning":  "update crowd set n = n + 1 where id > 0 returning id, n",
		"upsert":     "insert into crowd values " + values + " on conflict (id) do update set n = crowd.n + 1",
		"and return": "insert into crowd values " + values + " on conflict (id) do update set n = crowd.n + 1 returning n",
		"for update": "select id from crowd for update",
	} {
		t.Run(name, func(t *testing.T) {
			before := value[int64](t, home, "select sum(n) from crowd")
			var wg sync.WaitGroup
			for i := range clients {
				c := w.conn(i % 2)
				wg.Go(func() {
					for range times {
						if _, err := c.Exec(t.Context(), sql); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			want := int64(0)
			if name != "for update" {
				want = clients * times * shards
			}
			if got := value[int64](t, home, "select sum(n) from crowd") - before; got != want {
				t.Errorf("%d changes, want %d", got, want)
			}
		})
	}
}
