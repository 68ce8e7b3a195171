package pool

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/wire"
)

// maxKeys bounds the users whose keys are kept. An entry takes a few hundred bytes.
const maxKeys = 10_000

// keyring holds, by user, the keys with which clients proved themselves to weft, so that weft can
// log in to shards with them. The user who logged in least recently is forgotten first.
type keyring struct {
	mu     sync.Mutex
	byUser map[string]*auth.Keys
	order  []string
}

// Learn keeps the keys that a user has just logged in with.
func (p *Pool) Learn(user string, keys *auth.Keys) {
	if keys == nil {
		return
	}
	r := &p.keys
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byUser == nil {
		r.byUser = map[string]*auth.Keys{}
	}
	if _, known := r.byUser[user]; known {
		i := slices.Index(r.order, user)
		r.order = append(slices.Delete(r.order, i, i+1), user)
	} else {
		if len(r.order) >= maxKeys {
			delete(r.byUser, r.order[0])
			r.order = slices.Delete(r.order, 0, 1)
		}
		r.order = append(r.order, user)
	}
	r.byUser[user] = keys
}

func (r *keyring) of(user string) *auth.Keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byUser[user]
}

// use makes a login use the user's keys if weft has no password for the user and logs in under
// the user's own name.
func (r *keyring) use(pc *pgconn.Config, user string) {
	keys := r.of(user)
	if keys == nil || pc.Password != "" || pc.User != user {
		return
	}
	policy, binding := pc.RequireAuth, pc.ChannelBinding
	pc.RequireAuth = "" // keyedConn checks it: pgconn does not see the authentication
	pc.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &keyedConn{Conn: conn, keys: keys, policy: policy, binding: binding}, nil
	}
}

// loginError is the reason why weft could not log in to a shard with a user's keys.
type loginError struct{ error }

func (e loginError) Unwrap() error { return e.error }

// keyedConn answers a server's authentication requests with keys. Its owner pgconn, which knows
// only passwords, sees nothing of the exchange but AuthenticationOk. Until then keyedConn must
// not be used by several goroutines.
type keyedConn struct {
	net.Conn
	keys    *auth.Keys
	policy  string // require_auth
	binding string // channel_binding

	ready  []byte // bytes from the server that the owner has not read yet
	proved bool
	done   bool
}

// unwrapped returns the connection under a keyedConn whose login is over.
func unwrapped(conn net.Conn) net.Conn {
	if k, ok := conn.(*keyedConn); ok && k.done && len(k.ready) == 0 {
		return k.Conn
	}
	return conn
}

// Read implements net.Conn.
func (k *keyedConn) Read(p []byte) (int, error) {
	for len(k.ready) == 0 && !k.done {
		if err := k.step(); err != nil {
			return 0, err
		}
	}
	if len(k.ready) > 0 {
		n := copy(p, k.ready)
		k.ready = k.ready[n:]
		return n, nil
	}
	return k.Conn.Read(p)
}

// Codes of authentication requests.
const (
	codeOk           = 0
	codeMD5          = 5
	codeSASL         = 10
	codeSASLContinue = 11
	codeSASLFinal    = 12
)

// step reads one message, and answers it or passes it on to the owner.
func (k *keyedConn) step() error {
	frame, err := k.frame()
	if err != nil {
		return err
	}
	if frame[0] != wire.Authentication || len(frame) < wire.HeaderLen+4 {
		k.ready = frame
		return nil
	}
	body := frame[wire.HeaderLen:]
	switch code := binary.BigEndian.Uint32(body); code {
	case codeOk:
		if !k.proved && !k.accepts("none") {
			return loginError{errors.New("the shard asks for no proof, and require_auth wants one")}
		}
		if !k.proved && k.binding == "require" {
			return loginError{errors.New("the shard asks for no proof, and channel_binding is required")}
		}
		k.done, k.ready = true, frame
		return nil
	case codeMD5:
		return k.md5(body[4:])
	case codeSASL:
		return k.scram(body[4:])
	default:
		return loginError{fmt.Errorf("the shard asks for a proof of kind %d, and weft has no password to give", code)}
	}
}

// md5 answers a request for an MD5 password.
func (k *keyedConn) md5(salt []byte) error {
	answer, ok := k.keys.MD5(salt)
	switch {
	case !k.accepts("md5"):
		return loginError{errors.New("the shard asks for MD5, and require_auth forbids it")}
	case k.binding == "require":
		return loginError{errors.New("the shard asks for MD5, and channel_binding is required")}
	case !ok:
		return loginError{errors.New("the shard asks for MD5, and the client has proved a SCRAM password")}
	}
	k.proved = true
	return k.answer(append([]byte(answer), 0))
}

// scram answers a request for SASL with a whole SCRAM exchange.
func (k *keyedConn) scram(offered []byte) error {
	if !k.accepts("scram-sha-256") {
		return loginError{errors.New("the shard asks for SCRAM, and require_auth forbids it")}
	}
	var certificate []byte
	if t, ok := k.Conn.(*tls.Conn); ok && k.binding != "disable" {
		if chain := t.ConnectionState().PeerCertificates; len(chain) > 0 {
			certificate = chain[0].Raw
		}
	}
	proof, err := k.keys.Proof(offered, certificate)
	if err != nil {
		return loginError{err}
	}
	if k.binding == "require" && !proof.Bound() {
		return loginError{errors.New("channel binding is required, and the shard does not offer it")}
	}
	first := proof.First()
	b := append([]byte(proof.Mechanism), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(first)))
	if err := k.answer(append(b, first...)); err != nil {
		return err
	}
	message, err := k.expect(codeSASLContinue)
	if err != nil || message == nil {
		return err
	}
	final, err := proof.Final(string(message))
	if err != nil {
		return loginError{err}
	}
	if err := k.answer([]byte(final)); err != nil {
		return err
	}
	if message, err = k.expect(codeSASLFinal); err != nil || message == nil {
		return err
	}
	if err := proof.Verify(string(message)); err != nil {
		return loginError{err}
	}
	k.proved = true
	return nil
}

// answer sends a password message.
func (k *keyedConn) answer(body []byte) error {
	b, at := wire.Begin(nil, wire.Password)
	_, err := k.Write(wire.End(append(b, body...), at))
	return err
}

// expect reads the next authentication request and returns its data. A message of another type
// is passed on to the owner, and expect returns nil.
func (k *keyedConn) expect(code uint32) ([]byte, error) {
	frame, err := k.frame()
	if err != nil {
		return nil, err
	}
	if frame[0] != wire.Authentication {
		k.ready = frame
		return nil, nil
	}
	if body := frame[wire.HeaderLen:]; len(body) >= 4 && binary.BigEndian.Uint32(body) == code {
		return body[4:], nil
	}
	return nil, loginError{errors.New("the shard has left the SASL exchange")}
}

// maxLoginFrame bounds the messages that a server may send before the login is over.
const maxLoginFrame = 64 << 10

// frame reads one whole message.
func (k *keyedConn) frame() ([]byte, error) {
	var header [wire.HeaderLen]byte
	if _, err := io.ReadFull(k.Conn, header[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n < 4 || n > maxLoginFrame {
		return nil, fmt.Errorf("the server sent a message of %d bytes during login", n)
	}
	frame := make([]byte, 1+n)
	copy(frame, header[:])
	_, err := io.ReadFull(k.Conn, frame[wire.HeaderLen:])
	return frame, err
}

// accepts reports whether require_auth, in libpq's words, allows a method.
func (k *keyedConn) accepts(method string) bool {
	if k.policy == "" {
		return true
	}
	negated, listed := false, false
	for m := range strings.SplitSeq(k.policy, ",") {
		name, not := strings.CutPrefix(strings.TrimSpace(m), "!")
		negated = negated || not
		listed = listed || name == method
	}
	return listed != negated
}
