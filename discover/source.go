package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"weft/directory"
)

// Keys reads what Patroni keeps in the etcd of the directory. etcd.Store implements it.
type Keys interface {
	Keys(ctx context.Context, prefix string) (map[string]string, error)
	// WatchKeys calls changed after each change, until ctx ends or an error.
	WatchKeys(ctx context.Context, prefix string, changed func(key string)) error
}

// Source finds servers.
type Source struct {
	// Keys is nil where there is no etcd.
	Keys Keys
	// Lookup returns the addresses of a name. Nil: those that the system's resolver knows.
	Lookup func(ctx context.Context, host string) ([]string, error)
}

// Hosts returns the addresses of the servers that a shard has now. It is an error if there are none.
func (s *Source) Hosts(ctx context.Context, sh *directory.Shard) ([]string, error) {
	var found []string
	var err error
	if sh.Patroni != nil {
		found, err = s.members(ctx, sh)
	} else {
		found, err = s.addresses(ctx, sh.Names)
	}
	if err == nil && len(found) == 0 {
		err = errors.New("no server is known")
	}
	if err != nil {
		return nil, fmt.Errorf("find the servers of shard %s: %w", sh.Name, err)
	}
	return found, nil
}

// members returns the addresses of Patroni's members.
func (s *Source) members(ctx context.Context, sh *directory.Shard) ([]string, error) {
	if s.Keys == nil {
		return nil, errors.New("there is no etcd")
	}
	keys, err := s.Keys.Keys(ctx, sh.Patroni.Prefix())
	if err != nil {
		return nil, err
	}
	found, err := sh.Patroni.Hosts(keys)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("etcd has no members of Patroni below %smembers/: does Patroni run, with this etcd, scope and namespace?", sh.Patroni.Prefix())
	}
	return found, err
}

// addresses returns host:port as it is, and all addresses of names.
func (s *Source) addresses(ctx context.Context, names []string) ([]string, error) {
	lookup := s.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	var out []string
	for _, n := range names {
		name, resolve := strings.CutPrefix(n, directory.NamePrefix)
		if !resolve {
			out = append(out, n)
			continue
		}
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		found, err := lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		slices.Sort(found)
		for _, a := range found {
			if a = net.JoinHostPort(a, port); !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// merge returns the hosts of a shard that had old ones and for which others were found: those that were there stay in their places if
// they are found or alive.
func merge(old, found []string, alive func(address string) bool) []string {
	var out []string
	for _, h := range old {
		if slices.Contains(found, h) || alive(h) {
			out = append(out, h)
		}
	}
	for _, h := range found {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}
