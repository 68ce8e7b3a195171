package loop

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a TCP connection whose descriptor a loop watches. One goroutine or task at a time may wait for input with AwaitInput, and
// one may write.
type Conn struct {
	loop atomic.Pointer[Loop] // watches the descriptor
	fd   int
	mark int32 // tells the Conn from others that had its descriptor
	task atomic.Pointer[Task]
	in   side
	out  side
	// reading lets one Read wait after the other.
	reading sync.Mutex
	uses    atomic.Int32 // attempts under way, and one more until Close
	local   net.Addr
	peer    net.Addr
}

// Under returns the Conn under others, such as that of TLS; nil if there is none.
func Under(conn net.Conn) *Conn {
	for {
		if c, ok := conn.(*Conn); ok {
			return c
		}
		over, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = over.NetConn()
	}
}

// Go calls run as a task to which the Conn is bound, in the loop that watches the Conn; see Loop.Go.
func (c *Conn) Go(run func(t *Task) (rest *Conn)) {
	l := c.loop.Load()
	t := &Task{loop: l, run: run}
	c.task.Store(t)
	l.post(t)
}

// Bind makes the waits of t for the Conn waits in the loop of t, which watches the Conn from now on. nil ends that. Nothing may wait for the Conn.
func (c *Conn) Bind(t *Task) {
	if t != nil {
		c.move(t.loop)
	}
	c.task.Store(t)
}

// Task returns the task that the Conn is bound to; nil if there is none.
func (c *Conn) Task() *Task { return c.task.Load() }

// move makes a loop watch the Conn instead of another. The loop is told at once what the Conn is ready for.
func (c *Conn) move(to *Loop) {
	from := c.loop.Load()
	if from == to || !c.enter() {
		return
	}
	defer c.leave()
	from.poller.remove(c.fd)
	from.forget(c)
	c.loop.Store(to)
	if err := to.add(c); err != nil {
		_ = c.Close() // a Conn that is not watched would be waited for in vain
	}
}

// enter begins a use of the descriptor, which stays open until leave.
func (c *Conn) enter() bool {
	for {
		n := c.uses.Load()
		if n <= 0 {
			return false
		}
		if c.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *Conn) leave() {
	if c.uses.Add(-1) == 0 {
		c.loop.Load().forget(c)
		closeFile(c.fd)
	}
}

// AwaitInput waits until a call of Recv may succeed. That call must follow.
func (c *Conn) AwaitInput() error { return c.in.await(c.task.Load()) }

// HasInput reports whether a call of Recv may succeed. That call must follow then.
func (c *Conn) HasInput() (bool, error) { return c.in.take() }

// Recv takes bytes that have come, without waiting: EAGAIN if there are none, io.EOF at the end.
func (c *Conn) Recv(p []byte) (int, error) {
	if !c.enter() {
		return 0, net.ErrClosed
	}
	n, err := receive(c.fd, p)
	c.leave()
	switch {
	case err == again:
	case n == len(p) || n == 0 || err != nil:
		c.in.more()
	}
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Send gives the socket what it takes, without waiting: EAGAIN if it takes nothing.
func (c *Conn) Send(p []byte) (int, error) {
	if !c.enter() {
		return 0, net.ErrClosed
	}
	n, err := send(c.fd, p)
	c.leave()
	return n, err
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		if err := c.AwaitInput(); err != nil {
			return 0, c.failed("read", err)
		}
		n, err := c.Recv(p)
		if err == again {
			continue
		}
		return n, c.failed("read", err)
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	err := c.out.check()
	done := 0
	for err == nil {
		n := 0
		n, err = c.Send(p[done:])
		if done += n; done == len(p) {
			return done, nil
		}
		if err == nil || err == again {
			err = c.out.await(c.task.Load())
		}
	}
	return done, c.failed("write", err)
}

// failed gives an error the form that errors of net.TCPConn have.
func (c *Conn) failed(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = os.NewSyscallError(op, err)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.peer, Err: err}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	first := false
	end := func(s *side) {
		s.change(func() {
			if s == &c.in && !s.closed {
				first = true
			}
			s.closed = true
			if s.timer != nil {
				s.timer.Stop()
			}
		})
	}
	end(&c.in)
	end(&c.out)
	if !first {
		return c.failed("close", net.ErrClosed)
	}
	c.leave()
	return nil
}

// CloseWrite tells the peer that nothing more will come.
func (c *Conn) CloseWrite() error {
	if !c.enter() {
		return c.failed("close", net.ErrClosed)
	}
	defer c.leave()
	return c.failed("close", closeWrite(c.fd))
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.peer }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(at time.Time) error {
	c.in.limit(at)
	c.out.limit(at)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(at time.Time) error {
	c.in.limit(at)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	c.out.limit(at)
	return nil
}

// SyscallConn implements syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) { return rawConn{c}, nil }

// rawConn gives access to a Conn's descriptor.
type rawConn struct{ c *Conn }

// Control implements syscall.RawConn.
func (r rawConn) Control(f func(fd uintptr)) error {
	if !r.c.enter() {
		return r.c.failed("raw-control", net.ErrClosed)
	}
	defer r.c.leave()
	f(uintptr(r.c.fd))
	return nil
}

// Read implements syscall.RawConn.
func (r rawConn) Read(f func(fd uintptr) bool) error { return r.try("raw-read", &r.c.in, f) }

// Write implements syscall.RawConn.
func (r rawConn) Write(f func(fd uintptr) bool) error { return r.try("raw-write", &r.c.out, f) }

func (r rawConn) try(op string, s *side, f func(fd uintptr) bool) error {
	err := s.check()
	for err == nil {
		if !r.c.enter() {
			err = net.ErrClosed
			break
		}
		done := f(uintptr(r.c.fd))
		r.c.leave()
		if done {
			return nil
		}
		err = s.await(r.c.task.Load())
	}
	return r.c.failed(op, err)
}
