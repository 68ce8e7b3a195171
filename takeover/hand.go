package takeover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Hand is what a new process has got from the old one, which serves on until Ready.
type Hand struct {
	PID int // of the old process

	cfg     Config
	conn    *net.UnixConn
	lock    *os.File
	control *net.UnixListener
	rest    []Socket
}

// refusedError is the old process's word.
type refusedError struct{ why string }

func (e *refusedError) Error() string { return e.why }

// request asks the process that has the seat.
func request(cfg Config) (*Hand, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(cfg.Dir, socketFile), Net: "unix"})
	if err != nil {
		return nil, err
	}
	h := &Hand{cfg: cfg, conn: c}
	if err := h.ask(); err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// ask has the new process's half of the dialogue, up to the sockets.
func (h *Hand) ask() error {
	if err := checkPeer(h.conn); err != nil {
		return &refusedError{err.Error()}
	}
	within(h.conn, answerWithin)
	if err := send(h.conn, message{Protocol: protocol, PID: os.Getpid()}); err != nil {
		return err
	}
	answer, files, err := receive(h.conn)
	defer closeAll(files)
	switch {
	case err != nil:
		return err
	case answer.Ending:
		return ErrEnding
	case answer.Refused != "":
		return &refusedError{answer.Refused}
	case len(files) != len(answer.Sockets):
		return &refusedError{fmt.Sprintf("it sent %d sockets for %d names", len(files), len(answer.Sockets))}
	}
	h.PID = answer.PID
	for i, s := range answer.Sockets {
		if s.Name == lockName {
			h.lock, files[i] = files[i], nil
			continue
		}
		l, err := net.FileListener(files[i]) // a descriptor of its own
		if err != nil {
			return &refusedError{fmt.Sprintf("socket %s: %v", s.Name, err)}
		}
		if u, ok := l.(*net.UnixListener); ok && s.Name == controlName {
			h.control = u
			continue
		}
		h.rest = append(h.rest, Socket{s.Name, s.Address, l})
	}
	if h.lock == nil || h.control == nil {
		return &refusedError{"it did not hand over its seat"}
	}
	return nil
}

// Listener returns the socket of a name, if it is at the address that this process's configuration wants, else nil. It is
// the caller's.
func (h *Hand) Listener(name, address string) net.Listener {
	for i, s := range h.rest {
		if s.Name == name && (s.Address == address || sameAddress(s.Listener.Addr(), address)) {
			h.rest = append(h.rest[:i], h.rest[i+1:]...)
			return s.Listener
		}
	}
	return nil
}

// sameAddress reports whether an address of a configuration is that of a listener.
func sameAddress(of net.Addr, address string) bool {
	want, err := net.ResolveTCPAddr("tcp", address)
	got, ok := of.(*net.TCPAddr)
	if err != nil || !ok || want.Port != got.Port {
		return false
	}
	everywhere := want.IP == nil || want.IP.IsUnspecified()
	return everywhere && got.IP.IsUnspecified() || want.IP.Equal(got.IP)
}

// Ready says that this process accepts on the sockets, and returns the seat. The old process accepts no more when Ready returns. The
// error says that the old process has not answered, and is gone most likely; the seat is taken all the same.
func (h *Hand) Ready() (*Seat, error) {
	within(h.conn, answerWithin)
	err := send(h.conn, message{Ready: true})
	var done message
	if err == nil {
		var files []*os.File
		done, files, err = receive(h.conn)
		closeAll(files)
	}
	if err == nil && !done.Done {
		err = errors.New("it answered something else")
	}
	h.dropRest()
	_ = h.conn.Close()
	seat := &Seat{cfg: h.cfg, lock: h.lock, control: h.control}
	if err != nil {
		err = errors.Join(err, seat.rebind())
	}
	seat.sign()
	return seat, err
}

// rebind makes weft.sock anew: the old process may have removed the file when it ended.
func (s *Seat) rebind() error {
	path := filepath.Join(s.cfg.Dir, socketFile)
	_ = os.Remove(path)
	l, err := listenUnix(path)
	if err != nil {
		return fmt.Errorf("run_dir: %w", err)
	}
	_ = s.control.Close()
	s.control = l
	return nil
}

// Close gives the takeover up: the old process goes on.
func (h *Hand) Close() error {
	h.dropRest()
	if h.lock != nil {
		_ = h.lock.Close()
	}
	if h.control != nil {
		_ = h.control.Close()
	}
	return h.conn.Close()
}

// dropRest closes the sockets that were not asked for.
func (h *Hand) dropRest() {
	for _, s := range h.rest {
		_ = s.Listener.Close()
	}
	h.rest = nil
}
