package pool_test

import (
	"strconv"
	"testing"

	"weft/directory"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
)

// TestPrimaryIsFound gives a shard two hosts of which the first takes no
// writes: connections go to the other, and follow it when the roles change.
func TestPrimaryIsFound(t *testing.T) {
	standby := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"default_transaction_read_only": "on"}})
	primary := pgtest.Start(t, pgserver.Config{})
	p, err := pool.New(pool.Config{})
	if err != nil {
		t.Fatal(err)
	}
	shard := p.Shard(&directory.Shard{
		Name: "shard-0", Hosts: []string{standby.Addr(), primary.Addr()}, Options: map[string]string{"sslmode": "disable"},
	})
	lane := shard.OpenLane(pool.Key{Database: "postgres", User: "postgres"})
	defer lane.CloseLane()
	port := func() string {
		c, err := lane.Acquire(t.Context(), pool.Want{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Discard()
		rows, err := c.Exec("SELECT inet_server_port()")
		if err != nil {
			t.Fatal(err)
		}
		return rows[0][0]
	}
	if got, want := port(), strconv.Itoa(primary.Port()); got != want {
		t.Errorf("connected to port %s, the primary is on %s", got, want)
	}

	exec := func(srv *pgserver.Temp, sql ...string) {
		t.Helper()
		one := p.Shard(&directory.Shard{Name: srv.Addr(), Hosts: []string{srv.Addr()}, Options: map[string]string{"sslmode": "disable"}})
		c, err := one.OpenLane(pool.Key{Database: "postgres", User: "postgres"}).Acquire(t.Context(), pool.Want{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Discard()
		for _, q := range sql {
			if _, err := c.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	exec(primary, "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf(), pg_sleep(0.2)")
	exec(standby, "ALTER SYSTEM SET default_transaction_read_only = off", "SELECT pg_reload_conf(), pg_sleep(0.2)")
	if got, want := port(), strconv.Itoa(standby.Port()); got != want {
		t.Errorf("after the switch connected to port %s, the primary is on %s", got, want)
	}
}
