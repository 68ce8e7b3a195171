package takeover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockFile   = "weft.lock"
	socketFile = "weft.sock"
)

// Names of sockets that go with every takeover.
const (
	lockName    = "lock"
	controlName = "control"
)

const (
	// answerWithin is how long the other process may take for an answer that needs no work.
	answerWithin = 10 * time.Second
	// settleWithin is how long Take waits for a process that has the lock and cannot be asked: it is about to end, or has just begun.
	settleWithin = 5 * time.Second
	// endWithin is how long Take waits for a process that has said that it is about to end. Its control socket is closed before the rest of it.
	endWithin = time.Minute
)

// Config says how processes meet.
type Config struct {
	// Dir is the run_dir. It is made if it is not there.
	Dir string
	Log *slog.Logger
	// Guard writes down a panic of what it is given.
	Guard func(where string, f func()) func()
}

// Seat is the right to serve under a run_dir.
type Seat struct {
	cfg     Config
	lock    *os.File
	control *net.UnixListener

	mu     sync.Mutex // guards the fields below
	taker  int        // process ID of the process that is taking over; 0 for none
	handed bool       // another process has the seat
}

// Socket is a listener under the name by which the next process asks for it.
type Socket struct {
	Name string
	// Address is what the configuration calls the address.
	Address  string
	Listener net.Listener
}

// Take gets the seat. If a process has it, Take fails; with ask it asks that process for its sockets and returns them.
func Take(ctx context.Context, cfg Config, ask bool) (*Seat, *Hand, error) {
	if err := prepareDir(cfg.Dir); err != nil {
		return nil, nil, fmt.Errorf("run_dir: %w", err)
	}
	for end, told := time.Now().Add(settleWithin), false; ; {
		seat, err := sit(cfg)
		if seat != nil || err != nil {
			return seat, nil, err
		}
		if !ask {
			return nil, nil, fmt.Errorf("process %s serves with run_dir %s already: end it, or take over from it with --takeover", holder(cfg.Dir), cfg.Dir)
		}
		hand, err := request(cfg)
		if hand != nil {
			return nil, hand, nil
		}
		if errors.Is(err, ErrEnding) {
			end = time.Now().Add(endWithin)
			if !told {
				cfg.Log.Warn("the running process is about to end: waiting until it has", "pid", holder(cfg.Dir))
			}
			told = true
		}
		if refused := (*refusedError)(nil); errors.As(err, &refused) || time.Now().After(end) {
			return nil, nil, fmt.Errorf("take over from process %s: %w", holder(cfg.Dir), err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// prepareDir makes the directory, or fails if other users could put files there.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() && st.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, and this process to user %d", dir, st.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s may be written to by other users: its mode is %#o", dir, info.Mode().Perm())
	}
	return nil
}

// sit takes a seat that is free. It returns nil if a process has it.
func sit(cfg Config) (*Seat, error) {
	lock, err := os.OpenFile(filepath.Join(cfg.Dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("run_dir: %w", err)
	}
	if err := withFD(lock, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("run_dir: lock %s: %w", lockFile, err)
	}
	path := filepath.Join(cfg.Dir, socketFile)
	_ = os.Remove(path) // of a process that was killed
	control, err := listenUnix(path)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("run_dir: %w", err)
	}
	s := &Seat{cfg: cfg, lock: lock, control: control}
	s.sign()
	return s, nil
}

// listenUnix listens on a socket that only this user may connect to. The file stays when the listener is closed.
func listenUnix(path string) (*net.UnixListener, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// sign writes the process ID into the lock, for those who find it locked.
func (s *Seat) sign() {
	_ = s.lock.Truncate(0)
	_, _ = s.lock.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
}

// holder is the process ID in the lock, for messages.
func holder(dir string) string {
	text, _ := os.ReadFile(filepath.Join(dir, lockFile))
	if pid := strings.TrimSpace(string(text)); pid != "" {
		return pid
	}
	return "(unknown)"
}

// withFD calls f with the descriptor of a file or a socket.
func withFD(c syscall.Conn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// ErrEnding refuses a takeover from a process that is about to end and has closed its sockets: the new process waits until the seat is free.
var ErrEnding = errors.New("the running process is about to end")

// Giver is what a process does that is asked for its sockets.
type Giver struct {
	// Sockets are those to hand over. An error refuses the takeover.
	Sockets func() ([]Socket, error)
	// Yield is called once, when the next process accepts on the sockets. When it returns, this process accepts no more.
	Yield func(pid int)
}

// Serve lets other processes take over. It returns when one has, or ctx ends.
func (s *Seat) Serve(ctx context.Context, g Giver) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = s.control.Close() })()
	for {
		c, err := s.control.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			s.cfg.Log.Warn("accept failed in run_dir", "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		wg.Go(s.cfg.Guard("takeover", func() {
			defer c.Close()
			hold := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
			defer hold()
			if err := s.give(ctx, c, g, hold); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("a takeover did not take place: this process serves on", "err", err)
			}
		}))
	}
}

// give has the old process's half of the dialogue. hold keeps the end of Serve from ending the dialogue.
func (s *Seat) give(ctx context.Context, c *net.UnixConn, g Giver, hold func() bool) error {
	within(c, answerWithin)
	if err := checkPeer(c); err != nil {
		return err
	}
	hello, files, err := receive(c)
	closeAll(files)
	if err != nil {
		return fmt.Errorf("first words of the new process: %w", err)
	}
	refuse := func(format string, args ...any) error {
		err := fmt.Errorf(format, args...)
		_ = send(c, message{Refused: err.Error(), Ending: errors.Is(err, ErrEnding)})
		return fmt.Errorf("process %d: %w", hello.PID, err)
	}
	if hello.Protocol != protocol {
		return refuse("the running version of weft hands over by protocol %d, the new one by %d: stop the one and start the other", protocol, hello.Protocol)
	}
	if taker := s.begin(hello.PID); taker != 0 {
		return refuse("process %d is taking over already", taker)
	}
	defer s.end()
	sockets, err := g.Sockets()
	if err != nil {
		return refuse("%w", err)
	}
	s.cfg.Log.Info("a new process takes over: handing it the listening sockets", "pid", hello.PID)
	if err := s.offer(c, sockets); err != nil {
		return refuse("hand over: %w", err)
	}
	// The new process starts meanwhile, which takes as long as its directory is away.
	_ = c.SetDeadline(time.Time{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ready, files, err := receive(c)
	closeAll(files)
	if err != nil || !ready.Ready {
		return fmt.Errorf("process %d has gone before it was ready: %w", hello.PID, err)
	}
	s.mu.Lock()
	s.handed = true
	s.mu.Unlock()
	g.Yield(hello.PID)
	hold()
	_ = s.control.Close() // Serve ends
	_ = s.lock.Close()    // the new process has it too
	within(c, answerWithin)
	_ = send(c, message{Done: true})
	return nil
}

// begin notes the process that is taking over, unless one is already, which is returned.
func (s *Seat) begin(pid int) (taker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taker != 0 {
		return s.taker
	}
	s.taker = pid
	return 0
}

// end notes that nothing is under way. After a takeover nobody may begin one.
func (s *Seat) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.handed {
		s.taker = 0
	}
}

// offer sends the sockets.
func (s *Seat) offer(c *net.UnixConn, sockets []Socket) error {
	answer := message{PID: os.Getpid()}
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	add := func(name, address string, of any) error {
		conn, ok := of.(syscall.Conn)
		if !ok {
			return fmt.Errorf("socket %s has no descriptor", name)
		}
		return withFD(conn, func(fd int) error {
			own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err == nil {
				fds = append(fds, own)
				answer.Sockets = append(answer.Sockets, label{name, address})
			}
			return err
		})
	}
	errs := []error{add(lockName, "", s.lock), add(controlName, "", s.control)}
	for _, l := range sockets {
		errs = append(errs, add(l.Name, l.Address, l.Listener))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return send(c, answer, fds...)
}

// Close gives the seat up, unless another process has it: the next one finds it free.
func (s *Seat) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handed {
		return nil
	}
	s.handed = true
	if s.taker == 0 { // else the file is that of the process which is taking over
		_ = os.Remove(filepath.Join(s.cfg.Dir, socketFile))
	}
	_ = s.control.Close() // closed by Serve
	return s.lock.Close()
}
