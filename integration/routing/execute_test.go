package routing

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
)

// TestExecuteExtended: SQL's EXECUTE of statements on sharded tables, as drivers send it that use the extended
// protocol for everything.
func TestExecuteExtended(t *testing.T) {
	db, _ := pairs(t, "executed", 50)
	query := func(sql string) talk { return talk{&pgproto3.Query{String: sql}} }
	parse := func(name, sql string) talk {
		return talk{&pgproto3.Parse{Name: name, Query: sql}, &pgproto3.Describe{ObjectType: 'S', Name: name}}
	}
	groups := []talk{
		x("prepare one (bigint) as select k, v from pairs where k = $1"), x("prepare every as select count(*), sum(v) from pairs"),
		x("prepare change (bigint, bigint) as update pairs set n = n + $2 where k < $1"),
		x("execute one (3)"), x("execute one (4)"), x("execute every"), x("execute change (10, 5)"), x("execute change (1, -1)"), x("execute nosuch (1)"),
		x("execute one"), x("execute one ('x')"),
		query("select sum(n) from pairs"), query("begin"), x("execute change (20, 1)"), x("execute every"), query("rollback"), query("select sum(n) from pairs"),
		parse("s", "execute one (7)"), again("s"), again("s"), append(x("execute one (8)"), x("execute every")...),
		query("deallocate one"), again("s"), query("prepare one (bigint) as select v from pairs where k = $1 + 1"), x("execute one (3)"),
	}
	want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
	for i := range want {
		// An error may come with the Parse, where PostgreSQL has it for the Execute.
		if want[i] != got[i] && !(strings.HasSuffix(got[i], " I") && len(got[i]) == len("00000 I") && strings.HasSuffix(want[i], got[i])) {
			t.Errorf("group %d %v\nPostgreSQL %q\nweft       %q", i, groups[i], want[i], got[i])
		}
	}
	// Where PostgreSQL takes an argument for none of the parameter's type, weft must not.
	for _, sql := range []string{"execute one (true)", "execute one ('3'::text)", "execute one (5::bigint)", "execute one (5.4)", "execute one (b'1')"} {
		asked := []talk{x("prepare one (bigint) as select k, v from pairs where k = $1"), x(sql)}
		want, got := converse(t, harness.Postgres(t), db, asked), converse(t, harness.Weft(t), db, asked)
		if got[1] != want[1] && !strings.Contains(got[1], "0A000") {
			t.Errorf("%s: PostgreSQL %q, weft %q", sql, want[1], got[1])
		}
	}
	// A name that means something else: the new statement, or a refusal, never the old one.
	again := append(groups, again("s"))
	want, got = converse(t, harness.Postgres(t), db, again), converse(t, harness.Weft(t), db, again)
	if last := len(want) - 1; got[last] != want[last] && !strings.HasPrefix(got[last], "0A000") {
		t.Errorf("after another PREPARE: PostgreSQL %q, weft %q", want[last], got[last])
	}
}
