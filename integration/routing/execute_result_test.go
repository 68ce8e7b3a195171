package routing

import (
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestExecuteAfterChange: SQL's EXECUTE of a statement whose result has become another
// says so, as PostgreSQL does; where it is still the same, it goes on.
func TestExecuteAfterChange(t *testing.T) {
	db := database(t, "execute_result")
	p := newPair(t, db)
	other := &pair.Pair{Plain: pair.Connect(t, harness.Postgres(t), db, "postgres"), Weft: pair.Connect(t, harness.Weft(t), db, "postgres"), Counts: p.Counts}
	p.Both(t, "setup", "create table t (k int primary key, v int)")
	p.Both(t, "setup", "insert into t select g, g from generate_series(1, 20) g")
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	for _, sql := range []string{
		"prepare every as select * from t order by k", "prepare one(int) as select * from t where k = $1", "prepare total as select sum(v) from t",
		"prepare put(int) as insert into t values ($1, 0) returning *", "prepare quiet as update t set v = v + 1 where k < 5",
	} {
		p.Both(t, "prepare", sql)
	}
	executes := []string{"execute every", "execute one(3)", "execute total", "execute put(100)", "execute quiet", "explain (costs off) execute one(3)", "delete from t where k = 100"}
	for _, change := range []struct {
		by  *pair.Pair
		sql string
	}{
		{p, ""},
		{other, "alter table t add column w int"},
		{p, "alter table t drop column w"},
		{p, "alter table t alter column v type bigint"},
		{other, "alter table t alter column v type int"},
		{other, "create index on t (v)"},
	} {
		if change.sql != "" {
			change.by.Both(t, "change", change.sql)
		}
		for _, sql := range executes {
			a, b := p.Plain.Ask(pair.Simple, sql, nil, nil), p.Weft.Ask(pair.Simple, sql, nil, nil)
			if sql[0] == 'e' && sql[2] == 'p' { // plans are not alike
				a.Results, b.Results = nil, nil
			}
			if d := pair.Diff(a, b, false); d != "" {
				t.Errorf("after %q: %s: %s", change.sql, sql, d)
			}
		}
	}
	pair.SameTables(t, db, nil)
}
