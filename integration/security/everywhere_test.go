package security_test

import (
	"context"
	"testing"

	"weft/pgserver/pgtest"
)

// TestRolesFromAnywhere: what changes roles goes to all shards, also from a database that
// has no declared tables of its own.
func TestRolesFromAnywhere(t *testing.T) {
	w := start(t, nil)
	admin := connect(t, w, "postgres", "", "dbname=postgres")
	extended := func(sql string) {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		if r := admin.conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read(); r.Err != nil {
			t.Fatalf("%s: %v", sql, r.Err)
		}
	}
	const state = `SELECT coalesce(string_agg(concat_ws('/', r.rolname, r.rolcanlogin, r.rolpassword, r.rolconnlimit, s.setconfig,
		(SELECT string_agg(m.roleid::regrole::text, ',') FROM pg_auth_members m WHERE m.member = r.oid)), '; ' ORDER BY r.rolname), '')
		FROM pg_authid r LEFT JOIN pg_db_role_setting s ON s.setrole = r.oid WHERE r.rolname LIKE 'abroad%'`
	for _, tc := range []struct {
		by  func(string)
		sql string
	}{
		{admin.must, "CREATE ROLE abroad LOGIN PASSWORD 'marked-abroad'"},
		{extended, "CREATE USER abroad2"},
		{extended, "ALTER ROLE abroad PASSWORD 'marked-abroad-2'"},
		{admin.must, "ALTER ROLE abroad CONNECTION LIMIT 5"},
		{admin.must, "ALTER ROLE abroad SET work_mem = '5MB'"},
		{admin.must, "GRANT abroad TO abroad2"},
		{extended, "ALTER USER abroad2 RENAME TO abroad3"},
		{admin.must, "REVOKE abroad FROM abroad3"},
		{admin.must, "DROP ROLE abroad, abroad3"},
	} {
		before := askShard(t, 0, state)
		tc.by(tc.sql)
		home := askShard(t, 0, state)
		if home == before {
			t.Errorf("%s changed nothing", tc.sql)
		}
		for j := range world.target.Shards() {
			if got := askShard(t, j, state); got != home {
				t.Errorf("after %s shard %d has %q, the home shard %q", tc.sql, j, got, home)
			}
		}
	}
	// A block of such a database is the home shard's alone, and what it made can go.
	admin.must("BEGIN; CREATE ROLE abroad; COMMIT")
	admin.must("DROP ROLE abroad")
	if got := admin.say("DROP ROLE abroad"); got != "42704" {
		t.Error(got)
	}
	last := len(world.target.Shards()) - 1
	onShard(t, last, "CREATE ROLE abroad")
	defer onShard(t, last, "DROP ROLE abroad")
	if got := admin.say("CREATE ROLE abroad"); got != "42710" {
		t.Errorf("one that another shard has: %s", got)
	}
	if got := askShard(t, 0, "SELECT count(*)::text FROM pg_roles WHERE rolname = 'abroad'"); got != "0" {
		t.Errorf("the home shard has %s", got)
	}
}
