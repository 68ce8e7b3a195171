package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"weft/console"
	"weft/directory"
	"weft/tally"
	"weft/wire"
)

// What is known of sessions and statements is in the proxy that has them. Whoever reads
// weft.sessions wants those of all, and behind one address cannot choose. So proxies
// ask each other, where clients connect:
//
//	asker                          asked
//	AppendAsk                 →
//	                          ←    challenge
//	MAC, question             →           MAC = HMAC(the asked one's secret, channel, challenge, question)
//	                          ←    MAC, rows
//
// The secret is in the directory, which only proxies and their operators read. It never
// goes over the wire.

const (
	// maxAsks bounds how many questions are answered at once.
	maxAsks = 64
	// peerTimeout bounds how long a client waits for other proxies.
	peerTimeout = time.Second
	// maxQuestion and maxAnswer bound what is read.
	maxQuestion = 4 << 10
	maxAnswer   = 64 << 20

	challengeLen = 32
)

// peerQuestion is what a proxy wants to know of another, or wants it to do.
type peerQuestion struct {
	// View is the name of a table in schema weft, User and All who looks at it.
	View string `json:"view,omitempty"`
	User string `json:"user,omitempty"`
	All  bool   `json:"all,omitempty"`
	// Reset: forget what statements have cost.
	Reset bool `json:"reset,omitempty"`
	// Database: the roles of the sessions that are in it. Kill: end them, or one.
	Database string `json:"database,omitempty"`
	Session  int32  `json:"session,omitempty"`
	Kill     bool   `json:"kill,omitempty"`
	// Backends: the server processes that it is connected to, as soon as there are more than Known.
	Backends bool   `json:"backends,omitempty"`
	Known    uint64 `json:"known,omitempty"`
	// Nonce makes answers fit one question only.
	Nonce []byte `json:"nonce"`
}

// askPeers asks all other live proxies, at once. answers are by proxy; silent says of
// those that gave none why.
func (s *Server) askPeers(ctx context.Context, q peerQuestion) (answers [][]byte, silent []error) {
	if s.cfg.Directory == nil {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, peerTimeout)
	defer stop()
	live, err := s.cfg.Directory.Proxies(ctx)
	if err != nil {
		return nil, []error{fmt.Errorf("the directory does not say which proxies there are: %w", err)}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, other := range live {
		if other.ID == s.cfg.Proxy {
			continue
		}
		wg.Go(s.guarded("question to a proxy", func() {
			rows, err := askPeer(ctx, other, q)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, fmt.Errorf("proxy %s at %s did not answer: %w", other.ID, other.Address, err))
				return
			}
			answers = append(answers, rows)
		}))
	}
	wg.Wait()
	return answers, silent
}

// dialPeer connects to another proxy where clients do. If it has TLS, what is said is
// encrypted, whoever in between says that there is none; who is there must be proved
// otherwise.
func dialPeer(ctx context.Context, other directory.Proxy) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", other.Address)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	var answer [1]byte
	if _, err = conn.Write(wire.AppendSSLRequest(nil)); err == nil {
		_, err = io.ReadFull(conn, answer[:])
	}
	if err == nil && answer[0] == 'S' {
		t := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{peerProtocol}})
		if err = t.HandshakeContext(ctx); err == nil {
			return t, nil
		}
	}
	if err == nil && other.TLS {
		err = errors.New("it has TLS, and what answers at its address has not")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func askPeer(ctx context.Context, other directory.Proxy, q peerQuestion) ([]byte, error) {
	if len(other.Secret) == 0 {
		return nil, errors.New("it is of a version that cannot be asked")
	}
	conn, err := dialPeer(ctx, other)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	channel, err := channelOf(tlsState(conn))
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(wire.AppendAsk(nil)); err != nil {
		return nil, err
	}
	challenge := make([]byte, challengeLen)
	if _, err := io.ReadFull(conn, challenge); err != nil {
		return nil, err
	}
	q.Nonce = make([]byte, challengeLen)
	rand.Read(q.Nonce)
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(sealedMessage(text, other.Secret, channel, challenge)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < sha256.Size || n > maxAnswer {
		return nil, fmt.Errorf("its answer has %d bytes", n)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(conn, message); err != nil {
		return nil, err
	}
	rows, ok := opened(message, other.Secret, channel, q.Nonce)
	if !ok {
		return nil, errors.New("it could not prove who it is")
	}
	return rows, nil
}

// onAsk answers another proxy. Whoever cannot prove to be one gets random bytes, and no
// more: neither an answer nor one of the places for those who wait for answers. A proxy
// that has TLS is asked over TLS.
func (s *Server) onAsk(stream *wire.Stream, t *tls.ConnectionState) error {
	if len(s.cfg.Secret) == 0 || s.conf().TLS != nil && t == nil {
		return errors.New("a question of another proxy that may not be asked this way")
	}
	_ = stream.Conn().SetDeadline(time.Now().Add(2 * peerTimeout))
	channel, err := channelOf(t)
	if err != nil {
		return err
	}
	challenge := make([]byte, challengeLen)
	rand.Read(challenge)
	if _, err := stream.Write(challenge); err != nil {
		return err
	}
	if err := stream.Need(4); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(stream.Buffered()))
	if n < sha256.Size || n > maxQuestion {
		return fmt.Errorf("a question of %d bytes", n)
	}
	if err := stream.Need(4 + n); err != nil {
		return err
	}
	text, ok := opened(stream.Buffered()[4:4+n], s.cfg.Secret, channel, challenge)
	if !ok {
		return errors.New("a question of somebody who is no proxy of this cluster")
	}
	select {
	case s.asks <- struct{}{}:
		defer func() { <-s.asks }()
	default:
		return errors.New("too many questions of other proxies at once")
	}
	var q peerQuestion
	if err := json.Unmarshal(text, &q); err != nil {
		return err
	}
	rows, err := s.answer(q)
	if err != nil {
		return err
	}
	_, err = stream.Write(sealedMessage(rows, s.cfg.Secret, channel, q.Nonce))
	return err
}

// answer does what another proxy asks for.
func (s *Server) answer(q peerQuestion) ([]byte, error) {
	view := console.Named(q.View)
	switch {
	case q.Backends:
		list, opened := s.pool.Processes(q.Known, listenEvery)
		return json.Marshal(peerBackends{list, opened})
	case q.Reset:
		s.resetStatements(q.User, q.All)
	case q.Kill && q.Session != 0:
		return json.Marshal(s.killSession(q.Session))
	case q.Kill:
		s.killOn(q.Database, nil)
		s.leave(q.Database)
	case q.Database != "":
		return json.Marshal(s.occupants(q.Database, nil))
	case view != nil && view.Spread:
		return view.Table(s.ctx, adminSource{srv: s}, console.Viewer{User: q.User, All: q.All}).JSON(), nil
	}
	return []byte("[]"), nil
}

// resetStatements forgets what statements have cost: all, or those of one user.
func (s *Server) resetStatements(user string, all bool) {
	s.statements.Reset(func(o tally.Owner) bool { return all || o.User == user })
}

// channelOf is what both ends of a TLS connection know and nobody between them: who
// sits there and passes messages on has two.
func channelOf(t *tls.ConnectionState) ([]byte, error) {
	if t == nil {
		return nil, nil
	}
	return t.ExportKeyingMaterial("EXPORTER-weft-peer", nil, 32)
}

func tlsState(conn net.Conn) *tls.ConnectionState {
	if t, ok := conn.(*tls.Conn); ok {
		state := t.ConnectionState()
		return &state
	}
	return nil
}

// sealedMessage is the length, the MAC and the text.
func sealedMessage(text []byte, secret directory.Secret, channel, fresh []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(sha256.Size+len(text)))
	return append(append(b, messageMAC(text, secret, channel, fresh)...), text...)
}

// opened returns the text of a message behind its length, if its MAC is right.
func opened(message []byte, secret directory.Secret, channel, fresh []byte) ([]byte, bool) {
	text := message[sha256.Size:]
	return text, hmac.Equal(message[:sha256.Size], messageMAC(text, secret, channel, fresh))
}

// messageMAC covers parts of fixed lengths before the text, so that none can be taken
// for another.
func messageMAC(text []byte, secret directory.Secret, channel, fresh []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte{byte(len(channel)), byte(len(fresh))})
	m.Write(channel)
	m.Write(fresh)
	m.Write(text)
	return m.Sum(nil)
}
