package proxy_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/auth"
	"weft/directory"
	"weft/proxy"
)

// FuzzStartup says anything at all to a port that wants a password. Nobody gets
// in, nothing panics, and the connection ends when the client's half does.
func FuzzStartup(f *testing.F) {
	packet := func(code uint32, rest string) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
		return string(binary.BigEndian.AppendUint32(b, code)) + rest
	}
	frame := func(typ byte, body string) string {
		return string(typ) + string(binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))) + body
	}
	sasl := func(mechanism, message string) string {
		return frame('p', mechanism+"\x00"+string(binary.BigEndian.AppendUint32(nil, uint32(len(message))))+message)
	}
	const ssl, gss, cancel, ask = 80877103, 80877104, 80877102, 1234<<16 | 5712
	startup := packet(3<<16, "user\x00alice\x00database\x00app\x00\x00")
	first, final := sasl("SCRAM-SHA-256", "n,,n=,r=abc"), frame('p', "c=biws,r=abc,p=AAAA")
	for _, s := range []string{
		startup + first + final, startup + final + first, startup + first + first, startup + frame('Q', "SELECT 1\x00"), startup + frame('p', ""),
		startup + sasl("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,n=,r=abc") + final, startup + frame('X', "") + startup, startup + frame('p', "md5x\x00"),
		packet(3<<16|2, "user\x00alice\x00_pq_.x\x00y\x00\x00") + first, packet(3<<16, "user\x00alice\x00replication\x00true\x00\x00"), packet(3<<16, "\x00"), packet(3<<16, "user"), packet(2<<16, "alice"),
		packet(3<<16, "user\x00alice\x00options\x00-c role=x\x00\x00") + first, packet(4<<16, ""), packet(0, ""),
		packet(ssl, "") + startup + first, packet(ssl, "") + packet(ssl, ""), packet(gss, "") + packet(ssl, "") + packet(gss, ""), packet(gss, "") + startup, packet(ssl, "") + "\x16\x03\x01\x00\x05hello",
		packet(cancel, "\x00\x80\x00\x01abcd"), packet(cancel, ""), packet(cancel, strings.Repeat("k", 300)), "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/1.1\r\n\r\n",
		packet(ask, ""), packet(ask, "") + "\x00\x00\x00\x40" + strings.Repeat("m", 32) + `{"view":"sessions","all":true}   `, packet(ask, "") + "\xff\xff\xff\xff", packet(ask, "x"), packet(ssl, "") + packet(ask, ""),
		"PROXY TCP4 10.0.0.7 10.0.0.1 40000 6432\r\n" + startup + first, "PROXY UNKNOWN\r\n" + startup, "PROXY TCP4", "PROXY " + strings.Repeat("x", 200),
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x0a\x00\x00\x07\x0a\x00\x00\x01\x9c\x40\x19\x20" + startup + first, "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" + startup, "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff",
		"\x00\x00\x00\x04", "\xff\xff\xff\xff", "\x00\x00\x00", "", "\x00\x00\x27\x11" + strings.Repeat("x", 100),
	} {
		f.Add([]byte(s))
	}
	addr, panics := guarded(f)
	ok := []byte("R\x00\x00\x00\x08\x00\x00\x00\x00")
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Write(data); err == nil { // it may have been enough for weft
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		answer, err := io.ReadAll(conn)
		if err, timeout := err.(net.Error); timeout && err.Timeout() {
			t.Fatalf("weft waits for more than there is; it said %q", answer)
		}
		if bytes.Contains(answer, ok) {
			t.Fatalf("let in: %q", answer)
		}
		if p := panics.take(); p != "" {
			t.Fatal(p)
		}
	})
}

// guarded serves clients who must prove a password, with TLS, in front of nothing.
func guarded(f *testing.F) (string, *panicLog) {
	f.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		f.Fatal(err)
	}
	a, err := auth.New(auth.Config{Users: []auth.User{{Name: "alice", Password: "secret"}}})
	if err != nil {
		f.Fatal(err)
	}
	panics := new(panicLog)
	s, err := proxy.New(proxy.Config{
		Snapshot: func() *directory.Snapshot { return nil }, Auth: a, Log: slog.New(panics), StartupTimeout: 5 * time.Second,
		Peers: proxy.Peers{Secret: []byte("of this proxy")}, ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
	})
	if err != nil {
		f.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), l) }()
	f.Cleanup(func() {
		_ = s.Close()
		if err := <-served; err != nil {
			f.Error(err)
		}
	})
	return l.Addr().String(), panics
}

// panicLog is a log that keeps errors: a panic is one.
type panicLog struct {
	mu   sync.Mutex
	last string
}

func (p *panicLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (p *panicLog) Handle(_ context.Context, r slog.Record) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = r.Message
	r.Attrs(func(a slog.Attr) bool { p.last += " " + a.String(); return true })
	return nil
}

func (p *panicLog) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p *panicLog) WithGroup(string) slog.Handler { return p }

func (p *panicLog) take() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.last
	p.last = ""
	return last
}
