package integration

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// startup is a StartupMessage for the database app.
func startup(user string) []byte {
	body := "\x00\x03\x00\x00user\x00" + user + "\x00database\x00" + harness.Database + "\x00\x00"
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

// message is one message of a client.
func message(typ byte, body string) []byte {
	p := binary.BigEndian.AppendUint32([]byte{typ}, uint32(len(body)+4))
	return append(p, body...)
}

// rawConn is a client that keeps no buffers, so that a thousand of them weigh
// nothing against what is measured.
type rawConn struct{ net.Conn }

func dialRaw(tb testing.TB, addr string) rawConn {
	tb.Helper()
	c, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		tb.Fatal(err)
	}
	return rawConn{c}
}

// login starts a session and returns when it is ready.
func (c rawConn) login(user string) error {
	if _, err := c.Write(startup(user)); err != nil {
		return err
	}
	return c.ready()
}

// query runs a simple query and drops its result.
func (c rawConn) query(sql string) error {
	if _, err := c.Write(message('Q', sql+"\x00")); err != nil {
		return err
	}
	return c.ready()
}

// ready reads up to ReadyForQuery and reports an error seen on the way.
func (c rawConn) ready() error {
	if err := c.SetReadDeadline(time.Now().Add(pgtest.Patience)); err != nil {
		return err
	}
	var failed error
	for {
		var head [5]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return err
		}
		n := int64(binary.BigEndian.Uint32(head[1:])) - 4
		if head[0] == 'E' {
			body := make([]byte, n)
			if _, err := io.ReadFull(c, body); err != nil {
				return err
			}
			failed = fmt.Errorf("error response %q", body)
			continue
		}
		if _, err := io.CopyN(io.Discard, c.Conn, n); err != nil {
			return err
		}
		if head[0] == 'Z' {
			return failed
		}
	}
}
