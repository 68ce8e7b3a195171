package wire

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"weft/loop"
)

// HeaderLen is the type byte and the length word of a frame.
const HeaderLen = 5

// ErrFrameLength means the peer declared a length no frame can have.
var ErrFrameLength = errors.New("invalid message length")

// Stream reads frames from a connection and writes bytes to it.
type Stream struct {
	conn net.Conn
	raw  syscall.RawConn // nil under TLS: then reads go through conn
	loop *loop.Conn      // set if a loop watches the socket, and there is no TLS
	// watched is the connection of a loop, perhaps under TLS.
	watched *loop.Conn

	buf   []byte // nil while nothing is buffered
	owned *[chunk]byte
	r, w  int
	// mark is where the bytes begin that Rewind brings back, if held.
	mark int
	held bool
	fed  bool // the buffered bytes are those of Feed

	// State of the read callback, kept here so that a read allocates nothing.
	readFn  func(fd uintptr) bool
	n       int
	err     error
	pending []byte // written inside the callback, before waiting

	// State of the write callback.
	writeFn  func(fd uintptr) bool
	outgoing []byte // what the callback has not written
	writeErr error

	// reads and writes count how often somebody has begun to wait for the peer, and has
	// ended: an odd number means that somebody waits now.
	reads, writes atomic.Uint32
	// asks counts the writes inside the callback. Only the reader touches it.
	asks uint32
}

// Wait tells one wait for the peer from others. Zero: nobody waits.
type Wait struct{ read, write uint32 }

// Waiting returns the wait for the peer that somebody is in. Anybody may ask.
func (s *Stream) Waiting() (w Wait) {
	if n := s.reads.Load(); n%2 == 1 {
		w.read = n
	}
	if n := s.writes.Load(); n%2 == 1 {
		w.write = n
	}
	return w
}

// Sent returns a number that changes with every write. It is for the goroutine that reads.
func (s *Stream) Sent() uint32 { return s.writes.Load() + s.asks }

// NewStream returns a stream over conn. It owns conn from here on.
func NewStream(conn net.Conn) *Stream {
	s := &Stream{conn: conn}
	s.watched = loop.Under(conn)
	if _, encrypted := conn.(*tls.Conn); !encrypted {
		s.loop = s.watched
	}
	if sc, ok := conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			s.raw = raw
			s.readFn, s.writeFn = s.tryRead, s.tryWrite
		}
	}
	return s
}

// Conn returns the connection below, for deadlines and addresses.
func (s *Stream) Conn() net.Conn { return s.conn }

// Bind makes t wait for the peer in its loop, and reports whether a loop watches the connection. nil ends that.
func (s *Stream) Bind(t *loop.Task) bool {
	if s.watched == nil {
		return false
	}
	s.watched.Bind(t)
	return true
}

// Raw calls f with the descriptor and reports whether it could: there is none
// to look at under TLS.
func (s *Stream) Raw(f func(fd uintptr)) bool { return s.raw != nil && s.raw.Control(f) == nil }

// Close closes the connection. Buffers are given back by Release.
func (s *Stream) Close() error { return s.conn.Close() }

// Buffered returns the bytes read and not yet discarded, valid until the next
// Fill or Consume.
func (s *Stream) Buffered() []byte { return s.buf[s.r:s.w] }

// Consume takes n buffered bytes. The memory goes back when none is left, unless bytes are held.
func (s *Stream) Consume(n int) {
	s.r += n
	if s.held {
		if s.r-s.mark <= chunk {
			return
		}
		s.held = false
	}
	if s.r == s.w {
		s.Release()
	}
}

// Hold keeps the bytes that are consumed from now on, so that Rewind can bring them back: up to a chunk of them. What was held
// before is let go.
func (s *Stream) Hold() { s.mark, s.held = s.r, !s.fed }

// Holds reports whether all bytes consumed since Hold are still there.
func (s *Stream) Holds() bool { return s.held }

// LetGo ends Hold.
func (s *Stream) LetGo() {
	s.held = false
	if s.r == s.w && s.buf != nil {
		s.Release()
	}
}

// Rewind makes the bytes consumed since Hold the next ones again. They must be held, and stay held.
func (s *Stream) Rewind() { s.r = s.mark }

// Feed makes b the bytes that are read next. Until restore is called, nothing is read from the connection, and bytes that have
// come from it wait. The stream does not keep b.
func (s *Stream) Feed(b []byte) (restore func()) {
	buf, owned, r, w, mark, held, fed := s.buf, s.owned, s.r, s.w, s.mark, s.held, s.fed
	s.buf, s.owned, s.r, s.w, s.mark, s.held, s.fed = b, nil, 0, len(b), 0, false, true
	return func() { s.buf, s.owned, s.r, s.w, s.mark, s.held, s.fed = buf, owned, r, w, mark, held, fed }
}

// errFed means that more bytes are wanted than Feed was given.
var errFed = errors.New("more bytes are wanted than there are")

// Release drops everything buffered and gives the memory back.
func (s *Stream) Release() {
	s.r, s.w = 0, 0
	s.buf, s.held = nil, false
	if s.owned != nil {
		chunks.Put(s.owned)
		s.owned = nil
	}
}

// Fill blocks until at least one more byte is buffered. A deadline set on the
// connection ends it with os.ErrDeadlineExceeded and loses nothing.
func (s *Stream) Fill() error { return s.fill(nil) }

// WriteAndFill writes p and then fills. Writing from inside the wait saves the
// read that would fail because the answer cannot be there yet. Use it only
// where nothing but an answer to p is expected: bytes that had already arrived
// would go unnoticed until the peer sends more.
func (s *Stream) WriteAndFill(p []byte) error {
	if s.raw == nil || len(p) > chunk || s.w > s.r {
		if _, err := s.Write(p); err != nil {
			return err
		}
		return s.fill(nil)
	}
	s.asks++
	return s.fill(p)
}

func (s *Stream) fill(first []byte) error {
	if s.fed {
		return errFed
	}
	s.reads.Add(1)
	err := s.await(first)
	s.reads.Add(1)
	return err
}

func (s *Stream) await(first []byte) error {
	if s.buf != nil && s.w == len(s.buf) { // make room behind what is buffered
		s.makeRoom(chunk / 2)
	}
	if s.loop != nil {
		return s.awaitLoop(first)
	}
	if s.raw == nil {
		if s.buf == nil {
			s.borrow()
		}
		n, err := s.conn.Read(s.buf[s.w:])
		s.w += n
		if n > 0 {
			return nil
		}
		if s.w == s.r && !s.held {
			s.Release()
		}
		if err == nil {
			err = io.ErrNoProgress
		}
		return err
	}
	s.pending, s.n, s.err = first, 0, nil
	err := s.raw.Read(s.readFn)
	s.pending = nil
	if err == nil {
		err = s.err
	}
	if err != nil {
		return err
	}
	s.w += s.n
	return nil
}

// awaitLoop is await for a socket that a loop watches.
func (s *Stream) awaitLoop(first []byte) error {
	if len(first) > 0 {
		if _, err := s.loop.Write(first); err != nil {
			return err
		}
	}
	for {
		if err := s.loop.AwaitInput(); err != nil {
			return err
		}
		if err := s.receive(); err != unix.EAGAIN {
			return err
		}
	}
}

// receive takes what has come on a socket that a loop watches. It returns unix.EAGAIN if nothing has.
func (s *Stream) receive() error {
	borrowed := s.buf == nil
	if borrowed {
		s.borrow()
	}
	n, err := s.loop.Recv(s.buf[s.w:])
	if n > 0 {
		s.w += n
		return nil
	}
	if borrowed {
		s.Release()
	}
	if err == io.EOF || err == unix.EAGAIN {
		return err
	}
	return fmt.Errorf("read: %w", err)
}

// FillOrRest is Fill. It reports true instead of waiting if nothing is buffered, nothing has come, and a loop watches the socket: the wait can be left to the loop.
func (s *Stream) FillOrRest() (rests bool, err error) {
	if s.loop == nil || s.buf != nil {
		return false, s.Fill()
	}
	ready, err := s.loop.HasInput()
	if ready {
		err = s.receive()
	}
	if err == unix.EAGAIN {
		return true, nil
	}
	return !ready && err == nil, err
}

// Task returns the task that Bind has named; nil if there is none.
func (s *Stream) Task() *loop.Task {
	if s.watched == nil {
		return nil
	}
	return s.watched.Task()
}

// Watched returns the connection that a loop watches, perhaps under TLS; nil if none does.
func (s *Stream) Watched() *loop.Conn { return s.watched }

// tryRead is called by the runtime's poller with the descriptor; false means
// wait until it is readable. The buffer is borrowed for the attempt only.
func (s *Stream) tryRead(fd uintptr) bool {
	if len(s.pending) > 0 {
		n, err := send(int(fd), s.pending)
		if err == nil {
			s.pending = s.pending[n:]
			if len(s.pending) == 0 {
				return false
			}
			err = unix.EAGAIN
		}
		if err != unix.EAGAIN {
			s.err = fmt.Errorf("write: %w", err)
			return true
		}
		// The socket buffer is full: leave the poller and write the rest the
		// ordinary way.
		rest := s.pending
		s.pending = nil
		if _, err := s.conn.Write(rest); err != nil {
			s.err = err
			return true
		}
		// Fall through to a read attempt: time has passed.
	}
	borrowed := s.buf == nil
	if borrowed {
		s.borrow()
	}
	n, err := recv(int(fd), s.buf[s.w:])
	if n > 0 {
		s.n = n
		return true
	}
	if borrowed {
		s.Release()
	}
	switch {
	case err == unix.EAGAIN:
		return false
	case err == nil:
		s.err = io.EOF
	default:
		s.err = fmt.Errorf("read: %w", err)
	}
	return true
}

func (s *Stream) borrow() {
	s.owned = chunks.Get().(*[chunk]byte)
	s.buf = s.owned[:]
	s.r, s.w = 0, 0
}

// makeRoom moves the buffered bytes to the front, and to larger memory if less
// than n bytes would be free behind them. Held bytes move along if that needs no more than two chunks.
func (s *Stream) makeRoom(n int) {
	from := s.r
	if s.held {
		if s.w-s.mark+n <= 2*chunk {
			from = s.mark
		} else {
			s.held = false
		}
	}
	have := s.w - from
	if len(s.buf)-have >= n {
		copy(s.buf, s.buf[from:s.w])
	} else {
		b := make([]byte, have+n)
		copy(b, s.buf[from:s.w])
		if s.owned != nil {
			chunks.Put(s.owned)
			s.owned = nil
		}
		s.buf = b
	}
	s.r, s.w, s.mark = s.r-from, have, 0
}

// Header returns the type and the declared length of the first buffered
// frame. ok is false while fewer than HeaderLen bytes are buffered.
func (s *Stream) Header() (typ byte, length int, ok bool) {
	if s.w-s.r < HeaderLen {
		return 0, 0, false
	}
	b := s.buf[s.r:s.w]
	return b[0], int(int32(binary.BigEndian.Uint32(b[1:]))), true
}

// Need blocks until n bytes are buffered.
func (s *Stream) Need(n int) error {
	if s.w-s.r >= n {
		return nil
	}
	if s.buf != nil && len(s.buf)-s.r < n {
		// Grow geometrically while the bytes really come: a declared length
		// alone must not make us reserve it.
		s.makeRoom(min(n, max(2*(s.w-s.r), chunk)) - (s.w - s.r))
	}
	for s.w-s.r < n {
		if s.w == len(s.buf) && s.buf != nil {
			have := s.w - s.r
			s.makeRoom(min(n-have, max(have, chunk)))
		}
		if err := s.fill(nil); err != nil {
			return err
		}
	}
	return nil
}

// Next blocks until the first frame is whole and returns it. body is valid
// until the next call that fills or discards; the caller discards
// HeaderLen+len(body) bytes when done with it. limit bounds the declared
// length; beyond it Next returns ErrFrameLength.
func (s *Stream) Next(limit int) (typ byte, body []byte, err error) {
	if err := s.Need(HeaderLen); err != nil {
		return 0, nil, err
	}
	typ, length, _ := s.Header()
	if length < 4 || length > limit {
		return typ, nil, ErrFrameLength
	}
	if err := s.Need(length + 1); err != nil {
		return typ, nil, err
	}
	return typ, s.buf[s.r+HeaderLen : s.r+length+1], nil
}

// Write writes all of p to the connection.
func (s *Stream) Write(p []byte) (int, error) {
	s.writes.Add(1)
	n, err := s.write(p)
	s.writes.Add(1)
	return n, err
}

func (s *Stream) write(p []byte) (int, error) {
	if s.raw == nil || s.loop != nil || len(p) > chunk {
		return s.conn.Write(p)
	}
	s.outgoing, s.writeErr = p, nil
	err := s.raw.Write(s.writeFn)
	rest := s.outgoing
	s.outgoing = nil
	if err == nil {
		err = s.writeErr
	}
	n := len(p) - len(rest)
	if err != nil || len(rest) == 0 {
		return n, err
	}
	// The socket buffer is full: write the rest the ordinary way, which waits.
	m, err := s.conn.Write(rest)
	return n + m, err
}

// tryWrite writes once what the socket takes without waiting.
func (s *Stream) tryWrite(fd uintptr) bool {
	n, err := send(int(fd), s.outgoing)
	s.outgoing = s.outgoing[n:]
	if err != nil && err != unix.EAGAIN {
		s.writeErr = fmt.Errorf("write: %w", err)
	}
	return true
}
