package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestRollbackToWithoutShards: a block that fails before a shard has joined it has no
// savepoints.
func TestRollbackToWithoutShards(t *testing.T) {
	p := newPair(t, database(t, "rollback_to"))
	p.Both(t, "setup", "create table t (k int primary key, v int)")
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	for _, mode := range pair.Ways {
		for _, sql := range []string{"rollback to x", `rollback to savepoint "X y"`, "rollback", "rollback to x"} {
			p.Both(t, "begin", "begin")
			p.Plain.Ask(pair.Simple, "select 1/0", nil, nil)
			p.Weft.Ask(pair.Simple, "set weft.scatter = maybe", nil, nil)
			for _, sql := range []string{sql, "select 1", "rollback"} {
				if wrong, _, _ := p.Run(mode, sql, nil); wrong != "" {
					t.Errorf("%s, %s: %s", sql, mode, wrong)
				}
			}
			p.Both(t, "end", "rollback")
		}
	}
}
