package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"weft/pgerr"
)

// conversation is the server's half of one SCRAM-SHA-256 exchange (RFC 5802,
// RFC 7677): messages in, messages out, no I/O. It is written here, not taken
// from xdg-go/scram, because that library looks users up by the name inside the
// SCRAM message, which PostgreSQL ignores (libpq leaves it empty), has no doomed
// exchange for users who do not exist, and words its errors so that PostgreSQL's
// SQLSTATEs and details cannot be told from them.
type conversation struct {
	verifier *verifier
	doomed   error  // if set the exchange runs to its end and fails with this reason
	binding  []byte // tls-server-end-point data; nil if PLUS was not offered
	plus     bool   // the client chose SCRAM-SHA-256-PLUS

	flag        byte // the client's gs2-cbind-flag
	nonce       string
	clientFirst string // client-first-message-bare
	serverFirst string
	keys        *Keys // what a right proof has shown
}

const (
	bindingType = "tls-server-end-point"
	gs2Plus     = "p=" + bindingType + ",,"

	nonceLength = 18 // raw bytes, as PostgreSQL's
)

// first reads the client-first-message and returns the server-first-message.
func (c *conversation) first(message string) (string, error) {
	if err := checkMessage(message); err != nil {
		return "", err
	}
	p := attributes{rest: message}
	c.flag = p.peek()
	switch c.flag {
	case 'n', 'y':
		if c.plus {
			return "", malformed("The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.")
		}
		if c.flag == 'y' && c.binding != nil {
			// Someone between us may have cut PLUS out of the list we sent.
			return "", pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "SCRAM channel binding negotiation error").
				WithDetail("The client supports SCRAM channel binding but thinks the server does not.  " +
					"However, this server does support channel binding.")
		}
		p.skip()
		if p.peek() != ',' {
			return "", malformed(`Comma expected, but found character "%s".`, sanitizeChar(p.peek()))
		}
		p.skip()
	case 'p':
		if !c.plus {
			return "", malformed("The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.")
		}
		kind, err := p.value('p')
		if err != nil {
			return "", err
		}
		if kind != bindingType {
			return "", pgerr.Fatal(pgerr.ProtocolViolation, `unsupported SCRAM channel-binding type "%s"`, sanitizeString(kind))
		}
	default:
		return "", malformed(`Unexpected channel-binding flag "%s".`, sanitizeChar(c.flag))
	}
	switch p.peek() {
	case ',':
		p.skip()
	case 'a':
		return "", pgerr.Fatal(pgerr.FeatureNotSupported, "client uses authorization identity, but it is not supported")
	default:
		return "", malformed(`Unexpected attribute "%s" in client-first-message.`, sanitizeChar(p.peek()))
	}
	c.clientFirst = p.rest
	if p.peek() == 'm' {
		return "", pgerr.Fatal(pgerr.FeatureNotSupported, "client requires an unsupported SCRAM extension")
	}
	// The user name in here is ignored: the startup packet's is the one.
	if _, err := p.value('n'); err != nil {
		return "", err
	}
	nonce, err := p.value('r')
	if err != nil {
		return "", err
	}
	if !isPrintable(nonce) {
		return "", pgerr.Fatal(pgerr.ProtocolViolation, "non-printable characters in SCRAM nonce")
	}
	for p.rest != "" { // extensions, none of which we know
		if _, _, err := p.next(); err != nil {
			return "", err
		}
	}
	var random [nonceLength]byte
	rand.Read(random[:])
	c.nonce = nonce + base64.StdEncoding.EncodeToString(random[:])
	c.serverFirst = fmt.Sprintf("r=%s,s=%s,i=%d", c.nonce, base64.StdEncoding.EncodeToString(c.verifier.salt), c.verifier.iterations)
	return c.serverFirst, nil
}

// final reads the client-final-message and returns the server-final-message, or
// the reason why the proof is refused. A doomed exchange computes all the same:
// the time it takes must not tell users from strangers.
func (c *conversation) final(message string) (answer string, reason, err error) {
	if err := checkMessage(message); err != nil {
		return "", nil, err
	}
	p := attributes{rest: message}
	binding, err := p.value('c')
	if err != nil {
		return "", nil, err
	}
	if c.plus {
		want := base64.StdEncoding.EncodeToString(append([]byte(gs2Plus), c.binding...))
		if subtle.ConstantTimeCompare([]byte(binding), []byte(want)) != 1 {
			return "", nil, pgerr.Fatal(pgerr.InvalidAuthorizationSpec, "SCRAM channel binding check failed")
		}
	} else if binding != base64.StdEncoding.EncodeToString([]byte{c.flag, ',', ','}) {
		return "", nil, pgerr.Fatal(pgerr.ProtocolViolation, "unexpected SCRAM channel-binding attribute in client-final-message")
	}
	nonce, err := p.value('r')
	if err != nil {
		return "", nil, err
	}
	var attr byte
	var value, withoutProof string
	for attr != 'p' {
		// What is signed ends before the comma in front of the proof.
		withoutProof = message[:max(0, len(message)-len(p.rest)-1)]
		if attr, value, err = p.next(); err != nil {
			return "", nil, err
		}
	}
	proof, err := decodeBase64(value)
	if err != nil || len(proof) != sha256.Size {
		return "", nil, malformed("Malformed proof in client-final-message.")
	}
	if p.rest != "" {
		return "", nil, malformed("Garbage found at the end of client-final-message.")
	}
	if subtle.ConstantTimeCompare([]byte(nonce), []byte(c.nonce)) != 1 {
		return "", nil, pgerr.Fatal(pgerr.ProtocolViolation, "invalid SCRAM response").WithDetail("Nonce does not match.")
	}

	signed := []byte(c.clientFirst + "," + c.serverFirst + "," + withoutProof)
	clientKey := make([]byte, sha256.Size)
	subtle.XORBytes(clientKey, proof, sign(c.verifier.storedKey, signed))
	storedKey := sha256.Sum256(clientKey)
	right := subtle.ConstantTimeCompare(storedKey[:], c.verifier.storedKey) == 1
	if c.doomed != nil {
		return "", c.doomed, nil
	}
	if !right {
		return "", errWrongPassword, nil
	}
	c.keys = &Keys{salt: c.verifier.salt, iterations: c.verifier.iterations, clientKey: clientKey, serverKey: c.verifier.serverKey}
	return "v=" + base64.StdEncoding.EncodeToString(sign(c.verifier.serverKey, signed)), nil, nil
}

func sign(key, message []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message)
	return h.Sum(nil)
}

func checkMessage(message string) error {
	if message == "" {
		return malformed("The message is empty.")
	}
	if strings.IndexByte(message, 0) >= 0 {
		return malformed("Message length does not match input length.")
	}
	return nil
}

func malformed(format string, args ...any) error {
	return pgerr.Fatal(pgerr.ProtocolViolation, "malformed SCRAM message").WithDetail(format, args...)
}

// attributes reads a SCRAM message from the left: attr "=" value, with commas
// between. The end reads as a zero byte, which no message contains.
type attributes struct{ rest string }

func (p *attributes) peek() byte {
	if p.rest == "" {
		return 0
	}
	return p.rest[0]
}

func (p *attributes) skip() {
	if p.rest != "" {
		p.rest = p.rest[1:]
	}
}

// value reads the attribute that must come next.
func (p *attributes) value(attr byte) (string, error) {
	if found := p.peek(); found != attr {
		return "", malformed(`Expected attribute "%c" but found "%s".`, attr, sanitizeChar(found))
	}
	_, value, err := p.next()
	return value, err
}

// next reads whichever attribute comes next.
func (p *attributes) next() (attr byte, value string, err error) {
	attr = p.peek()
	switch {
	case attr == 0:
		return 0, "", malformed("Attribute expected, but found end of string.")
	case (attr < 'A' || attr > 'Z') && (attr < 'a' || attr > 'z'):
		return 0, "", malformed(`Attribute expected, but found invalid character "%s".`, sanitizeChar(attr))
	}
	p.skip()
	if p.peek() != '=' {
		return 0, "", malformed(`Expected character "=" for attribute "%c".`, attr)
	}
	p.skip()
	value, p.rest, _ = strings.Cut(p.rest, ",")
	return attr, value, nil
}

// isPrintable is RFC 5802's printable: ASCII from '!' to '~' without the comma,
// which ends the attribute anyway.
func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// sanitizeChar shows a client's byte in a message without passing it on raw.
func sanitizeChar(b byte) string {
	if b >= 0x21 && b <= 0x7e {
		return "'" + string(rune(b)) + "'"
	}
	return fmt.Sprintf("0x%02x", b)
}

// sanitizeString is sanitizeChar for up to 30 bytes.
func sanitizeString(s string) string {
	b := []byte(s[:min(len(s), 30)])
	for i := range b {
		if b[i] < 0x21 || b[i] > 0x7e {
			b[i] = '?'
		}
	}
	return string(b)
}
