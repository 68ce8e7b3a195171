package pgserver

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// environ is the caller's environment without what would redirect PostgreSQL's
// programs (PGDATA, PGPORT, …) or change how they talk.
func environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PG") || strings.HasPrefix(kv, "LC_") || strings.HasPrefix(kv, "LANG")
	})
	return append(env, "LC_ALL=C")
}

// run runs a program to its end as the account, inheriting files, and returns
// what it printed. The program and its children die with ctx, and with the caller.
func run(ctx context.Context, as account, files []*os.File, program string, args ...string) (string, error) {
	// A parent-death signal is sent when the thread that forked ends, so the
	// thread must stay as long as the child does.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = "/" // the caller's may be closed to the account
	cmd.ExtraFiles = files
	cmd.Env = environ()
	cmd.SysProcAttr = attributes(as, syscall.SIGKILL)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return string(out), context.Cause(ctx)
	}
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", cmd.Args[0], err, lastLines(string(out), 5))
	}
	return string(out), nil
}

// lastLines is the end of a program's output, on one line for an error message.
func lastLines(out string, n int) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.TrimSpace(l) == "" })
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
