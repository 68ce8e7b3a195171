package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server the lab started. Its output goes to a file whose end is shown if it fails.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string
	grace time.Duration // between SIGTERM and SIGKILL

	ended chan struct{} // closed when the process has been waited for
}

func startProcess(name, dir string, cred *syscall.Credential, argv ...string) (*process, error) {
	p := &process{
		name:  name,
		cmd:   exec.Command(argv[0], argv[1:]...),
		log:   filepath.Join(dir, name+".log"),
		grace: 30 * time.Second,
		ended: make(chan struct{}),
	}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: cred,
		// A group of its own: the terminal's Ctrl-C reaches only us, and the lab ends its servers in order.
		Setpgid: true,
		// If we are killed outright, the servers are still told to go.
		Pdeathsig: syscall.SIGTERM,
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // How it ended is told by its log.
		close(p.ended)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// waitReady calls ready until it succeeds, the process ends, or the time or ctx is over.
func (p *process) waitReady(ctx context.Context, timeout time.Duration, ready func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s not ready after %s: %w\n%s", p.name, timeout, err, p.tail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.ended:
			return fmt.Errorf("%s ended at start:\n%s", p.name, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stop ends the process and returns when it is gone. Ending early is reported: figures taken from a proxy that was
// restarted or died are worth nothing.
func (p *process) stop() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s had ended by itself:\n%s", p.name, p.tail())
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(p.grace):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s did not stop within %s and was killed:\n%s", p.name, p.grace, p.tail())
}

// tail is the end of the process's output, indented.
func (p *process) tail() string {
	const lines = 15
	b, err := os.ReadFile(p.log)
	if err != nil {
		return "  " + err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + string(bytes.Join(all, []byte("\n  ")))
}

// unprivileged is whom to run servers as that refuse root: nobody else when we are not root ourselves.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("uid of %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("gid of %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("started as root, and neither user postgres nor nobody exists to run PgBouncer as")
}

// findProgram looks in PATH and in the given directories.
func findProgram(name string, dirs ...string) (string, error) {
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: not in PATH nor in %s", name, strings.Join(dirs, ", "))
	}
	return path, nil
}
