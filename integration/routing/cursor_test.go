package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestCursorsOnShards: cursors of one block may be on different shards, and are told apart
// by their names as PostgreSQL tells them.
func TestCursorsOnShards(t *testing.T) {
	db := database(t, "cursors_shards")
	p := newPair(t, db)
	p.Both(t, "setup", "create table t (k int primary key, v int)")
	p.Both(t, "setup", "insert into t select g, g from generate_series(1, 40) g")
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	var all []string
	for _, k := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		one := " cursor for select v from t where k = " + k
		all = append(all, "begin", `declare "my cur"`+one, `fetch "my cur"`, `move backward 1 in "my cur"`, `close "my cur"`, `fetch "my cur"`, "rollback",
			"begin", "declare c"+one, `declare "C" cursor for select v from t where k = 9 - `+k, "fetch c", `fetch "C"`, `update t set v = v + 1 where current of "C" returning k`, "rollback",
			"begin", "declare c cursor for select v from t where k = 5", "declare d"+one, "close all", "fetch c", "rollback",
			"begin", "declare c cursor for select v from t where k = 5", "declare d"+one, "close all", "fetch d", "rollback",
			"begin", "declare c cursor for select v from t where k = 5", "declare c"+one, "rollback",
			"begin", "savepoint s", "declare c cursor for select v from t where k = 5", "rollback to s", "declare c"+one, "fetch c", "rollback",
			"begin", "declare c cursor for select v from t where k = 5", "close c", "declare c"+one, "fetch c", "commit")
	}
	all = append(all, "begin", "declare c cursor for select count(*) from t", "declare d cursor for select v from t where k = 5", "declare e cursor for select v from t where k = 6", "close all",
		"declare c cursor for select v from t where k = 7", "fetch c", "fetch d", "rollback",
		"begin", "declare c cursor for select count(*) from t", "declare c cursor for select v from t where k = 7", "rollback",
		"begin", "declare c cursor for select v from t where k = 7", "declare c cursor for select count(*) from t", "rollback")
	for _, mode := range []pair.Mode{pair.Simple, pair.Text, pair.Prepared} {
		for _, sql := range all {
			// CLOSE ALL in extended messages is refused if it concerns several shards.
			closes := mode != pair.Simple && sql == "close all"
			if wrong, _, got := p.Run(mode, sql, nil); wrong != "" && !closes || got.Refused() && !closes {
				t.Errorf("%s: %s: %s%s", mode, sql, wrong, got.Message)
			}
		}
	}
	// A prepared FETCH is of whatever cursor has the name by then, before and after DDL.
	for _, sql := range []string{
		"begin", "declare c cursor for select v from t where k = 5", "fetch 1 c", "rollback", "create table other (a int)",
		"begin", "declare c cursor for select v, k, 'x' from t where k = 6", "fetch 1 c", "rollback", "create index on t (v)",
		"begin", "declare c cursor for select k::text from t where k = 7", "fetch 1 c", "rollback",
	} {
		if wrong, _, got := p.Run(pair.Prepared, sql, nil); wrong != "" || got.Refused() {
			t.Errorf("prepared: %s: %s%s", sql, wrong, got.Message)
		}
	}
	for _, sql := range []string{"begin", "declare c cursor for select k, v from t where k < 9 for update", "fetch c"} {
		p.Weft.Must(t, sql)
	}
	if a := p.Weft.Ask(pair.Simple, "update t set v = 0 where current of c", nil, nil); !a.Refused() {
		t.Errorf("a cursor over several shards: %q %s", a.Code, a.Message)
	}
	p.Weft.Must(t, "rollback")
}
