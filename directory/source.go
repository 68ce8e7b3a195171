package directory

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"weft/patroni"
)

// NamePrefix begins a name whose addresses are the servers of a shard.
const NamePrefix = "dns:"

// Discovered reports whether the shard's hosts are found out, and not declared.
func (sh *Shard) Discovered() bool { return sh.Patroni != nil || len(sh.Names) > 0 }

// Source says where the shard's hosts are found, "" if they are declared.
func (sh *Shard) Source() string {
	if sh.Patroni != nil {
		return "patroni " + sh.Patroni.Prefix()
	}
	return strings.Join(sh.Names, ",")
}

// Find says that the shard's hosts are found by names, those that begin with NamePrefix, or by Patroni. Without such a name, and without
// Patroni, the names are the hosts.
func (sh *Shard) Find(names []string, scope *patroni.Scope) {
	sh.Hosts, sh.Names, sh.Patroni = names, nil, scope
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, NamePrefix) }) {
		sh.Hosts, sh.Names = nil, names
	}
}

// Relocate says that the shard's servers are where another entry says. Hosts that the other entry does not know yet stay as they are.
func (sh *Shard) Relocate(other *Shard) {
	sh.Names, sh.Patroni, sh.Options, sh.Servers = other.Names, other.Patroni, other.Options, other.Servers
	if len(other.Hosts) > 0 || !other.Discovered() {
		sh.Hosts = other.Hosts
	}
}

// validateSource checks where the hosts are found.
func (sh *Shard) validateSource(place string, bad func(place, format string, args ...any)) {
	if sh.Patroni != nil {
		if err := sh.Patroni.Validate(); err != nil {
			bad(place+".patroni.scope", "%s", err.Error())
		}
		if len(sh.Names) > 0 {
			bad(place+".hosts", "and patroni exclude each other: Patroni's members are the servers")
		}
	}
	for i, n := range sh.Names {
		host, port, err := net.SplitHostPort(strings.TrimPrefix(n, NamePrefix))
		if err != nil || host == "" || port == "" {
			bad(fmt.Sprintf("%s.hosts[%d]", place, i), "%q is not %shost:port, for example %sshop-1.db:5432", n, NamePrefix, NamePrefix)
		}
	}
}
