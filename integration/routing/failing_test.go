package routing

import "testing"

// TestFailingTexts: what fails over several shards fails at the message where it fails on
// one server: before its result is described if planning finds out, after it if rows do.
func TestFailingTexts(t *testing.T) {
	db, _ := pairs(t, "failing", 50)
	sameTexts(t, db,
		"select 1/0 from pairs", "select k, 1/0 from pairs order by k", "select count(*) + 1/0 from pairs", "select 1/(k-k) from pairs",
		"select sum(v) from pairs group by k/0", "select 'x'::int from pairs", "select nosuch from pairs", "select v from pairs where k = 1/0",
		"update pairs set n = 1/0 returning n", "update pairs set n = 1/(k-k) returning n", "delete from pairs where 1/0 = k returning k",
		"insert into pairs (k, v) values (1000, 1), (1001, 1/0), (1002, 2) returning k", "insert into pairs (k, v) values (1003, 1), (1, 1), (1004, 2) returning k",
		"insert into pairs (k, v) select k, 1 from pairs returning k", "select count(*) from pairs",
	)
}
