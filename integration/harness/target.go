package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/server"
)

// Database is the database that tests use.
const Database = "app"

// Target is something a PostgreSQL client can connect to.
type Target struct {
	Name string // "postgres" or "weft"
	Addr string // host:port for clients

	// Home is the PostgreSQL server that holds the data: the plain server
	// itself, or weft's home shard.
	Home *pgserver.Temp

	// Log is weft's log file, empty for a plain server.
	Log string

	// Server is weft itself when it runs in this process, else nil.
	Server *server.Server
	// LogFile is what it logs to then.
	LogFile string

	servers []*pgserver.Temp // every PostgreSQL server behind Addr
	admin   *adminConn
	others  []*adminConn // of the shards that a test may change too
	logs    func(t testing.TB, failed func() bool)
	forget  func(ctx context.Context, database string) error // nil for a plain server
}

// ConnString returns a keyword/value connection string to the database app.
func (t *Target) ConnString(user string, more ...string) string {
	host, port, _ := net.SplitHostPort(t.Addr)
	s := fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable connect_timeout=60", host, port, user, Database)
	for _, m := range more {
		s += " " + m
	}
	return s
}

// Env returns the environment with which libpq programs reach the target.
func (t *Target) Env() []string {
	host, port, _ := net.SplitHostPort(t.Addr)
	env := []string{
		"PGHOST=" + host, "PGPORT=" + port, "PGUSER=postgres", "PGDATABASE=" + Database,
		"PGSSLMODE=disable", "PGCONNECT_TIMEOUT=60", "PGTZ=UTC", "LC_ALL=C.UTF-8", "PSQLRC=/dev/null", "PAGER=cat",
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "PG") && name != "LC_ALL" && name != "PAGER" {
			env = append(env, kv)
		}
	}
	return env
}

// Connect opens a pgx connection and closes it when the test ends.
func (t *Target) Connect(tb testing.TB, user string, more ...string) *pgx.Conn {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	conn, err := pgx.Connect(ctx, t.ConnString(user, more...))
	if err != nil {
		tb.Fatalf("connect to %s: %v", t.Name, err)
	}
	tb.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = conn.Close(ctx) // a test may have broken it on purpose
	})
	return conn
}

// Admin runs a statement on the home server itself, never through weft.
func (t *Target) Admin(ctx context.Context, sql string, args ...any) error {
	return t.admin.do(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql, args...)
		return err
	})
}

// AdminBool asks the home server itself a yes-or-no question.
func (t *Target) AdminBool(ctx context.Context, sql string, args ...any) (ok bool, err error) {
	err = t.admin.do(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, sql, args...).Scan(&ok)
	})
	return ok, err
}

// Await polls AdminBool until it says yes.
func (t *Target) Await(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	for {
		ok, err := t.AdminBool(ctx, sql, args...)
		if ok {
			return
		}
		if err != nil {
			tb.Fatalf("await %s: %v", sql, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Reset empties the database app: whatever an earlier test left in it is gone,
// and what a failed one left running is cancelled.
// Server connections that weft keeps stay as they are; that is part of the test.
func (t *Target) Reset(tb testing.TB) {
	tb.Helper()
	resetting.Lock() // or one would cancel the other
	defer resetting.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	err := t.Admin(ctx, resetSQL)
	if err != nil {
		// A test before this one failed and left a backend that holds on to
		// something. This one shall be judged by itself.
		tb.Logf("reset %s: %v; ending every backend", t.Name, err)
		if err = t.Admin(ctx, terminateSQL); err == nil {
			err = t.Admin(ctx, resetSQL)
		}
		time.Sleep(1100 * time.Millisecond) // weft trusts a connection for a second
	}
	for _, a := range t.others {
		err = errors.Join(err, a.do(ctx, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, resetSQL)
			return err
		}))
	}
	if err != nil {
		tb.Fatalf("reset %s: %v", t.Name, err)
	}
	t.ShowLogs(tb)
}

var resetting sync.Mutex

// ShowLogs prints what the servers log from now on if the test fails.
func (t *Target) ShowLogs(tb testing.TB) {
	t.logs(tb, tb.Failed)
}

const terminateSQL = "select pg_terminate_backend(pid, 2000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"

// resetSQL drops every schema, large object and publication that is not
// PostgreSQL's own.
const resetSQL = `
set lock_timeout = '2s';
select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() and state = 'active' and pid <> pg_backend_pid();
set client_min_messages = warning;
do $$
declare n name; o oid;
begin
	for n in select nspname from pg_namespace where nspname !~ '^pg_' and nspname not in ('information_schema', 'weft', 'weft_gate') loop
		execute format('drop schema %I cascade', n);
	end loop;
	for n in select pubname from pg_publication loop
		execute format('drop publication %I', n);
	end loop;
	for o in select oid from pg_largeobject_metadata loop
		perform lo_unlink(o);
	end loop;
	create schema public authorization pg_database_owner;
	comment on schema public is 'standard public schema';
	grant all on schema public to public;
end $$;
`

// adminConn is a connection that is opened again after its server was away.
type adminConn struct {
	mu     sync.Mutex
	server *pgserver.Temp
	conn   *pgx.Conn
}

func (a *adminConn) do(ctx context.Context, f func(*pgx.Conn) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run(ctx, f, true)
}

func (a *adminConn) run(ctx context.Context, f func(*pgx.Conn) error, again bool) error {
	if a.conn != nil && a.conn.IsClosed() {
		a.conn = nil
	}
	if a.conn == nil {
		conn, err := pgx.Connect(ctx, a.server.ConnString(Database)+" application_name=harness")
		if err != nil {
			return fmt.Errorf("admin connection: %w", err)
		}
		a.conn = conn
	}
	err := f(a.conn)
	if err != nil && a.conn.IsClosed() && again {
		return a.run(ctx, f, false) // its server was away and may be back
	}
	return err
}

func (a *adminConn) close(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn == nil {
		return nil
	}
	return a.conn.Close(ctx)
}

// roles exist on every server. Everyone is trusted but carol and frank, who
// prove a password with SCRAM, erin, who does with md5, and grace, who is
// rejected: see hba for PostgreSQL and rules for weft.
const roles = `
create role alice login;
create role bob login;
create role nologin;
create role dave login connection limit 0;
set password_encryption = 'scram-sha-256';
create role carol login password 'secret';
create role frank login;
create role grace login;
set password_encryption = 'md5';
create role erin login password 'secret';
reset password_encryption;
create role reader;
grant reader to alice;
`

// hba are the lines of pg_hba.conf before those that trust.
const hba = `
host all carol,frank 127.0.0.1/32 scram-sha-256
host all erin 127.0.0.1/32 md5
host all grace 127.0.0.1/32 reject
`

// requirePasswords puts hba in force.
func requirePasswords(ctx context.Context, s *pgserver.Temp) error {
	file := filepath.Join(s.Dir(), "pg_hba.conf")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// In place, so that the file keeps its owner.
	if err := os.WriteFile(file, append([]byte(hba), old...), 0o600); err != nil {
		return err
	}
	if err := onServer(ctx, s, "select pg_reload_conf()"); err != nil {
		return err
	}
	for ctx.Err() == nil { // the postmaster reads it when it gets to it
		err := login(ctx, s, "grace")
		if err != nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return context.Cause(ctx)
}

func login(ctx context.Context, s *pgserver.Temp, user string) error {
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable", s.Port(), user, Database))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// settings are those of both targets.
func settings() map[string]string {
	return map[string]string{
		"TimeZone":                "UTC",
		"datestyle":               "ISO, MDY",
		"lc_messages":             "C",
		"log_min_error_statement": "panic", // errors are what these tests are about
		"deadlock_timeout":        "200ms",
		"max_connections":         "200",
	}
}

// startServer starts and fills one server.
func startServer(ctx context.Context) (*pgserver.Temp, error) {
	s, err := pgserver.StartTemp(ctx, pgserver.Config{Settings: settings()})
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func fill(ctx context.Context, s *pgserver.Temp) error {
	if err := onServer(ctx, s, roles, s.CreateDatabase(Database)); err != nil {
		return fmt.Errorf("fill server: %w", err)
	}
	return nil
}

// tailOnFailure prints what was appended to files when the test has failed.
func tailOnFailure(tb testing.TB, failed func() bool, files ...string) {
	const most = 8 << 10
	sizes := make([]int64, len(files))
	for i, f := range files {
		if info, err := os.Stat(f); err == nil {
			sizes[i] = info.Size()
		}
	}
	tb.Cleanup(func() {
		if !failed() {
			return
		}
		for i, f := range files {
			text, err := os.ReadFile(f)
			if err != nil || int64(len(text)) <= sizes[i] {
				continue
			}
			text = text[sizes[i]:]
			text = text[max(0, len(text)-most):]
			tb.Logf("log of %s:\n%s", f, text)
		}
	})
}

// CreateDatabase makes an empty database on every server of the target and drops it
// when the test ends.
func (t *Target) CreateDatabase(tb testing.TB, name string) {
	tb.Helper()
	t.createDatabase(tb, name, func(_ context.Context, s *pgserver.Temp, name string) (string, error) {
		return s.CreateDatabase(name), nil
	})
}

// CreatePrepared is CreateDatabase of a database that has what weft keeps in it: see CreatePrepared.
func (t *Target) CreatePrepared(tb testing.TB, name string) {
	tb.Helper()
	t.createDatabase(tb, name, CreatePrepared)
}

func (t *Target) createDatabase(tb testing.TB, name string, statement func(context.Context, *pgserver.Temp, string) (string, error)) {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	for _, s := range t.servers {
		create, err := statement(ctx, s, name)
		if err == nil {
			err = onServer(ctx, s, "drop database if exists "+name+" with (force)", create)
		}
		if err != nil {
			tb.Fatalf("create database %s: %v", name, err)
		}
	}
	tb.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		for _, s := range t.servers {
			if err := onServer(ctx, s, "drop database "+name+" with (force)"); err != nil {
				tb.Errorf("drop database %s: %v", name, err)
			}
		}
		if t.forget != nil {
			if err := t.forget(ctx, name); err != nil {
				tb.Errorf("forget database %s: %v", name, err)
			}
		}
	})
}

func onServer(ctx context.Context, s *pgserver.Temp, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Shards returns every PostgreSQL server behind the target, home first.
func (t *Target) Shards() []*pgserver.Temp { return t.servers }

// AdminInt asks the home server itself for a number.
func (t *Target) AdminInt(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = t.admin.do(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, sql, args...).Scan(&n)
	})
	return n, err
}

// EmptyServer starts a server that has nothing but what initdb makes, for one test alone. It has the
// settings of the shards, and then those given.
func EmptyServer(tb testing.TB, more map[string]string) *pgserver.Temp {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	all := settings()
	maps.Copy(all, more)
	s, err := pgserver.StartTemp(ctx, pgserver.Config{Settings: all})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}
