package dev

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/dev/patroni"
	"weft/dev/supervisor"
	"weft/pgserver"
)

// keeper runs the servers of a shard: a supervisor of ours, or Patroni.
type keeper interface {
	// Open starts all servers and returns when they serve. After an error Stop is called too.
	Open(ctx context.Context) (made bool, err error)
	// Run keeps the shard alive until ctx ends.
	Run(ctx context.Context)
	// Do carries out an order of package supervisor and says what has happened.
	Do(ctx context.Context, order string) (string, error)
	// Servers are the servers as they were a moment ago.
	Servers() []supervisor.Status
	// Stop ends all servers. Run is over, or was not called.
	Stop(ctx context.Context) error
}

var (
	_ keeper = (*supervisor.Supervisor)(nil)
	_ keeper = (*patroni.Shard)(nil)
)

// shard is one shard of the cluster: its servers, and what keeps them running.
type shard struct {
	keeper
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

// newShard returns shard i. patroniPath is the program, if Patroni is to run the servers.
func newShard(i int, st *state, o Options, inst pgserver.Install, patroniPath string) *shard {
	s := &shard{name: shardName(i)}
	var servers []pgserver.Config
	for k := range st.servers() {
		name, port := serverName(i, k), st.port(i, k)
		s.addrs = append(s.addrs, loopback(port))
		servers = append(servers, pgserver.Config{
			Install: inst,
			Dir:     filepath.Join(o.Dir, name),
			Port:    port,
			Locale:  st.Locale,
			User:    superuser,
			Fsync:   true,
			Log:     o.Log.With("shard", s.name),
		})
	}
	if patroniPath == "" {
		s.keeper = supervisor.New(supervisor.Config{Name: s.name, Servers: servers, Async: o.Async, Complete: st.Complete, Log: o.Log})
		return s
	}
	s.keeper = patroni.New(patroni.Config{
		Name: s.name, Servers: servers, Program: patroniPath, Etcd: loopback(st.EtcdPort), Dir: filepath.Join(o.Dir, "patroni"),
		Async: o.Async, Complete: st.Complete, Log: o.Log,
	})
	return s
}

// primary is the address of the primary, or of the first server while there is none.
func (s *shard) primary() string {
	for _, st := range s.Servers() {
		if st.Role == supervisor.Primary {
			return st.Address
		}
	}
	return s.addrs[0]
}

// createDatabase makes the database unless it is there. Only a cluster's start
// does it, not a shard's restart: that would bring back, on one shard alone, a
// database that was dropped on all.
func (s *shard) createDatabase(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, "postgres://"+superuser+"@"+s.primary()+"/postgres?sslmode=disable")
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
		if a != s.primary() {
			out = append(out, a)
		}
	}
	return out
}
