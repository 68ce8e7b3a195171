package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
)

// lab owns everything a run starts: the temporary directory and the processes in it.
type lab struct {
	opts    options
	log     io.Writer
	dir     string
	install pgserver.Install
	pgbench string

	server    target           // PostgreSQL itself
	postgres  *pgserver.Server // its process, unless it is weft dev's
	shards    []target         // the servers of weft dev, home shard first; server is the first, in another database
	admin     target           // weft dev's own proxy
	targets   []target
	processes []*process // in the order of their start
	notes     []string   // what a reader of the tables must know

	bouncerVersion string
	load           string // before anything was started
}

func newLab(opts options, log io.Writer) (*lab, error) {
	install, err := pgserver.Find(opts.PgBin)
	if err != nil {
		return nil, err
	}
	pgbench, err := findProgram("pgbench", install.Bin)
	if err != nil {
		return nil, err
	}
	dir, err := pgserver.TempDir() // The servers' user must be able to reach it.
	if err != nil {
		return nil, err
	}
	return &lab{opts: opts, log: log, dir: dir, install: install, pgbench: pgbench, load: loadAverage()}, nil
}

// Start brings up the server, fills its tables and starts the proxies. What it has started when it fails is stopped
// by Close.
func (l *lab) Start(ctx context.Context) error {
	if err := l.startServer(ctx); err != nil {
		return err
	}
	if err := l.fill(ctx); err != nil {
		return err
	}
	for _, name := range l.opts.Targets {
		if err := ctx.Err(); err != nil {
			return err
		}
		start := map[string]func(context.Context) (target, error){
			targetDirect:    func(context.Context) (target, error) { return l.server, nil },
			targetPgBouncer: l.startPgBouncer,
			targetWeft:      func(ctx context.Context) (target, error) { return l.startWeft(ctx, targetWeft, "weft") },
			targetLoop:      func(ctx context.Context) (target, error) { return l.startWeft(ctx, targetLoop, "weft, loops") },
			targetCold:      func(ctx context.Context) (target, error) { return l.startWeft(ctx, targetCold, "weft, heat off") },
			targetBaseline:  l.startBaseline,
		}[name]
		t, err := start(ctx)
		if errors.Is(err, errNotInstalled) {
			l.notes = append(l.notes, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		l.targets = append(l.targets, t)
	}
	return nil
}

// errNotInstalled makes a target missing from the tables rather than the run fail.
var errNotInstalled = errors.New("is not installed and not measured")

// Close stops the processes, last started first, and removes the directory.
func (l *lab) Close() error {
	var errs []error
	for _, p := range slices.Backward(l.processes) {
		errs = append(errs, p.stop())
	}
	if l.postgres != nil {
		errs = append(errs, l.postgres.Stop(context.Background())) // Bounded by a limit of its own.
	}
	return errors.Join(append(errs, os.RemoveAll(l.dir))...)
}

// spawn starts a process that Close will stop.
func (l *lab) spawn(name string, asUser bool, argv ...string) (*process, error) {
	p, err := l.startAs(name, asUser, argv)
	if err != nil {
		return nil, err
	}
	l.processes = append(l.processes, p)
	return p, nil
}

func (l *lab) startAs(name string, asUser bool, argv []string) (*process, error) {
	if !asUser {
		return startProcess(name, l.dir, nil, argv...)
	}
	cred, err := unprivileged()
	if err != nil {
		return nil, err
	}
	return startProcess(name, l.dir, cred, argv...)
}

// startServer brings up PostgreSQL: the servers of weft dev, or a bare one with the same settings when weft is not
// asked for. The unsharded database is on the first.
func (l *lab) startServer(ctx context.Context) error {
	start := l.startPostgres
	if l.opts.wants(targetWeft) {
		start = l.startDev
	}
	if err := start(ctx); err != nil {
		return err
	}
	admin := l.server
	admin.Database = "postgres"
	return execute(ctx, admin, "CREATE DATABASE "+plainDatabase)
}

func (l *lab) startPostgres(ctx context.Context) error {
	l.progress("starting PostgreSQL")
	port, err := pgserver.FreePort()
	if err != nil {
		return err
	}
	cfg := pgserver.Config{Install: l.install, Dir: filepath.Join(l.dir, "postgres"), Port: port}
	if err := cfg.Init(ctx); err != nil {
		return err
	}
	pg, err := cfg.Start(ctx)
	if err != nil {
		return err
	}
	l.postgres = pg
	l.server = target{Name: targetDirect, Title: "PostgreSQL", endpoint: endpoint{Addr: pg.Addr()}}
	return nil
}

// needsPrepared says whether pgbench will run in prepared mode, and with how many clients at most.
func (o options) needsPrepared() (clients int, ok bool) {
	return slices.Max(o.Clients), o.needsTables() && slices.Contains(o.Modes, modePrepared)
}

func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(l.log, "# "+format+"\n", args...)
}

// idleTimeout is how long proxies keep idle server connections: over the pause between a warm-up and its run, but not
// until another target's turn. The server would not have room for the connections of all.
const idleTimeout = 2 * time.Second

// execute runs statements one by one, each on its own: VACUUM refuses to be part of a transaction.
func execute(ctx context.Context, t target, statements ...string) error {
	return withConn(ctx, t, func(conn *pgconn.PgConn) error {
		for _, s := range statements {
			if _, err := conn.Exec(ctx, s).ReadAll(); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
		}
		return nil
	})
}

// queryRows returns a statement's rows as text.
func queryRows(ctx context.Context, t target, statement string) (rows [][][]byte, err error) {
	err = withConn(ctx, t, func(conn *pgconn.PgConn) error {
		res, err := conn.Exec(ctx, statement).ReadAll()
		if err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
		for _, r := range res {
			rows = append(rows, r.Rows...)
		}
		return nil
	})
	return rows, err
}

func withConn(ctx context.Context, t target, f func(*pgconn.PgConn) error) error {
	conn, err := pgconn.Connect(ctx, t.dsn())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // Nothing is owed to us any more.
	}()
	return f(conn)
}

// answers reports whether t serves queries; it is what startup waits for.
func answers(ctx context.Context, t target) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return execute(ctx, t, "SELECT 1")
}
