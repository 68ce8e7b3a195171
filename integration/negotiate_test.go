package integration

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestNegotiate asks for protocol versions from 3.0 on. The server speaks the
// one asked for or says which it does, and gives a cancel key of a length that
// version allows.
func TestNegotiate(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		for _, minor := range []byte{0, 1, 2, 3, 99} {
			c := dialRaw(t, target.Addr)
			defer c.Close()
			first := startup("postgres")
			first[7] = minor
			if _, err := c.Write(first); err != nil {
				t.Fatal(err)
			}
			spoken, key := handshake(t, c, minor)
			switch {
			case spoken > minor:
				t.Errorf("asked for 3.%d, got 3.%d", minor, spoken)
			case spoken < 2 && len(key) != 4, spoken >= 2 && (len(key) < 4 || len(key) > 256):
				t.Errorf("3.%d with a key of %d bytes", spoken, len(key))
			}
		}
	})
}

// handshake reads up to ReadyForQuery.
func handshake(t *testing.T, c rawConn, asked byte) (spoken byte, key []byte) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(pgtest.Patience)); err != nil {
		t.Fatal(err)
	}
	spoken = asked
	for {
		var head [5]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatalf("3.%d: %v", asked, err)
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(c, body); err != nil {
			t.Fatalf("3.%d: %v", asked, err)
		}
		switch head[0] {
		case 'v':
			if !bytes.Equal(body[:2], []byte{0, 3}) && binary.BigEndian.Uint32(body) > 0xff {
				t.Errorf("negotiated %x", body)
			}
			spoken = body[3]
		case 'K':
			key = body[4:]
		case 'E':
			t.Fatalf("3.%d: %q", asked, body)
		case 'Z':
			return spoken, key
		}
	}
}
