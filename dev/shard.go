package dev

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/dev/supervisor"
	"weft/pgserver"
)

// shard is one shard of the cluster: its servers, and what keeps them running.
type shard struct {
	*supervisor.Supervisor
	name  string
	addrs []string // of its servers, in the order of their directories
}

func shardName(i int) string { return fmt.Sprintf("shard-%d", i) }

// serverName is the name of a shard's server and of its directory: that of the shard for
// the first, whose standbys have a number more.
func serverName(i, k int) string {
	if k == 0 {
		return shardName(i)
	}
	return fmt.Sprintf("%s-%d", shardName(i), k)
}

func shardDir(dir string, i int) string { return filepath.Join(dir, shardName(i)) }

func newShard(i int, st *state, o Options, inst pgserver.Install) *shard {
	s := &shard{name: shardName(i)}
	cfg := supervisor.Config{Name: s.name, Async: o.Async, Complete: st.Complete, Log: o.Log}
	for k := range st.servers() {
		name, port := serverName(i, k), st.port(i, k)
		s.addrs = append(s.addrs, loopback(port))
		cfg.Servers = append(cfg.Servers, pgserver.Config{
			Install: inst,
			Dir:     filepath.Join(o.Dir, name),
			Port:    port,
			Locale:  st.Locale,
			User:    superuser,
			Fsync:   true,
			Log:     o.Log.With("shard", s.name),
		})
	}
	s.Supervisor = supervisor.New(cfg)
	return s
}

// createDatabase makes the database unless it is there. Only a cluster's start
// does it, not a shard's restart: that would bring back, on one shard alone, a
// database that was dropped on all.
func (s *shard) createDatabase(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, s.Primary().ConnString("postgres"))
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

// others are the addresses of the servers that are no primary at the start.
func (s *shard) others() []string {
	var out []string
	for _, a := range s.addrs {
		if a != s.Primary().Addr() {
			out = append(out, a)
		}
	}
	return out
}
