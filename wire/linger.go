package wire

import (
	"io"
	"net"
	"time"
)

// Linger lets a client read the last word: closing a socket with unread bytes
// sends RST, which may overtake what was written.
func Linger(c net.Conn) {
	w, ok := c.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, c, 1<<20)
}
