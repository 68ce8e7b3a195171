package auth

import (
	"crypto/tls"
	"net"
	"testing"
)

func TestRuleMatches(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1234} }
	v4, v6, mapped := tcp("10.1.2.3"), tcp("fd00::1"), tcp("::ffff:10.1.2.3")
	unix := &net.UnixAddr{Net: "unix"}
	secure := &tls.ConnectionState{}
	for _, c := range []struct {
		rule    Rule
		request Request
		want    bool
	}{
		{Rule{Type: "local"}, Request{Remote: unix}, true},
		{Rule{Type: "local"}, Request{Remote: v4}, false},
		{Rule{Type: "local"}, Request{Remote: nil}, false},
		{Rule{Type: "host"}, Request{Remote: unix}, false},
		{Rule{Type: "host"}, Request{Remote: v4}, true},
		{Rule{Type: "host"}, Request{Remote: v4, TLS: secure}, true},
		{Rule{Type: "hostssl"}, Request{Remote: v4}, false},
		{Rule{Type: "hostssl"}, Request{Remote: v4, TLS: secure}, true},
		{Rule{Type: "hostssl"}, Request{Remote: unix, TLS: secure}, false},
		{Rule{Type: "hostnossl"}, Request{Remote: v4}, true},
		{Rule{Type: "hostnossl"}, Request{Remote: v4, TLS: secure}, false},

		{Rule{Type: "host", Address: "10.0.0.0/8"}, Request{Remote: v4}, true},
		{Rule{Type: "host", Address: "10.9.9.9/8"}, Request{Remote: v4}, true},
		{Rule{Type: "host", Address: "10.0.0.0/8"}, Request{Remote: mapped}, true},
		{Rule{Type: "host", Address: "10.1.2.3"}, Request{Remote: v4}, true},
		{Rule{Type: "host", Address: "10.1.2.4"}, Request{Remote: v4}, false},
		{Rule{Type: "host", Address: "0.0.0.0/0"}, Request{Remote: v4}, true},
		{Rule{Type: "host", Address: "0.0.0.0/0"}, Request{Remote: v6}, false},
		{Rule{Type: "host", Address: "::/0"}, Request{Remote: v4}, false},
		{Rule{Type: "host", Address: "::/0"}, Request{Remote: v6}, true},
		{Rule{Type: "host", Address: "fd00::/16"}, Request{Remote: &net.TCPAddr{IP: net.ParseIP("fd00::1"), Zone: "eth0"}}, true},
		{Rule{Type: "host", Address: "all"}, Request{Remote: v6}, true},
		{Rule{Type: "host", Address: "10.0.0.0/8"}, Request{Remote: nil}, false},
		{Rule{Type: "host", Address: "10.0.0.0/8"}, Request{Remote: &net.IPAddr{}}, false},

		{Rule{Type: "host", Databases: []string{"x", "app"}}, Request{Remote: v4, Database: "app"}, true},
		{Rule{Type: "host", Databases: []string{"x"}}, Request{Remote: v4, Database: "app"}, false},
		{Rule{Type: "host", Databases: []string{"all"}}, Request{Remote: v4, Database: "app"}, true},
		{Rule{Type: "host", Databases: []string{"sameuser"}}, Request{Remote: v4, User: "u", Database: "u"}, true},
		{Rule{Type: "host", Databases: []string{"sameuser"}}, Request{Remote: v4, User: "u", Database: "app"}, false},
		{Rule{Type: "host", Users: []string{"u", "v"}}, Request{Remote: v4, User: "v"}, true},
		{Rule{Type: "host", Users: []string{"u", "v"}}, Request{Remote: v4, User: "V"}, false},
		{Rule{Type: "host", Users: []string{"all"}}, Request{Remote: v4, User: "V"}, true},
		{Rule{Type: "host", Databases: []string{"app"}, Users: []string{"u"}}, Request{Remote: v4, User: "u", Database: "b"}, false},
	} {
		compiled, err := c.rule.compile(MethodTrust)
		if err != nil {
			t.Fatalf("%+v: %v", c.rule, err)
		}
		if got := compiled.matches(c.request); got != c.want {
			t.Errorf("%+v, %+v: %v, want %v", c.rule, c.request, got, c.want)
		}
	}
}
