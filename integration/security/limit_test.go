package security_test

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"weft/auth"
	"weft/config"
	"weft/pgserver/pgtest"
)

// TestClientLimits: clients in all are another test's, these are one user's and
// one database's. A place that becomes free can be taken.
func TestClientLimits(t *testing.T) {
	w := start(t, []auth.User{{Name: "victim", Password: victimPassword}}, func(c *config.Config) {
		c.Limits.MaxClientsPerUser, c.Limits.MaxClientsPerDatabase = 2, 3
	})
	a := connect(t, w, "victim", victimPassword)
	connect(t, w, "victim", victimPassword, "dbname="+plain)
	if got := try(t, w, "victim", victimPassword); got != "53300" {
		t.Errorf("a third one of the user's: %q", got)
	}
	connect(t, w, "postgres", "")
	connect(t, w, "postgres", "")
	if got := try(t, w, "postgres", ""); got != "53300" {
		t.Errorf("a third one of another user's: %q", got)
	}
	_ = a.conn.Close(context.Background())
	for range 2 { // the second after the first, which leaves too
		for until := time.Now().Add(pgtest.Patience); ; time.Sleep(5 * time.Millisecond) {
			got := try(t, w, "victim", victimPassword)
			if got == "" {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("when one has left: %q", got)
			}
		}
	}
	if got := try(t, w, "mallory", ""); got != "28P01" {
		t.Errorf("nobody's business before the password: %q", got)
	}
}

// TestAuthFailures: an address that fails often is turned away for a while, also
// with the right password.
func TestAuthFailures(t *testing.T) {
	w := start(t, []auth.User{{Name: "victim", Password: victimPassword}}, func(c *config.Config) { c.Limits.AuthFailures = 3 })
	for i := range 3 {
		if got := try(t, w, "victim", "guess"); got != "28P01" {
			t.Fatalf("guess %d: %q", i, got)
		}
	}
	for _, user := range []string{"victim", "nobody", "postgres"} {
		if got := try(t, w, user, victimPassword); got != "28000" {
			t.Errorf("%s after three failures: %q", user, got)
		}
	}
	many := start(t, []auth.User{{Name: "victim", Password: victimPassword}}, func(c *config.Config) { c.Limits.AuthFailures = 0 })
	for range 5 {
		try(t, many, "victim", "guess")
	}
	if got := try(t, many, "victim", victimPassword); got != "" {
		t.Errorf("without a limit: %q", got)
	}
}

// TestAdminUsers: the console is for those who are named, or for the service user.
func TestAdminUsers(t *testing.T) {
	users := []auth.User{{Name: "victim", Password: victimPassword}, {Name: "ops", Password: "marked-ops-pw"}}
	named := start(t, users, func(c *config.Config) { c.AdminUsers = []string{"ops"} })
	unnamed := start(t, users)
	for _, tc := range []struct {
		user, password        string
		inNamed, inUnnamedOne string
	}{
		{"ops", "marked-ops-pw", "", "42501"},
		{"ops", "wrong", "28P01", "28P01"},
		{"victim", victimPassword, "42501", "42501"},
		{"postgres", "", "42501", ""},
	} {
		if got := try(t, named, tc.user, tc.password, "dbname=weft"); got != tc.inNamed {
			t.Errorf("%s, admin_users [ops]: %q", tc.user, got)
		}
		if got := try(t, unnamed, tc.user, tc.password, "dbname=weft"); got != tc.inUnnamedOne {
			t.Errorf("%s, no admin_users: %q", tc.user, got)
		}
	}
	if got := connect(t, named, "ops", "marked-ops-pw", "dbname=weft").say("SHOW CLIENTS"); !strings.Contains(got, "ops") {
		t.Error(got)
	}
}

// TestCancelKeys: a cancel request with another's key, a part of the key or none
// does nothing; keys do not repeat.
func TestCancelKeys(t *testing.T) {
	w := start(t, nil)
	a, b := connect(t, w, "postgres", ""), connect(t, w, "postgres", "")
	key := a.conn.SecretKey()
	if len(key) != 4 || string(key) == string(b.conn.SecretKey()) {
		t.Fatalf("keys %x and %x", key, b.conn.SecretKey())
	}
	done := make(chan string, 1)
	asleep := func() {
		t.Helper()
		w.Await(t, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
	}
	go func() { done <- a.say("SELECT pg_sleep(2), 'slept'") }()
	asleep()
	wrong := append([]byte(nil), key...)
	wrong[3] ^= 1
	for _, k := range [][]byte{b.conn.SecretKey(), wrong, key[:3], {}, append(append([]byte(nil), key...), 0), make([]byte, 4), make([]byte, 32)} {
		sendCancel(t, w.Addr, a.conn.PID(), k)
		sendCancel(t, w.Addr, b.conn.PID(), key)
	}
	if got := <-done; got != ",slept" {
		t.Errorf("cancelled by a wrong key: %s", got)
	}
	go func() { done <- a.say("SELECT pg_sleep(30)") }()
	asleep()
	sendCancel(t, w.Addr, a.conn.PID(), key)
	if got := <-done; got != "57014" {
		t.Errorf("with the right key: %s", got)
	}
}

// sendCancel sends a cancel request and waits until weft has read it.
func sendCancel(t *testing.T, addr string, pid uint32, key []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(key)))
	b = binary.BigEndian.AppendUint32(b, 80877102)
	b = append(binary.BigEndian.AppendUint32(b, pid), key...)
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(pgtest.Patience))
	_, _ = conn.Read(make([]byte, 1)) // until it hangs up
}

// TestOneUserLeavesRoom: whoever keeps all backends it can get does not keep others out, with
// limits as they are by default.
func TestOneUserLeavesRoom(t *testing.T) {
	w := start(t, []auth.User{{Name: "mallory", Password: world.mallory}, {Name: "victim", Password: world.victim}}, func(c *config.Config) {
		c.Pool.MaxPerShard, c.Pool.QueueTimeout = 4, 2*time.Second
	})
	var kept []*client
	for range 8 {
		kept = append(kept, connect(t, w, "mallory", malloryPassword, "dbname="+plain))
	}
	refused := 0
	for _, c := range kept[:4] {
		if got := c.say("BEGIN; SELECT 1"); got == "53300" {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of 4 transactions got no backend", refused)
	}
	other := connect(t, w, "victim", victimPassword, "dbname="+plain)
	if got := other.say("SELECT count(*) FROM secret"); got != "20" {
		t.Error(got)
	}
}
