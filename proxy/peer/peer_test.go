package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weft/directory"
	"weft/wire"
)

// proxy is the asked half of the dialogue behind a real port.
type proxy struct {
	directory.Proxy
	asked *Asked
	tls   *tls.Config
	// cancelled counts cancel requests.
	cancelled atomic.Int32
	failed    chan error
}

func start(t *testing.T, secret directory.Secret, withTLS bool, answer func(Question) ([]byte, error)) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &proxy{asked: NewAsked(secret, nil, answer), failed: make(chan error, 16)}
	p.Proxy = directory.Proxy{ID: "p", Address: ln.Addr().String(), Secret: secret, TLS: withTLS}
	if withTLS {
		p.tls = certificate(t)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if err := p.serve(conn); err != nil {
					p.failed <- err
				}
			}()
		}
	}()
	return p
}

func (p *proxy) serve(conn net.Conn) error {
	stream := wire.NewStream(conn)
	var state *tls.ConnectionState
	for {
		packet, err := wire.ReadPacket(stream)
		if err != nil {
			return err
		}
		switch packet.Kind {
		case wire.PacketSSL:
			if p.tls == nil {
				_, err = stream.Write([]byte{'N'})
				if err != nil {
					return err
				}
				continue
			}
			if _, err = stream.Write([]byte{'S'}); err != nil {
				return err
			}
			c := tls.Server(conn, p.tls)
			if err := c.Handshake(); err != nil {
				return err
			}
			now := c.ConnectionState()
			stream, state = wire.NewStream(c), &now
		case wire.PacketCancel:
			p.cancelled.Add(1)
			return nil
		case wire.PacketAsk:
			return p.asked.Serve(stream, state, p.tls != nil)
		default:
			return errors.New("an unexpected packet")
		}
	}
}

func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{Protocol}}
}

func echo(q Question) ([]byte, error) {
	q.Nonce = nil
	return json.Marshal(q)
}

var secret = directory.Secret("0123456789abcdef")

func TestAsk(t *testing.T) {
	for _, withTLS := range []bool{false, true} {
		p := start(t, secret, withTLS, echo)
		answer, err := Ask(t.Context(), p.Proxy, Question{View: "sessions", User: "ann", All: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(answer); got != `{"view":"sessions","user":"ann","all":true,"nonce":null}` {
			t.Errorf("TLS %v: %s", withTLS, got)
		}
	}
}

// TestAskRefused: each side fails if the other cannot prove that it belongs to the
// cluster, or does not come the way it should.
func TestAskRefused(t *testing.T) {
	cases := []struct {
		name   string
		asked  directory.Secret
		change func(*directory.Proxy)
		asker  string // what the asker sees
		served string // what the asked proxy sees
	}{
		{"another secret", secret, func(p *directory.Proxy) { p.Secret = directory.Secret("another") }, "EOF", "no proxy of this cluster"},
		{"a proxy without a secret", nil, func(p *directory.Proxy) { p.Secret = secret }, "EOF", "may not be asked this way"},
		{"an old version", secret, func(p *directory.Proxy) { p.Secret = nil }, "version that cannot be asked", ""},
		{"TLS is gone", secret, func(p *directory.Proxy) { p.TLS = true }, "it has TLS", "EOF"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := start(t, tc.asked, false, echo)
			other := p.Proxy
			tc.change(&other)
			_, err := Ask(t.Context(), other, Question{})
			if err == nil || !strings.Contains(err.Error(), tc.asker) {
				t.Errorf("the asker sees %v, want %s", err, tc.asker)
			}
			if tc.served == "" {
				return
			}
			if err := <-p.failed; !strings.Contains(err.Error(), tc.served) {
				t.Errorf("the asked proxy sees %v, want %s", err, tc.served)
			}
		})
	}
}

// TestAnswerOfAnImpostor: an answer that was not sealed with the asked proxy's secret,
// or was sealed for another question, is not believed.
func TestAnswerOfAnImpostor(t *testing.T) {
	for _, seals := range []struct {
		name   string
		secret directory.Secret
		fresh  func(nonce, challenge []byte) []byte
		ok     bool
	}{
		{"right", secret, func(nonce, _ []byte) []byte { return nonce }, true},
		{"another secret", directory.Secret("x"), func(nonce, _ []byte) []byte { return nonce }, false},
		{"another question", secret, func(_, challenge []byte) []byte { return challenge }, false},
	} {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			stream := wire.NewStream(there)
			if _, err := wire.ReadPacket(stream); err != nil {
				return
			}
			challenge := bytes.Repeat([]byte{7}, challengeLen)
			_, _ = stream.Write(challenge)
			if stream.Need(4) != nil {
				return
			}
			n := int(binary.BigEndian.Uint32(stream.Buffered()))
			if stream.Need(4+n) != nil {
				return
			}
			text, _ := unseal(stream.Buffered()[4:4+n], secret, nil, challenge)
			var q Question
			_ = json.Unmarshal(text, &q)
			_, _ = stream.Write(seal([]byte("yes"), seals.secret, nil, seals.fresh(q.Nonce, challenge)))
		}()
		answer, err := ask(here, secret, Question{})
		if seals.ok != (err == nil && string(answer) == "yes") {
			t.Errorf("%s: %q, %v", seals.name, answer, err)
		}
		here.Close()
	}
}

// TestTooLong: neither side reads more than it is ready to.
func TestTooLong(t *testing.T) {
	p := start(t, secret, false, echo)
	_, err := Ask(t.Context(), p.Proxy, Question{User: strings.Repeat("u", maxQuestion)})
	if err == nil {
		t.Error("a question that is too long was answered")
	}
	if err := <-p.failed; !strings.Contains(err.Error(), "a question of") {
		t.Error(err)
	}
	here, there := net.Pipe()
	go func() {
		_, _ = io.CopyN(io.Discard, there, int64(len(wire.AppendAsk(nil))))
		_, _ = there.Write(make([]byte, challengeLen))
		var head [4]byte
		_, _ = io.ReadFull(there, head[:])
		_, _ = io.CopyN(io.Discard, there, int64(binary.BigEndian.Uint32(head[:])))
		_, _ = there.Write([]byte{0xff, 0, 0, 0})
	}()
	if _, err := ask(here, secret, Question{}); err == nil || !strings.Contains(err.Error(), "its answer has") {
		t.Error(err)
	}
}

// TestPlaces: more questions at once than there are places for are turned away.
func TestPlaces(t *testing.T) {
	p := start(t, secret, false, echo)
	for range maxAsks {
		p.asked.places <- struct{}{}
	}
	if _, err := Ask(t.Context(), p.Proxy, Question{}); err == nil {
		t.Error("a question without a place was answered")
	}
	<-p.asked.places
	if _, err := Ask(t.Context(), p.Proxy, Question{}); err != nil {
		t.Error(err)
	}
}

type live struct {
	list []directory.Proxy
	err  error
}

func (l live) Proxies(context.Context) ([]directory.Proxy, error) { return l.list, l.err }

func plain(_ string, f func()) func() { return f }

func TestCircle(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	a, b := start(t, secret, false, echo), start(t, secret, true, echo)
	a.ID, b.ID = "a", "b"
	gone := directory.Proxy{ID: "gone", Address: "127.0.0.1:1", Secret: secret}
	self := directory.Proxy{ID: "self", Address: "127.0.0.1:1", Secret: secret}
	c := NewCircle(live{list: []directory.Proxy{a.Proxy, self, b.Proxy, gone}}, "self", quiet, plain)
	answers, silent := c.Ask(t.Context(), Question{View: "v"})
	if len(answers) != 2 || len(silent) != 1 || !strings.Contains(silent[0].Error(), "proxy gone at 127.0.0.1:1 did not answer") {
		t.Errorf("%q, %v", answers, silent)
	}
	if !c.Cancel(t.Context(), &wire.Packet{Kind: wire.PacketCancel, PID: 7, Secret: []byte("abcd")}) {
		t.Error("the cancel request was not passed on")
	}
	if a.cancelled.Load() != 1 || b.cancelled.Load() != 1 {
		t.Errorf("cancelled %d and %d times", a.cancelled.Load(), b.cancelled.Load())
	}
	if c.Cancel(t.Context(), &wire.Packet{Kind: wire.PacketCancel, PID: 7, Relayed: true}) {
		t.Error("a request that was passed on before was passed on again")
	}

	alone := NewCircle(nil, "self", quiet, plain)
	if answers, silent := alone.Ask(t.Context(), Question{}); answers != nil || silent != nil || alone.Cancel(t.Context(), &wire.Packet{}) {
		t.Errorf("alone: %v, %v", answers, silent)
	}
	blind := NewCircle(live{err: errors.New("etcd is gone")}, "self", quiet, plain)
	if _, silent := blind.Ask(t.Context(), Question{}); len(silent) != 1 || !strings.Contains(silent[0].Error(), "etcd is gone") {
		t.Error(silent)
	}
}
