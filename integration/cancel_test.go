package integration

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
	"weft/wire"
)

// TestCancelElsewhere: behind one address of several proxies, a cancel request comes to any of them.
func TestCancelElsewhere(t *testing.T) {
	here, there := harness.StartWeft(t, func(*config.Config) {}), harness.StartWeft(t, func(*config.Config) {})
	for name, secret := range map[string]func([]byte) []byte{
		"right key": func(k []byte) []byte { return k },
		"wrong key": func(k []byte) []byte { k = append([]byte(nil), k...); k[0] ^= 1; return k },
	} {
		t.Run(name, func(t *testing.T) {
			c := here.Connect(t, "postgres")
			done := make(chan error, 1)
			go func() {
				_, err := c.Exec(t.Context(), "select pg_sleep(2)")
				done <- err
			}()
			here.Await(t, "select exists (select from pg_stat_activity where state = 'active' and query = 'select pg_sleep(2)')")
			conn, err := net.DialTimeout("tcp", there.Addr, pgtest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := time.Now()
			if _, err := conn.Write(wire.AppendCancel(nil, int32(c.PgConn().PID()), secret(c.PgConn().SecretKey()))); err != nil {
				t.Fatal(err)
			}
			// As with PostgreSQL, the end of the connection says that it has been seen to.
			_ = conn.SetReadDeadline(time.Now().Add(pgtest.Patience))
			if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, net.ErrClosed) {
				t.Errorf("read %d, %v", n, err)
			}
			err = <-done
			e := (*pgconn.PgError)(nil)
			if cancelled := errors.As(err, &e) && e.Code == "57014"; cancelled != (name == "right key") {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		})
	}
}
