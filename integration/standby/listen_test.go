package standby

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/config"
	"weft/pgserver"
)

// freeAddr is an address that no process listens at.
func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// TestListenStandby: clients of listen_standby read standbys, and cannot write, without saying anything of it. Those of the other address
// of the same proxy are as ever.
func TestListenStandby(t *testing.T) {
	at := freeAddr(t)
	w := newWorld(t, func(c *config.Config) {
		c.ListenStandby = at
		// The user's own target is for the other address.
		c.Auth.Users = append(c.Auth.Users, auth.User{Name: "postgres", Target: "primary"})
	})
	host, port, _ := net.SplitHostPort(at)
	dial := func(more string) (*pgx.Conn, error) {
		cfg, err := pgx.ParseConfig("host=" + host + " port=" + port + " user=postgres dbname=postgres sslmode=disable " + more)
		if err != nil {
			t.Fatal(err)
		}
		return pgx.ConnectConfig(w.within(), cfg)
	}
	there, err := dial("target_session_attrs=standby")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { there.Close(context.Background()) })
	here := w.connect("target_session_attrs=primary")
	w.await("the standbys have all rows", func() bool {
		n, err := value(w.within(), there, "select count(*)::text from t")
		return err == nil && n == "40"
	})
	if got := there.PgConn().ParameterStatus("in_hot_standby"); got != "on" {
		t.Errorf("in_hot_standby is %q", got)
	}
	for i, key := range w.key {
		for c, want := range map[*pgx.Conn]int{there: w.standby[i].Port(), here: w.primary[i].Port()} {
			if got := w.value(c, "select current_setting('port') from t where k = $1", key); got != fmt.Sprint(want) {
				t.Errorf("a row of shard %d was read at %s, not at %d", i, got, want)
			}
		}
	}
	for _, sql := range []string{"update t set v = 0 where k = 1", "insert into t values (1000, 1)", "delete from home", "create table n (k int)"} {
		w.refused(there, sql, "25006")
	}
	w.must(here, "update t set v = v where k = 1")

	// A session may choose another target, and comes back to its first.
	if got := w.value(there, "show weft.target"); got != "standby" {
		t.Errorf("weft.target is %q", got)
	}
	w.must(there, "set weft.target = 'primary'")
	w.must(there, "update t set v = v where k = 1")
	w.must(there, "reset weft.target")
	w.refused(there, "update t set v = 0 where k = 1", "25006")

	// Drivers that look for a primary go on to another address.
	if c, err := dial("target_session_attrs=primary"); err == nil {
		c.Close(w.within())
		t.Error("a client that looks for a primary is content")
	}
	// A cancel request may come in at either address.
	slow := make(chan error, 1)
	go func() {
		_, err := there.Exec(w.within(), "select pg_sleep(600) from t where k = 1")
		slow <- err
	}()
	w.await("a client is cancelled", func() bool {
		_ = there.PgConn().CancelRequest(w.within())
		select {
		case err := <-slow:
			if code(err) != "57014" {
				t.Errorf("cancelled: %v", err)
			}
			return true
		default:
			return false
		}
	})
}
