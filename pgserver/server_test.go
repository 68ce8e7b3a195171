package pgserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// query runs one statement and returns its only value as text.
func query(t *testing.T, connString, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, connString)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	rows, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	if last := rows[len(rows)-1]; len(last.Rows) > 0 {
		return string(last.Rows[0][0]), nil
	}
	return "", nil
}

func mustQuery(t *testing.T, connString, sql string) string {
	t.Helper()
	v, err := query(t, connString, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// alive is false for a process that has ended, though its parent, maybe an init
// that does not care, has not noticed yet.
func alive(pid int) bool {
	if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

// TestMain turns the test binary into the process that some tests kill.
func TestMain(m *testing.M) {
	switch os.Getenv("PGSERVER_HELPER") {
	case "":
		os.Exit(m.Run())
	case "init":
		helpInit()
	case "serve":
		helpServe()
	}
}

// One server's life: made, started, stopped, started again, killed, paused.
func TestLife(t *testing.T) {
	ctx := t.Context()
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	cfg := pgserver.Config{
		Install:  pgtest.Install(t),
		Dir:      filepath.Join(pgtest.Dir(t), "shard-0"),
		Port:     port,
		User:     "weaver",
		Settings: map[string]string{"application_name": "it's ours", "max_connections": "30"},
	}
	if cfg.Exists() {
		t.Fatal("exists before Init")
	}
	if err := cfg.Init(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Init(ctx); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("second Init: got %v", err)
	}
	srv, err := cfg.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { srv.Kill() }()
	conn := srv.ConnString("postgres")
	for sql, want := range map[string]string{
		"show server_encoding":            "UTF8",
		"show lc_collate":                 "C",
		"show wal_level":                  "logical",
		"show max_prepared_transactions":  "200",
		"show max_connections":            "30",
		"show listen_addresses":           "127.0.0.1",
		"show unix_socket_directories":    "",
		"select current_user":             "weaver",
		"show fsync":                      "off",
		"show dynamic_shared_memory_type": "mmap",
		"select reset_val from pg_settings where name = 'application_name'": "it's ours",
	} {
		if got := mustQuery(t, conn, sql); got != want {
			t.Errorf("%s: got %q, want %q", sql, got, want)
		}
	}
	mustQuery(t, conn, "create table t as select 1 as id")
	if err := srv.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := srv.Err(); err != nil || alive(srv.PID()) {
		t.Errorf("after Stop: err %v, alive %v", err, alive(srv.PID()))
	}
	if err := srv.Stop(ctx); err != nil {
		t.Errorf("second stop: %v", err)
	}

	if srv, err = cfg.Start(ctx); err != nil {
		t.Fatal(err)
	}
	backend, err := pgx.Connect(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := backend.QueryRow(ctx, "insert into t values (2) returning pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	// It has let go of everything, but may need a moment more to be gone.
	for end := time.Now().Add(pgtest.Patience); alive(srv.PID()) || alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("processes live on after Kill")
		}
	}
	if srv, err = cfg.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if got := mustQuery(t, conn, "select count(*) from t"); got != "2" {
		t.Errorf("after Kill: %s rows, want 2", got)
	}

	srv.Pause()
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	if c, err := pgx.Connect(short, conn); err == nil {
		c.Close(ctx)
		t.Error("a paused server answered")
	}
	cancel()
	srv.Resume()
	mustQuery(t, conn, "select 1")

	srv.Pause()
	if err := srv.Stop(ctx); err != nil {
		t.Errorf("stop a paused server: %v", err)
	}
}

// Somebody else kills only the postmaster: Done says so, and the next Start gets
// the children out of the way, also one that is too busy to notice.
func TestStartEndsOrphans(t *testing.T) {
	ctx := t.Context()
	srv := pgtest.Start(t, pgserver.Config{})
	conn, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var backend int
	if err := conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&backend); err != nil {
		t.Fatal(err)
	}
	// A stopped backend cannot see that its postmaster is gone.
	if err := syscall.Kill(backend, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(srv.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-srv.Done():
	case <-time.After(pgtest.Patience):
		t.Fatal("Done is not closed")
	}
	if err := srv.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err: got %v", err)
	}
	if !alive(backend) {
		t.Fatal("the backend ended by itself: this test shows nothing")
	}
	if err := srv.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(pgtest.Patience); alive(backend); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("orphaned backend lives on")
		}
	}
	mustQuery(t, srv.ConnString("postgres"), "select 1")
}

// A stale postmaster.pid names a process that meanwhile is somebody else's.
func TestStartIgnoresReusedPID(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	other := pgtest.Start(t, pgserver.Config{})
	srv.Kill()
	path := filepath.Join(srv.Dir(), "postmaster.pid")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(path, []byte(strconv.Itoa(other.PID())+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustQuery(t, srv.ConnString("postgres"), "select 1")
	mustQuery(t, other.ConnString("postgres"), "select 1")
}

func TestPortInUse(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	err = srv.Restart(t.Context())
	var port *pgserver.PortError
	if !errors.As(err, &port) || port.Addr != srv.Addr() || port.PID != os.Getpid() {
		t.Errorf("got %v, want a PortError that names this process", err)
	}
	l.Close()
	if err := srv.Restart(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStartSaysWhy(t *testing.T) {
	_, err := pgserver.StartTemp(t.Context(), pgserver.Config{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got %v, want the server's own words", err)
	}
}

func TestStartGivesUpWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if srv, err := pgserver.StartTemp(ctx, pgserver.Config{}); err == nil {
		srv.Close()
		t.Error("started with a context that had ended")
	}
}

// Init is killed in the middle: nothing half-made is taken for a data directory,
// and the next Init removes what is left.
func TestInitKilled(t *testing.T) {
	dir := filepath.Join(pgtest.Dir(t), "shard-0")
	cfg := pgserver.Config{Install: pgtest.Install(t), Dir: dir, Port: 1}
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), "PGSERVER_HELPER=init", "PGSERVER_HELPER_DIR="+dir)
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	leftovers := func() []string {
		found, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".shard-0.init-*", "*"))
		return found
	}
	for deadline := time.Now().Add(pgtest.Patience); len(leftovers()) < 3 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait() // killed
	if cfg.Exists() || len(leftovers()) == 0 {
		t.Fatalf("not killed in the middle: exists %v, left %v", cfg.Exists(), leftovers())
	}
	if err := cfg.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !cfg.Exists() || len(leftovers()) > 0 {
		t.Errorf("after Init: exists %v, left %v", cfg.Exists(), leftovers())
	}
}

// helpInit is the process that TestInitKilled kills.
func helpInit() {
	inst, err := pgserver.Find("")
	if err != nil {
		panic(err)
	}
	cfg := pgserver.Config{Install: inst, Dir: os.Getenv("PGSERVER_HELPER_DIR"), Port: 1}
	if err := cfg.Init(context.Background()); err != nil {
		panic(err)
	}
}

// The caller is killed: on Linux the server shuts itself down.
func TestServerEndsWithCaller(t *testing.T) {
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), "PGSERVER_HELPER=serve")
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(line[:n]))
	if len(f) < 2 {
		t.Fatalf("helper said %q", line[:n])
	}
	pid, err := strconv.Atoi(f[0])
	if err != nil {
		t.Fatalf("helper said %q", line[:n])
	}
	defer os.RemoveAll(filepath.Dir(f[1]))
	if !alive(pid) {
		t.Fatal("the helper's server is not alive")
	}
	if err := helper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = helper.Wait() // killed
	for deadline := time.Now().Add(pgtest.Patience); alive(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGQUIT)
			t.Fatal("the server lives on")
		}
	}
}

// helpServe is the process that TestServerEndsWithCaller kills.
func helpServe() {
	srv, err := pgserver.StartTemp(context.Background(), pgserver.Config{})
	if err != nil {
		panic(err)
	}
	fmt.Println(srv.PID(), srv.Dir())
	time.Sleep(time.Minute)
}

// A data directory below one that the servers' user may not enter, such as /root.
func TestClosedParent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs servers as another user")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := pgserver.Config{Install: pgtest.Install(t), Dir: filepath.Join(closed, "data"), Port: port}
	if err := cfg.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv, err := cfg.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Kill()
	mustQuery(t, srv.ConnString("postgres"), "create table t as select 1 as id; checkpoint")
	mustQuery(t, srv.ConnString("postgres"), "alter system set work_mem = '5MB'")
	srv.Kill()
	if srv, err = cfg.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := mustQuery(t, srv.ConnString("postgres"), "select count(*) from t"); got != "1" {
		t.Errorf("%s rows after a crash", got)
	}
	if err := srv.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
