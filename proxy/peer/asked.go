package peer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weft/directory"
	"weft/wire"
)

// Timeout bounds how long a client waits for other proxies.
const Timeout = time.Second

// maxAsks bounds how many questions are answered at once.
const maxAsks = 64

// Asked answers the questions of other proxies.
type Asked struct {
	secret directory.Secret
	answer func(Question) ([]byte, error)
	places chan struct{}
}

// NewAsked returns what answers questions sealed with secret. Without a secret no
// question is answered.
func NewAsked(secret directory.Secret, answer func(Question) ([]byte, error)) *Asked {
	return &Asked{secret: secret, answer: answer, places: make(chan struct{}, maxAsks)}
}

// Serve has the asked proxy's half of the dialogue, whose first packet has been read. t
// is nil without TLS, which needsTLS forbids. A client that cannot prove to be a proxy
// gets nothing but random bytes: neither an answer nor one of the places of proxies that wait
// for answers.
func (a *Asked) Serve(stream *wire.Stream, t *tls.ConnectionState, needsTLS bool) error {
	if len(a.secret) == 0 || needsTLS && t == nil {
		return errors.New("a question of another proxy that may not be asked this way")
	}
	_ = stream.Conn().SetDeadline(time.Now().Add(2 * Timeout))
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
	text, ok := unseal(stream.Buffered()[4:4+n], a.secret, channel, challenge)
	if !ok {
		return errors.New("a question of somebody who is no proxy of this cluster")
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	default:
		return errors.New("too many questions of other proxies at once")
	}
	var q Question
	if err := json.Unmarshal(text, &q); err != nil {
		return err
	}
	answer, err := a.answer(q)
	if err != nil {
		return err
	}
	_, err = stream.Write(seal(answer, a.secret, channel, q.Nonce))
	return err
}
