package failover

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes connections on to an address, and can hold everything back without closing anything.
type relay struct {
	listener net.Listener
	to       string
	wait     sync.WaitGroup

	mu     sync.Mutex
	thaw   *sync.Cond
	frozen bool
	conns  []net.Conn
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to}
	r.thaw = sync.NewCond(&r.mu)
	r.wait.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.freeze(false)
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.wait.Wait()
	})
	return r
}

func (r *relay) addr() string { return r.listener.Addr().String() }

// freeze holds everything back, or lets it go on.
func (r *relay) freeze(frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = frozen
	r.thaw.Broadcast()
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, near, far)
		r.mu.Unlock()
		r.wait.Go(func() { r.pass(far, near) })
		r.wait.Go(func() { r.pass(near, far) })
	}
}

// pass copies bytes while nothing is held back.
func (r *relay) pass(to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.mu.Lock()
		for r.frozen {
			r.thaw.Wait()
		}
		r.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				_ = from.Close()
			}
			return
		}
	}
}
