package dev

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
)

// How soon a dead server is started again: at once the first time, later and
// later if it keeps dying, and afresh after it lived for a while.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
	longLife   = 30 * time.Second
)

// shard is one server of the cluster and whoever keeps it running.
type shard struct {
	name string
	cfg  pgserver.Config
	log  *slog.Logger

	mu  sync.Mutex
	srv *pgserver.Server // nil while there is none
}

func shardName(i int) string { return fmt.Sprintf("shard-%d", i) }

func shardDir(dir string, i int) string { return filepath.Join(dir, shardName(i)) }

func newShard(i int, st *state, o Options, inst pgserver.Install) *shard {
	name := shardName(i)
	log := o.Log.With("shard", name)
	return &shard{name: name, log: log, cfg: pgserver.Config{
		Install: inst,
		Dir:     shardDir(o.Dir, i),
		Port:    st.PortBase + i,
		Locale:  st.Locale,
		User:    superuser,
		Fsync:   true,
		Log:     log,
	}}
}

// make makes the data directory if there is none yet. lost says that there was
// one before.
func (s *shard) make(ctx context.Context, lost bool) (made bool, err error) {
	if s.cfg.Exists() {
		return false, nil
	}
	if lost {
		return false, fmt.Errorf("%s is gone: put it back, or remove %s to start with an empty cluster",
			s.cfg.Dir, filepath.Dir(s.cfg.Dir))
	}
	return true, s.cfg.Init(ctx)
}

// start brings the server up.
func (s *shard) start(ctx context.Context) error {
	srv, err := s.cfg.Start(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv = srv
	return nil
}

// createDatabase makes the database unless it is there. Only a cluster's start
// does it, not a shard's restart: that would bring back, on one shard alone, a
// database that was dropped on all.
func (s *shard) createDatabase(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, s.server().ConnString("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	there, err := conn.Exec(ctx, "SELECT FROM pg_database WHERE datname = '"+database+"'").ReadAll()
	if err == nil && len(there[0].Rows) == 0 {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+database).ReadAll()
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	return nil
}

// server is the running server, or nil.
func (s *shard) server() *pgserver.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.srv
}

// keep starts the server again whenever it dies, until ctx ends.
func (s *shard) keep(ctx context.Context) {
	pause := firstPause
	for {
		srv, began := s.server(), time.Now()
		select {
		case <-ctx.Done():
			return
		case <-srv.Done():
		}
		if time.Since(began) > longLife {
			pause = firstPause
		}
		s.log.Error("shard server died", "err", srv.Err(), "restart_in", pause)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longPause)
			err := s.start(ctx)
			if err == nil {
				s.log.Warn("shard server runs again", "pid", s.server().PID())
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.log.Error("shard server does not start", "err", err, "next_try_in", pause)
		}
	}
}

// stop ends the server. Nobody may be in keep or start.
func (s *shard) stop(ctx context.Context) error {
	srv := s.server()
	if srv == nil {
		return nil
	}
	if err := srv.Stop(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	return nil
}

func (s *shard) addr() string { return loopback(s.cfg.Port) }
