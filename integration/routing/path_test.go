package routing

import (
	"fmt"
	"testing"

	"weft/integration/pair"
)

// TestPathOfBlock: a block on any one shard changes its search_path, or its role. Names mean what they mean there, also on shards that join later.
func TestPathOfBlock(t *testing.T) {
	db := database(t, "path_of_block")
	p := newPair(t, db)
	for _, sql := range []string{
		"create schema other", "create table here (k int primary key, v text)", "create table other.here (k int primary key, v text)", "create table other.sole (k int primary key, v text)",
		"create table other.home (k int primary key)", "insert into other.home values (1), (2)",
		"drop role if exists path_owner", "create role path_owner", "create schema path_owner", "grant all on schema other, path_owner to path_owner", "create table path_owner.own (k int primary key)",
		"grant all on all tables in schema public, other, path_owner to path_owner",
	} {
		p.Both(t, "setup", sql)
	}
	for _, table := range []string{"here", "other.here", "other.sole", "path_owner.own"} {
		declare(t, p, pair.Statement{SQL: fmt.Sprintf("select weft.shard_table('%s', 'k')", table)})
	}
	for _, sql := range []string{
		"insert into here select g, 'public' from generate_series(1, 12) g", "insert into other.here select g, 'other' from generate_series(1, 12) g",
		"insert into other.sole select g, 'sole' from generate_series(1, 12) g", "insert into path_owner.own select g from generate_series(1, 12) g",
	} {
		p.Both(t, "data", sql)
	}
	both := func(what, sql string) {
		t.Helper()
		if wrong, want, got := p.Run(pair.Simple, sql, nil); wrong != "" || got.Refused() {
			t.Errorf("%s: %s: %s\nPostgreSQL %+v\nweft       %+v", what, sql, wrong, want, got)
		}
	}
	for k := 1; k <= 12; k++ {
		for _, set := range []string{
			"set local search_path = other", "set search_path = other", "select set_config('search_path', 'other', true)", "set local role path_owner; set local search_path = \"$user\", other",
		} {
			for _, sql := range []string{
				"begin", fmt.Sprintf("select v from public.here where k = %d", k), set, fmt.Sprintf("select v from sole where k = %d", k), "rollback",
				"begin", fmt.Sprintf("select v from public.here where k = %d", k), "savepoint s", set,
				fmt.Sprintf("select v from here where k = %d", k), fmt.Sprintf("select v from sole where k = %d", k), fmt.Sprintf("select v from sole where k = %d", 13-k),
				"select count(*) from sole", "select count(*) from home", fmt.Sprintf("update sole set v = 'new' where k = %d returning v", k),
				"rollback to s", fmt.Sprintf("select v from here where k = %d", k), "select count(*) from here", "rollback",
			} {
				both(set, sql)
			}
		}
		for _, sql := range []string{
			"begin", fmt.Sprintf("select v from here where k = %d", k), "set local role path_owner", fmt.Sprintf("select k from own where k = %d", k), "select count(*) from own", "commit",
			fmt.Sprintf("select v from here where k = %d", k),
		} {
			both("role", sql)
		}
	}
}
