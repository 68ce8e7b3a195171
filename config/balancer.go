package config

import (
	"net/netip"
	"strings"
)

// Balancers are the networks of ProxyProtocol, which has been validated.
func (c Config) Balancers() []netip.Prefix {
	var out []netip.Prefix
	for _, b := range c.ProxyProtocol {
		if p, err := balancer(b); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// balancer reads an address or a network.
func balancer(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		p, err := netip.ParsePrefix(s)
		return p.Masked(), err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
}
