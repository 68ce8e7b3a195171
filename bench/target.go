package main

import (
	"fmt"
	"net"
	"strconv"

	"weft/pgserver"
)

// target is one way to the server.
type target struct {
	Name  string
	Title string
	endpoint
	// prepared is the endpoint for pgbench's prepared mode, where it is another one.
	//
	// In that mode pgbench prepares a client's statements with a call that blocks its only thread. Once clients in the
	// middle of their transactions hold all server connections of a pool, that call waits for ever for one that
	// only the same thread could free. So in this mode there has to be a server connection for every client.
	prepared *endpoint
}

// endpoint is where a target is reached and which process is behind it.
type endpoint struct {
	Addr     string
	Database string // empty: plainDatabase
	PID      int    // of the proxy; 0 when there is none
	HTTP     string // where a CPU profile can be fetched, if anywhere
}

const (
	benchUser = "postgres"
	// plainDatabase holds every table on one server and declares none.
	plainDatabase = "plain"
	// shardedDatabase holds the same rows over all shards.
	shardedDatabase = "app"
)

// in is the target as a workload in a query mode of pgbench has to reach it.
func (t target) in(w workload, mode string) target {
	if mode == modePrepared && t.prepared != nil {
		t.endpoint = *t.prepared
	}
	if w.Sharded && (t.Name == targetWeft || t.Name == targetCold || t.Name == targetLoop) {
		t.Database = shardedDatabase
	}
	return t
}

func (e endpoint) database() string {
	if e.Database == "" {
		return plainDatabase
	}
	return e.Database
}

func (e endpoint) dsn() string {
	host, port := e.hostPort()
	return fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable", host, port, benchUser, e.database())
}

func (e endpoint) hostPort() (host, port string) {
	host, port, err := net.SplitHostPort(e.Addr)
	if err != nil {
		panic(fmt.Sprintf("address %q: %v", e.Addr, err)) // All addresses are our own making.
	}
	return host, port
}

// freeAddr picks a loopback address nobody listens on. Somebody else may take it before its user does; then that
// server says so in its log and ends the run.
func freeAddr() (string, error) {
	port, err := pgserver.FreePort()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}
