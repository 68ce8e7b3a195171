package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
	"weft/wire"
)

// certificate writes a self-signed certificate for localhost and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}

// TestTLS connects in every sslmode, with a password and with channel binding,
// by pgx and by libpq.
func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	target := harness.StartWeft(t, func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key, Mode: config.TLSAllow, MinVersion: "1.2"}
		c.Auth = auth.Config{Method: auth.MethodScramSHA256, Users: []auth.User{{Name: "carol", Password: "secret"}}}
	})
	_, port, _ := net.SplitHostPort(target.Addr)
	for _, c := range []struct {
		args string
		want string // code, or "" if it works
	}{
		{"sslmode=disable", ""},
		{"sslmode=prefer", ""},
		{"sslmode=require", ""},
		{"sslmode=verify-full sslrootcert=" + cert, ""},
		{"sslmode=require channel_binding=require", ""},
		{"sslmode=require password=wrong", "28P01"},
		{"sslmode=disable password=wrong", "28P01"},
	} {
		dsn := fmt.Sprintf("host=127.0.0.1 port=%s user=carol password=secret dbname=%s connect_timeout=10 %s", port, harness.Database, c.args)
		t.Run("pgx "+c.args, func(t *testing.T) {
			conn, err := pgx.Connect(within(t, 10*time.Second), dsn)
			if code(err) != c.want {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if err == nil {
				mustExec(t, conn, "select repeat('x', 100000)")
				if err := conn.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		t.Run("psql "+c.args, func(t *testing.T) {
			out := program(t, target, "", "psql", "-X", "-At", "-d", dsn, "-c", "select 'reached'")
			if (out.err == nil) != (c.want == "") || (c.want == "" && out.stdout != "reached\n") {
				t.Errorf("%v\n%s%s", out.err, out.stdout, out.stderr)
			}
		})
	}
}

// TestTLSRequired refuses a client in the clear as pg_hba.conf would.
func TestTLSRequired(t *testing.T) {
	cert, key := certificate(t)
	target := harness.StartWeft(t, func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key, Mode: config.TLSRequire, MinVersion: "1.2"}
	})
	if _, err := pgx.Connect(within(t, 5*time.Second), target.ConnString("postgres")); code(err) != "28000" {
		t.Errorf("in the clear: %v, want 28000", err)
	}
	conn, err := pgx.Connect(within(t, 5*time.Second), strings.Replace(target.ConnString("postgres"), "sslmode=disable", "sslmode=require", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	mustExec(t, conn, "select 1")
}

// TestTLSCancel cancels through a TLS connection.
func TestTLSCancel(t *testing.T) {
	cert, key := certificate(t)
	target := harness.StartWeft(t, func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key, Mode: config.TLSRequire, MinVersion: "1.2"}
	})
	conn, err := pgx.Connect(within(t, 10*time.Second), strings.Replace(target.ConnString("postgres"), "sslmode=disable", "sslmode=require", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	got := make(chan string, 1)
	go func() { got <- try(conn, "select pg_sleep(10)") }()
	target.Await(t, "select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep'")
	if err := conn.PgConn().CancelRequest(within(t, 5*time.Second)); err != nil {
		t.Fatal(err)
	}
	if c := <-got; c != "57014" {
		t.Errorf("cancelled: %s, want 57014", c)
	}
}

// TestDirectTLS begins with the handshake, as clients of PostgreSQL 17 may.
func TestDirectTLS(t *testing.T) {
	cert, key := certificate(t)
	target := harness.StartWeft(t, func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key, Mode: config.TLSRequire, MinVersion: "1.2"}
		c.Auth = auth.Config{Method: auth.MethodScramSHA256, Users: []auth.User{{Name: "carol", Password: "secret"}}}
	})
	dsn := strings.Replace(target.ConnString("carol", "password=secret", "sslnegotiation=direct"), "sslmode=disable", "sslmode=require", 1)
	conn, err := pgx.Connect(within(t, 10*time.Second), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	mustExec(t, conn, "select repeat('x', 100000)")
	startup := func() []byte {
		b := wire.AppendCString(nil, "user")
		b = append(wire.AppendCString(b, "postgres"), 0)
		head := binary.BigEndian.AppendUint32(nil, uint32(8+len(b)))
		return append(binary.BigEndian.AppendUint32(head, wire.Protocol30), b...)
	}
	for _, tc := range []struct {
		name      string
		protocols []string
		want      string // in the first answer; empty: the handshake fails
	}{
		{"postgresql", []string{"postgresql"}, "R"},
		{"none", nil, "without ALPN"},
		{"another", []string{"h2"}, ""},
		{"proxy", []string{"weft-peer"}, "not for clients"},
		{"proxy and client", []string{"postgresql", "weft-peer"}, "not for clients"},
	} {
		c, err := tls.Dial("tcp", target.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: tc.protocols})
		if err != nil {
			if tc.want != "" {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		_ = c.SetDeadline(time.Now().Add(pgtest.Patience))
		_, _ = c.Write(startup())
		answer := make([]byte, 300)
		n, _ := c.Read(answer)
		if tc.want == "" || !strings.Contains(string(answer[:n]), tc.want) {
			t.Errorf("%s: %q", tc.name, answer[:n])
		}
		_ = c.Close()
	}
}
