package pgserver

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// inheritedPath leads to the first file a child inherits beyond the standard
// three. The kernel follows it to the open directory itself, past whatever its
// path leads through.
const inheritedPath = "/proc/self/fd/3"

// attributes of a child: its own process group, so that a terminal's Ctrl-C does
// not reach it, and a signal for when the caller is killed.
func attributes(as account, onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential(), Pdeathsig: onDeath}
}

// processesIn returns the postgres processes whose working directory is the data
// directory: the postmaster, its children, and children that outlived it.
func processesIn(dir string) []int {
	home, err := os.Stat(dir)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The name first: most processes are ruled out by it, and a shell that
		// someone left in the data directory is none of ours.
		comm, err := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		if err != nil || !isPostgres(strings.TrimSpace(string(comm))) {
			continue
		}
		cwd, err := os.Stat(filepath.Join("/proc", e.Name(), "cwd"))
		if err == nil && os.SameFile(home, cwd) && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// seesAll reports whether processesIn can be believed when it finds nothing.
func seesAll() bool {
	_, err := os.Stat("/proc/self/cwd")
	return err == nil
}

// zombie reports whether a process has ended and only waits for its parent to
// notice.
func zombie(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true // gone
	}
	// pid (comm) state …; comm may hold anything, a parenthesis included.
	_, rest, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return ok && len(rest) > 0 && rest[0] == 'Z'
}
