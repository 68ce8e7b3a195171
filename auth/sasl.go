package auth

import (
	"bytes"
	"encoding/binary"
	"errors"

	"weft/pgerr"
)

const (
	codeSASL         = 10
	codeSASLContinue = 11
	codeSASLFinal    = 12

	scramSHA256     = "SCRAM-SHA-256"
	scramSHA256Plus = "SCRAM-SHA-256-PLUS"

	// maxSASLMessage is PostgreSQL's limit for a SASL message, less the four
	// bytes in which its length counts itself.
	maxSASLMessage = 1024 - 4
)

// scram runs the SASL exchange: the list of mechanisms, the client's choice,
// and the conversation wrapped in SASLContinue and SASLFinal.
func (d *dialogue) scram() error {
	c := conversation{verifier: d.mock.verifier(d.request.User)}
	switch {
	case d.account == nil:
		c.doomed = errUnknownUser
	case d.account.user.Password == "":
		c.doomed = errNoPassword
	case d.account.verifier == nil:
		c.doomed = errNoVerifier
	default:
		c.verifier = d.account.verifier
	}
	if d.request.TLS != nil {
		c.binding = endpointBinding(d.request.ServerCertificate)
	}

	mechanisms := scramSHA256 + "\x00\x00"
	if c.binding != nil {
		mechanisms = scramSHA256Plus + "\x00" + mechanisms
	}
	if err := d.send(codeSASL, []byte(mechanisms)); err != nil {
		return err
	}
	body, err := d.receiveSASL()
	if err != nil {
		return err
	}
	message, given, err := c.choose(body)
	if err != nil {
		return err
	}
	if !given {
		// The client kept its first message back: an empty challenge asks for it.
		if message, err = d.challenge(nil); err != nil {
			return err
		}
	}
	answer, err := c.first(message)
	if err != nil {
		return err
	}
	if message, err = d.challenge([]byte(answer)); err != nil {
		return err
	}
	answer, reason, err := c.final(message)
	if err != nil {
		return err
	}
	if reason != nil {
		return d.refuse(reason)
	}
	if formOf(d.account.user.Password) == formVerifier {
		d.keys = c.keys // of a verifier that shards may have too
	}
	return d.send(codeSASLFinal, []byte(answer))
}

func (d *dialogue) challenge(data []byte) (string, error) {
	if err := d.send(codeSASLContinue, data); err != nil {
		return "", err
	}
	body, err := d.receiveSASL()
	return string(body), err
}

// receiveSASL reads a SASL message. One that is too long is a failed login in
// PostgreSQL's eyes, not a protocol violation.
func (d *dialogue) receiveSASL() ([]byte, error) {
	body, err := d.receive("SASL", maxSASLMessage)
	if errors.Is(err, ErrMessageTooLong) {
		return nil, d.refuse(err)
	}
	return body, err
}

// choose reads a SASLInitialResponse: the mechanism, and the first message
// unless the client did not give one. An empty message is not the same as none.
func (c *conversation) choose(body []byte) (message string, given bool, err error) {
	name, rest, ok := bytes.Cut(body, []byte{0})
	if !ok {
		return "", false, pgerr.Fatal(pgerr.ProtocolViolation, "invalid string in message")
	}
	switch {
	case string(name) == scramSHA256Plus && c.binding != nil:
		c.plus = true
	case string(name) == scramSHA256:
	default:
		return "", false, pgerr.Fatal(pgerr.ProtocolViolation, "client selected an invalid SASL authentication mechanism")
	}
	if len(rest) < 4 {
		return "", false, pgerr.Fatal(pgerr.ProtocolViolation, "insufficient data left in message")
	}
	length := int64(int32(binary.BigEndian.Uint32(rest)))
	rest = rest[4:]
	if length != -1 {
		if length < 0 || length > int64(len(rest)) {
			return "", false, pgerr.Fatal(pgerr.ProtocolViolation, "insufficient data left in message")
		}
		message, rest = string(rest[:length]), rest[length:]
	}
	if len(rest) > 0 {
		return "", false, pgerr.Fatal(pgerr.ProtocolViolation, "invalid message format")
	}
	return message, length != -1, nil
}
