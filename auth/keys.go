package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

// Keys is what a client's proof leaves in weft's hands: enough to prove the same
// password to every server that keeps the same verifier, and no password. They
// are as good as the password to such a server, so they are never printed.
type Keys struct {
	salt       []byte
	iterations int
	clientKey  []byte
	serverKey  []byte
	md5        string // "md5…" as stored; empty after a SCRAM login
}

// String keeps keys out of logs.
func (k *Keys) String() string { return "keys" }

// GoString does so under %#v.
func (k *Keys) GoString() string { return "keys" }

// LogValue does so in attributes.
func (k *Keys) LogValue() slog.Value { return slog.StringValue("keys") }

// MD5 answers a server's request for an MD5 password. It reports false if the
// keys are those of a SCRAM login.
func (k *Keys) MD5(salt []byte) (string, bool) {
	if k.md5 == "" {
		return "", false
	}
	return md5Password(strings.TrimPrefix(k.md5, "md5"), string(salt)), true
}

// ErrOtherVerifier says that a server keeps another verifier of the password,
// with which a client's proof cannot be repeated.
var ErrOtherVerifier = errors.New("the server keeps another verifier of this user's password than the one the client has proved")

// Proof is the client's half of one SCRAM-SHA-256 exchange with a server, made
// with keys: messages in, messages out, no I/O.
type Proof struct {
	Mechanism string

	keys        *Keys
	gs2         string
	binding     []byte
	nonce       string
	clientFirst string
	signed      []byte
}

// Proof begins an exchange. offered is the body of AuthenticationSASL behind its
// code, certificate the server's in DER, nil without TLS; it is used for channel
// binding where the server offers that.
func (k *Keys) Proof(offered, certificate []byte) (*Proof, error) {
	if k.clientKey == nil {
		return nil, errors.New("the server asks for SCRAM, and the client has proved an MD5 password")
	}
	p := &Proof{keys: k, gs2: "n,,"}
	binding := endpointBinding(certificate)
	plus := false
	for name := range bytes.SplitSeq(offered, []byte{0}) {
		switch {
		case string(name) == scramSHA256Plus && binding != nil:
			plus = true
		case string(name) == scramSHA256:
			p.Mechanism = scramSHA256
		}
	}
	switch {
	case plus:
		p.Mechanism, p.gs2, p.binding = scramSHA256Plus, gs2Plus, binding
	case p.Mechanism == "":
		return nil, errors.New("the server offers no SASL mechanism that weft knows")
	case binding != nil:
		p.gs2 = "y,," // we could, and the server should know if it could too
	}
	return p, nil
}

// Bound reports whether the proof is bound to the TLS connection.
func (p *Proof) Bound() bool { return p.binding != nil }

// First returns the client-first-message.
func (p *Proof) First() string {
	var random [nonceLength]byte
	rand.Read(random[:])
	p.nonce = base64.StdEncoding.EncodeToString(random[:])
	p.clientFirst = "n=,r=" + p.nonce
	return p.gs2 + p.clientFirst
}

// Final reads the server-first-message and returns the client-final-message.
func (p *Proof) Final(serverFirst string) (string, error) {
	a := attributes{rest: serverFirst}
	nonce, err := a.value('r')
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(nonce, p.nonce) || len(nonce) == len(p.nonce) {
		return "", errors.New("the server's nonce does not begin with weft's")
	}
	encoded, err := a.value('s')
	if err != nil {
		return "", err
	}
	salt, err := decodeBase64(encoded)
	if err != nil {
		return "", fmt.Errorf("salt: %w", err)
	}
	rounds, err := a.value('i')
	if err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(rounds); err != nil || n != p.keys.iterations || !bytes.Equal(salt, p.keys.salt) {
		return "", ErrOtherVerifier
	}
	final := "c=" + base64.StdEncoding.EncodeToString(append([]byte(p.gs2), p.binding...)) + ",r=" + nonce
	p.signed = []byte(p.clientFirst + "," + serverFirst + "," + final)
	storedKey := sha256.Sum256(p.keys.clientKey)
	proof := make([]byte, sha256.Size)
	subtle.XORBytes(proof, p.keys.clientKey, sign(storedKey[:], p.signed))
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// Verify reads the server-final-message: a server that does not know the
// verifier itself is not the one the client meant.
func (p *Proof) Verify(serverFinal string) error {
	a := attributes{rest: serverFinal}
	encoded, err := a.value('v')
	if err != nil {
		return err
	}
	got, err := decodeBase64(encoded)
	if err != nil || !hmac.Equal(got, sign(p.keys.serverKey, p.signed)) {
		return errors.New("the server could not prove that it knows the password")
	}
	return nil
}
