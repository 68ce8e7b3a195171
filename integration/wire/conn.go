package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxMessage bounds what a script reads as one message.
const maxMessage = 64 << 20

// Conn is one TCP connection to a server. It frames messages and nothing more,
// so that a script can send what no client library would.
type Conn struct {
	nc  net.Conn
	br  *bufio.Reader
	pid uint32 // from BackendKeyData
	key []byte // from BackendKeyData
}

// Message is one message from the server, unopened.
type Message struct {
	Type byte
	Body []byte
}

// Dial opens the TCP connection and sends nothing.
func Dial(addr string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return &Conn{nc: nc, br: bufio.NewReader(nc)}, nil
}

// Write sends p in one write, or in pieces of chunk bytes if chunk > 0.
func (c *Conn) Write(p []byte, chunk int) error {
	if err := c.nc.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if chunk <= 0 {
		chunk = max(len(p), 1)
	}
	for len(p) > 0 {
		n := min(chunk, len(p))
		if _, err := c.nc.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Read waits up to d for one message. A reset counts as io.EOF: a server that
// closes with unread bytes resets, and which of the two a client sees depends
// on timing.
func (c *Conn) Read(d time.Duration) (Message, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return Message{}, err
	}
	var head [5]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return Message{}, endOf(err)
	}
	n := int(int32(binary.BigEndian.Uint32(head[1:]))) - 4
	if n < 0 || n > maxMessage {
		return Message{}, fmt.Errorf("message %q claims %d bytes", head[0], n)
	}
	m := Message{Type: head[0], Body: make([]byte, n)}
	if _, err := io.ReadFull(c.br, m.Body); err != nil {
		return Message{}, fmt.Errorf("inside message %q: %w", head[0], endOf(err))
	}
	if m.Type == 'K' && n >= 8 {
		c.pid = binary.BigEndian.Uint32(m.Body)
		c.key = m.Body[4:]
	}
	return m, nil
}

// ReadByte waits up to d for a single byte outside any message.
func (c *Conn) readByte(d time.Duration) (byte, error) {
	if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return 0, err
	}
	b, err := c.br.ReadByte()
	return b, endOf(err)
}

// Close closes the socket without a Terminate.
func (c *Conn) Close() error { return c.nc.Close() }

// endOf maps every way a peer can hang up to io.EOF.
func endOf(err error) error {
	var ne net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ne) && ne.Timeout():
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	default:
		return io.EOF
	}
}
