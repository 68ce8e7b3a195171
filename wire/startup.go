package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Codes that may stand where a protocol version would.
const (
	ProtocolMajor  = 3
	cancelCode     = 1234<<16 | 5678
	SSLRequestCode = 1234<<16 | 5679
	gssCode        = 1234<<16 | 5680
	relayedCode    = 1234<<16 | 5711 // weft's own: a cancel request that a proxy passes on
	askCode        = 1234<<16 | 5712 // weft's own: a proxy has a question
	Protocol30     = 3 << 16
	Protocol32     = 3<<16 | 2
	maxCancelBytes = 256 // PostgreSQL's bound on a key's length, protocol 3.2
)

// PacketKind says what the packet before the first frame asks for.
type PacketKind int

// What a client may open with.
const (
	PacketStartup PacketKind = iota
	PacketSSL
	PacketGSS
	PacketCancel
	PacketAsk
)

// Packet is what a client opens a connection with.
type Packet struct {
	Kind    PacketKind
	Version uint32
	// Options are the key and value pairs in the order they came.
	Options []Option
	// PID and Secret are set in a cancel request. Relayed: it comes from another
	// proxy.
	PID     int32
	Secret  []byte
	Relayed bool
}

// Option is one key and value of a startup packet.
type Option struct{ Name, Value string }

// Get returns the last value given for name.
func (p *Packet) Get(name string) string {
	for i := len(p.Options) - 1; i >= 0; i-- {
		if p.Options[i].Name == name {
			return p.Options[i].Value
		}
	}
	return ""
}

// Errors of the startup packet, as PostgreSQL distinguishes them.
var (
	ErrStartupLength = errors.New("invalid length of startup packet")
	ErrStartupLayout = errors.New("invalid startup packet layout: expected terminator as last byte")
)

// VersionError is a protocol version PostgreSQL refuses.
type VersionError struct{ Version uint32 }

func (e VersionError) Error() string {
	return fmt.Sprintf("unsupported frontend protocol %d.%d: server supports 3.0 to 3.0", e.Version>>16, e.Version&0xffff)
}

// ReadPacket reads the packet that opens a connection. io.EOF before the first
// byte means the client went away without a word, as a port check does.
func ReadPacket(s *Stream) (*Packet, error) {
	if err := s.Need(4); err != nil {
		if errors.Is(err, io.EOF) && len(s.Buffered()) > 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(s.Buffered())))
	if n < 8 || n > StartupLimit {
		return nil, ErrStartupLength
	}
	if err := s.Need(n); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	p, err := DecodePacket(s.Buffered()[4:n])
	s.Consume(n)
	return p, err
}

// DecodePacket decodes an opening packet without its length word.
func DecodePacket(b []byte) (*Packet, error) {
	if len(b) < 4 {
		return nil, ErrStartupLength
	}
	p := &Packet{Version: binary.BigEndian.Uint32(b)}
	b = b[4:]
	switch p.Version {
	case SSLRequestCode:
		p.Kind = PacketSSL
		return p, nil
	case gssCode:
		p.Kind = PacketGSS
		return p, nil
	case askCode:
		if len(b) > 0 {
			return nil, ErrStartupLength
		}
		p.Kind = PacketAsk
		return p, nil
	case cancelCode, relayedCode:
		if len(b) < 8 || len(b) > 4+maxCancelBytes {
			return nil, ErrStartupLength
		}
		p.Kind, p.Relayed = PacketCancel, p.Version == relayedCode
		p.PID = int32(binary.BigEndian.Uint32(b))
		p.Secret = append([]byte(nil), b[4:]...)
		return p, nil
	}
	if p.Version>>16 != ProtocolMajor {
		return nil, VersionError{p.Version}
	}
	for {
		if len(b) == 0 {
			return nil, ErrStartupLayout
		}
		name, rest, ok := CString(b)
		if !ok {
			return nil, ErrStartupLayout
		}
		if len(name) == 0 {
			if len(rest) != 0 {
				return nil, ErrStartupLayout
			}
			return p, nil
		}
		value, rest, ok := CString(rest)
		if !ok {
			return nil, ErrStartupLayout
		}
		p.Options = append(p.Options, Option{string(name), string(value)})
		b = rest
	}
}

// AppendSSLRequest adds the question whether the server has TLS.
func AppendSSLRequest(b []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 8), SSLRequestCode)
}

// AppendCancel adds a cancel request for the backend with this key.
func AppendCancel(b []byte, pid int32, secret []byte) []byte {
	return appendCancel(b, cancelCode, pid, secret)
}

// AppendRelayedCancel adds one that a proxy passes on to another.
func AppendRelayedCancel(b []byte, pid int32, secret []byte) []byte {
	return appendCancel(b, relayedCode, pid, secret)
}

// AppendAsk adds the packet with which a proxy begins to ask another something.
func AppendAsk(b []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 8), askCode)
}

func appendCancel(b []byte, code uint32, pid int32, secret []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(12+len(secret)))
	b = binary.BigEndian.AppendUint32(b, code)
	b = binary.BigEndian.AppendUint32(b, uint32(pid))
	return append(b, secret...)
}
