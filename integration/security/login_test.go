package security_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// try connects and returns "" or the SQLSTATE it was turned away with.
func try(t *testing.T, w *harness.Target, user, password string, more ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	conn, err := pgconn.Connect(ctx, w.ConnString(user, append(more, "password="+password)...))
	if err != nil {
		return code(err)
	}
	_ = conn.Close(ctx)
	return ""
}

func onEveryShard(t *testing.T, sql string) {
	t.Helper()
	for i := range world.target.Shards() {
		onShard(t, i, sql)
	}
}

// TestProofIsPassedOn: weft knows verifiers alone, shards ask for SCRAM, and
// statements go to all of them.
func TestProofIsPassedOn(t *testing.T) {
	w := start(t, nil, func(c *config.Config) { c.Auth.AuthQuery = "default" })
	c := connect(t, w, "mallory", malloryPassword, "dbname="+vault)
	if got := c.say("SELECT current_user, session_user, count(*) FROM mine"); !strings.HasPrefix(got, "mallory,mallory,") {
		t.Error(got)
	}
	c.must("UPDATE mine SET s = 'written' WHERE id <= 20") // on all, in two phases
	if got := try(t, w, "mallory", "wrong"); got != "28P01" {
		t.Error(got)
	}
	// Another verifier on one shard is said, not tried.
	onShard(t, 1, fmt.Sprintf("ALTER ROLE mallory PASSWORD '%s'", verifierOf(t, malloryPassword)))
	defer onShard(t, 1, fmt.Sprintf("ALTER ROLE mallory PASSWORD '%s'", world.mallory))
	fresh := start(t, nil, func(c *config.Config) { c.Auth.AuthQuery = "default" })
	other := connect(t, fresh, "mallory", malloryPassword, "dbname="+vault)
	if got := other.say("SELECT count(*) FROM mine"); got != "28000" {
		t.Error(got)
	}
}

// TestRoleByOneCommand: a role and its password made through weft are the same on
// all shards, so that its proof is good on all.
func TestRoleByOneCommand(t *testing.T) {
	w := start(t, nil, func(c *config.Config) { c.Auth.AuthQuery = "default" })
	admin := connect(t, w, "postgres", "", "dbname="+vault)
	admin.must(fmt.Sprintf("CREATE ROLE newcomer LOGIN PASSWORD '%s'", verifierOf(t, "marked-newcomer-pw")))
	defer func() {
		admin.must("REVOKE ALL ON mine FROM newcomer")
		admin.must("DROP ROLE newcomer")
	}()
	admin.must("GRANT SELECT ON mine TO newcomer")
	c := connect(t, w, "newcomer", "marked-newcomer-pw", "dbname="+vault)
	if got := c.say("SELECT count(*) >= 20 FROM mine"); got != "t" {
		t.Error(got)
	}
}

// TestPasswordByOneCommand: of a password in clear text, in whatever spelling and
// protocol, all shards keep the same verifier, made as the session wants it.
func TestPasswordByOneCommand(t *testing.T) {
	w := start(t, nil, func(c *config.Config) { c.Auth.AuthQuery, c.Auth.AuthQueryTTL = "default", time.Millisecond })
	admin := connect(t, w, "postgres", "", "dbname="+vault)
	defer func() {
		admin.must("REVOKE ALL ON mine FROM newcomer")
		admin.must("DROP ROLE newcomer")
	}()
	extended := func(sql string) {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		if r := admin.conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read(); r.Err != nil {
			t.Fatalf("%s: %v", sql, r.Err)
		}
	}
	prepared := func(sql string) {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		if _, err := admin.conn.Prepare(ctx, "p", sql, nil); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r := admin.conn.ExecPrepared(ctx, "p", nil, nil, nil).Read(); r.Err != nil {
				t.Fatalf("%s: %v", sql, r.Err)
			}
		}
	}
	var last string
	for i, tc := range []struct {
		by       func(string)
		sql      string
		password string
		form     string
	}{
		{admin.must, "CREATE ROLE newcomer LOGIN PASSWORD 'marked-one'; GRANT SELECT ON mine TO newcomer", "marked-one", "SCRAM-SHA-256$4096:"},
		{admin.must, "ALTER ROLE newcomer PASSWORD 'marked-two'", "marked-two", "SCRAM-SHA-256$4096:"},
		{admin.must, "ALTER USER newcomer ENCRYPTED PASSWORD E'marked\\x2dthree' VALID UNTIL 'infinity'", "marked-three", "SCRAM-SHA-256$"},
		{admin.must, "BEGIN; ALTER ROLE newcomer PASSWORD $$marked-four$$; COMMIT", "marked-four", "SCRAM-SHA-256$"},
		{extended, "ALTER ROLE newcomer PASSWORD 'marked-five'", "marked-five", "SCRAM-SHA-256$"},
		{prepared, "ALTER ROLE newcomer PASSWORD 'marked-six'", "marked-six", "SCRAM-SHA-256$"},
		{admin.must, "ALTER ROLE newcomer PASSWORD U&'m!0061rked-7' UESCAPE '!'", "marked-7", "SCRAM-SHA-256$"},
		{admin.must, "SET password_encryption = md5; ALTER ROLE newcomer PASSWORD 'marked-eight'; RESET password_encryption", "marked-eight", "md5"},
		{admin.must, "SET ROLE newcomer; ALTER ROLE current_user PASSWORD 'marked-nine'; RESET ROLE", "marked-nine", "SCRAM-SHA-256$"},
		{admin.must, "ALTER ROLE newcomer PASSWORD 'SCRAM-SHA-256$not one'", "'SCRAM-SHA-256$not one'", "SCRAM-SHA-256$4096:"},
	} {
		tc.by(tc.sql)
		stored := ""
		for j := range world.target.Shards() {
			got := askShard(t, j, "SELECT rolpassword FROM pg_authid WHERE rolname = 'newcomer'")
			if !strings.HasPrefix(got, tc.form) || got == last {
				t.Errorf("%d: shard %d keeps a %.14s", i, j, got)
			}
			if j > 0 && got != stored {
				t.Errorf("%d: shards 0 and %d keep different verifiers", i, j)
			}
			stored = got
		}
		if last = stored; tc.form == "md5" {
			continue // the shards ask for SCRAM
		}
		// The answer to the question for the verifier before may still be known.
		try(t, w, "newcomer", tc.password)
		c := connect(t, w, "newcomer", tc.password, "dbname="+vault)
		if got := c.say("SELECT count(*) >= 20 FROM mine"); got != "t" {
			t.Errorf("%d: %s", i, got)
		}
	}
	for _, tc := range []struct{ sql, want string }{
		{"ALTER ROLE newcomer PASSWORD 'a' PASSWORD 'b'", "42601"},
		{"ALTER ROLE nobody_there PASSWORD 'a'", "42704"},
		{"ALTER ROLE newcomer PASSWORD ''", ""},
		{"ALTER ROLE newcomer PASSWORD NULL", ""},
	} {
		if got := admin.say(tc.sql); got != tc.want {
			t.Errorf("%s: %s", tc.sql, got)
		}
	}
}

// TestAuthQuery reads verifiers from the home shard.
func TestAuthQuery(t *testing.T) {
	shards(t)
	one, two := verifierOf(t, "marked-first-pw"), verifierOf(t, "marked-second-pw")
	onEveryShard(t, fmt.Sprintf("CREATE ROLE visitor LOGIN PASSWORD '%s'; CREATE ROLE locked NOLOGIN PASSWORD '%s'; CREATE ROLE expired LOGIN PASSWORD '%s' VALID UNTIL '2001-01-01'; CREATE ROLE bare LOGIN", one, one, one))
	defer onEveryShard(t, "DROP ROLE visitor, locked, expired, bare")
	w := start(t, []auth.User{{Name: "visitor", Databases: []string{"app"}}, {Name: "victim", Password: "marked-own-pw"}}, func(c *config.Config) {
		c.Auth.AuthQuery, c.Auth.AuthQueryTTL = "default", time.Hour
	})
	for _, tc := range []struct{ user, password, want string }{
		{"visitor", "marked-first-pw", ""},
		{"visitor", "wrong", "28P01"},
		{"visitor", "marked-first-pw", ""},
		{"locked", "marked-first-pw", "28P01"},
		{"expired", "marked-first-pw", "28P01"},
		{"bare", "", "28P01"},
		{"bare", "x", "28P01"},
		{"nobody", "x", "28P01"},
		{"o'brien; DROP TABLE x", "x", "28P01"},
		{strings.Repeat("n", 200), "x", "28P01"},
		{"victim", victimPassword, "28P01"}, // weft.yaml has a password of its own
	} {
		if got := try(t, w, quoteValue(tc.user), quoteValue(tc.password)); got != tc.want {
			t.Errorf("%s with %s: %q, want %q", tc.user, tc.password, got, tc.want)
		}
	}
	if got := try(t, w, "visitor", "marked-first-pw", "dbname="+vault); got != "42501" {
		t.Errorf("another database: %q", got)
	}
	// The old one is remembered for an hour, until somebody fails.
	onEveryShard(t, fmt.Sprintf("ALTER ROLE visitor PASSWORD '%s'", two))
	if got := try(t, w, "visitor", "marked-second-pw"); got != "28P01" {
		t.Errorf("the new password against the old verifier: %q", got)
	}
	if got := try(t, w, "visitor", "marked-second-pw"); got != "" {
		t.Errorf("the new password: %q", got)
	}
	if got := try(t, w, "visitor", "marked-first-pw"); got != "28P01" {
		t.Errorf("the old password: %q", got)
	}
}

// TestAuthQueryOfOnesOwn: a query over a table, and questions that go wrong. The service user has no
// schema of anybody's on its search path, so names have their schema.
func TestAuthQueryOfOnesOwn(t *testing.T) {
	shards(t)
	home := connect(t, world.target, "postgres", "", "dbname="+plain)
	home.must(fmt.Sprintf("CREATE TABLE logins(name text, pw text); INSERT INTO logins VALUES ('mallory', '%s'), ('broken', 'SCRAM-SHA-256$nonsense')", world.mallory))
	defer home.must("DROP TABLE logins")
	for _, tc := range []struct{ sql, user, want string }{
		{"SELECT name, pw FROM public.logins WHERE name = $1", "mallory", ""},
		{"SELECT name, pw FROM public.logins WHERE name = $1", "broken", "28P01"},
		{"SELECT name, pw FROM public.logins WHERE name = $1", "victim", "28P01"},
		{"SELECT name, pw FROM public.logins WHERE $1 <> ''", "mallory", "08006"},                          // several
		{"SELECT 'mallory', pw FROM public.logins WHERE name = 'mallory' AND $1 <> ''", "victim", "08006"}, // another's
		{"SELECT pw FROM public.logins WHERE name = $1", "mallory", "08006"},
		{"SELECT name, pw FROM public.nowhere WHERE name = $1", "mallory", "08006"},
		{"SELECT name, pw FROM logins WHERE name = $1", "mallory", "08006"}, // whose table would that be?
	} {
		w := start(t, nil, func(c *config.Config) { c.Auth.AuthQuery, c.Auth.AuthQueryDatabase = tc.sql, plain })
		if got := try(t, w, tc.user, malloryPassword); got != tc.want {
			t.Errorf("%s as %s: %q, want %q", tc.sql, tc.user, got, tc.want)
		}
	}
}

// quoteValue quotes a value for a connection string.
func quoteValue(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
