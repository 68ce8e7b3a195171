package patroni

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// DefaultNamespace is where Patroni keeps its clusters if its configuration does not say.
const DefaultNamespace = "/service/"

// Scope names a cluster of servers that Patroni runs.
type Scope struct {
	// Scope is Patroni's name of the cluster.
	Scope string `json:"scope"`
	// Namespace is below which Patroni keeps the cluster. Empty: DefaultNamespace.
	Namespace string `json:"namespace,omitempty"`
}

// Prefix is the prefix of all keys of the cluster.
func (s Scope) Prefix() string {
	namespace := s.Namespace
	if namespace == "" {
		namespace = DefaultNamespace
	}
	return "/" + strings.Trim(namespace, "/") + "/" + s.Scope + "/"
}

// Validate returns why the names cannot be those of a cluster.
func (s Scope) Validate() error {
	if s.Scope == "" || strings.ContainsAny(s.Scope, "/ \t\n") {
		return fmt.Errorf("%q is not a scope: it is the word after scope: in patroni.yml", s.Scope)
	}
	return nil
}

// Member is a server, and the Patroni beside it.
type Member struct {
	Name string `json:"-"`
	// ConnURL leads to the server, and APIURL to Patroni.
	ConnURL string `json:"conn_url"`
	APIURL  string `json:"api_url"`
	Role    string `json:"role"`
	State   string `json:"state"`
	Version string `json:"version"`
}

// Address returns the host:port of the server, "" if the member does not say.
func (m *Member) Address() string {
	u, err := url.Parse(m.ConnURL)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// Members reads the members from the keys of the cluster, ordered by name.
func (s Scope) Members(keys map[string]string) ([]Member, error) {
	var out []Member
	for key, value := range keys {
		name, ok := strings.CutPrefix(key, s.Prefix()+"members/")
		if !ok {
			continue
		}
		m := Member{}
		if err := json.Unmarshal([]byte(value), &m); err != nil {
			return nil, fmt.Errorf("read %s: %w", key, err)
		}
		m.Name = name
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Hosts returns the addresses of the servers, each once, in the order of the members' names.
func (s Scope) Hosts(keys map[string]string) ([]string, error) {
	members, err := s.Members(keys)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range members {
		if a := members[i].Address(); a != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out, nil
}

// Leader returns the name of the member that holds Patroni's leader lock, "" if none does.
func (s Scope) Leader(keys map[string]string) string { return keys[s.Prefix()+"leader"] }
