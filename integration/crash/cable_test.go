package crash

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// cable is the network between a proxy and a server: it can be frozen, so that
// nothing comes through and nobody is told, or cut, or closed in one direction.
type cable struct {
	listener net.Listener
	to       string

	mu     sync.Mutex
	thaw   *sync.Cond
	frozen bool
	cut    bool
	half   bool              // some of its connections are closed in one direction
	conns  map[net.Conn]bool // true for those of the proxy
	trap   *trap
}

// trap waits for words on their way to the server.
type trap struct {
	words []byte
	// before: it goes off before they are passed on, else after.
	before bool
	// found is called when they are, first of all: whoever waits for an answer may have it before
	// the trap has gone off behind them.
	found  func()
	spring func()
}

// lay sets a trap, in the place of the one there was.
func (c *cable) lay(t *trap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trap = t
}

// sprung returns the trap if these bytes set it off. It goes off once.
func (c *cable) sprung(b []byte) *trap {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.trap
	if t == nil || !bytes.Contains(b, t.words) {
		return nil
	}
	c.trap = nil
	return t
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	return newCableAt(t, "127.0.0.1", to)
}

// newCableAt is newCable with an address at which the proxy finds it.
func newCableAt(t *testing.T, host, to string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: l, to: to, conns: map[net.Conn]bool{}}
	c.thaw = sync.NewCond(&c.mu)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.join(near) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.set(false, true)
		wg.Wait()
	})
	return c
}

func (c *cable) addr() string { return c.listener.Addr().String() }

func (c *cable) join(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer far.Close()
	c.mu.Lock()
	if c.cut {
		c.mu.Unlock()
		return
	}
	c.conns[near], c.conns[far] = true, false
	c.mu.Unlock()
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		wg.Go(func() {
			if c.carry(way[0], way[1], way[0] == near) {
				return // the other direction lives
			}
			_ = near.Close()
			_ = far.Close()
		})
	}
	wg.Wait()
	c.mu.Lock()
	delete(c.conns, near)
	delete(c.conns, far)
	c.mu.Unlock()
}

// carry passes on what comes. It reports whether it ended because its direction was closed.
func (c *cable) carry(from io.Reader, to io.Writer, out bool) (closed bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return c.halved()
		}
		var t *trap
		if out {
			t = c.sprung(buf[:n])
		}
		if t != nil {
			t.found()
		}
		if t != nil && t.before {
			t.spring()
		}
		c.mu.Lock()
		for c.frozen && !c.cut {
			c.thaw.Wait()
		}
		c.mu.Unlock()
		if _, err := to.Write(buf[:n]); err != nil && !c.halved() {
			return false
		}
		if t != nil && !t.before {
			t.spring()
		}
	}
}

func (c *cable) set(frozen, cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen, c.cut = frozen, cut
	if cut {
		for conn := range c.conns {
			_ = conn.Close()
		}
	}
	c.thaw.Broadcast()
}

func (c *cable) halved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.half
}

// hush closes one direction: the server hears nothing more, and can answer, or the
// other way round. It does not last longer than these connections.
func (c *cable) hush(server bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.half = true
	for conn, near := range c.conns {
		if near != server {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}
}

func (c *cable) freeze()    { c.set(true, false) }
func (c *cable) sever()     { c.set(false, true) }
func (c *cable) reconnect() { c.set(false, false) }

// whole ends connections that are closed in one direction.
func (c *cable) whole() {
	if c.halved() {
		c.sever()
		c.mu.Lock()
		c.half = false
		c.mu.Unlock()
	}
	c.reconnect()
}
