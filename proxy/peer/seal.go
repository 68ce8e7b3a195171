package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"net"

	"weft/directory"
)

const (
	// challengeLen is the length of a challenge and of a nonce.
	challengeLen = 32
	// maxQuestion and maxAnswer bound what is read from the other side.
	maxQuestion = 4 << 10
	maxAnswer   = 64 << 20
)

// channelOf is what both ends of a TLS connection know and nothing between them does: a
// relay has two connections, and two values.
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

// seal returns a message: the length, the MAC and the text.
func seal(text []byte, secret directory.Secret, channel, fresh []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(sha256.Size+len(text)))
	return append(append(b, mac(text, secret, channel, fresh)...), text...)
}

// unseal returns the text of a message behind its length, if its MAC is right.
func unseal(message []byte, secret directory.Secret, channel, fresh []byte) ([]byte, bool) {
	text := message[sha256.Size:]
	return text, hmac.Equal(message[:sha256.Size], mac(text, secret, channel, fresh))
}

// mac covers parts of fixed lengths before the text, so that no part can be taken for
// another.
func mac(text []byte, secret directory.Secret, channel, fresh []byte) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte{byte(len(channel)), byte(len(fresh))})
	m.Write(channel)
	m.Write(fresh)
	m.Write(text)
	return m.Sum(nil)
}
