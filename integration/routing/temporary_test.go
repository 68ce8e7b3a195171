package routing

import (
	"testing"

	"weft/integration/harness"
)

// TestTemporaryTwin makes temporary tables with the name of a sharded one, in
// every way, and drops them: names mean the temporary one while it is there,
// and the sharded one keeps its rows on every shard.
func TestTemporaryTwin(t *testing.T) {
	db, _ := pairs(t, "twin", 50)
	keys := keysOfShards(t, db, 3)
	look := func(k string) talk { return x(read, k) }
	fill := x("insert into pairs select $1, -1", keys[1])
	groups := []talk{
		look(keys[1]), x("create temp table pairs (k bigint, v bigint)"), fill, look(keys[1]), x("alter table pairs add column z int"),
		x("drop table pairs"), look(keys[0]), look(keys[1]), look(keys[2]),
		all(x("begin"), look(keys[1])), x("create temp table pairs (k bigint, v bigint) on commit drop"), fill, look(keys[1]), x("commit"), look(keys[1]),
		x("create temp table pairs (k bigint, v bigint)"), look(keys[2]), x("discard temp"), look(keys[2]), look(keys[1]),
		x("create temp table pairs as select 1 as v, 2 as k"), look("2"), x("alter table pairs rename to twin"), look(keys[1]), x("drop table twin"), look(keys[0]),
	}
	want := converse(t, harness.Postgres(t), db, groups)
	got := converse(t, harness.Weft(t), db, groups)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("group %d:\nPostgreSQL %s\nweft       %s", i, want[i], got[i])
		}
	}
}
