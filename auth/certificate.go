package auth

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weft/pgerr"
)

const (
	verifyCA   = "verify-ca"
	verifyFull = "verify-full"
)

// certificate reads what a rule says about client certificates.
func (c *compiledRule) certificate(r Rule) error {
	c.cert, c.names = r.ClientCert, r.Map
	switch {
	case r.ClientCert != "" && r.ClientCert != verifyCA && r.ClientCert != verifyFull:
		return fmt.Errorf("clientcert %q is not one of verify-ca, verify-full", r.ClientCert)
	case c.method == MethodCert && r.ClientCert == verifyCA:
		return errors.New("clientcert must be verify-full, or be left out, with method cert")
	}
	if c.method == MethodCert {
		c.cert = verifyFull
	}
	switch {
	case c.cert != "" && r.Type != "hostssl":
		return errors.New("client certificates can be asked for in hostssl rules only")
	case r.Map != "" && c.cert != verifyFull:
		return fmt.Errorf("map %q has no effect: names in certificates are compared with method cert or clientcert verify-full", r.Map)
	}
	return nil
}

// NeedsCertificates reports whether some rule asks clients for certificates.
func (c *Config) NeedsCertificates() bool {
	return slices.ContainsFunc(c.Rules, func(r Rule) bool {
		compiled, err := r.compile(c.Method.orDefault())
		return err == nil && compiled.cert != ""
	})
}

// checkCertificate refuses a client without the certificate its rule asks for.
// The TLS handshake has verified those that were shown.
func (a *Authenticator) checkCertificate(rule *compiledRule, r Request) error {
	if rule.cert == "" {
		return nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
		return pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "connection requires a valid client certificate")
	}
	if rule.cert == verifyCA {
		return nil
	}
	name := r.TLS.PeerCertificates[0].Subject.CommonName
	var reason error
	switch {
	case name == "":
		reason = errors.New("the client's certificate has no common name")
	case strings.ContainsRune(name, 0):
		reason = errors.New("the common name of the client's certificate contains a zero byte")
	case !a.maps.allows(rule.names, name, r.User):
		reason = fmt.Errorf("the client's certificate is for %q", name)
	default:
		return nil
	}
	what := "certificate"
	if rule.method != MethodCert {
		what = string(rule.method)
	}
	return pgerr.Fatal(pgerr.InvalidAuthorizationSpec, `%s authentication failed for user "%s"`, what, r.User).WithCause(reason)
}

// Mapping is one line of what PostgreSQL calls pg_ident.conf.
type Mapping struct {
	// Name of the map, for rules. Several lines may share it.
	Name string `yaml:"name"`

	// Certificate is the common name in a certificate; with a slash before it,
	// it is a regular expression.
	Certificate string `yaml:"certificate"`

	// User the name may connect as. \1 is what the expression's first
	// parentheses matched.
	User string `yaml:"user"`
}

// nameMaps is Mappings with their expressions read, by name.
type nameMaps map[string][]compiledMapping

type compiledMapping struct {
	name    string
	pattern *regexp.Regexp // nil: the name itself
	user    string
}

func compileMaps(list []Mapping) (nameMaps, error) {
	maps := nameMaps{}
	var errs []error
	for i, m := range list {
		c := compiledMapping{name: m.Certificate, user: m.User}
		if m.Name == "" || m.Certificate == "" || m.User == "" {
			errs = append(errs, fmt.Errorf("map %d: name, certificate and user are needed", i+1))
			continue
		}
		if expr, ok := strings.CutPrefix(m.Certificate, "/"); ok {
			var err error
			if c.pattern, err = regexp.Compile(expr); err != nil {
				errs = append(errs, fmt.Errorf("map %d: %w", i+1, err))
				continue
			}
			if strings.Contains(m.User, `\1`) && c.pattern.NumSubexp() == 0 {
				errs = append(errs, fmt.Errorf(`map %d: there is nothing that \1 could be`, i+1))
			}
		}
		maps[m.Name] = append(maps[m.Name], c)
	}
	return maps, errors.Join(errs...)
}

// allows reports whether a certificate's name may connect as user.
func (m nameMaps) allows(name, certificate, user string) bool {
	if name == "" {
		return certificate == user
	}
	for _, c := range m[name] {
		switch {
		case c.pattern == nil:
			if c.name == certificate && c.user == user {
				return true
			}
		default:
			match := c.pattern.FindStringSubmatch(certificate)
			if match == nil {
				continue
			}
			want := c.user
			if len(match) > 1 {
				want = strings.Replace(want, `\1`, match[1], 1)
			}
			if want == user {
				return true
			}
		}
	}
	return false
}
