package security_test

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

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
)

// authority signs certificates and keeps their files.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", true, nil)
	return a
}

// sign makes name.pem and name.key for a common name. Without a parent the
// certificate signs itself.
func (a *authority) sign(name string, ca bool, parent *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: ca, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	by, byKey := template, key
	if parent != nil {
		by, byKey = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, &key.PublicKey, byKey)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		a.file(name): {Type: "CERTIFICATE", Bytes: der}, a.file(name) + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) file(name string) string {
	return filepath.Join(a.dir, strings.ReplaceAll(name, "@", "_at_")+".pem")
}

// with is how a client shows a certificate.
func (a *authority) with(name string) string {
	return "sslcert=" + a.file(name) + " sslkey=" + a.file(name) + ".key"
}

// overTLS connects and returns "" or the SQLSTATE; "tls" if the handshake failed.
func overTLS(t *testing.T, w *harness.Target, user string, more ...string) string {
	t.Helper()
	s := strings.Replace(w.ConnString(user, more...), "sslmode=disable", "sslmode=require", 1)
	conn, err := pgconn.Connect(t.Context(), s)
	if err == nil {
		_ = conn.Close(t.Context())
		return ""
	}
	if _, ok := asPg(err); !ok && strings.Contains(err.Error(), "tls:") {
		return "tls"
	}
	return code(err)
}

// TestCertificates: who may connect with which certificate.
func TestCertificates(t *testing.T) {
	shards(t)
	ours, theirs := newAuthority(t), newAuthority(t)
	ours.sign("server", false, ours)
	for _, name := range []string{"postgres", "victim", "postgres@example.com", "postgres@example.org"} {
		ours.sign(name, false, ours)
	}
	theirs.sign("postgres", false, theirs)
	begin := func(clientCert string) *harness.Target {
		return start(t, []auth.User{{Name: "victim", Password: victimPassword}}, func(c *config.Config) {
			c.TLS = config.TLS{Mode: config.TLSAllow, Cert: ours.file("server"), Key: ours.file("server") + ".key", ClientCA: ours.file("ca"), ClientCert: clientCert, MinVersion: "1.2"}
			c.Auth.Maps = []auth.Mapping{{Name: "people", Certificate: `/^(.*)@example\.com$`, User: `\1`}}
			c.Auth.Rules = []auth.Rule{
				{Type: "hostnossl", Method: auth.MethodReject},
				{Type: "hostssl", Databases: []string{plain}, Method: auth.MethodCert, Map: "people"},
				{Type: "hostssl", Users: []string{"postgres"}, Method: auth.MethodCert},
				{Type: "hostssl", Users: []string{"mallory"}, Address: "10.0.0.0/8", Method: auth.MethodTrust},
				{Type: "hostssl", Databases: []string{vault}, Users: []string{"victim"}, Method: auth.MethodScramSHA256, ClientCert: "verify-full"},
				{Type: "hostssl", Users: []string{"victim"}, Method: auth.MethodScramSHA256, ClientCert: "verify-ca"},
			}
		})
	}
	w := begin(config.ClientCertOptional)
	for _, tc := range []struct{ what, user, more, want string }{
		{"its own", "postgres", ours.with("postgres"), ""},
		{"none", "postgres", "", "28000"},
		{"another's", "postgres", ours.with("victim"), "28000"},
		{"another authority's", "postgres", theirs.with("postgres"), "tls"},
		{"one that no map knows", "postgres", ours.with("postgres@example.com"), "28000"},
		{"one that a map knows", "postgres", ours.with("postgres@example.com") + " dbname=" + plain, ""},
		{"one that the map does not know", "postgres", ours.with("postgres@example.org") + " dbname=" + plain, "28000"},
		{"its own where a map is wanted", "postgres", ours.with("postgres") + " dbname=" + plain, "28000"},
		{"another user by the map", "victim", ours.with("postgres@example.com") + " dbname=" + plain, "28000"},
		{"a password without a certificate", "victim", "password=" + victimPassword, "28000"},
		{"a password and any certificate", "victim", ours.with("postgres") + " password=" + victimPassword, ""},
		{"a wrong password and a certificate", "victim", ours.with("victim") + " password=wrong", "28P01"},
		{"a password and another's certificate", "victim", ours.with("postgres") + " dbname=" + vault + " password=" + victimPassword, "28000"},
		{"a password and the certificate", "victim", ours.with("victim") + " dbname=" + vault + " password=" + victimPassword, ""},
		{"no rule for the address", "mallory", ours.with("postgres"), "28000"},
	} {
		if got := overTLS(t, w, tc.user, tc.more); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.what, got, tc.want)
		}
	}
	if got := try(t, w, "postgres", ""); got != "28000" {
		t.Errorf("without TLS: %q", got)
	}
	required := begin(config.ClientCertRequire)
	if got := overTLS(t, required, "victim", "password="+victimPassword); got != "tls" {
		t.Errorf("without a certificate where TLS itself asks: %q", got)
	}
	if got := overTLS(t, required, "postgres", ours.with("postgres")); got != "" {
		t.Errorf("with a certificate where TLS itself asks: %q", got)
	}
}

// TestTLSVersions: nothing older than the minimum is spoken, and channel binding
// works in each.
func TestTLSVersions(t *testing.T) {
	ours := newAuthority(t)
	ours.sign("server", false, ours)
	for minimum, allowed := range map[string]map[uint16]bool{
		"1.2": {tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true},
		"1.3": {tls.VersionTLS11: false, tls.VersionTLS12: false, tls.VersionTLS13: true},
	} {
		w := start(t, []auth.User{{Name: "victim", Password: victimPassword}}, func(c *config.Config) {
			c.TLS = config.TLS{Mode: config.TLSRequire, Cert: ours.file("server"), Key: ours.file("server") + ".key", MinVersion: minimum}
		})
		for version, ok := range allowed {
			cfg, err := pgconn.ParseConfig(strings.Replace(w.ConnString("victim", "password="+victimPassword, "channel_binding=require"), "sslmode=disable", "sslmode=require", 1))
			if err != nil {
				t.Fatal(err)
			}
			cfg.TLSConfig.MinVersion, cfg.TLSConfig.MaxVersion = version, version
			conn, err := pgconn.ConnectConfig(t.Context(), cfg)
			if (err == nil) != ok {
				t.Errorf("minimum %s, client %s: %v", minimum, tls.VersionName(version), err)
			}
			if err == nil {
				_ = conn.Close(t.Context())
			}
		}
		if got := try(t, w, "victim", victimPassword); got != "28000" {
			t.Errorf("without TLS: %q", got)
		}
	}
}
