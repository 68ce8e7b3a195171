package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// preparedDatabase is the name under which PgBouncer offers the database for prepared mode.
const preparedDatabase = plainDatabase + "_prepared"

// startPgBouncer runs PgBouncer from the distribution's package with its defaults, but for what the test needs:
// addresses, trust, room for the clients.
func (l *lab) startPgBouncer(ctx context.Context) (target, error) {
	bin, err := findProgram("pgbouncer", "/usr/sbin") // Debian puts it there, and PATH of ordinary users lacks it.
	if err != nil {
		return target{}, fmt.Errorf("PgBouncer %w", errNotInstalled)
	}
	out, err := exec.CommandContext(ctx, bin, "--version").Output()
	if err != nil {
		return target{}, fmt.Errorf("pgbouncer --version: %w", err)
	}
	version, err := parseBouncerVersion(string(out))
	if err != nil {
		return target{}, err
	}
	l.bouncerVersion = version.String()

	addr, err := freeAddr()
	if err != nil {
		return target{}, err
	}
	t := target{Name: targetPgBouncer, Title: "PgBouncer", endpoint: endpoint{Addr: addr}}
	ini := filepath.Join(l.dir, "pgbouncer.ini")
	users := filepath.Join(l.dir, "pgbouncer.users")
	clients, prepared := l.opts.needsPrepared()
	text := bouncerConfig(t.endpoint, l.server.endpoint, users, l.opts.Pool, clients, l.opts.Idle, version.prepares())
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		return target{}, err
	}
	if err := os.WriteFile(users, []byte(`"`+benchUser+`" ""`+"\n"), 0o644); err != nil {
		return target{}, err
	}
	p, err := l.spawn("pgbouncer", true, bin, ini)
	if err != nil {
		return target{}, err
	}
	t.PID = p.pid()
	if prepared {
		e := t.endpoint
		e.Database = preparedDatabase
		t.prepared = &e
		if !version.prepares() {
			l.notes = append(l.notes, fmt.Sprintf("PgBouncer %s knows no prepared statements in transaction pooling: "+
				"in prepared mode it pools by session.", version))
		}
	}
	return t, p.waitReady(ctx, 10*time.Second, func() error { return answers(ctx, t) })
}

func bouncerConfig(listen, server endpoint, users string, pool, clients, idle int, prepares bool) string {
	host, port := listen.hostPort()
	shost, sport := server.hostPort()
	preparedMode := "session"
	if prepares {
		preparedMode = "transaction"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[databases]\n")
	fmt.Fprintf(&b, "%s = host=%s port=%s dbname=%s pool_size=%d\n", plainDatabase, shost, sport, plainDatabase, pool)
	fmt.Fprintf(&b, "%s = host=%s port=%s dbname=%s pool_mode=%s pool_size=%d\n", preparedDatabase, shost, sport, plainDatabase, preparedMode, max(pool, clients))
	fmt.Fprintf(&b, "\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\nunix_socket_dir =\n", host, port)
	fmt.Fprintf(&b, "auth_type = trust\nauth_file = %s\n", users)
	fmt.Fprintf(&b, "pool_mode = transaction\nmax_client_conn = %d\n", max(idle, clients)+100)
	fmt.Fprintf(&b, "server_idle_timeout = %.0f\nlog_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n", idleTimeout.Seconds())
	if prepares {
		fmt.Fprintf(&b, "max_prepared_statements = 200\n")
	}
	return b.String()
}

type bouncerVersion struct{ major, minor, patch int }

var bouncerVersionLine = regexp.MustCompile(`PgBouncer (\d+)\.(\d+)(?:\.(\d+))?`)

func parseBouncerVersion(s string) (v bouncerVersion, err error) {
	m := bouncerVersionLine.FindStringSubmatch(s)
	if m == nil {
		return v, fmt.Errorf("pgbouncer --version: cannot read %q", s)
	}
	// The pattern admits only digits; an absent patch level reads as 0.
	v.major, _ = strconv.Atoi(m[1])
	v.minor, _ = strconv.Atoi(m[2])
	v.patch, _ = strconv.Atoi(m[3])
	return v, nil
}

// prepares reports whether this PgBouncer follows prepared statements in transaction pooling.
func (v bouncerVersion) prepares() bool {
	return v.major > 1 || v.major == 1 && v.minor >= 21
}

func (v bouncerVersion) String() string {
	return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
}
