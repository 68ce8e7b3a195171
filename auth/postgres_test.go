package auth

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver/pgtest"
)

// postgres is a real PostgreSQL, started once per test run: what weft's answers
// are compared with.
type postgres struct {
	addr  string // TCP, with and without TLS
	admin string // connection string of the superuser
}

var realPostgres struct {
	once   sync.Once
	server *postgres
	stop   func()
	err    error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if realPostgres.stop != nil {
		realPostgres.stop()
	}
	os.Exit(code)
}

// startPostgres returns the server, with the users alice (SCRAM verifier of
// "secret"), mallory (MD5 hash of "secret") and nopass, databases named like
// methods that pg_hba.conf maps to that method, and none for database "nowhere".
func startPostgres(t *testing.T) *postgres {
	t.Helper()
	realPostgres.once.Do(func() {
		realPostgres.server, realPostgres.stop, realPostgres.err = launchPostgres()
	})
	if realPostgres.err != nil {
		t.Fatalf("start PostgreSQL: %v", realPostgres.err)
	}
	return realPostgres.server
}

func launchPostgres() (_ *postgres, stop func(), err error) {
	bin, err := findPostgres()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "weft-auth-")
	if err != nil {
		return nil, nil, err
	}
	var server *exec.Cmd
	stop = func() {
		if server != nil && server.Process != nil {
			server.Process.Signal(syscall.SIGINT) // fast shutdown
			server.Wait()
		}
		os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			stop()
			stop = nil
		}
	}()
	data := filepath.Join(dir, "data")
	files := map[string]string{
		"hba": "local all all trust\n" +
			"host scram all 127.0.0.1/32 scram-sha-256\n" +
			"host md5 all 127.0.0.1/32 md5\n" +
			"host trust all 127.0.0.1/32 trust\n" +
			"host reject all 127.0.0.1/32 reject\n",
		"server.crt": string(testCertificate().certPEM),
		"server.key": string(testCertificate().keyPEM),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, stop, err
		}
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if os.Getuid() == 0 { // which PostgreSQL refuses to run as
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, stop, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, stop, err
		}
		for name := range files {
			if err := os.Chown(filepath.Join(dir, name), uid, gid); err != nil {
				return nil, stop, err
			}
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, stop, err
	}
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = attr
		return cmd
	}
	if out, err := run("initdb", "-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync", "-A", "trust").CombinedOutput(); err != nil {
		return nil, stop, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server = run("postgres", "-D", data, "-k", dir, "-p", port,
		"-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "shared_buffers=8MB",
		"-c", "hba_file="+filepath.Join(dir, "hba"), "-c", "ssl=on",
		"-c", "ssl_cert_file="+filepath.Join(dir, "server.crt"), "-c", "ssl_key_file="+filepath.Join(dir, "server.key"))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, stop, err
	}
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return nil, stop, err
	}
	pg := &postgres{
		addr:  net.JoinHostPort("127.0.0.1", port),
		admin: fmt.Sprintf("host=%s port=%s user=postgres dbname=postgres", dir, port),
	}
	if err := pg.fill(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return nil, stop, fmt.Errorf("%w\n%s", err, text)
	}
	return pg, stop, nil
}

func (pg *postgres) fill() error {
	ctx, cancel := context.WithTimeout(context.Background(), pgtest.Patience)
	defer cancel()
	var conn *pgconn.PgConn
	for {
		var err error
		if conn, err = pgconn.Connect(ctx, pg.admin); err == nil {
			break
		}
		if ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		"CREATE DATABASE scram", "CREATE DATABASE md5", "CREATE DATABASE trust",
		"CREATE ROLE alice LOGIN PASSWORD 'secret'",
		"SET password_encryption = md5; CREATE ROLE mallory LOGIN PASSWORD 'secret'",
		"CREATE ROLE nopass LOGIN",
	} {
		if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// findPostgres looks where distributions put the server programs, which are
// seldom in PATH.
func findPostgres() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("initdb is neither in PATH nor in /usr/lib/postgresql/*/bin: install PostgreSQL")
	}
	return filepath.Dir(found[len(found)-1]), nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
