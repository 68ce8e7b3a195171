package etcd

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"time"
)

// Config says where the directory is.
type Config struct {
	Endpoints []string // "host:port" or URLs; required
	Prefix    string   // of all keys; required, see Prefix
	TLS       *tls.Config
	Username  string // empty: no authentication
	Password  string

	// RequestTimeout bounds each request. Default 5s.
	RequestTimeout time.Duration
	// LeaseTTL is how long a proxy stays listed after its last sign of life.
	// Default 10s.
	LeaseTTL time.Duration
	// ProbeInterval is how often a watch makes sure that etcd still answers.
	// Default 5s.
	ProbeInterval time.Duration

	Log *slog.Logger // default: slog.Default()
}

// Prefix is where the cluster of that name is kept.
func Prefix(cluster string) string { return "/weft/" + cluster + "/" }

// Validate fills in defaults and reports what is missing.
func (c *Config) Validate() error {
	if len(c.Endpoints) == 0 {
		return errors.New("etcd: no endpoints")
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		return errors.New("etcd: the prefix must end in /")
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 5 * time.Second
	}
	if c.LeaseTTL <= 0 {
		c.LeaseTTL = 10 * time.Second
	}
	if c.ProbeInterval <= 0 {
		c.ProbeInterval = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.TLS == nil {
		for _, e := range c.Endpoints {
			if strings.HasPrefix(e, "https://") {
				c.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			}
		}
	}
	return nil
}
