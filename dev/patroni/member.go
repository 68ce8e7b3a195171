package patroni

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"weft/pgserver"
)

// member is one server and its Patroni.
type member struct {
	cfg  pgserver.Config
	api  string // host:port of Patroni's REST API
	file string // Patroni's configuration

	mu     sync.Mutex
	proc   *pgserver.Beside // nil: not started yet
	frozen bool
}

func (m *member) name() string { return m.cfg.Name }

func (m *member) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.cfg.Port)) }

func (m *member) isFrozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.frozen
}

func (m *member) process() *pgserver.Beside {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

func (m *member) pidFile() string { return m.file + ".pid" }

// endOld ends what an earlier run of weft dev has left: Patroni first, which would start
// postgres again.
func (m *member) endOld(ctx context.Context) error {
	text, err := os.ReadFile(m.pidFile())
	if err == nil {
		pid, _ := strconv.Atoi(string(bytes.TrimSpace(text)))
		for end := time.Now().Add(stopLimit); m.isPatroni(pid) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = os.Remove(m.pidFile())
	}
	return m.cfg.End(ctx)
}

// isPatroni reports whether a process is this server's Patroni: the number may belong to
// another process by now. Where the system does not tell, nothing is known to be left.
func (m *member) isPatroni(pid int) bool {
	if pid <= 0 {
		return false
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(line, []byte(m.file))
}

// start starts Patroni.
func (m *member) start(program string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	proc, err := m.cfg.Beside(m.file+".log", program, m.file)
	if err != nil {
		return err
	}
	m.proc, m.frozen = proc, false
	return os.WriteFile(m.pidFile(), []byte(strconv.Itoa(proc.PID())+"\n"), 0o644)
}

// stop ends Patroni, which ends postgres in good order.
func (m *member) stop(ctx context.Context) error {
	m.thaw()
	proc := m.process()
	if proc == nil {
		return nil
	}
	if proc.Signal(syscall.SIGTERM) == nil {
		select {
		case <-proc.Done():
		case <-ctx.Done():
		case <-time.After(stopLimit):
		}
	}
	_ = proc.Signal(syscall.SIGKILL) // gone already is fine
	<-proc.Done()
	_ = os.Remove(m.pidFile())
	return m.cfg.End(context.WithoutCancel(ctx))
}

// freeze stops Patroni and postgres where they stand.
func (m *member) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.proc.Signal(syscall.SIGSTOP)
	m.cfg.Pause()
	m.frozen = true
}

// thaw lets them go on, postgres last: Patroni may have to end it first.
func (m *member) thaw() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.frozen {
		return false
	}
	_ = m.proc.Signal(syscall.SIGCONT)
	m.cfg.Resume()
	m.frozen = false
	return true
}
