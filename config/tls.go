package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Required tells whether clients must use TLS.
func (t TLS) Required() bool { return t.Mode == TLSRequire }

// Load reads the files. It returns nil without an error if TLS is disabled.
func (t TLS) Load() (*tls.Config, error) {
	if t.Mode == TLSDisable || t.Cert == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.MinVersion == "1.3" {
		c.MinVersion = tls.VersionTLS13
	}
	if t.ClientCA != "" {
		if c.ClientCAs, err = roots(t.ClientCA); err != nil {
			return nil, fmt.Errorf("tls.client_ca: %w", err)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if t.ClientCert == ClientCertOptional {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
	}
	return c, nil
}

// Load reads the files. It returns nil without an error if there are none: an
// https endpoint then uses the system's authorities.
func (t EtcdTLS) Load() (*tls.Config, error) {
	if t == (EtcdTLS{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("etcd.tls: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	if t.CA != "" {
		var err error
		if c.RootCAs, err = roots(t.CA); err != nil {
			return nil, fmt.Errorf("etcd.tls.ca: %w", err)
		}
	}
	return c, nil
}

func roots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", file)
	}
	return pool, nil
}
