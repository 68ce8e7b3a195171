package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// How long a way of stopping a server gets before a harder one is tried: an
// orderly shutdown with its checkpoint, and an immediate one.
const (
	stopGrace = 10 * time.Second
	quitGrace = 3 * time.Second
)

// logName is the server's log in the data directory.
const logName = "server.log"

// logLimit is the size beyond which Start moves the server's log aside, keeping
// one old file.
const logLimit = 16 << 20

// Server is a running PostgreSQL server.
type Server struct {
	mu  sync.Mutex
	cfg Config // Settings and Follow may change under mu; the rest does not

	pid  int
	done chan struct{}
	err  error // how the process ended; read after done

	stopping atomic.Bool // its end is wanted
}

// Start runs the server in Dir and returns when it accepts connections. If it
// returns an error, nothing of it is left running. Ending ctx later does not
// stop the server.
func (c Config) Start(ctx context.Context) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if !c.Exists() {
		return nil, fmt.Errorf("%s is not a data directory", c.Dir)
	}
	if err := c.sameMajor(); err != nil {
		return nil, err
	}
	as, err := accountFor(c.RunAs)
	if err != nil {
		return nil, err
	}
	if _, err := c.clear(ctx); err != nil {
		return nil, err
	}
	if err := CheckPort(loopback(c.Port)); err != nil {
		return nil, err
	}
	if err := c.writeConf(as); err != nil {
		return nil, fmt.Errorf("write %s: %w", confName, err)
	}
	if c.Follow != 0 {
		if err := c.markStandby(as); err != nil {
			return nil, err
		}
	}
	s := &Server{cfg: c, done: make(chan struct{})}
	if err := s.launch(as); err != nil {
		return nil, err
	}
	if err := s.awaitReady(ctx); err != nil {
		s.Kill()
		return nil, err
	}
	return s, nil
}

// sameMajor refuses a data directory of another major version, with what to do.
func (c Config) sameMajor() error {
	text, err := os.ReadFile(filepath.Join(c.Dir, "PG_VERSION"))
	if err != nil {
		return err
	}
	made := string(bytes.TrimSpace(text))
	if made != strconv.Itoa(c.Install.Major) {
		return fmt.Errorf("%s was made by PostgreSQL %s, but %s is %s: name the matching programs or use another directory",
			c.Dir, made, c.Install.Bin, c.Install.Version)
	}
	return nil
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// writeConf replaces our settings file, whole or not at all.
func (c Config) writeConf(as account) error {
	path := filepath.Join(c.Dir, confName)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(c.conf()), 0o600); err != nil {
		return err
	}
	if err := as.own(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// launch forks postgres and starts the goroutine that waits for its end.
func (s *Server) launch(as account) error {
	out, err := openLog(s.LogFile(), as)
	if err != nil {
		return err
	}
	defer out.Close() // the child has its own copy
	way, err := as.entrance(s.cfg.Dir)
	if err != nil {
		return err
	}
	defer way.close()
	cmd := exec.Command(s.cfg.Install.Program("postgres"), "-D", way.path,
		// On the command line, so that no file can move the server elsewhere.
		// No Unix socket: its path may be at most about 100 bytes long.
		"-c", "listen_addresses=127.0.0.1",
		"-c", "port="+strconv.Itoa(s.cfg.Port),
		"-c", "unix_socket_directories=")
	cmd.Dir = "/" // postgres goes to its data directory by itself
	cmd.ExtraFiles = way.inherited()
	cmd.Env = environ()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes(as, syscall.SIGINT)
	s.pid, err = fork(cmd, func(err error) {
		s.err = err
		close(s.done)
	})
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	return nil
}

// fork starts a program and calls ended, from a goroutine, with how the program ended.
func fork(cmd *exec.Cmd, ended func(error)) (pid int, err error) {
	started := make(chan error)
	go func() {
		// The parent-death signal comes when the forking thread ends: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	err = <-started
	return pid, err
}

func openLog(path string, as account) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > logLimit {
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := as.own(path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// awaitReady returns when a connection was made, or with the reason why none
// will be.
func (s *Server) awaitReady(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	var last error
	for {
		// The file first: it is cheap to look at, and it says that the server
		// behind the port will be this one.
		if file, ok := readPIDFile(s.cfg.Dir); ok && file.pid == s.pid && file.ready {
			if last = s.ping(limit); last == nil {
				return nil
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("postgres ended at start: %w", s.lastWords())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.Done():
			return fmt.Errorf("postgres did not accept connections on %s within %v: %w",
				s.Addr(), s.cfg.StartTimeout, errors.Join(last, s.lastWords()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, s.ConnString("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// lastWords is the end of the server's log as an error.
func (s *Server) lastWords() error {
	f, err := os.Open(s.LogFile())
	if err != nil {
		return err
	}
	defer f.Close()
	const tail = 2048
	buf := make([]byte, tail)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	n, _ := f.ReadAt(buf, max(0, info.Size()-tail)) // a short read is expected
	return fmt.Errorf("%s (log: %s)", lastLines(string(buf[:n]), 3), s.LogFile())
}

// PID is the postmaster's process id.
func (s *Server) PID() int { return s.pid }

// Port is the port on 127.0.0.1.
func (s *Server) Port() int { return s.cfg.Port }

// Addr is host:port.
func (s *Server) Addr() string { return loopback(s.cfg.Port) }

// Dir is the data directory.
func (s *Server) Dir() string { return s.cfg.Dir }

// Config returns what the server runs with, defaults filled in; its Start brings a
// stopped server back.
func (s *Server) Config() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// LogFile is where the server writes its log.
func (s *Server) LogFile() string { return filepath.Join(s.cfg.Dir, logName) }

// ConnString connects to a database as the superuser.
func (s *Server) ConnString(database string) string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s dbname=%s sslmode=disable connect_timeout=10",
		s.cfg.Port, connValue(s.cfg.User), connValue(database))
}

// connValue writes a value of a connection string.
func connValue(v string) string {
	b := []byte{'\''}
	for i := range len(v) {
		if v[i] == '\'' || v[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, v[i])
	}
	return string(append(b, '\''))
}

// Done closes when the server process has ended, wanted or not.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says how the process ended, once Done is closed: nil when it was stopped
// on purpose.
func (s *Server) Err() error {
	select {
	case <-s.done:
	default:
		return nil
	}
	if s.stopping.Load() {
		return nil
	}
	if s.err == nil {
		return errors.New("postgres exited")
	}
	return fmt.Errorf("postgres ended: %w (log: %s)", s.err, s.LogFile())
}

// Stop shuts the server down: clients are disconnected and a checkpoint is
// written. If that takes longer than ctx or ten seconds, it is ended the hard
// way, which loses no committed data. The server is gone when Stop returns.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	s.Resume() // in case it was paused: a stopped process handles no signal
	if s.signal(syscall.SIGINT) == nil {
		s.awaitEnd(ctx, stopGrace)
	}
	return s.quit()
}

// quit ends the server without a checkpoint.
func (s *Server) quit() error {
	s.stopping.Store(true)
	if s.signal(syscall.SIGQUIT) == nil {
		s.Resume()
		s.awaitEnd(context.Background(), quitGrace)
	}
	if s.livePID() != 0 {
		s.Kill()
		return fmt.Errorf("server on %s did not stop in time and was killed", s.Addr())
	}
	// The postmaster waits for its children, but one killed by somebody else
	// leaves them behind.
	if len(processesIn(s.cfg.Dir)) > 0 {
		s.Kill()
	}
	return nil
}

// awaitEnd waits for the process, but not longer than limit.
func (s *Server) awaitEnd(ctx context.Context, limit time.Duration) {
	select {
	case <-s.done:
	case <-ctx.Done():
	case <-time.After(limit):
	}
}

// Kill ends the server and all its children with SIGKILL, and returns when they
// are gone.
func (s *Server) Kill() {
	s.stopping.Store(true)
	killAll(s.cfg.Dir, s.livePID())
	<-s.done
	awaitNone(context.Background(), s.cfg.Dir, stopGrace)
}

// Pause stops every process of the server where it stands: connections stay
// open and nothing answers, as on a machine that hangs. Resume undoes it.
func (s *Server) Pause() {
	signalAll(s.cfg.Dir, s.livePID(), syscall.SIGSTOP)
}

// Resume undoes Pause.
func (s *Server) Resume() {
	signalAll(s.cfg.Dir, s.livePID(), syscall.SIGCONT)
}

// livePID is the postmaster's id, or 0 once it was waited for: then the number
// may already belong to another process.
func (s *Server) livePID() int {
	select {
	case <-s.done:
		return 0
	default:
		return s.pid
	}
}

// signal sends a signal to the postmaster.
func (s *Server) signal(sig syscall.Signal) error {
	pid := s.livePID()
	if pid == 0 {
		return os.ErrProcessDone
	}
	return syscall.Kill(pid, sig)
}
