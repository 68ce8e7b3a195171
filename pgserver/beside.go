package pgserver

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Beside is a program that runs beside servers as their user: one that manages them, say.
type Beside struct {
	pid  int
	done chan struct{}
	err  error // how the process ended; read after done
}

// Beside starts a program as the server's user. Its output goes to the file log. The program
// gets SIGTERM when the caller is killed.
func (c Config) Beside(log, program string, args ...string) (*Beside, error) {
	as, err := accountFor(c.RunAs)
	if err != nil {
		return nil, err
	}
	out, err := openLog(log, as)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own copy
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.Env = environ()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = attributes(as, syscall.SIGTERM)
	b := &Beside{done: make(chan struct{})}
	b.pid, err = fork(cmd, func(err error) {
		b.err = err
		close(b.done)
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return b, nil
}

// PID is the process id.
func (b *Beside) PID() int { return b.pid }

// Done closes when the process has ended.
func (b *Beside) Done() <-chan struct{} { return b.done }

// Err says how the process ended, once Done is closed.
func (b *Beside) Err() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

// Signal sends a signal to the process, unless the process has ended.
func (b *Beside) Signal(sig syscall.Signal) error {
	select {
	case <-b.done:
		return os.ErrProcessDone
	default:
		return syscall.Kill(b.pid, sig)
	}
}

// Own makes a directory, or takes it, for the server's user alone, and says what keeps the
// user from entering it.
func (c Config) Own(dir string) error {
	as, err := accountFor(c.RunAs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	closed, err := as.barrier(dir)
	if err != nil {
		return err
	}
	if closed != "" {
		return fmt.Errorf("the servers run as user %s, who may not enter %s: choose a directory elsewhere, or type: chmod a+x %s", as.name, closed, closed)
	}
	return as.own(dir)
}

// OwnFile writes a file that only the server's user can read.
func (c Config) OwnFile(path string, text []byte) error {
	as, err := accountFor(c.RunAs)
	if err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	if err := as.own(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
