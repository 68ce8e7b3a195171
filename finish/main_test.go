package finish_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver"
	"weft/pool"
)

var postgres *pgserver.Temp

func TestMain(m *testing.M) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	var err error
	postgres, err = pgserver.StartTemp(ctx, pgserver.Config{})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start PostgreSQL:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := postgres.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close PostgreSQL:", err)
		code = 1
	}
	os.Exit(code)
}

// backend returns a connection of the test's own.
func backend(tb testing.TB) *pool.Conn {
	tb.Helper()
	p, err := pool.New(pool.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	sh := p.Shard(&directory.Shard{Name: "home", Hosts: []string{postgres.Addr()}, Options: map[string]string{"sslmode": "disable"}})
	l := sh.OpenLane(pool.NewKey("postgres", "postgres", nil))
	tb.Cleanup(l.CloseLane)
	c, err := l.Dedicated(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Terminate)
	return c
}

func run(tb testing.TB, c *pool.Conn, sql string) [][]string {
	tb.Helper()
	rows, err := c.Exec(sql)
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return rows
}

func code(err error) string {
	var e *pgerr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}
