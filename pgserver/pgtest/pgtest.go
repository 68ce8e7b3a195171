// Package pgtest gives a test a real PostgreSQL server in one line.
//
//	srv := pgtest.Start(t, pgserver.Config{})
//	conn, err := pgx.Connect(ctx, srv.ConnString("postgres"))
//
// A machine without PostgreSQL fails the test instead of skipping it: the
// message says what to install. Servers are thrown away when the test ends;
// for one shared by a whole package use pgserver.StartTemp in TestMain.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"weft/pgserver"
)

// Start starts a throw-away server; see pgserver.StartTemp for what cfg may
// leave empty. It is gone when the test ends.
func Start(tb testing.TB, cfg pgserver.Config) *pgserver.Temp {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	srv, err := pgserver.StartTemp(ctx, cfg)
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(func() {
		if err := srv.Close(); err != nil {
			tb.Errorf("close PostgreSQL: %v", err)
		}
	})
	return srv
}

// Dir makes a directory that PostgreSQL servers can work in, also when the test
// runs as root. It is removed when the test ends.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := pgserver.TempDir()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// Install returns the installation tests use.
func Install(tb testing.TB) pgserver.Install {
	tb.Helper()
	inst, err := pgserver.Find("")
	if err != nil {
		tb.Fatal(err)
	}
	return inst
}

// Standby starts a standby of a running server. It is gone when the test ends.
func Standby(tb testing.TB, of *pgserver.Server) *pgserver.Server {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	cfg := of.Config()
	cfg.Dir = filepath.Join(Dir(tb), "data")
	cfg.Name = fmt.Sprintf("standby-of-%d-%d", of.Port(), standbys.Add(1))
	var err error
	if cfg.Port, err = pgserver.FreePort(); err != nil {
		tb.Fatal(err)
	}
	s, err := cfg.Standby(ctx, of)
	if err != nil {
		tb.Fatalf("start a standby: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Config().End(context.Background()); err != nil {
			tb.Errorf("end a standby: %v", err)
		}
	})
	return s
}

// standbys counts the standbys, for their names.
var standbys atomic.Int64
