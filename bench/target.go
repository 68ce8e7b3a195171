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
	Addr  string
	// Database by query mode where it is not the usual one: PgBouncer offers the same database under two names.
	Databases map[string]string
	PID       int    // of the proxy; 0 when there is none
	HTTP      string // where a CPU profile can be fetched, if anywhere
}

const (
	benchUser     = "postgres"
	benchDatabase = "app"
)

func (t target) database(mode string) string {
	if db, ok := t.Databases[mode]; ok {
		return db
	}
	return benchDatabase
}

// dsn is the connection string for mode "", which is every use but pgbench.
func (t target) dsn() string {
	host, port := t.hostPort()
	return fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=disable", host, port, benchUser, t.database(""))
}

func (t target) hostPort() (host, port string) {
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		panic(fmt.Sprintf("target %s: address %q: %v", t.Name, t.Addr, err)) // Checked when the target was made.
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
