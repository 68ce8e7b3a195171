package loop

import (
	"net"
	"sync/atomic"
)

// Set is several loops that share the work. A nil Set has none.
type Set struct {
	loops []*Loop
	next  atomic.Uint32
}

// NewSet starts n loops.
func NewSet(n int) (*Set, error) {
	s := &Set{}
	for range n {
		l, err := New()
		if err != nil {
			s.Close()
			return nil, err
		}
		s.loops = append(s.loops, l)
	}
	return s, nil
}

// Adopt makes conn a Conn of one of the loops, of each in turn. It returns conn itself if that is no TCP connection, or there are no loops.
func (s *Set) Adopt(conn net.Conn) net.Conn {
	if s == nil || len(s.loops) == 0 {
		return conn
	}
	return s.loops[int(s.next.Add(1)%uint32(len(s.loops)))].Adopt(conn)
}

// Stalls counts how often a task was made to leave its loop because it held up the others.
func (s *Set) Stalls() (n uint64) {
	if s != nil {
		for _, l := range s.loops {
			n += l.Stalls()
		}
	}
	return n
}

// Close ends the loops. Their tasks and Conns must have ended.
func (s *Set) Close() {
	if s != nil {
		for _, l := range s.loops {
			l.Close()
		}
	}
}
