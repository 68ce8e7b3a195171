package security_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// verifierOf makes the verifier that weft and all shards have of a password.
func verifierOf(tb testing.TB, password string) string {
	tb.Helper()
	v, err := auth.Verifier(password)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// The passwords of everybody in the tests, marked so that they can be looked for
// where they must not be.
const (
	malloryPassword = "marked-mallory-pw"
	victimPassword  = "marked-victim-pw"
	poolPassword    = "marked-pool-pw"
)

var world struct {
	sync.Once
	mallory, victim string // verifiers
	target          *harness.Target
	ready           bool
}

// vault has tables that are spread over the shards, plain has them on the home
// shard alone.
const (
	vault = "vault"
	plain = "plain"
)

// shards sets the servers up once: nobody but the service user gets in without a
// password; users have the same verifiers everywhere.
func shards(tb testing.TB) {
	tb.Helper()
	world.Do(func() {
		world.mallory, world.victim = verifierOf(tb, malloryPassword), verifierOf(tb, victimPassword)
		world.target = harness.Weft(tb)
		for i := range world.target.Shards() {
			onShard(tb, i, fmt.Sprintf(`
				CREATE ROLE mallory LOGIN PASSWORD '%s'; CREATE ROLE victim LOGIN PASSWORD '%s';
				CREATE ROLE helper; GRANT helper TO mallory;
				CREATE ROLE pool_mallory LOGIN NOINHERIT PASSWORD '%s'; GRANT mallory TO pool_mallory;
				CREATE ROLE pool_both LOGIN NOINHERIT PASSWORD '%[3]s'; GRANT mallory, victim TO pool_both;
				CREATE ROLE pool_super LOGIN SUPERUSER PASSWORD '%[3]s'`, world.mallory, world.victim, poolPassword))
			onShard(tb, i, "CREATE DATABASE "+vault)
			onShard(tb, i, "CREATE DATABASE "+plain)
			requirePasswords(tb, i)
		}
		for _, db := range []string{vault, plain} {
			furnish(tb, db)
		}
		world.ready = true
	})
	if !world.ready {
		tb.Fatal("the shards could not be set up")
	}
}

// furnish makes what the attacks are about: a table of the victim's that mallory
// must never read, one of hers, and functions of hers.
func furnish(tb testing.TB, db string) {
	tb.Helper()
	admin := connect(tb, world.target, "postgres", "", "dbname="+db)
	admin.must(`CREATE TABLE secret(id int PRIMARY KEY, s text); CREATE TABLE mine(id int PRIMARY KEY, s text)`)
	if db == vault {
		admin.must("SELECT weft.shard_table('secret', 'id')")
		admin.must("SELECT weft.shard_table('mine', 'id')")
	}
	admin.must("INSERT INTO secret SELECT g, 'secret ' || g FROM generate_series(1, 20) g")
	admin.must("INSERT INTO mine SELECT g, 'mine' FROM generate_series(1, 20) g")
	admin.must("ALTER TABLE secret OWNER TO victim; ALTER TABLE mine OWNER TO mallory")
	admin.must(`CREATE FUNCTION climb_dynamic(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; RETURN 1; END $$;
		CREATE FUNCTION climb_definer(what text) RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN EXECUTE what; RETURN 1; END $$;
		CREATE FUNCTION climb_clause() RETURNS int LANGUAGE plpgsql SET work_mem = '1MB' AS $$ BEGIN EXECUTE 'RES' || 'ET ROLE'; RETURN (SELECT count(*) FROM secret); END $$;
		CREATE FUNCTION climb_sql() RETURNS text LANGUAGE sql AS $$ SELECT set_config('role', 'none', false) $$;
		CREATE PROCEDURE climb_call() LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'RESET ROLE'; COMMIT; PERFORM count(*) FROM secret; END $$;
		CREATE VIEW climb_view AS SELECT climb_dynamic('RESET ROLE') AS x`)
	admin.must(`ALTER FUNCTION climb_dynamic OWNER TO mallory; ALTER FUNCTION climb_definer OWNER TO mallory; ALTER FUNCTION climb_clause OWNER TO mallory;
		ALTER FUNCTION climb_sql OWNER TO mallory; ALTER PROCEDURE climb_call OWNER TO mallory; ALTER VIEW climb_view OWNER TO mallory`)
}

// requirePasswords makes a shard ask everybody but the service user.
func requirePasswords(tb testing.TB, shard int) {
	tb.Helper()
	s := world.target.Shards()[shard]
	file := filepath.Join(s.Dir(), "pg_hba.conf")
	// In place, so that the file keeps its owner.
	if err := os.WriteFile(file, []byte("local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	onShard(tb, shard, "SELECT pg_reload_conf()")
	for until := time.Now().Add(pgtest.Patience); ; time.Sleep(5 * time.Millisecond) {
		if c, err := pgx.Connect(context.Background(), fmt.Sprintf("host=127.0.0.1 port=%d user=mallory dbname=app sslmode=disable", s.Port())); err != nil && strings.Contains(err.Error(), "28P01") {
			return
		} else if err == nil {
			_ = c.Close(context.Background())
		}
		if time.Now().After(until) {
			tb.Fatal("pg_hba.conf is not read")
		}
	}
}

// onShard runs SQL on a shard itself, as the superuser.
func onShard(tb testing.TB, shard int, sql string) {
	tb.Helper()
	s := world.target.Shards()[shard]
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c, err := pgx.Connect(ctx, s.ConnString("app"))
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		tb.Fatalf("shard %d: %v", shard, err)
	}
}

// askShard returns the one value that a shard itself gives.
func askShard(tb testing.TB, shard int, sql string) (value string) {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c, err := pgx.Connect(ctx, world.target.Shards()[shard].ConnString("app"))
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, sql).Scan(&value); err != nil {
		tb.Fatalf("shard %d: %v", shard, err)
	}
	return value
}

// start starts a weft over the shards, with these users, asked for SCRAM; postgres
// is trusted.
func start(tb testing.TB, users []auth.User, more ...func(*config.Config)) *harness.Target {
	tb.Helper()
	shards(tb)
	return harness.StartWeft(tb, func(c *config.Config) {
		c.Auth = auth.Config{Users: users, Rules: []auth.Rule{
			{Type: "host", Users: []string{"postgres"}, Method: auth.MethodTrust},
			{Type: "host", Method: auth.MethodScramSHA256},
		}}
		for _, f := range more {
			f(c)
		}
	})
}

// client is a connection that sends simple queries.
type client struct {
	tb      testing.TB
	conn    *pgconn.PgConn
	notices []string
}

func connect(tb testing.TB, t *harness.Target, user, password string, more ...string) *client {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	cfg, err := pgconn.ParseConfig(t.ConnString(user, append(more, "password="+password)...))
	if err != nil {
		tb.Fatal(err)
	}
	c := &client{tb: tb}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { c.notices = append(c.notices, n.Message) }
	if c.conn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.conn.Close(context.Background()) })
	return c
}

// say sends a text and returns its last value, or the SQLSTATE of its error.
func (c *client) say(sql string) string {
	c.tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	results, err := c.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return code(err)
	}
	last := ""
	for _, r := range results {
		for _, row := range r.Rows {
			var fields []string
			for _, v := range row {
				fields = append(fields, string(v))
			}
			last = strings.Join(fields, ",")
		}
	}
	return last
}

// must is say where an error is a failure of the test.
func (c *client) must(sql string) {
	c.tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	if _, err := c.conn.Exec(ctx, sql).ReadAll(); err != nil {
		c.tb.Fatalf("%s: %v", sql, err)
	}
}

// code is the SQLSTATE of a server's error, or the error's words.
func code(err error) string {
	if e, ok := asPg(err); ok {
		return e.Code
	}
	return err.Error()
}

func asPg(err error) (*pgconn.PgError, bool) {
	var e *pgconn.PgError
	ok := errors.As(err, &e)
	return e, ok
}
