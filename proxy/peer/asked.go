package peer

import (
	"context"
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

// Beside is the other processes that share this one's address: one has taken over from the other.
type Beside interface {
	// Cancel passes a cancel request on, and reports whether one of them has the session.
	Cancel(ctx context.Context, pid int32, key []byte) bool
	// Answer passes a question on, with what its seal depends on. It reports whether one of them could open it.
	Answer(ctx context.Context, channel, challenge, message []byte) ([]byte, bool)
}

// Asked answers the questions of other proxies.
type Asked struct {
	secret directory.Secret
	beside Beside // nil for a process that shares its address with none
	answer func(Question) ([]byte, error)
	places chan struct{}
}

// NewAsked returns what answers questions sealed with secret. Questions with another seal are for a
// process of beside, which may be nil. Without a secret no question is answered.
func NewAsked(secret directory.Secret, beside Beside, answer func(Question) ([]byte, error)) *Asked {
	return &Asked{secret: secret, beside: beside, answer: answer, places: make(chan struct{}, maxAsks)}
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
	message := stream.Buffered()[4 : 4+n]
	answer, err := a.Answer(channel, challenge, message)
	if errors.Is(err, errOtherSeal) && a.beside != nil {
		ctx, stop := context.WithTimeout(context.Background(), 2*Timeout)
		defer stop()
		if passed, ok := a.beside.Answer(ctx, channel, challenge, message); ok {
			answer, err = passed, nil
		}
	}
	if err != nil {
		return err
	}
	_, err = stream.Write(answer)
	return err
}

// errOtherSeal says that a question was sealed with another secret than that of this process.
var errOtherSeal = errors.New("a question of somebody who is no proxy of this cluster")

// Answer opens a question that is sealed for this process, and returns the sealed answer.
func (a *Asked) Answer(channel, challenge, message []byte) ([]byte, error) {
	if len(a.secret) == 0 || len(message) < sha256.Size {
		return nil, errOtherSeal
	}
	text, ok := unseal(message, a.secret, channel, challenge)
	if !ok {
		return nil, errOtherSeal
	}
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	default:
		return nil, errors.New("too many questions of other proxies at once")
	}
	var q Question
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, err
	}
	answer, err := a.answer(q)
	if err != nil {
		return nil, err
	}
	return seal(answer, a.secret, channel, q.Nonce), nil
}
