package pgserver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// isPostgres reports whether a program name is the server's.
func isPostgres(name string) bool { return name == "postgres" || name == "postmaster" }

// signalAll sends a signal to every process of a data directory, the postmaster
// first: once it is stopped or dead it starts no new children and does not
// react to the others. Each child is a session of its own, so the process group
// would not do.
func signalAll(dir string, postmaster int, sig syscall.Signal) {
	if postmaster > 0 {
		_ = syscall.Kill(postmaster, sig) // gone already is fine
	}
	for _, pid := range processesIn(dir) {
		if pid != postmaster {
			_ = syscall.Kill(pid, sig)
		}
	}
}

// killAll ends every process of a data directory at once, as a power cut would.
func killAll(dir string, postmaster int) {
	// Stopped first, so that no child is forked between listing and killing.
	if postmaster > 0 {
		_ = syscall.Kill(postmaster, syscall.SIGSTOP)
	}
	signalAll(dir, postmaster, syscall.SIGKILL)
}

// awaitNone waits until no process of the data directory is left.
func awaitNone(ctx context.Context, dir string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if len(processesIn(dir)) == 0 {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pidFile is what postmaster.pid says.
type pidFile struct {
	pid   int
	ready bool
}

// readPIDFile returns false when there is no usable postmaster.pid.
func readPIDFile(dir string) (pidFile, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return pidFile{}, false
	}
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return pidFile{}, false
	}
	// PostgreSQL writes the state on the eighth line, padded.
	return pidFile{pid: pid, ready: len(lines) > 7 && strings.TrimSpace(lines[7]) == "ready"}, true
}

// End kills every process that runs in the data directory, of whichever run, as a
// power cut would. When End returns nil no process is left there.
func (c Config) End(ctx context.Context) error {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	killAll(dir, c.PID())
	if awaitNone(ctx, dir, stopGrace) {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &leftError{dir: dir, pids: processesIn(dir)}
}

// Pause stops every process that runs in the data directory where it stands. Resume
// undoes it.
func (c Config) Pause() { signalAll(c.Dir, c.PID(), syscall.SIGSTOP) }

// Resume undoes Pause.
func (c Config) Resume() { signalAll(c.Dir, c.PID(), syscall.SIGCONT) }

// PID is the postmaster's process id, of whichever run, or 0 if none runs.
func (c Config) PID() int {
	file, ok := readPIDFile(c.Dir)
	if !ok || !slices.Contains(processesIn(c.Dir), file.pid) {
		return 0
	}
	return file.pid
}

// clear ends what an earlier life of this data directory left running: a server
// whose caller was killed, or children whose postmaster was. It reports how many
// processes it found.
func (c Config) clear(ctx context.Context) (int, error) {
	left := processesIn(c.Dir)
	file, ok := readPIDFile(c.Dir)
	if len(left) > 0 {
		c.Log.Warn("ending a server left from an earlier run", "dir", c.Dir, "processes", len(left))
		postmaster := 0
		if ok && slices.Contains(left, file.pid) {
			postmaster = file.pid
			signalAll(c.Dir, postmaster, syscall.SIGCONT) // a stopped process handles no signal
			_ = syscall.Kill(postmaster, syscall.SIGINT)
			awaitNone(ctx, c.Dir, stopGrace)
		}
		if ctx.Err() == nil && len(processesIn(c.Dir)) > 0 {
			killAll(c.Dir, postmaster)
			awaitNone(ctx, c.Dir, stopGrace)
		}
		if rest := processesIn(c.Dir); len(rest) > 0 {
			if ctx.Err() != nil {
				return len(left), context.Cause(ctx)
			}
			return len(left), &leftError{dir: c.Dir, pids: rest}
		}
	}
	// Nothing lives in the data directory, so a pid file that is still there is
	// stale. Left alone it would stop postgres from starting if its number
	// meanwhile belongs to another process of the same user, a neighbouring shard say.
	if ok && seesAll() {
		if now, still := readPIDFile(c.Dir); still && now.pid == file.pid {
			_ = os.Remove(filepath.Join(c.Dir, "postmaster.pid"))
		}
	}
	return len(left), nil
}

type leftError struct {
	dir  string
	pids []int
}

func (e *leftError) Error() string {
	text := make([]string, len(e.pids))
	for i, pid := range e.pids {
		text[i] = strconv.Itoa(pid)
	}
	return "processes of an earlier server in " + e.dir + " do not end: " + strings.Join(text, ", ")
}
