package security_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// through connects as a load balancer does, with a header before all else, and returns
// the connection or the SQLSTATE it was turned away with.
func through(t *testing.T, w *harness.Target, header, user, password string) (*client, string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	cfg, err := pgconn.ParseConfig(w.ConnString(user, "password="+password))
	if err != nil {
		t.Fatal(err)
	}
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			_, err = conn.Write([]byte(header))
		}
		return conn, err
	}
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, code(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &client{tb: t, conn: conn}, ""
}

// TestForwarded: rules, limits and lists go by the address that a load balancer says a
// client has, if the balancer is one.
func TestForwarded(t *testing.T) {
	v1 := func(address string) string { return fmt.Sprintf("PROXY TCP4 %s 10.0.0.1 40000 6432\r\n", address) }
	v2 := "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x0a\x09\x00\x07\x0a\x00\x00\x01\x9c\x40\x19\x20" // 10.9.0.7
	rules := func(c *config.Config) {
		c.Auth.Rules = []auth.Rule{
			{Type: "host", Address: "10.9.0.0/16", Method: auth.MethodScramSHA256},
			{Type: "host", Address: "10.8.0.0/16", Method: auth.MethodReject},
			{Type: "host", Address: "127.0.0.1", Method: auth.MethodTrust},
		}
		c.Limits.AuthFailures = 3
	}
	users := []auth.User{{Name: "victim", Password: victimPassword}}
	w := start(t, users, rules, func(c *config.Config) { c.ProxyProtocol = []string{"127.0.0.0/8"} })
	for _, tc := range []struct{ header, password, want string }{
		{v1("10.9.0.7"), victimPassword, ""},
		{v2, victimPassword, ""},
		{v1("10.8.0.7"), victimPassword, "28000"},
		{v1("10.7.0.7"), victimPassword, "28000"}, // no rule
		{"", "", ""}, // the balancer itself
		{"PROXY UNKNOWN\r\n", "", ""},
		{"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", "", ""},
		{v1("10.9.0.8"), "wrong", "28P01"},
		{v1("10.9.0.8"), "wrong", "28P01"},
		{v1("10.9.0.8"), "wrong", "28P01"},
		{v1("10.9.0.8"), victimPassword, "28000"}, // too many failures, of this one
		{v1("10.9.0.7"), victimPassword, ""},
	} {
		c, got := through(t, w, tc.header, "victim", tc.password)
		if got != tc.want {
			t.Errorf("%q with %s: %q, want %q", tc.header, tc.password, got, tc.want)
		}
		if address, _, _ := strings.Cut(strings.TrimPrefix(tc.header, "PROXY TCP4 "), " "); c != nil && strings.HasPrefix(tc.header, "PROXY TCP4") {
			if got := c.say("SELECT address FROM weft.sessions WHERE statement LIKE '%weft.sessions%' AND state = 'active'"); got != address+":40000" {
				t.Errorf("listed as %s", got)
			}
		}
	}
	if _, got := through(t, w, "PROXY TCP4 nonsense\r\n", "victim", victimPassword); !strings.Contains(got, "failed to") {
		t.Errorf("nonsense: %q", got)
	}
	for _, balancers := range [][]string{nil, {"10.0.0.0/8"}} {
		w := start(t, users, rules, func(c *config.Config) { c.ProxyProtocol = balancers })
		if c, got := through(t, w, v1("10.9.0.7"), "victim", victimPassword); c != nil || got == "" {
			t.Errorf("%v: somebody else is believed", balancers)
		}
		if got := try(t, w, "victim", ""); got != "" {
			t.Errorf("%v, without a header: %s", balancers, got)
		}
	}
}
