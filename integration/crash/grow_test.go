package crash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/directory"
)

// TestStaleGrow: a proxy that does not hear that the number of buckets has grown, and that half of some old buckets have moved
// then, answers right or not at all, and writes no row to where it does not belong.
func TestStaleGrow(t *testing.T) {
	w := newWorld(t, "c_grow", quietly)
	w.proxy(quietly)
	c := w.conn(1)
	const keys = 100
	must(t, c, "create table g (id bigint primary key, v bigint not null default 0)")
	must(t, c, fmt.Sprintf("insert into g select i from generate_series(1, %d) i", keys))
	declare(t, c, "select weft.shard_table('g', 'id')")
	stale := w.conn(0)
	added := map[int]int64{}
	// count adds one to every key through the proxy that may be stale, and counts what was refused.
	count := func(when string) (refused int) {
		for k := 1; k <= keys; k++ {
			if stale.IsClosed() {
				stale = w.conn(0)
			}
			tag, err := stale.Exec(t.Context(), "update g set v = v + 1 where id = $1", k)
			switch {
			case err == nil && tag.RowsAffected() == 1:
				added[k]++
			case err == nil:
				t.Errorf("%s: an update of key %d changed %d rows", when, k, tag.RowsAffected())
			case slices.Contains(gone, code(err)) || code(err) == "?":
				refused++
			default:
				t.Errorf("%s: key %d: %v", when, k, err)
			}
		}
		return refused
	}
	count("before")
	w.wire[0].freeze()
	before := w.snapshot().BucketCount
	must(t, c, fmt.Sprintf("select weft.grow_buckets(%d)", 2*before)) // waits until the proxy's lease is over
	t.Logf("%d of %d updates refused by the stale proxy while no row has moved", count("grown"), keys)

	snap := w.snapshot()
	var odd []string
	for _, b := range bucketsOn(snap.PlacementOf(w.db, ""), 1) {
		if b%2 == 1 {
			odd = append(odd, fmt.Sprint(b))
		}
	}
	if snap.BucketCount != 2*before || len(odd) == 0 {
		t.Fatalf("%d buckets, of which %v move", snap.BucketCount, odd)
	}
	job := value[string](t, c, "select weft.move_buckets($1, $2, max_pause => '5s')", strings.Join(odd, ","), snap.Shards[2].Name)
	must(t, c, "select weft.wait_move($1)", job)
	refused := count("moved")
	t.Logf("%d of %d updates refused by the stale proxy when half of some buckets have moved", refused, keys)
	if refused == 0 {
		t.Error("the shards have let the stale proxy in")
	}
	w.wire[0].reconnect()
	within(t, patience, "the proxy is listed again", func() bool {
		list, err := w.store.Proxies(t.Context())
		return err == nil && slices.ContainsFunc(list, func(p directory.Proxy) bool { return p.Address == w.weft[0].Addr })
	})
	within(t, patience, "the proxy serves again", func() bool { return count("back") == 0 })
	rows, _ := c.Query(t.Context(), "select * from weft.verify_placement()")
	if found, err := pgx.CollectRows(rows, pgx.RowToMap); err != nil || len(found) != 1 || found[0]["misplaced"] != "0" {
		t.Errorf("%v, %v", found, err)
	}
	for k := 1; k <= keys; k++ {
		if v := value[int64](t, c, "select v from g where id = $1", k); v < added[k] {
			t.Errorf("key %d was changed %d times, and has %d", k, added[k], v)
		}
	}
	if n := value[int](t, w.conn(0), "select count(*)::int from g"); n != keys {
		t.Errorf("%d rows of %d", n, keys)
	}
}
