package routing

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
)

// TestForeignEncoding sends texts that are no UTF-8. They must not be taken for
// mistakes that the home shard shall tell: it would run them.
func TestForeignEncoding(t *testing.T) {
	db, _ := pairs(t, "encoding", 50)
	k := keysOfShards(t, db, 2)
	// What weft reads of the schema has characters that the client's encoding lacks.
	for _, target := range []*harness.Target{harness.Postgres(t), harness.Weft(t)} {
		c := target.Connect(t, "postgres", "dbname="+db)
		for _, sql := range []string{
			"create function strange() returns text language sql as $$ select 'ﷺ…'::text $$", "create table \"ﷺ\" (\"…\" int default length('…'))", "create type \"t…\" as (a int)",
		} {
			if _, err := c.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	query := func(sql string) talk { return talk{&pgproto3.Query{String: sql}} }
	for _, sql := range []string{
		"select v, '\xe9' from pairs where k = " + k[1], "update pairs set n = length('\xe9') where k = " + k[1] + " returning n",
		"select v as \"\xe9\" from pairs where k = " + k[1], "select '\xe9'", "select relname, '\xe9' from pg_class where relname = 'pg_class'",
	} {
		groups := []talk{query("set client_encoding = 'LATIN1'"), query(sql), query("select v from pairs where k = " + k[1])}
		want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
		for i := range want {
			refused := strings.HasPrefix(got[i], "0A000") && strings.Contains(sql, "pairs")
			if want[i] != got[i] && !refused {
				t.Errorf("%q, group %d:\nPostgreSQL %q\nweft       %q", sql, i, want[i], got[i])
			}
		}
	}
}

// TestSettingFromRow sets a parameter to a value of one shard's row in a block:
// statements on other shards must see it, or be refused.
func TestSettingFromRow(t *testing.T) {
	db, _ := pairs(t, "setting", 50)
	k := keysOfShards(t, db, 2)
	groups := []talk{x("begin"), x("select set_config('my.v', v::text, false) from pairs where k = $1", k[0]), x("select v, current_setting('my.v', true) from pairs where k = $1", k[1])}
	want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
	for i := range want {
		if want[i] != got[i] && !strings.HasPrefix(got[i], "0A000") {
			t.Errorf("group %d:\nPostgreSQL %q\nweft       %q", i, want[i], got[i])
		}
	}
}

// TestSettingOfFunction sets parameters by functions in a block: statements on other shards
// see them.
func TestSettingOfFunction(t *testing.T) {
	db, p := pairs(t, "setting_function", 50)
	p.Both(t, "schema", "create function tenant(t text, l bool) returns void language plpgsql as $$ begin perform set_config('my.tenant', t, l); end $$")
	p.Both(t, "schema", "create function untenant() returns void language plpgsql as $$ begin perform set_config('my.tenant', '', false); set local work_mem = '3MB'; end $$")
	k := keysOfShards(t, db, 3)
	const sees = "select current_setting('my.tenant', true), current_setting('work_mem'), v from pairs where k = $1"
	const everywhere = "select k, current_setting('my.tenant', true) from pairs where k < 10 order by k"
	begin, commit, rollback := x("begin"), x("commit"), x("rollback")
	for name, groups := range map[string][]talk{
		"local":      {begin, x("select tenant('a', true)"), x(sees, k[0]), x(sees, k[1]), x(everywhere), commit, x(sees, k[1])},
		"session":    {begin, x("select tenant('a', false)"), x(sees, k[1]), x("select tenant('b', false)"), x(sees, k[1]), x(sees, k[2]), commit, x(sees, k[1])},
		"rolledback": {begin, x("select tenant('a', false)"), x(sees, k[1]), rollback, x(sees, k[1])},
		"changed":    {x("select tenant('a', false)"), begin, x(sees, k[1]), x("select untenant()"), x(sees, k[1]), x(sees, k[2]), commit, x(sees, k[1])},
		"savepoint":  {begin, x(sees, k[1]), x("savepoint s"), x("select tenant('a', true)"), x(sees, k[1]), x("rollback to s"), x(sees, k[1]), x(sees, k[2]), commit},
		"pipeline":   {all(begin, x("select tenant('a', true)"), x(sees, k[1]), x(sees, k[2]), commit), x(sees, k[1])},
		"simple":     {query("begin; select tenant('a', true); " + "select k, current_setting('my.tenant', true) from pairs where k = " + k[1]), query("commit")},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
			for i := range want {
				if want[i] != got[i] {
					t.Errorf("group %d:\nPostgreSQL %q\nweft       %q", i, want[i], got[i])
				}
			}
		})
	}
}
