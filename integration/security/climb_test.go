package security_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/integration/harness"
)

// climbs are the ways to other rights than one's own: each is tried by itself and
// inside a transaction. victim and the pool users are whom mallory must not become.
var climbs = []string{
	"RESET ROLE", "reset/**/role", "RESET\n--x\nROLE", `RESET "role"`, `RESET U&"r\006fle"`,
	"SET ROLE NONE", "set role none", "SET ROLE 'none'", `SET ROLE "none"`, "SET SESSION ROLE NONE", "SET LOCAL ROLE NONE",
	"SET role TO 'none'", "SET role = DEFAULT", "SET ROLE victim", `SET ROLE U&"v\0069ctim"`, "SET ROLE postgres",
	"SET SESSION AUTHORIZATION DEFAULT", "SET SESSION AUTHORIZATION victim", "SET SESSION AUTHORIZATION 'postgres'", "SET LOCAL SESSION AUTHORIZATION postgres",
	"SET SESSION SESSION AUTHORIZATION victim", "RESET SESSION AUTHORIZATION", "RESET session_authorization", "SET session_authorization TO victim",
	"DISCARD ALL", "RESET ALL", "SET session_authorization TO DEFAULT",
	"SELECT set_config('role', 'none', false)", "SELECT set_config('ro' || 'le', 'none', true)", "SELECT set_config('role', 'victim', false)",
	"SELECT set_config('session_authorization', 'victim', false)", "SELECT pg_catalog.set_config(E'\\x72ole', 'none', false)",
	"UPDATE pg_settings SET setting = 'none' WHERE name = 'role'", "UPDATE pg_settings SET setting = 'victim' WHERE name = 'session_authorization'",
	"ALTER ROLE mallory SET role = 'victim'", "ALTER ROLE mallory SET session_authorization = 'victim'", "ALTER ROLE victim PASSWORD 'x'", "ALTER ROLE mallory SUPERUSER",
	"GRANT victim TO mallory", "ALTER SYSTEM SET log_statement = 'all'",
	"DO $$ BEGIN RESET ROLE; END $$", "DO $$ BEGIN EXECUTE 'RES' || 'ET ROLE'; END $$", "DO $$ BEGIN EXECUTE 'SET ROLE vic' || 'tim'; END $$",
	"DO $$ BEGIN PERFORM set_config(chr(114) || 'ole', 'none', false); END $$", "DO $$ BEGIN EXECUTE 'SET SESSION AUTHORIZATION ' || 'DEFAULT'; END $$",
	"SELECT climb_dynamic('RESET ROLE')", "SELECT climb_dynamic('SET ROLE NONE')", "SELECT climb_dynamic('SET ROLE victim')", "SELECT climb_dynamic('RESET SESSION AUTHORIZATION')",
	"SELECT climb_definer('RESET ROLE')", "SELECT climb_clause()", "SELECT climb_sql()", "CALL climb_call()", "SELECT * FROM climb_view", "SELECT count(climb_dynamic('RESET ROLE')) FROM mine",
	"INSERT INTO mine VALUES (1001, 'x') ON CONFLICT DO NOTHING; SELECT climb_dynamic('RESET ROLE') FROM mine WHERE id = 1001",
	"PREPARE p AS SELECT set_config('role', $1, false); EXECUTE p('none'); DEALLOCATE p",
	"SELECT 1; RESET ROLE; SELECT 2", "BEGIN; RESET ROLE; COMMIT", "BEGIN; SAVEPOINT a; RESET ROLE; RELEASE a; COMMIT",
	"DECLARE c CURSOR WITH HOLD FOR SELECT climb_dynamic('RESET ROLE'); FETCH c; CLOSE c",
	"EXPLAIN ANALYZE SELECT climb_dynamic('RESET ROLE')", "SELECT query_to_xml('SELECT set_config(''role'', ''none'', false)', true, false, '')",
	"COPY (SELECT climb_dynamic('RESET ROLE')) TO STDOUT", "COPY mine FROM PROGRAM 'true'", "COPY mine TO '/tmp/x'", "SELECT pg_read_file('PG_VERSION')",
	"SELECT * FROM dblink('dbname=app user=postgres', 'SELECT 1') AS t(a int)",
	"CREATE TEMP TABLE tt AS SELECT climb_dynamic('RESET ROLE'); DROP TABLE tt",
	"WITH a AS MATERIALIZED (SELECT climb_dynamic('RESET ROLE')) SELECT m.id FROM mine m, a",
	"RELEASE x; RESET ROLE", "/* SET ROLE */ RESET /* x */ ROLE;;",
	"SET ROLE helper; RESET ROLE", "SET ROLE helper; SET ROLE NONE", "SELECT weft.schema_diff()",
}

// loot are statements that only victim may run: on each shard, on all, and over
// several in one commit.
var loot = []string{
	"SELECT s FROM secret WHERE id = 1", "SELECT s FROM secret WHERE id = 3", "SELECT count(*) FROM secret", "UPDATE secret SET s = 'mine now'",
	"SELECT s FROM secret WHERE id = 2", "SELECT s FROM secret WHERE id = 4", "SELECT s FROM secret WHERE id = 5",
	"SELECT m.s, x.s FROM mine m JOIN secret x ON x.s <> m.s", "INSERT INTO secret SELECT g, 'x' FROM generate_series(100, 120) g", "COPY secret TO STDOUT", "DROP TABLE secret",
}

var long = flag.Bool("long", false, "try everything on every shard and in transactions")

// TestClimb tries to get from mallory's rights to anybody else's, in every spelling,
// with weft logged in as mallory by what she has proved, and with a pool user.
func TestClimb(t *testing.T) {
	for _, mode := range []struct {
		name string
		user auth.User
	}{
		{"as the user", auth.User{Name: "mallory"}},
		{"pool user", auth.User{Name: "mallory", ServerUser: "pool_mallory", ServerPassword: poolPassword}},
	} {
		shards(t)
		mode.user.Password = world.mallory
		w := start(t, []auth.User{mode.user})
		for _, db := range []string{vault, plain} {
			t.Run(mode.name+"/"+db, func(t *testing.T) {
				for i, climb := range climbs {
					if db == vault && i%3 != 0 && !*long {
						continue // slower, and the same
					}
					tryClimb(t, w, db, climb)
					if *long || db == plain && i%2 == 0 {
						tryClimb(t, w, db, "BEGIN; SELECT count(*) FROM mine; "+climb)
					}
				}
				connect(t, w, "postgres", "").must("ALTER ROLE mallory RESET ALL")
			})
		}
	}
}

// tryClimb climbs and takes what it can.
func tryClimb(t *testing.T, w *harness.Target, db, climb string) {
	t.Helper()
	c := connect(t, w, "mallory", malloryPassword, "dbname="+db)
	c.say(climb)
	inside := c.conn.TxStatus() == 'T'
	take := loot
	switch {
	case *long:
	case inside:
		take = loot[:2]
	default:
		take = loot[:4]
	}
	for _, l := range take {
		if inside {
			c.must("SAVEPOINT here")
		}
		if got := c.say(l); got != "42501" && got != "25P02" {
			t.Errorf("%s: then %s: %s", climb, l, got)
		}
		if inside {
			c.must("ROLLBACK TO here")
		}
	}
	c.say("ROLLBACK")
	if got := c.say("SELECT current_user"); got != "mallory" && got != "helper" {
		t.Errorf("%s: the client is %s", climb, got)
	}
	if got := c.say("RESET ROLE; SELECT count(*) >= 20 FROM mine"); got != "t" {
		t.Errorf("%s: mallory's own rows: %s", climb, got)
	}
	_ = c.conn.Close(context.Background())
	if inside && !*long {
		return
	}
	// Whoever comes next is what it should be.
	next := connect(t, w, "mallory", malloryPassword, "dbname="+db)
	if got := next.say("SELECT current_user"); got != "mallory" {
		t.Errorf("%s: the next client is %s", climb, got)
	}
	_ = next.conn.Close(context.Background())
}

// TestClimbAtStartup tries the startup packet.
func TestClimbAtStartup(t *testing.T) {
	shards(t)
	for _, user := range []auth.User{
		{Name: "mallory", Password: world.mallory},
		{Name: "mallory", Password: world.mallory, ServerUser: "pool_mallory", ServerPassword: poolPassword},
	} {
		w := start(t, []auth.User{user})
		for _, option := range []string{
			"options='-c role=none'", "options='-c role=victim'", "options='-crole=postgres'", "options='--role=victim'", "options='-c session_authorization=victim'",
			"options='-c session_authorization=postgres'", "role=victim", "role=none", "session_authorization=victim", "options='-c is_superuser=on'",
		} {
			conn, err := pgconn.Connect(t.Context(), w.ConnString("mallory", "password="+malloryPassword, option))
			if err != nil {
				continue // refused is as good
			}
			c := &client{tb: t, conn: conn}
			if got := c.say("SELECT current_user, current_setting('is_superuser')"); got != "mallory,off" {
				t.Errorf("%s: %s", option, got)
			}
			_ = conn.Close(context.Background())
		}
	}
}

// TestClimbPipelined sends the climb and the theft in one go, by the extended
// protocol.
func TestClimbPipelined(t *testing.T) {
	shards(t)
	for _, user := range []auth.User{
		{Name: "mallory", Password: world.mallory},
		{Name: "mallory", Password: world.mallory, ServerUser: "pool_mallory", ServerPassword: poolPassword},
	} {
		w := start(t, []auth.User{user})
		for _, climb := range []string{"RESET ROLE", "SET ROLE NONE", "SET SESSION AUTHORIZATION DEFAULT", "SELECT climb_dynamic('RESET ROLE')", "SELECT set_config('role', 'none', false)"} {
			c := connect(t, w, "mallory", malloryPassword, "dbname="+plain)
			p := c.conn.StartPipeline(t.Context())
			p.SendQueryParams("BEGIN", nil, nil, nil, nil)
			p.SendQueryParams(climb, nil, nil, nil, nil)
			p.SendQueryParams("SELECT s FROM secret", nil, nil, nil, nil)
			if err := p.Sync(); err != nil {
				t.Fatal(err)
			}
			var failed error
			for {
				r, err := p.GetResults()
				if err != nil {
					failed = err
					break
				}
				if rr, ok := r.(*pgconn.ResultReader); ok {
					if res := rr.Read(); res.Err != nil {
						failed = res.Err
						break
					} else if len(res.Rows) > 0 && strings.HasPrefix(string(res.Rows[0][0]), "secret") {
						t.Errorf("%s: %s", climb, res.Rows[0][0])
					}
				} else {
					break
				}
			}
			if failed == nil || code(failed) != "42501" {
				t.Errorf("%s: %v", climb, failed)
			}
			_ = p.Close()
		}
	}
}

// TestPoolUserMustBeWeak: a pool user that can do more than the client's role is
// refused, because the client could do as much.
func TestPoolUserMustBeWeak(t *testing.T) {
	shards(t)
	w := start(t, []auth.User{
		{Name: "mallory", Password: world.mallory, ServerUser: "pool_both", ServerPassword: poolPassword},
		{Name: "victim", Password: world.victim, ServerUser: "pool_super", ServerPassword: poolPassword},
		{Name: "carol", Password: "x", Role: "mallory", ServerUser: "pool_mallory", ServerPassword: poolPassword},
		{Name: "dave", Password: "x", Role: "nobody_at_all", ServerUser: "pool_mallory", ServerPassword: poolPassword},
	})
	for _, tc := range []struct{ user, password, code, detail string }{
		{"mallory", malloryPassword, "28000", "it is a member of victim"},
		{"victim", victimPassword, "28000", "it is a superuser"},
		{"dave", "x", "22023", ""},
	} {
		_, err := pgconn.Connect(t.Context(), w.ConnString(tc.user, "password="+tc.password))
		e, ok := asPg(err)
		if !ok || e.Code != tc.code || !strings.Contains(e.Detail, tc.detail) {
			t.Errorf("%s: %v", tc.user, err)
		}
	}
	c := connect(t, w, "carol", "x")
	if got := c.say("SELECT current_user, session_user"); got != "mallory,pool_mallory" {
		t.Error(got)
	}
	// Rights of its own, one kind at a time. New connections find out.
	for _, tc := range []struct{ grant, revoke, detail string }{
		{"ALTER ROLE pool_mallory CREATEROLE", "ALTER ROLE pool_mallory NOCREATEROLE", "CREATEROLE"},
		{"ALTER ROLE pool_mallory CREATEDB", "ALTER ROLE pool_mallory NOCREATEDB", "CREATEDB"},
		{"ALTER ROLE pool_mallory REPLICATION", "ALTER ROLE pool_mallory NOREPLICATION", "REPLICATION"},
		{"ALTER ROLE pool_mallory BYPASSRLS", "ALTER ROLE pool_mallory NOBYPASSRLS", "BYPASSRLS"},
		{"GRANT pg_read_all_data TO pool_mallory", "REVOKE pg_read_all_data FROM pool_mallory", "pg_read_all_data"},
		{"GRANT mallory TO pool_mallory WITH ADMIN OPTION", "REVOKE ADMIN OPTION FOR mallory FROM pool_mallory", "may grant mallory"},
		{"CREATE TABLE granted(); GRANT SELECT ON granted TO pool_mallory", "DROP TABLE granted", "rights of its own"},
		{"CREATE TABLE owned(); ALTER TABLE owned OWNER TO pool_mallory", "DROP TABLE owned", "owns objects"},
		{"GRANT CREATE ON DATABASE app TO pool_mallory", "REVOKE CREATE ON DATABASE app FROM pool_mallory", "rights of its own"},
	} {
		onShard(t, 0, tc.grant)
		// Startup parameters of its own make a client need a new connection.
		_, err := pgconn.Connect(t.Context(), w.ConnString("carol", "password=x", fmt.Sprintf("options='-c work_mem=%dkB'", 64+time.Now().UnixNano()%100000)))
		if e, ok := asPg(err); !ok || e.Code != "28000" || !strings.Contains(e.Detail, tc.detail) {
			t.Errorf("%s: %v", tc.grant, err)
		}
		onShard(t, 0, tc.revoke)
	}
	if conn, err := pgconn.Connect(t.Context(), w.ConnString("carol", "password=x", "options='-c work_mem=100001kB'")); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close(context.Background())
	}
}
