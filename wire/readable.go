package wire

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Readable reports whether bytes or an end of file wait on the socket. Under TLS only a read can
// tell, so Readable reports true. Any goroutine may ask.
func (s *Stream) Readable() bool {
	p := probes.Get().(*probe)
	defer probes.Put(p)
	return !s.Raw(p.look) || p.got
}

// probe checks a socket for input. With many shards almost every connection taken from the pool
// has been idle long enough to be checked, so a check must not allocate.
type probe struct {
	first [1]byte
	got   bool
	look  func(fd uintptr)
}

var probes = sync.Pool{New: func() any {
	p := &probe{}
	p.look = p.peek
	return p
}}

func (p *probe) peek(fd uintptr) { p.got = peek(int(fd), p.first[:]) != unix.EAGAIN }
