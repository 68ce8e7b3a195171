package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"weft/checkup"
	"weft/config"
	"weft/directory"
)

// certificateTimeout bounds how long a server may take to show its certificate.
const certificateTimeout = 3 * time.Second

// certificates looks at the certificates that proxies and servers show, and at those in files that
// weft.yaml and the shards' options name.
func (d *doctor) certificates(ctx context.Context, snap *directory.Snapshot, proxies []directory.Proxy) []checkup.Certificate {
	var out []checkup.Certificate
	show := func(of, address string) {
		until, err := shown(ctx, address)
		if err == nil && !until.IsZero() { // who does not answer is told elsewhere
			out = append(out, checkup.Certificate{Of: of + " " + address, Until: until})
		}
	}
	for _, p := range proxies {
		show("proxy", p.Address)
	}
	for i := range snap.Shards {
		for _, h := range snap.Shards[i].Hosts {
			show(snap.Shards[i].Name+" at", h)
		}
	}
	seen := map[string]bool{"": true}
	file := func(of, name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		c := checkup.Certificate{Of: of + " " + name}
		var err error
		if c.Until, err = written(name); err != nil {
			c.Err = oneLine(err)
		}
		out = append(out, c)
	}
	if d.file != "" {
		if cfg, err := config.Load(d.file); err == nil {
			file("tls.cert", cfg.TLS.Cert)
			file("tls.client_ca", cfg.TLS.ClientCA)
			file("etcd.tls.cert", cfg.Etcd.TLS.Cert)
			file("etcd.tls.ca", cfg.Etcd.TLS.CA)
		}
	}
	for i := range snap.Shards {
		file("sslcert of "+snap.Shards[i].Name, snap.Shards[i].Options["sslcert"])
		if root := snap.Shards[i].Options["sslrootcert"]; root != "system" {
			file("sslrootcert of "+snap.Shards[i].Name, root)
		}
	}
	return out
}

// sslRequest asks a server of PostgreSQL's protocol for TLS.
var sslRequest = []byte{0, 0, 0, 8, 4, 210, 22, 47}

// shown returns when the certificate that an address shows expires, zero if it speaks no TLS. The
// certificate is looked at and not trusted: nothing is sent over the connection.
func shown(ctx context.Context, address string) (time.Time, error) {
	dialer := net.Dialer{Timeout: certificateTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(certificateTimeout)); err != nil {
		return time.Time{}, err
	}
	if _, err := conn.Write(sslRequest); err != nil {
		return time.Time{}, err
	}
	answer := make([]byte, 1)
	if _, err := io.ReadFull(conn, answer); err != nil || answer[0] != 'S' {
		return time.Time{}, err
	}
	var until time.Time
	t := tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true, // only the dates are of interest
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			for _, r := range raw {
				c, err := x509.ParseCertificate(r)
				if err != nil {
					return err
				}
				until = earlier(until, c.NotAfter)
			}
			return nil
		},
	})
	// A server that asks for the client's certificate ends the handshake after it has shown its own.
	if err := t.HandshakeContext(ctx); err != nil && until.IsZero() {
		return time.Time{}, err
	}
	return until, nil
}

// earlier returns the earlier of two times; zero stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// written returns when the first certificate of a file in PEM form expires.
func written(file string) (time.Time, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return time.Time{}, err
	}
	var until time.Time
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, fmt.Errorf("read certificate: %w", err)
		}
		until = earlier(until, c.NotAfter)
	}
	if until.IsZero() {
		return until, errors.New("there is no certificate in it")
	}
	return until, nil
}
