package auth

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/pgerr"
	"weft/pgserver/pgtest"
)

// listener is the least server that clients can log in to: startup, TLS,
// Authenticate, and ReadyForQuery or an error.
type listener struct {
	auth    *Authenticator
	cert    tls.Certificate
	claimed []byte // the certificate Authenticate is told of; normally cert's

	mu  sync.Mutex
	in  []*User      // guarded by mu: who was let in
	log bytes.Buffer // guarded by mu: what Authenticate logged
}

// listen serves cfg on a free port until the test ends.
func listen(t *testing.T, cfg Config) (*listener, string) {
	t.Helper()
	return listenOn(t, cfg, "tcp", "127.0.0.1:0", testCertificate().pair, nil)
}

func listenOn(t *testing.T, cfg Config, network, address string, cert tls.Certificate, claimed []byte) (*listener, string) {
	t.Helper()
	l := &listener{cert: cert, claimed: claimed}
	if claimed == nil {
		l.claimed = cert.Certificate[0]
	}
	cfg.Logger = slog.New(slog.NewTextHandler(l, nil))
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.auth = a
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(pgtest.Patience))
				if err := l.serve(conn); err != nil && !errors.Is(err, io.EOF) {
					t.Logf("session: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		sessions.Wait()
	})
	return l, ln.Addr().String()
}

// Write is the log's.
func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *listener) logged() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

// last is the user who was let in most recently.
func (l *listener) last() *User {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.in) == 0 {
		return nil
	}
	return l.in[len(l.in)-1]
}

func (l *listener) serve(conn net.Conn) error {
	r := Request{Remote: conn.RemoteAddr()}
	for {
		var head [8]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return err
		}
		length, code := binary.BigEndian.Uint32(head[:]), binary.BigEndian.Uint32(head[4:])
		if code == 80877103 { // SSLRequest
			if _, err := conn.Write([]byte("S")); err != nil {
				return err
			}
			secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{l.cert}})
			if err := secured.Handshake(); err != nil {
				return err
			}
			state := secured.ConnectionState()
			conn, r.TLS, r.ServerCertificate = secured, &state, l.claimed
			continue
		}
		if code != 196608 {
			if _, err := conn.Write([]byte("N")); err != nil { // GSSENCRequest
				return err
			}
			continue
		}
		body := make([]byte, length-8)
		if _, err := io.ReadFull(conn, body); err != nil {
			return err
		}
		fields := strings.Split(string(body), "\x00")
		for i := 0; i+1 < len(fields); i += 2 {
			switch fields[i] {
			case "user":
				r.User = fields[i+1]
			case "database":
				r.Database = fields[i+1]
			}
		}
		break
	}
	u, err := l.auth.Authenticate(context.Background(), &framed{conn}, r)
	var refusal *pgerr.Error
	if errors.As(err, &refusal) {
		b, _ := (&pgproto3.ErrorResponse{
			Severity: string(refusal.Severity), SeverityUnlocalized: string(refusal.Severity),
			Code: refusal.Code, Message: refusal.Message, Detail: refusal.Detail, Hint: refusal.Hint,
		}).Encode(nil)
		_, err = conn.Write(b)
		return err
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.in = append(l.in, u.User)
	l.mu.Unlock()
	b, _ := (&pgproto3.AuthenticationOk{}).Encode(nil)
	b, _ = (&pgproto3.ParameterStatus{Name: "server_version", Value: "15.0"}).Encode(b)
	b, _ = (&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"}).Encode(b)
	b, _ = (&pgproto3.ReadyForQuery{TxStatus: 'I'}).Encode(b)
	if _, err := conn.Write(b); err != nil {
		return err
	}
	io.Copy(io.Discard, conn) // until Terminate and the end
	return nil
}

// framed is the Client of the tests.
type framed struct{ conn net.Conn }

func (f *framed) SendAuth(body []byte) error {
	b := binary.BigEndian.AppendUint32([]byte{'R'}, uint32(4+len(body)))
	_, err := f.conn.Write(append(b, body...))
	return err
}

func (f *framed) ReceivePassword(limit int) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(f.conn, head[:1]); err != nil {
		return nil, err
	}
	if head[0] != 'p' {
		return nil, MessageTypeError(head[0])
	}
	if _, err := io.ReadFull(f.conn, head[1:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[1:])) - 4
	if length < 0 || length > int64(limit) {
		return nil, ErrMessageTooLong
	}
	body := make([]byte, length)
	_, err := io.ReadFull(f.conn, body)
	return body, err
}

// certificate is a self-signed one for 127.0.0.1.
type certificate struct {
	pair            tls.Certificate
	certPEM, keyPEM []byte
}

var testCertificate = sync.OnceValue(func() certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "weft auth test"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	c := certificate{
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}
	if c.pair, err = tls.X509KeyPair(c.certPEM, c.keyPEM); err != nil {
		panic(err)
	}
	return c
})
