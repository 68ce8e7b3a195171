package routing

import (
	"slices"
	"testing"

	"weft/integration/harness"
)

// TestRenameInBlock renames and drops a sharded table inside transactions, and
// takes that back in every way: statements must find its rows by the name it
// has at that moment, in the transaction and for everybody after it.
func TestRenameInBlock(t *testing.T) {
	db, _ := pairs(t, "rename", 50)
	k := keysOfShards(t, db, 3)
	begin, commit, rollback := x("begin"), x("commit"), x("rollback")
	away, home := x("alter table pairs rename to other"), x("alter table other rename to pairs")
	other := x("select v from other where k = $1", k[1])
	for name, groups := range map[string][]talk{
		"used in the block":          {begin, away, other, x("update other set n = n + 1 where k = $1 returning n", k[1]), home, x(look, k[1]), commit},
		"rolled back":                {begin, away, other, rollback},
		"one pipeline":               {all(begin, away, other, home, commit)},
		"savepoint":                  {begin, x("savepoint s"), away, other, x("rollback to s"), x(read, k[1]), commit},
		"savepoint, released":        {begin, x("savepoint s"), away, x("release s"), other, commit, other, home},
		"savepoints inside another":  {begin, away, x("savepoint s"), x("savepoint s"), home, x("rollback to savepoint s"), x("rollback to s"), other, commit, other, home},
		"savepoint, failed":          {begin, x("savepoint s"), away, x("select 1 / 0"), x("rollback to s"), x(read, k[1]), commit},
		"column":                     {begin, x("alter table pairs rename k to kk"), x("select v from pairs where kk = $1", k[1]), x("alter table pairs rename kk to k"), commit},
		"column, savepoint":          {begin, x("savepoint s"), x("alter table pairs rename k to kk"), x("rollback to s"), x(read, k[1]), commit},
		"dropped, savepoint":         {begin, x("savepoint s"), x("drop table pairs"), x("rollback to s"), x(read, k[1]), commit},
		"dropped and taken back":     {begin, x("drop table pairs"), rollback},
		"dropped and failed":         {begin, x("drop table pairs"), x("select 1 / 0"), commit},
		"refused while it is opened": {begin, x("alter table pairs rename to nosuch.other"), commit},
	} {
		t.Run(name, func(t *testing.T) {
			after := []talk{x(read, k[0]), x(read, k[1]), x(look, k[1]), x(read, k[2])}
			for _, groups := range [][]talk{groups, after} {
				want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
				if !slices.Equal(want, got) {
					t.Errorf("\nPostgreSQL %q\nweft       %q", want, got)
				}
			}
		})
	}
}
