package main

import (
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// endWhole runs a command as the head of a process group, and ends all of it when its
// context does: a shell's children would live on otherwise.
func endWhole(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A grandchild that left the group may hold the pipes.
	cmd.WaitDelay = 2 * time.Second
	return cmd.Run()
}

const tailLimit = 64 << 10

// tail keeps the last bytes of what is written to it.
type tail struct {
	limit int

	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - t.limit; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// lastLines are the last n lines of a text, indented.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-n):], "\n    ")
}
