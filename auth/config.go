package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Method is how a client proves who it is.
type Method string

// The methods, named as in pg_hba.conf.
const (
	MethodTrust       Method = "trust"
	MethodMD5         Method = "md5"
	MethodScramSHA256 Method = "scram-sha-256"
	MethodCert        Method = "cert"
	MethodReject      Method = "reject"
)

// asksPassword reports whether the method compares with a stored password.
func (m Method) asksPassword() bool { return m == MethodMD5 || m == MethodScramSHA256 }

// orDefault returns the method an empty one stands for.
func (m Method) orDefault() Method {
	if m == "" {
		return MethodScramSHA256
	}
	return m
}

func (m Method) validate() error {
	switch m {
	case "", MethodTrust, MethodMD5, MethodScramSHA256, MethodCert, MethodReject:
		return nil
	}
	return fmt.Errorf("method %q is not one of trust, md5, scram-sha-256, cert, reject", string(m))
}

// Config says who may connect.
type Config struct {
	// Method is asked of every client when there are no Rules, and of clients
	// that match a rule without a method of its own. Default: scram-sha-256.
	Method Method `yaml:"method,omitempty"`

	// Users are the users that can prove a password. Under trust a user who is
	// not listed is let in under its own name. Default: none.
	Users []User `yaml:"users,omitempty"`

	// Rules choose the method by socket, database, user and address: the first
	// that matches wins, and a client that matches none is refused. Default:
	// none, and then Method holds for everyone.
	Rules []Rule `yaml:"rules,omitempty"`

	// Maps say which users the name in a certificate stands for, where they are
	// not the same. Default: none.
	Maps []Mapping `yaml:"maps,omitempty"`

	// AuthQuery asks a shard for the stored password of a user who has none
	// here: the user's name is $1, the result the name and the password, as
	// pg_authid has it. "default" is DefaultQuery. Default: none is asked.
	AuthQuery string `yaml:"auth_query,omitempty"`

	// AuthQueryDatabase is where it runs, on the home shard, as the service
	// user. Default: postgres.
	AuthQueryDatabase string `yaml:"auth_query_database,omitempty"`

	// AuthQueryTTL is how long an answer is used; a failed login ends it at
	// once. Default: DefaultQueryTTL.
	AuthQueryTTL time.Duration `yaml:"auth_query_ttl,omitempty"`

	// MockSecret makes the salts that unknown users are shown, and those of
	// users with clear-text passwords, the same on all proxies and after a
	// restart. Without it a salt that stays the same gives away that the user
	// exists and has a stored verifier. Default: random in each process.
	MockSecret string `yaml:"mock_secret,omitempty"`

	// Logger gets each refusal with the reason the client is not told.
	// Default: none.
	Logger *slog.Logger `yaml:"-"`
}

// Validate reports everything that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	if err := c.Method.validate(); err != nil {
		errs = append(errs, err)
	}
	seen := make(map[string]bool, len(c.Users))
	for i := range c.Users {
		u := &c.Users[i]
		if u.Name == "" {
			errs = append(errs, fmt.Errorf("user %d: name is empty", i+1))
			continue
		}
		if seen[u.Name] {
			errs = append(errs, fmt.Errorf("user %q: listed twice", u.Name))
		}
		seen[u.Name] = true
		if err := u.validate(); err != nil {
			errs = append(errs, fmt.Errorf("user %q: %w", u.Name, err))
		}
	}
	if c.Method == MethodCert && len(c.Rules) == 0 {
		errs = append(errs, errors.New("method cert needs a rule of type hostssl"))
	}
	if _, err := compileMaps(c.Maps); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.query().validate())
	for i, r := range c.Rules {
		if r.Map != "" && !slices.ContainsFunc(c.Maps, func(m Mapping) bool { return m.Name == r.Map }) {
			errs = append(errs, fmt.Errorf("rule %d: there is no map %q", i+1, r.Map))
		}
		if _, err := r.compile(c.Method.orDefault()); err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

// checkName refuses what no startup packet can carry.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if strings.ContainsRune(name, 0) {
		return fmt.Errorf("%s contains a zero byte", what)
	}
	return nil
}
