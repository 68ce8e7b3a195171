package auth

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Rule is one line of what PostgreSQL calls pg_hba.conf.
type Rule struct {
	// Type is the kind of socket: local (Unix-domain), host (TCP), hostssl
	// (TCP with TLS) or hostnossl (TCP without).
	Type string `yaml:"type"`

	// Databases the rule is for; "all" is every one, "sameuser" the one named
	// like the user. Empty: all.
	Databases []string `yaml:"databases,omitempty"`

	// Users the rule is for; "all" is every one. Empty: all.
	Users []string `yaml:"users,omitempty"`

	// Address is a network such as 10.0.0.0/8, a single address, or "all".
	// Empty: all. A local rule has none.
	Address string `yaml:"address,omitempty"`

	// Method for clients that match. Empty: Config.Method.
	Method Method `yaml:"method,omitempty"`

	// ClientCert is verify-ca, for clients that must show a certificate beside
	// what Method asks for, or verify-full, for those whose certificate must
	// also bear the user's name. Only with hostssl. Empty: verify-full under
	// method cert, else no certificate is asked for.
	ClientCert string `yaml:"clientcert,omitempty"`

	// Map is the name of the Mappings that say which users a certificate's
	// name stands for. Empty: the names must be the same.
	Map string `yaml:"map,omitempty"`
}

// compiledRule is a Rule with its words read.
type compiledRule struct {
	kind      string
	databases []string // nil means all
	users     []string // nil means all
	network   netip.Prefix
	anywhere  bool
	method    Method
	cert      string // "", verify-ca or verify-full
	names     string // the map of names in certificates
}

func (r Rule) compile(method Method) (compiledRule, error) {
	c := compiledRule{kind: r.Type, method: r.Method, anywhere: true}
	if c.method == "" {
		c.method = method
	}
	var errs []error
	switch r.Type {
	case "local", "host", "hostssl", "hostnossl":
	case "":
		errs = append(errs, errors.New("type is empty, must be one of local, host, hostssl, hostnossl"))
	default:
		errs = append(errs, fmt.Errorf("type %q is not one of local, host, hostssl, hostnossl", r.Type))
	}
	for _, d := range r.Databases {
		if d == "samerole" || d == "samegroup" || d == "replication" {
			errs = append(errs, fmt.Errorf("database %q is not supported: list the databases", d))
		} else if err := checkName("database", d); err != nil {
			errs = append(errs, err)
		}
	}
	if !slices.Contains(r.Databases, "all") {
		c.databases = r.Databases
	}
	for _, u := range r.Users {
		if strings.HasPrefix(u, "+") {
			errs = append(errs, fmt.Errorf("user %q: weft does not know the members of roles, list the users", u))
		} else if err := checkName("user", u); err != nil {
			errs = append(errs, err)
		}
	}
	if !slices.Contains(r.Users, "all") {
		c.users = r.Users
	}
	if r.Address != "" && r.Type == "local" {
		errs = append(errs, fmt.Errorf("address %q: a local rule has no address", r.Address))
	} else if r.Address != "" && r.Address != "all" {
		network, err := parseNetwork(r.Address)
		if err != nil {
			errs = append(errs, err)
		}
		c.network, c.anywhere = network, false
	}
	if err := r.Method.validate(); err != nil {
		errs = append(errs, err)
	}
	return c, errors.Join(append(errs, c.certificate(r))...)
}

// parseNetwork reads an address or a network. Bits beyond the mask are ignored,
// as in pg_hba.conf.
func parseNetwork(s string) (netip.Prefix, error) {
	if s == "samehost" || s == "samenet" {
		return netip.Prefix{}, fmt.Errorf("address %q is not supported: write the network", s)
	}
	var network netip.Prefix
	if ip, err := netip.ParseAddr(s); err == nil {
		network = netip.PrefixFrom(ip.WithZone(""), ip.BitLen())
	} else if network, err = netip.ParsePrefix(s); err != nil {
		return netip.Prefix{}, fmt.Errorf("address %q is neither an IP address nor a network like 10.0.0.0/8", s)
	}
	if network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("address %q: write IPv4 networks as IPv4", s)
	}
	return network.Masked(), nil
}

func (c *compiledRule) matches(r Request) bool {
	local := isLocal(r.Remote)
	switch c.kind {
	case "local":
		if !local {
			return false
		}
	case "host":
		if local {
			return false
		}
	case "hostssl":
		if local || r.TLS == nil {
			return false
		}
	case "hostnossl":
		if local || r.TLS != nil {
			return false
		}
	}
	if len(c.databases) > 0 && !slices.Contains(c.databases, r.Database) &&
		!(r.Database == r.User && slices.Contains(c.databases, "sameuser")) {
		return false
	}
	if len(c.users) > 0 && !slices.Contains(c.users, r.User) {
		return false
	}
	if c.anywhere {
		return true
	}
	ip, ok := addrOf(r.Remote)
	return ok && c.network.Contains(ip)
}

func isLocal(addr net.Addr) bool {
	return addr != nil && addr.Network() == "unix"
}

// addrOf returns the peer's IP address; one that arrived as IPv4 on an IPv6
// socket is IPv4, as rules are written.
func addrOf(addr net.Addr) (netip.Addr, bool) {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		ip, ok := netip.AddrFromSlice(tcp.IP)
		return ip.Unmap(), ok
	}
	if addr == nil {
		return netip.Addr{}, false
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return ap.Addr().Unmap().WithZone(""), err == nil
}
