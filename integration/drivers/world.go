package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"weft/auth"
	"weft/config"
	"weft/directory"
	"weft/directory/embedded"
	"weft/pgserver"
	"weft/server"
)

// The one who connects: no superuser, the owner of the suites' databases.
const (
	user     = "app"
	password = "app-secret"
)

const shardCount = 4

// world is the two targets: a plain PostgreSQL, and weft over four others.
type world struct {
	dir    string // certificates, etcd's data, weft's log
	bin    string // PostgreSQL's programs
	plain  *pgserver.Temp
	shards []*pgserver.Temp // home first
	weft   *server.Server
	desk   *desk

	stops []func() error // in the order of starting
}

// startWorld starts everything. The caller has to Close it.
func startWorld(ctx context.Context) (*world, error) {
	w := &world{shards: make([]*pgserver.Temp, shardCount)}
	err := w.start(ctx)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *world) start(ctx context.Context) error {
	dir, err := pgserver.TempDir()
	if err != nil {
		return err
	}
	w.dir = dir
	w.onStop(func() error { return os.RemoveAll(dir) })
	if err := certificate(dir); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if err := w.startServers(ctx); err != nil {
		return err
	}
	if err := w.requireTLS(ctx); err != nil {
		return fmt.Errorf("plain server: %w", err)
	}
	if err := w.startWeft(ctx); err != nil {
		return fmt.Errorf("weft: %w", err)
	}
	w.desk, err = openDesk(w)
	if err != nil {
		return err
	}
	w.onStop(w.desk.Close)
	return nil
}

func (w *world) startServers(ctx context.Context) error {
	started := make([]*pgserver.Temp, shardCount+1)
	var g errgroup.Group
	for i := range started {
		g.Go(func() (err error) {
			if started[i], err = pgserver.StartTemp(ctx, pgserver.Config{Settings: settings}); err != nil {
				return err
			}
			return prepare(ctx, started[i])
		})
	}
	err := g.Wait()
	for _, s := range started {
		if s != nil {
			w.onStop(s.Close)
		}
	}
	w.plain = started[shardCount]
	copy(w.shards, started)
	if err == nil {
		w.bin = w.plain.Config().Install.Bin
	}
	return err
}

// settings are those of all servers, so that nothing but weft makes a difference.
var settings = map[string]string{
	"TimeZone":            "UTC",
	"datestyle":           "ISO, MDY",
	"lc_messages":         "C",
	"password_encryption": "scram-sha-256",
}

// prepare makes the role, and has it prove its password.
func prepare(ctx context.Context, s *pgserver.Temp) error {
	if err := onServer(ctx, s, fmt.Sprintf("create role %s login createdb password '%s'", user, password)); err != nil {
		return err
	}
	return prependHBA(s, "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
}

// prependHBA puts lines in front of pg_hba.conf, in place, so that it keeps its owner.
// They hold from the next reload or restart on.
func prependHBA(s *pgserver.Temp, lines string) error {
	file := filepath.Join(s.Dir(), "pg_hba.conf")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte(lines), old...), 0o600)
}

// requireTLS gives the plain server the certificate that weft has, and makes both the password and TLS
// a must everywhere.
func (w *world) requireTLS(ctx context.Context) error {
	for _, name := range []string{"cert.pem", "key.pem"} {
		text, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			return err
		}
		if err := writeAs(filepath.Join(w.plain.Dir(), name), text, filepath.Join(w.plain.Dir(), "pg_hba.conf")); err != nil {
			return err
		}
	}
	if err := prependHBA(w.plain, "host all postgres 127.0.0.1/32 trust\nhostnossl all all 127.0.0.1/32 reject\n"); err != nil {
		return err
	}
	if err := onServer(ctx, w.plain,
		"alter system set ssl = on", "alter system set ssl_cert_file = 'cert.pem'", "alter system set ssl_key_file = 'key.pem'"); err != nil {
		return err
	}
	for _, s := range append(w.shards[:shardCount:shardCount], w.plain) {
		if err := onServer(ctx, s, "select pg_reload_conf()"); err != nil {
			return err
		}
	}
	return w.awaitTLS(ctx)
}

// awaitTLS returns when the plain server has read its configuration.
func (w *world) awaitTLS(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	for {
		conn, err := pgx.Connect(ctx, w.plainTarget().connString("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no TLS connection: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// writeAs writes a secret file that belongs to the owner of another.
func writeAs(file string, text []byte, like string) error {
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		return os.Chown(file, int(owner.Uid), int(owner.Gid))
	}
	return nil
}

func (w *world) startWeft(ctx context.Context) error {
	etcd, err := embedded.Start(ctx, embedded.Config{
		Dir: filepath.Join(w.dir, "etcd"), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), NoFsync: true,
	})
	if err != nil {
		return err
	}
	w.onStop(etcd.Close)
	cfg := w.config(etcd.Endpoint())
	store, err := etcd.Store(cfg.Cluster)
	if err != nil {
		return err
	}
	_, err = store.Update(ctx, func(*directory.Snapshot) (*directory.Snapshot, error) {
		list := make([]directory.Shard, len(w.shards))
		for i, s := range w.shards {
			list[i] = directory.Shard{
				Name: fmt.Sprintf("shard-%d", i), Hosts: []string{s.Addr()}, Weight: 1,
				Options: map[string]string{"sslmode": "disable"},
			}
		}
		return directory.New(256, list[0].Name, list), nil
	})
	if err != nil {
		return err
	}
	log, err := os.Create(w.logFile())
	if err != nil {
		return err
	}
	w.onStop(log.Close)
	w.weft, err = server.Start(ctx, server.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		return err
	}
	w.onStop(w.weft.Close)
	return nil
}

func (w *world) config(etcd string) config.Config {
	cfg := config.Default()
	cfg.Cluster = "drivers"
	cfg.Etcd.Endpoints = []string{etcd}
	cfg.Listen = "127.0.0.1:0"
	cfg.HTTP.Listen = ""
	cfg.TLS = config.TLS{
		Mode: config.TLSRequire, Cert: filepath.Join(w.dir, "cert.pem"), Key: filepath.Join(w.dir, "key.pem"), MinVersion: "1.2",
	}
	cfg.Auth = auth.Config{Method: auth.MethodScramSHA256, Users: []auth.User{{Name: user, Password: password}}}
	return cfg
}

func (w *world) logFile() string { return filepath.Join(w.dir, "weft.log") }

func (w *world) onStop(f func() error) { w.stops = append(w.stops, f) }

// Close ends everything, the newest first: weft before its shards.
func (w *world) Close() error {
	var errs []error
	for i := len(w.stops) - 1; i >= 0; i-- {
		errs = append(errs, w.stops[i]())
	}
	w.stops = nil
	return errors.Join(errs...)
}

// describe says how to reach both targets.
func (w *world) describe(out io.Writer) {
	for _, t := range []target{w.plainTarget(), w.weftTarget()} {
		fmt.Fprintf(out, "%-5s psql '%s'\n", t.name, t.connString("postgres"))
	}
	for i, s := range w.shards {
		fmt.Fprintf(out, "      shard-%d: psql '%s'\n", i, s.ConnString("postgres"))
	}
	fmt.Fprintf(out, "weft's log: %s\nCtrl-C stops everything.\n", w.logFile())
}

func onServer(ctx context.Context, s *pgserver.Temp, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}
