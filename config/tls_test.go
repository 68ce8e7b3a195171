package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/pgserver/pgtest"
)

// keyPair writes a self-signed certificate, good for either end, and its key.
func keyPair(t *testing.T) (cert, key string) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weft test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"weft.test"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &priv.PublicKey, priv)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert"), filepath.Join(dir, "key")
}

// handshake returns the errors of the client and the server.
func handshake(t *testing.T, server, client *tls.Config) (error, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	_ = a.SetDeadline(time.Now().Add(pgtest.Patience))
	_ = b.SetDeadline(time.Now().Add(pgtest.Patience))
	served := make(chan error, 1)
	go func() {
		err := tls.Server(a, server).Handshake()
		a.Close()
		served <- err
	}()
	err := tls.Client(b, client).Handshake()
	b.Close() // a server that still talks to a client that gave up
	return err, <-served
}

func TestTLS(t *testing.T) {
	cert, key := keyPair(t)
	trust, err := EtcdTLS{CA: cert, ServerName: "weft.test"}.Load()
	if err != nil {
		t.Fatal(err)
	}
	withCert, err := EtcdTLS{CA: cert, Cert: cert, Key: key, ServerName: "weft.test"}.Load()
	if err != nil {
		t.Fatal(err)
	}
	old := trust.Clone()
	old.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		server TLS
		client *tls.Config
		ok     bool
	}{
		"plain":               {TLS{Cert: cert, Key: key}, trust, true},
		"1.2":                 {TLS{Cert: cert, Key: key, MinVersion: "1.2"}, old, true},
		"too old":             {TLS{Cert: cert, Key: key, MinVersion: "1.3"}, old, false},
		"client certificate":  {TLS{Cert: cert, Key: key, ClientCA: cert}, withCert, true},
		"without certificate": {TLS{Cert: cert, Key: key, ClientCA: cert}, trust, false},
	} {
		server, err := c.server.Load()
		if err != nil {
			t.Fatal(err)
		}
		cerr, serr := handshake(t, server, c.client)
		if ok := serr == nil; ok != c.ok {
			t.Errorf("%s: client %v, server %v", name, cerr, serr)
		}
	}
	for name, c := range map[string]TLS{"disabled": {Mode: TLSDisable, Cert: cert, Key: key}, "none": {}} {
		if got, err := c.Load(); got != nil || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, load := range map[string]func() (*tls.Config, error){
		"no file":           TLS{Cert: "/none", Key: key}.Load,
		"swapped":           TLS{Cert: key, Key: cert}.Load,
		"key as client_ca":  TLS{Cert: cert, Key: key, ClientCA: key}.Load,
		"etcd without file": EtcdTLS{CA: "/none"}.Load,
	} {
		if got, err := load(); err == nil || !strings.Contains(err.Error(), "tls") {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
