package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestCursorsOnlyForward: a cursor over several shards that PostgreSQL reads forward only,
// whatever its plan, is read forward only.
func TestCursorsOnlyForward(t *testing.T) {
	p := newPair(t, database(t, "cursor_forward"))
	p.Both(t, "setup", "create table t (k int primary key, v int)")
	p.Both(t, "setup", "insert into t select g, 7 from generate_series(1, 20) g")
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	for _, declared := range []string{
		"declare c cursor for select v from t for update", "declare c cursor for select v from t where k in (1, 2, 3, 4) for share", "declare c cursor for select v, count(*) from t group by v",
		"declare c cursor for select sum(k) from t having count(*) > 2", "declare c scroll cursor for select v, count(*) from t group by v", "declare c cursor with hold for select v from t group by v",
		"declare c no scroll cursor for select v from t", "declare c cursor for select k from t order by k", "declare c cursor for select v from t",
	} {
		for _, mode := range []pair.Mode{pair.Simple, pair.Prepared} {
			p.Both(t, "begin", "begin")
			for _, sql := range []string{declared, "move 2 in c", "select is_scrollable from pg_cursors", "move backward 1 in c"} {
				if wrong, _, got := p.Run(mode, sql, nil); wrong != "" || got.Refused() {
					t.Errorf("%s, %s, %s: %s%s", declared, sql, mode, wrong, got.Message)
				}
			}
			p.Both(t, "end", "rollback")
		}
	}
}
